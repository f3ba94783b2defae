//! What a query tells those who watch it.

use crate::error::ErrorCode;
use crate::ids::{ExecutorId, StageId, TaskAttempt};
use crate::wire::ExchangeTotals;

/// Something that happened to a running query. For display; nothing depends on it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum QueryEvent {
    /// The first attempt of a stage is launched.
    StageStarted {
        /// The stage.
        stage: StageId,
        /// Its number of tasks.
        tasks: usize,
    },
    /// All tasks of a stage are finished. Said again if some had to run again.
    StageFinished {
        /// The stage.
        stage: StageId,
        /// Rows it stored.
        rows: u64,
        /// Uncompressed bytes it stored.
        bytes: u64,
    },
    /// An attempt is launched.
    TaskLaunched {
        /// The attempt.
        attempt: TaskAttempt,
        /// Where it runs; for a stage that the session runs, where its output goes.
        executor: ExecutorId,
    },
    /// A sign of life, about each second.
    TaskProgress {
        /// The attempt.
        attempt: TaskAttempt,
        /// Rows written so far.
        rows: u64,
        /// Uncompressed bytes written so far.
        bytes: u64,
    },
    /// An attempt has committed its output.
    TaskFinished {
        /// The attempt.
        attempt: TaskAttempt,
        /// Where it ran.
        executor: ExecutorId,
        /// Rows it stored.
        rows: u64,
        /// Uncompressed bytes it stored.
        bytes: u64,
        /// What it read.
        exchange: ExchangeTotals,
        /// Wall time in milliseconds.
        elapsed_ms: u64,
    },
    /// An attempt failed and its task runs again; or, for a finished attempt, its output was found to be lost.
    Retry {
        /// The attempt.
        attempt: TaskAttempt,
        /// What kind of failure.
        code: ErrorCode,
        /// The whole error.
        reason: String,
    },
    /// The number of tasks that wait for a free slot has changed.
    Waiting {
        /// Tasks that wait now.
        tasks: usize,
    },
    /// An executor is lost to this query, with all it stored.
    ExecutorLost {
        /// The executor.
        executor: ExecutorId,
        /// Why.
        reason: String,
    },
    /// An executor can be used from now on.
    ExecutorJoined {
        /// The executor.
        executor: ExecutorId,
    },
    /// A stage's outputs are no longer needed and are being freed.
    StageFreed {
        /// The stage.
        stage: StageId,
    },
}

/// Who watches a query. Called on the threads that run it: return soon and do not block.
pub trait QueryEvents: Send + Sync + 'static {
    /// Takes one event.
    fn on_event(&self, event: QueryEvent);
}

/// Nobody watches.
impl QueryEvents for () {
    fn on_event(&self, _event: QueryEvent) {}
}

impl<F: Fn(QueryEvent) + Send + Sync + 'static> QueryEvents for F {
    fn on_event(&self, event: QueryEvent) {
        self(event);
    }
}
