//! What goes into the state machine and what comes out.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::error::VolleyError;
use crate::ids::{AttemptId, ExecutorId, StageId, TaskAttempt, TaskId};
use crate::scheduler::graph::Place;
use crate::wire::{StageInput, TaskReport};

/// Limits of one query's scheduling.
#[derive(Clone, Copy, Debug)]
pub struct SchedulerOptions {
    /// Failures of one task after which the query fails. Losing what a task reads, or a finished output, to a lost
    /// executor is not a failure of the task.
    pub max_attempts: u32,
    /// Milliseconds before a task runs again where it failed, when there is no other executor; doubled for each failure.
    /// 100: longer than a full connection backlog, shorter than anyone notices.
    pub retry_delay_ms: u64,
    /// Milliseconds a stage that could start waits for filters that were expected soon. 10,000: a filter can make a
    /// scan a hundred times shorter, a wrong estimate costs this once.
    pub soft_wait_ms: u64,
    /// Tasks of session stages at once. 2: enough to overlap computing with uploading, in a process that has other work.
    pub session_tasks: usize,
}

impl Default for SchedulerOptions {
    fn default() -> Self {
        Self { max_attempts: 3, retry_delay_ms: 100, soft_wait_ms: 10_000, session_tasks: 2 }
    }
}

/// What happened.
#[derive(Debug)]
pub enum Event {
    /// All executors that are there at the beginning have been named.
    Start,
    /// An executor takes tasks. Acted on with the next event.
    ExecutorUp {
        /// The executor.
        executor: ExecutorId,
        /// Its address for peers.
        endpoint: Arc<str>,
        /// Its slots, at least 1.
        slots: u32,
    },
    /// An executor is gone, with all it stored.
    ExecutorDown {
        /// The executor.
        executor: ExecutorId,
        /// Why, in one line.
        reason: String,
    },
    /// The answer to [`Action::Probe`].
    Probed {
        /// The executor.
        executor: ExecutorId,
        /// `Err` with the reason if nobody or another instance answers.
        alive: Result<(), String>,
    },
    /// A slot that was asked for is ours, until the attempt ends or it is withdrawn.
    SlotGranted {
        /// The request.
        request: SlotRequestId,
        /// Whose slot it is.
        executor: ExecutorId,
    },
    /// An attempt has committed its output.
    TaskFinished {
        /// The attempt.
        attempt: TaskAttempt,
        /// What it says.
        report: TaskReport,
    },
    /// An attempt failed, or could not be launched.
    TaskFailed {
        /// The attempt.
        attempt: TaskAttempt,
        /// Why. With `lost_output`, the output that could not be read.
        error: VolleyError,
    },
    /// The answer to [`Action::FreeStage`], also if that failed.
    StageFreed {
        /// The stage.
        stage: StageId,
    },
    /// The first row of the results reached the user: from now on they cannot be made again.
    ResultRowsDelivered,
    /// The session could not read a result.
    ResultLost {
        /// Why. With `lost_output`, the output that could not be read.
        error: VolleyError,
    },
    /// The session has read the results.
    ResultRead,
    /// Someone asked for it to stop.
    Cancel,
    /// Time has passed.
    Tick,
}

/// What to do. `RunInSession`, `Fail` and `Done` are final; before them, everything that ran has been cancelled.
#[derive(Debug)]
pub enum Action {
    /// Ask for a slot.
    RequestSlot(SlotRequest),
    /// Take a request back, or give a granted slot back.
    WithdrawSlot {
        /// The request.
        request: SlotRequestId,
    },
    /// Launch an attempt.
    Launch(Launch),
    /// Stop an attempt; its end is not waited for.
    CancelTask {
        /// The attempt.
        attempt: TaskAttempt,
    },
    /// Shake hands over a fresh connection, then say [`Event::Probed`].
    Probe {
        /// The executor.
        executor: ExecutorId,
    },
    /// Free a stage's outputs, then say [`Event::StageFreed`].
    FreeStage {
        /// The stage.
        stage: StageId,
        /// The live executors that hold some of it.
        executors: Vec<ExecutorId>,
    },
    /// For information: the stage's first attempt is launched next.
    StageStarted {
        /// The stage.
        stage: StageId,
    },
    /// For information: all tasks of the stage are finished; [`Scheduler::finished`](super::Scheduler::finished) has the reports. Said
    /// again if some had to run again.
    StageFinished {
        /// The stage.
        stage: StageId,
    },
    /// For information: an attempt failed and its task runs again.
    Retry {
        /// The attempt that failed.
        attempt: TaskAttempt,
        /// Why.
        error: VolleyError,
    },
    /// For information: an executor is lost to this query.
    ExecutorLost {
        /// The executor.
        executor: ExecutorId,
        /// Why, in one line.
        reason: String,
    },
    /// All results are stored. Said again after [`Event::ResultLost`], with the new places.
    ResultReady {
        /// One entry per result stage, by number.
        result: Vec<StageInput>,
    },
    /// The query cannot run on executors, nothing of it has reached the user: the session runs all of it.
    RunInSession(VolleyError),
    /// The query failed.
    Fail(VolleyError),
    /// The results have been read.
    Done,
}

/// Names one request for a slot within its query; later requests have larger numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SlotRequestId(pub u64);

/// A wish for one slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotRequest {
    /// The request.
    pub id: SlotRequestId,
    /// Where a slot is wanted most.
    pub preferred: ExecutorId,
    /// Where else it may be.
    pub others: Vec<ExecutorId>,
    /// Whether others of the query wait for this task: it goes before them.
    pub urgent: bool,
}

/// An attempt to launch.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The attempt.
    pub attempt: TaskAttempt,
    /// Where it runs.
    pub place: Place,
    /// The executor that runs it, or to which the session uploads its output.
    pub executor: ExecutorId,
    /// That executor's address.
    pub endpoint: Arc<str>,
    /// The slot it runs in; `None` in the session.
    pub request: Option<SlotRequestId>,
    /// Where the stages that it reads have their outputs, by stage.
    pub inputs: Arc<Vec<StageInput>>,
}

/// A task that finished.
#[derive(Clone, Debug)]
pub struct FinishedTask {
    /// The attempt that committed.
    pub attempt: AttemptId,
    /// Where it ran, or to where its output was uploaded.
    pub executor: ExecutorId,
    /// What it said.
    pub report: Arc<TaskReport>,
}

/// The reports of stages that have been complete at least once. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct FinishedStages {
    // Two layers, so that recording a task while others hold a clone copies one stage and not all.
    tasks: Arc<BTreeMap<StageId, Arc<Vec<Option<FinishedTask>>>>>,
}

impl FinishedStages {
    /// The tasks of `stage`, by number; `None` until all were finished once.
    pub fn stage(&self, stage: StageId) -> Option<Vec<&FinishedTask>> {
        self.tasks.get(&stage)?.iter().map(Option::as_ref).collect()
    }

    /// Whether all tasks of `stage` were finished once.
    pub fn contains(&self, stage: StageId) -> bool {
        self.tasks.get(&stage).is_some_and(|tasks| tasks.iter().all(Option::is_some))
    }

    /// The stages that were complete once, by number.
    pub fn stages(&self) -> impl Iterator<Item = StageId> + '_ {
        self.tasks.iter().filter(|(_, tasks)| tasks.iter().all(Option::is_some)).map(|(stage, _)| *stage)
    }

    pub(super) fn record(&mut self, stage: StageId, task: TaskId, tasks: usize, finished: FinishedTask) {
        // A reader of an earlier clone keeps what it saw.
        let entry = Arc::make_mut(&mut self.tasks).entry(stage).or_insert_with(|| Arc::new(vec![None; tasks]));
        if let Some(place) = Arc::make_mut(entry).get_mut(task.index()) {
            *place = Some(finished);
        }
    }
}
