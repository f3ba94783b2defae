//! What it takes to run a query.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use super::attempt::TaskSource;
use super::cleanup::CleanupTasks;
use super::events::QueryEvents;
use super::graph::StageGraph;
use super::slots::SlotPool;
use super::state::SchedulerOptions;
use crate::config::VolleyOptions;
use crate::control::ExecutorControl;
use crate::ids::QueryId;
use crate::wire::ExecutorInfo;

/// An executor and the way to it.
#[derive(Clone, Debug)]
pub struct ExecutorHandle {
    /// What it said in the handshake.
    pub info: ExecutorInfo,
    /// The way to it.
    pub control: Arc<dyn ExecutorControl>,
}

/// Limits of one query.
#[derive(Clone, Copy, Debug)]
pub struct QueryOptions {
    /// Limits of scheduling.
    pub scheduler: SchedulerOptions,
    /// For a lease, a probe, a free.
    pub connect_timeout: Duration,
    /// Without an answer to a launch or a sign of life of an attempt, before it counts as lost.
    pub stall_timeout: Duration,
}

impl From<&VolleyOptions> for QueryOptions {
    fn from(options: &VolleyOptions) -> Self {
        Self {
            scheduler: SchedulerOptions { max_attempts: options.task_attempts, ..SchedulerOptions::default() },
            connect_timeout: options.connect_timeout_ms.duration(),
            stall_timeout: options.stall_timeout_ms.duration(),
        }
    }
}

/// A query to run.
pub struct QueryRequest {
    /// The query.
    pub id: QueryId,
    /// Its stages.
    pub graph: StageGraph,
    /// What its tasks compute.
    pub source: Arc<dyn TaskSource>,
    /// The executors that are known now.
    pub executors: Vec<ExecutorHandle>,
    /// Executors that come later, if someone looks for them.
    pub arrivals: Option<mpsc::Receiver<ExecutorHandle>>,
    /// The cluster's slots.
    pub slots: Arc<SlotPool>,
    /// Who watches.
    pub events: Arc<dyn QueryEvents>,
    /// The owner of clean-up.
    pub cleanup: Arc<CleanupTasks>,
    /// Limits.
    pub options: QueryOptions,
}
