//! A query's handle: its id, how far it is, what it cost, and how to stop it.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::physical_plan::ExecutionPlan;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::distributed::DistributedExec;
use crate::config::BodyCodec;
use crate::exchange::TotalsCounter;
use crate::ids::{QueryId, StageId, TaskAttempt};
use crate::plan::{Place, StageGraph};
use crate::scheduler::{FinishedStages, QueryEvent, QueryEvents};
use crate::wire::{ExchangeTotals, OperatorMetric};

/// How far a query is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueryProgress {
    /// Stages whose tasks are all done.
    pub stages_done: usize,
    /// Stages.
    pub stages: usize,
    /// Tasks that are done.
    pub tasks_done: usize,
    /// Tasks.
    pub tasks: usize,
    /// Rows that tasks have stored.
    pub rows: u64,
    /// Uncompressed bytes that tasks have stored.
    pub bytes: u64,
    /// Attempts that ran again.
    pub retries: usize,
}

/// What one stage did.
#[derive(Clone, Debug, PartialEq)]
pub struct StageStatistics {
    /// The stage.
    pub id: StageId,
    /// Its tasks.
    pub tasks: usize,
    /// `executors` or `session`.
    pub place: &'static str,
    /// Why it ran in the session, or in one task.
    pub reason: Option<String>,
    /// Rows it stored.
    pub rows: u64,
    /// Uncompressed bytes it stored.
    pub bytes: u64,
    /// What its tasks read through exchanges.
    pub exchange: ExchangeTotals,
    /// Bytes it wrote to disk.
    pub spilled_bytes: u64,
    /// Bytes of table files it read.
    pub scanned_bytes: u64,
    /// Longest wall time of a task, in milliseconds.
    pub elapsed_ms: u64,
    /// Operators' compute time of all tasks, in milliseconds.
    pub cpu_ms: u64,
    /// Operators' metrics, summed over tasks; the plans of a stage's tasks have the same shape.
    pub metrics: Vec<OperatorMetric>,
}

/// What a query did.
#[derive(Clone, Debug, PartialEq)]
pub struct QueryStatistics {
    /// The query's last run.
    pub query: QueryId,
    /// Its stages, by number.
    pub stages: Vec<StageStatistics>,
    /// What the session read of the last stages.
    pub session: ExchangeTotals,
    /// How bodies were compressed.
    pub codec: BodyCodec,
    /// Why the query ran in the session after all, although it was cut.
    pub fell_back: Option<String>,
}

impl QueryStatistics {
    /// Bytes that crossed between processes, those to the session included.
    pub fn remote_bytes(&self) -> u64 {
        self.session.remote_bytes + self.stages.iter().map(|stage| stage.exchange.remote_bytes).sum::<u64>()
    }

    /// Bytes that were read from the reader's own executor.
    pub fn local_bytes(&self) -> u64 {
        self.stages.iter().map(|stage| stage.exchange.local_bytes).sum()
    }

    /// Bytes written to disk.
    pub fn spilled_bytes(&self) -> u64 {
        self.stages.iter().map(|stage| stage.spilled_bytes).sum()
    }
}

/// The state behind a handle: one per plan, and its last run.
#[derive(Debug)]
pub(super) struct QueryState {
    pub(super) graph: Arc<StageGraph>,
    pub(super) codec: BodyCodec,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    id: Option<QueryId>,
    cancel: CancellationToken,
    progress: QueryProgress,
    running: HashMap<TaskAttempt, (u64, u64)>,
    finished: Option<FinishedStages>,
    session: Option<Arc<TotalsCounter>>,
    fell_back: Option<String>,
}

impl QueryState {
    pub(super) fn new(graph: Arc<StageGraph>, codec: BodyCodec) -> Arc<Self> {
        Arc::new(Self { graph, codec, inner: Mutex::default() })
    }

    /// A run starts; returns what cancels it.
    pub(super) fn start(&self, id: QueryId) -> CancellationToken {
        let mut inner = self.inner.lock();
        let progress = QueryProgress {
            stages: self.graph.stages.len(),
            tasks: self.graph.task_count(),
            ..QueryProgress::default()
        };
        *inner = Inner { id: Some(id), progress, ..Inner::default() };
        inner.cancel.clone()
    }

    pub(super) fn set_finished(&self, finished: FinishedStages) {
        self.inner.lock().finished = Some(finished);
    }

    pub(super) fn set_session_totals(&self, totals: Arc<TotalsCounter>) {
        self.inner.lock().session = Some(totals);
    }

    pub(super) fn set_fell_back(&self, reason: String) {
        self.inner.lock().fell_back = Some(reason);
    }
}

impl QueryEvents for QueryState {
    fn on_event(&self, event: QueryEvent) {
        let mut inner = self.inner.lock();
        match event {
            QueryEvent::StageFinished { .. } => inner.progress.stages_done += 1,
            QueryEvent::TaskProgress { attempt, rows, bytes } => {
                inner.running.insert(attempt, (rows, bytes));
            }
            QueryEvent::TaskFinished { attempt, rows, bytes, .. } => {
                inner.running.remove(&attempt);
                inner.progress.tasks_done += 1;
                inner.progress.rows += rows;
                inner.progress.bytes += bytes;
            }
            QueryEvent::Retry { attempt, .. } => {
                inner.running.remove(&attempt);
                inner.progress.retries += 1;
            }
            _ => {}
        }
    }
}

/// A distributed query. Cheap to clone; outlives the query's streams.
#[derive(Clone, Debug)]
pub struct QueryHandle {
    state: Arc<QueryState>,
}

impl QueryHandle {
    pub(super) fn new(state: Arc<QueryState>) -> Self {
        Self { state }
    }

    /// The handle of a plan that a distributed session made; `None` if the plan runs in the session.
    pub fn of(plan: &Arc<dyn ExecutionPlan>) -> Option<Self> {
        let mut found = None;
        // The visitor returns no error.
        let _ = plan.apply(|node| {
            found = node.downcast_ref::<DistributedExec>().map(DistributedExec::handle);
            Ok(match found {
                Some(_) => TreeNodeRecursion::Stop,
                None => TreeNodeRecursion::Continue,
            })
        });
        found
    }

    /// The id of the last run; `None` before the first.
    pub fn id(&self) -> Option<QueryId> {
        self.state.inner.lock().id
    }

    /// How far the last run is.
    pub fn progress(&self) -> QueryProgress {
        let inner = self.state.inner.lock();
        let mut progress = inner.progress;
        for (rows, bytes) in inner.running.values() {
            progress.rows += rows;
            progress.bytes += bytes;
        }
        progress
    }

    /// Stops the last run: its streams end with an error within a second.
    pub fn cancel(&self) {
        self.state.inner.lock().cancel.cancel();
    }

    /// What the last run did; complete when its streams have ended. `None` before its stages have.
    pub fn statistics(&self) -> Option<QueryStatistics> {
        let inner = self.state.inner.lock();
        let query = inner.id?;
        let stages = match &inner.finished {
            None if inner.fell_back.is_none() => return None,
            None => vec![],
            Some(finished) => self.state.graph.stages.iter().map(|stage| stage_statistics(stage, finished)).collect(),
        };
        Some(QueryStatistics {
            query,
            stages,
            session: inner.session.as_ref().map(|totals| totals.snapshot()).unwrap_or_default(),
            codec: self.state.codec,
            fell_back: inner.fell_back.clone(),
        })
    }

    /// The stages.
    pub fn graph(&self) -> &Arc<StageGraph> {
        &self.state.graph
    }
}

fn stage_statistics(stage: &crate::plan::Stage, finished: &FinishedStages) -> StageStatistics {
    let (place, reason) = match &stage.place {
        Place::Executors => ("executors", stage.single_task_reason.clone()),
        Place::Session(reason) => ("session", Some(reason.clone())),
    };
    let mut statistics = StageStatistics {
        id: stage.id,
        tasks: stage.tasks.len(),
        place,
        reason,
        rows: 0,
        bytes: 0,
        exchange: ExchangeTotals::default(),
        spilled_bytes: 0,
        scanned_bytes: 0,
        elapsed_ms: 0,
        cpu_ms: 0,
        metrics: vec![],
    };
    for task in finished.stage(stage.id).unwrap_or_default() {
        let report = &task.report;
        statistics.rows += report.output.rows();
        statistics.bytes += report.output.bytes();
        statistics.exchange.add(&report.exchange);
        statistics.spilled_bytes += report.output.spilled_bytes;
        statistics.scanned_bytes += report.scanned_bytes;
        statistics.elapsed_ms = statistics.elapsed_ms.max(report.elapsed_ms);
        statistics.cpu_ms += report.cpu_us / 1_000;
        for metric in &report.metrics {
            let same = |known: &&mut OperatorMetric| known.operator == metric.operator && known.name == metric.name;
            match statistics.metrics.iter_mut().find(same) {
                Some(known) => known.value += metric.value,
                None => statistics.metrics.push(metric.clone()),
            }
        }
    }
    statistics
}
