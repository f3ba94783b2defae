//! Launching tasks and keeping their state alive.
//!
//! Owns the seam [`ExecutorControl`] and its Flight implementation. Depends on `wire`. Contains no plans and no
//! decisions about what runs where.

mod flight;

use std::fmt::Debug;

use async_trait::async_trait;
use futures::stream::BoxStream;

use crate::error::Result;
use crate::ids::{QueryId, StageId};
use crate::wire::{ExecutorInfo, TaskDefinition, TaskEvent};

pub use flight::{ControlOptions, FlightControl};

/// A stream of what an attempt reports. Dropping it cancels the attempt.
pub type TaskEvents = BoxStream<'static, Result<TaskEvent>>;

/// Holds a query's state on one executor. Dropping it starts the executor's grace period, then its clean-up.
pub trait Lease: Debug + Send {}

/// One executor, as the scheduler sees it.
#[async_trait]
pub trait ExecutorControl: Debug + Send + Sync {
    /// Who answers at the address now.
    ///
    /// # Errors
    /// Nobody answers within the deadline, the token is refused, or the build differs.
    async fn handshake(&self) -> Result<ExecutorInfo>;

    /// Launches one attempt.
    ///
    /// # Errors
    /// The executor cannot be reached or refuses the task.
    async fn launch(&self, task: TaskDefinition) -> Result<TaskEvents>;

    /// Opens the lease that keeps the query's state alive.
    ///
    /// # Errors
    /// The executor cannot be reached.
    async fn lease(&self, query: QueryId) -> Result<Box<dyn Lease>>;

    /// Frees the stored outputs of one stage, or of all stages of the query, on this executor.
    ///
    /// # Errors
    /// The executor cannot be reached.
    async fn free(&self, query: QueryId, stage: Option<StageId>) -> Result<()>;
}
