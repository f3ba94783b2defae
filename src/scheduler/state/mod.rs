//! The scheduler's state machine: what one query has done, and what happens next.
//!
//! No clock, no I/O, no DataFusion: time comes in as milliseconds, the world as [`Event`]s, and what to do goes out
//! as [`Action`]s. The same events give the same actions.
//!
//! How it decides (`decide.rs`), after every event:
//! 1. *Needed* stages are found from the results backwards: a stage is needed while a needed reader of it is
//!    unfinished. What is not needed is cancelled and freed.
//! 2. A task of a needed stage without attempt or output starts as soon as all inputs of the stage are stored on live
//!    executors. A lost output makes its task such a task again, and thereby its inputs needed again, as far back
//!    as something is missing. There is no other recovery path.
//! 3. When all results are stored, they are announced.

mod decide;
mod invariants;
mod messages;
mod recover;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use crate::error::{ErrorCode, VolleyError};
use crate::ids::{AttemptId, ExecutorId, QueryId, StageId, TaskAttempt, TaskId};
use crate::scheduler::graph::{Place, StageGraph};
use crate::wire::{StageInput, TaskReport};

pub use messages::{Action, Event, FinishedStages, FinishedTask, Launch, SchedulerOptions, SlotRequest, SlotRequestId};

/// The state machine of one query. See the module's documentation.
#[derive(Debug)]
pub struct Scheduler {
    query: QueryId,
    graph: StageGraph,
    options: SchedulerOptions,
    /// In order of arrival; an executor keeps its place when it is lost.
    executors: Vec<Executor>,
    stages: Vec<Stage>,
    finished: FinishedStages,
    phase: Phase,
    /// Whether the results that are stored now have been announced.
    announced: bool,
    /// Whether a row of the results has reached the user.
    delivered: bool,
    /// How often reading the results failed.
    result_failures: u32,
    /// Changes whenever the set of executors that take tasks changes; requests for slots are then made anew.
    roster: u64,
    next_request: u64,
    session_running: usize,
    last_loss: Option<String>,
    now_ms: u64,
    wake_at_ms: Option<u64>,
    actions: VecDeque<Action>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Running,
    /// `Done`, `Fail` or `RunInSession` has been said.
    Over,
}

#[derive(Debug)]
struct Executor {
    id: ExecutorId,
    endpoint: Arc<str>,
    slots: u32,
    state: ExecutorState,
    /// It takes no more tasks; its outputs can be read.
    draining: bool,
    running: u32,
}

impl Executor {
    fn takes_tasks(&self) -> bool {
        self.state == ExecutorState::Live && !self.draining
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExecutorState {
    Live,
    /// A stream broke; a handshake will tell. Nothing is started on it or that reads from it.
    Probing,
    Lost,
}

/// An executor's place in `Scheduler::executors`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ExecutorIndex(usize);

#[derive(Debug)]
struct Stage {
    tasks: Vec<Task>,
    /// Tasks by state; `change` keeps them.
    idle: usize,
    waiting: usize,
    running: usize,
    stored: usize,
    /// Whether an attempt was ever launched.
    started: bool,
    /// Whether any task failed.
    failed: bool,
    /// Its outputs are being freed; none of its tasks starts before that is through.
    freeing: bool,
    /// Since when only soft inputs keep it from starting.
    soft_wait_since_ms: Option<u64>,
}

impl Stage {
    fn is_complete(&self) -> bool {
        self.stored == self.tasks.len()
    }
}

#[derive(Debug, Default)]
struct Task {
    state: TaskState,
    next_attempt: u32,
    /// Failures that count against `max_attempts`.
    failures: u32,
    /// Attempts that ended for a reason that is not the task's.
    excused: u32,
    last_error: Option<VolleyError>,
    /// Executors on which it failed.
    avoid: BTreeSet<ExecutorId>,
    /// If it must run where it failed before: not earlier than this.
    not_before_ms: u64,
    /// Its last failure was this executor's, should that turn out to be lost: it is then excused.
    blames: Option<ExecutorId>,
}

#[derive(Debug, Default)]
enum TaskState {
    /// No attempt under way and no output.
    #[default]
    Idle,
    Waiting {
        request: SlotRequestId,
        roster: u64,
    },
    Running {
        attempt: AttemptId,
        executor: ExecutorIndex,
        inputs: Arc<Vec<StageInput>>,
    },
    Stored {
        attempt: AttemptId,
        executor: ExecutorIndex,
        rows: Arc<Vec<u64>>,
        bytes: u64,
    },
}

impl Scheduler {
    /// A scheduler that knows no executors yet; give it some with [`Event::ExecutorUp`], then [`Event::Start`].
    pub fn new(query: QueryId, graph: StageGraph, options: SchedulerOptions) -> Self {
        let stages = graph
            .stages()
            .iter()
            .map(|stage| Stage {
                tasks: (0..stage.tasks).map(|_| Task::default()).collect(),
                idle: stage.tasks,
                waiting: 0,
                running: 0,
                stored: 0,
                started: false,
                failed: false,
                freeing: false,
                soft_wait_since_ms: None,
            })
            .collect();
        Self {
            query,
            graph,
            options,
            executors: Vec::new(),
            stages,
            finished: FinishedStages::default(),
            phase: Phase::Running,
            announced: false,
            delivered: false,
            result_failures: 0,
            roster: 0,
            next_request: 0,
            session_running: 0,
            last_loss: None,
            now_ms: 0,
            wake_at_ms: None,
            actions: VecDeque::new(),
        }
    }

    /// Takes in one event at `now_ms`, any clock that does not run backwards. Poll the actions afterwards.
    pub fn handle(&mut self, now_ms: u64, event: Event) {
        self.now_ms = self.now_ms.max(now_ms);
        if self.phase == Phase::Over {
            if let Event::SlotGranted { request, .. } = event {
                self.actions.push_back(Action::WithdrawSlot { request });
            }
            return;
        }
        // Executors arrive one by one before the start; placing tasks on the first alone would be wrong.
        let decide = !matches!(event, Event::ExecutorUp { .. });
        match event {
            Event::ExecutorUp { executor, endpoint, slots } => self.executor_up(executor, endpoint, slots),
            Event::ExecutorDown { executor, reason } => self.executor_down(executor, &reason),
            Event::Probed { executor, alive: Ok(()) } => self.executor_answered(executor),
            Event::Probed { executor, alive: Err(reason) } => self.executor_down(executor, &reason),
            Event::SlotGranted { request, executor } => self.slot_granted(request, executor),
            Event::TaskFinished { attempt, report } => self.task_finished(attempt, report),
            Event::TaskFailed { attempt, error } => self.task_failed(attempt, error),
            Event::StageFreed { stage } => {
                if let Some(stage) = self.stages.get_mut(stage.index()) {
                    stage.freeing = false;
                }
            }
            Event::ResultRowsDelivered => self.delivered = true,
            Event::ResultLost { error } => self.result_lost(error),
            Event::ResultRead => self.over(Action::Done),
            Event::Cancel => self.over(Action::Fail(VolleyError::new(ErrorCode::Cancelled, "the query was cancelled"))),
            Event::Start | Event::Tick => {}
        }
        if decide && self.phase == Phase::Running {
            self.decide();
        }
        #[cfg(debug_assertions)]
        if let Err(broken) = self.check_invariants() {
            panic!("scheduler: {broken}");
        }
    }

    /// The next thing to do.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// When an [`Event::Tick`] is due, if nothing else happens before.
    pub fn wake_at_ms(&self) -> Option<u64> {
        match self.phase {
            Phase::Running => self.wake_at_ms,
            Phase::Over => None,
        }
    }

    /// The reports of every stage that has ever been complete.
    pub fn finished(&self) -> &FinishedStages {
        &self.finished
    }

    /// Tasks that wait for a slot.
    pub fn waiting_tasks(&self) -> usize {
        self.stages.iter().map(|stage| stage.waiting).sum()
    }

    fn slot_granted(&mut self, request: SlotRequestId, executor: ExecutorId) {
        let found = self.find_waiting(request);
        let usable = self.executor_index(executor).filter(|index| {
            let executor = &self.executors[index.0];
            executor.takes_tasks() && executor.running < executor.slots
        });
        match (found, usable) {
            (Some((stage, task)), Some(index)) => self.launch(stage, task, index, Some(request)),
            (found, _) => {
                self.actions.push_back(Action::WithdrawSlot { request });
                if let Some((stage, task)) = found {
                    self.change(stage, task, TaskState::Idle);
                }
            }
        }
    }

    fn find_waiting(&self, wanted: SlotRequestId) -> Option<(StageId, TaskId)> {
        self.graph.stages().iter().zip(&self.stages).filter(|(_, stage)| stage.waiting > 0).find_map(|(spec, stage)| {
            let task = stage
                .tasks
                .iter()
                .position(|task| matches!(task.state, TaskState::Waiting { request, .. } if request == wanted))?;
            Some((spec.id, TaskId(task as u32)))
        })
    }

    fn task_finished(&mut self, attempt: TaskAttempt, report: TaskReport) {
        let Some(executor) = self.running_on(attempt) else { return };
        let rows = Arc::new(report.output.partitions.iter().map(|partition| partition.rows).collect::<Vec<_>>());
        let bytes = report.output.bytes();
        let finished = FinishedTask {
            attempt: attempt.attempt,
            executor: self.executors[executor.0].id,
            report: Arc::new(report),
        };
        self.finished.record(attempt.stage, attempt.task, self.stages[attempt.stage.index()].tasks.len(), finished);
        self.change(attempt.stage, attempt.task, TaskState::Stored { attempt: attempt.attempt, executor, rows, bytes });
        if self.stages[attempt.stage.index()].is_complete() {
            self.actions.push_back(Action::StageFinished { stage: attempt.stage });
        }
    }

    /// Where `attempt` runs; `None` for an attempt that is not the one we wait for.
    fn running_on(&self, attempt: TaskAttempt) -> Option<ExecutorIndex> {
        if attempt.query != self.query {
            return None;
        }
        match self.stages.get(attempt.stage.index())?.tasks.get(attempt.task.index())?.state {
            TaskState::Running { attempt: current, executor, .. } if current == attempt.attempt => Some(executor),
            _ => None,
        }
    }

    fn executor_index(&self, id: ExecutorId) -> Option<ExecutorIndex> {
        self.executors.iter().position(|executor| executor.id == id).map(ExecutorIndex)
    }

    /// Ends the query: stops what runs, then says `last`.
    fn over(&mut self, last: Action) {
        for index in 0..self.stages.len() {
            self.stop_tasks(StageId(index as u32));
        }
        self.phase = Phase::Over;
        self.actions.push_back(last);
    }

    fn fail(&mut self, error: VolleyError) {
        self.over(Action::Fail(error));
    }

    /// The only place where a task's state changes; keeps every count.
    fn change(&mut self, stage: StageId, task: TaskId, new: TaskState) {
        let in_session = self.graph.stages()[stage.index()].place == Place::Session;
        let stage = &mut self.stages[stage.index()];
        let state = &mut stage.tasks[task.index()].state;
        match state {
            TaskState::Idle => stage.idle -= 1,
            TaskState::Waiting { .. } => stage.waiting -= 1,
            TaskState::Stored { .. } => stage.stored -= 1,
            TaskState::Running { executor, .. } => {
                stage.running -= 1;
                if in_session {
                    self.session_running -= 1;
                } else {
                    self.executors[executor.0].running -= 1;
                }
            }
        }
        match &new {
            TaskState::Idle => stage.idle += 1,
            TaskState::Waiting { .. } => stage.waiting += 1,
            TaskState::Stored { .. } => stage.stored += 1,
            TaskState::Running { executor, .. } => {
                stage.running += 1;
                if in_session {
                    self.session_running += 1;
                } else {
                    self.executors[executor.0].running += 1;
                }
            }
        }
        *state = new;
    }
}
