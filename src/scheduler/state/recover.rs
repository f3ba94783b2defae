//! What a failure means: whose it is, what is lost with it, and what is tried next.
//!
//! | what failed | counted against | next |
//! |---|---|---|
//! | an attempt, retryable | its task | elsewhere; a broken stream also probes its executor |
//! | an attempt on a lost executor | its task, as it may be what killed it | elsewhere |
//! | an attempt that could not read a stored output | the producer, unless a probe finds its executor lost | probe, producer, then reader |
//! | an attempt that could not reach a producer's executor | its task, unless a probe finds that executor lost | probe, then the same |
//! | a stored output on a lost executor | nobody | producer, if still needed |

use std::sync::Arc;

use super::{Action, Executor, ExecutorIndex, ExecutorState, Scheduler, TaskState};
use crate::error::{ErrorClass, ErrorCode, VolleyError};
use crate::ids::{AttemptId, ExecutorId, StageId, TaskAttempt, TaskId};
use crate::wire::StageInput;

impl Scheduler {
    pub(super) fn executor_up(&mut self, id: ExecutorId, endpoint: Arc<str>, slots: u32) {
        let slots = slots.max(1);
        match self.executor_index(id) {
            Some(index) => {
                let executor = &mut self.executors[index.0];
                // Running attempts hold their slots, so a number of slots never shrinks below them.
                executor.slots = slots.max(executor.running);
                executor.endpoint = endpoint;
                executor.state = ExecutorState::Live;
                executor.draining = false;
            }
            None => self.executors.push(Executor {
                id,
                endpoint,
                slots,
                state: ExecutorState::Live,
                draining: false,
                running: 0,
            }),
        }
        self.roster += 1;
    }

    pub(super) fn executor_answered(&mut self, id: ExecutorId) {
        if let Some(index) = self.executor_index(id)
            && self.executors[index.0].state == ExecutorState::Probing
        {
            self.executors[index.0].state = ExecutorState::Live;
            self.roster += 1;
        }
    }

    /// Everything that an executor ran or stored is lost.
    pub(super) fn executor_down(&mut self, id: ExecutorId, reason: &str) {
        let Some(index) = self.executor_index(id) else { return };
        if self.executors[index.0].state == ExecutorState::Lost {
            return;
        }
        self.executors[index.0].state = ExecutorState::Lost;
        self.roster += 1;
        let loss = format!("executor {id} at {} is lost: {reason}", self.executors[index.0].endpoint);
        self.actions.push_back(Action::ExecutorLost { executor: id, reason: reason.to_owned() });
        for stage in 0..self.stages.len() {
            for task in 0..self.stages[stage].tasks.len() {
                self.task_lost_executor(StageId(stage as u32), TaskId(task as u32), index, &loss);
            }
        }
        self.last_loss = Some(loss);
    }

    fn task_lost_executor(&mut self, stage: StageId, task: TaskId, lost: ExecutorIndex, loss: &str) {
        let lost_id = self.executors[lost.0].id;
        let state = &mut self.stages[stage.index()].tasks[task.index()];
        if state.blames == Some(lost_id) {
            state.blames = None;
            state.failures = state.failures.saturating_sub(1);
            state.excused += 1;
        }
        match state.state {
            TaskState::Running { attempt, executor, .. } if executor == lost => {
                let attempt = TaskAttempt { query: self.query, stage, task, attempt };
                self.actions.push_back(Action::CancelTask { attempt });
                self.count_failure(attempt, VolleyError::new(ErrorCode::AttemptLost, loss));
                self.change(stage, task, TaskState::Idle);
            }
            TaskState::Stored { executor, .. } if executor == lost => {
                state.excused += 1;
                self.change(stage, task, TaskState::Idle);
            }
            _ => {}
        }
    }

    pub(super) fn task_failed(&mut self, attempt: TaskAttempt, error: VolleyError) {
        let Some(executor) = self.running_on(attempt) else { return };
        let TaskState::Running { inputs, .. } = &self.stages[attempt.stage.index()].tasks[attempt.task.index()].state
        else {
            return;
        };
        let inputs = Arc::clone(inputs);
        self.change(attempt.stage, attempt.task, TaskState::Idle);
        match error.class() {
            ErrorClass::Fatal => return self.fail(error),
            ErrorClass::RunInSession if self.delivered => {
                let message = "a lost result cannot be made again on executors, and rows of it have been delivered";
                return self.fail(VolleyError::new(ErrorCode::ResultLost, message).with_source(error));
            }
            ErrorClass::RunInSession => return self.over(Action::RunInSession(error)),
            // An executor that cancels what we did not cancel has lost sight of us: the attempt is lost.
            ErrorClass::RetryTask | ErrorClass::RerunProducer | ErrorClass::Cancelled => {}
        }
        let read = error.lost_output.filter(|output| output.query == self.query && was_read(&inputs, *output));
        match read {
            Some(output) => self.reader_failed(attempt, output, error),
            None => {
                self.attempt_failed(attempt, executor, error);
            }
        }
    }

    /// The attempt itself failed.
    fn attempt_failed(&mut self, attempt: TaskAttempt, executor: ExecutorIndex, error: VolleyError) {
        let id = self.executors[executor.0].id;
        match error.code {
            ErrorCode::Draining => {
                // No fault of the task, and bounded: nothing more is launched there.
                let executor = &mut self.executors[executor.0];
                executor.draining = true;
                self.roster += 1;
                self.last_loss = Some(format!("executor {id} at {} is draining", executor.endpoint));
                return self.excuse(attempt, error);
            }
            ErrorCode::Unreachable | ErrorCode::DeadlineExceeded | ErrorCode::AttemptLost | ErrorCode::Cancelled => {
                self.probe(executor);
            }
            _ => {}
        }
        self.stages[attempt.stage.index()].tasks[attempt.task.index()].avoid.insert(id);
        self.count_failure(attempt, error);
    }

    /// The attempt could not read `output`, which it was told to read.
    fn reader_failed(&mut self, attempt: TaskAttempt, output: TaskAttempt, error: VolleyError) {
        let Some(holder) = self.stored_on(output) else {
            // Known already: it was lost after this attempt was launched.
            return self.excuse(attempt, error);
        };
        self.probe(holder);
        if error.class() == ErrorClass::RerunProducer {
            self.lose_output(output, holder, error.clone_without_source());
            self.excuse(attempt, error);
        } else {
            let id = self.executors[holder.0].id;
            self.stages[attempt.stage.index()].tasks[attempt.task.index()].blames = Some(id);
            self.count_failure(attempt, error);
        }
    }

    pub(super) fn result_lost(&mut self, error: VolleyError) {
        if self.delivered {
            let message =
                "the last stage's output was lost after some of its rows had been delivered; run the query again";
            return self.fail(VolleyError::new(ErrorCode::ResultLost, message).with_source(error));
        }
        let holder = match error.lost_output {
            Some(output) => match self.stored_on(output) {
                Some(holder) => Some((output, holder)),
                None => {
                    // Another reader of the results reported it before.
                    self.announced = false;
                    return;
                }
            },
            None => None,
        };
        self.result_failures += 1;
        let retryable = matches!(error.class(), ErrorClass::RetryTask | ErrorClass::RerunProducer);
        if !retryable || self.result_failures >= self.options.max_attempts {
            return self.fail(error);
        }
        self.announced = false;
        if let Some((output, holder)) = holder {
            self.probe(holder);
            if error.class() == ErrorClass::RerunProducer {
                self.lose_output(output, holder, error);
            }
        }
    }

    /// Where `output` is stored, if it is the one that counts.
    fn stored_on(&self, output: TaskAttempt) -> Option<ExecutorIndex> {
        match self.stages.get(output.stage.index())?.tasks.get(output.task.index())?.state {
            TaskState::Stored { attempt, executor, .. } if attempt == output.attempt => Some(executor),
            _ => None,
        }
    }

    /// Its producer runs again. Counted, as an output that is corrupt each time must end the query, unless its executor
    /// turns out to be lost.
    fn lose_output(&mut self, output: TaskAttempt, holder: ExecutorIndex, error: VolleyError) {
        self.last_loss = Some(error.to_string());
        self.stages[output.stage.index()].tasks[output.task.index()].blames = Some(self.executors[holder.0].id);
        self.change(output.stage, output.task, TaskState::Idle);
        self.count_failure(output, error);
    }

    fn probe(&mut self, executor: ExecutorIndex) {
        let executor = &mut self.executors[executor.0];
        if executor.state == ExecutorState::Live {
            executor.state = ExecutorState::Probing;
            self.roster += 1;
            self.actions.push_back(Action::Probe { executor: executor.id });
        }
    }

    fn count_failure(&mut self, attempt: TaskAttempt, error: VolleyError) {
        let stage = &mut self.stages[attempt.stage.index()];
        stage.failed = true;
        let task = &mut stage.tasks[attempt.task.index()];
        task.failures += 1;
        let doublings = task.failures.saturating_sub(1).min(6);
        task.not_before_ms = self.now_ms.saturating_add(self.options.retry_delay_ms << doublings);
        task.last_error = Some(error.clone_without_source());
        self.actions.push_back(Action::Retry { attempt, error });
    }

    fn excuse(&mut self, attempt: TaskAttempt, error: VolleyError) {
        self.stages[attempt.stage.index()].tasks[attempt.task.index()].excused += 1;
        self.actions.push_back(Action::Retry { attempt, error });
    }
}

/// Whether an attempt that was launched with `inputs` was told to read `output`.
fn was_read(inputs: &[StageInput], output: TaskAttempt) -> bool {
    let attempt_of = |input: &StageInput| -> Option<AttemptId> {
        input.outputs.iter().find(|location| location.task == output.task).map(|location| location.attempt)
    };
    inputs.iter().find(|input| input.stage == output.stage).and_then(attempt_of) == Some(output.attempt)
}
