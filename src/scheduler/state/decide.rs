//! What is needed, what can start, and where.

use std::sync::Arc;

use super::{Action, ExecutorIndex, ExecutorState, Launch, Phase, Scheduler, SlotRequest, SlotRequestId, TaskState};
use crate::error::{ErrorCode, VolleyError};
use crate::ids::{AttemptId, ExecutorId, StageId, TaskAttempt, TaskId};
use crate::scheduler::graph::Place;
use crate::wire::{OutputLocation, StageInput};

impl Scheduler {
    /// Brings what runs in line with what is needed. See the module's documentation.
    pub(super) fn decide(&mut self) {
        self.wake_at_ms = None;
        if self.delivered && !self.results_complete() {
            let error = VolleyError::new(
                ErrorCode::ResultLost,
                format!(
                    "the last stage's output was lost after some of its rows had been delivered ({}); run the query again",
                    self.last_loss.as_deref().unwrap_or("no reason known")
                ),
            );
            return self.fail(error);
        }
        let soon = self.ready_soon();
        let needed = self.needed(&soon);
        // Readers are stopped before what they read is freed.
        for index in (0..self.stages.len()).rev() {
            if !needed[index] {
                self.drop_stage(StageId(index as u32));
            }
        }
        for quick in [true, false] {
            for position in 0..self.graph.order().len() {
                let stage = self.graph.order()[position];
                if needed[stage.index()] && self.graph.stages()[stage.index()].quick == quick {
                    self.start_stage(stage, &soon);
                    if self.phase == Phase::Over {
                        return;
                    }
                }
            }
        }
        self.announce_results();
    }

    /// By stage: whether it finishes soon, as far as the planner can know: it and everything unfinished below it is
    /// quick, and nothing of that has failed.
    fn ready_soon(&self) -> Vec<bool> {
        let mut soon = vec![false; self.stages.len()];
        for id in self.graph.order() {
            let spec = &self.graph.stages()[id.index()];
            soon[id.index()] = spec.quick
                && !self.stages[id.index()].failed
                && !self.finished.contains(*id)
                && spec.inputs.iter().all(|input| self.stages[input.index()].is_complete() || soon[input.index()]);
        }
        soon
    }

    /// By stage: whether its output is or will be read. A stage that nobody but filters want is needed while a scan that
    /// it filters can still wait for it.
    pub(super) fn needed(&self, soon: &[bool]) -> Vec<bool> {
        let mut needed = vec![false; self.stages.len()];
        for id in self.graph.order().iter().rev() {
            let read = self
                .graph
                .readers(*id)
                .iter()
                .any(|reader| needed[reader.index()] && !self.stages[reader.index()].is_complete());
            let filters = soon[id.index()]
                && self
                    .graph
                    .soft_readers(*id)
                    .iter()
                    .any(|reader| needed[reader.index()] && !self.stages[reader.index()].started);
            needed[id.index()] = read || filters || self.graph.stages()[id.index()].is_result;
        }
        needed
    }

    /// Stops a stage's attempts and frees its outputs.
    fn drop_stage(&mut self, stage: StageId) {
        self.stop_tasks(stage);
        if self.stages[stage.index()].stored == 0 {
            return;
        }
        let mut executors = Vec::new();
        for task in 0..self.stages[stage.index()].tasks.len() {
            let task = TaskId(task as u32);
            if let TaskState::Stored { executor, .. } = self.stages[stage.index()].tasks[task.index()].state {
                let id = self.executors[executor.0].id;
                if !executors.contains(&id) {
                    executors.push(id);
                }
                self.stages[stage.index()].tasks[task.index()].excused += 1;
                self.change(stage, task, TaskState::Idle);
            }
        }
        self.stages[stage.index()].freeing = true;
        self.actions.push_back(Action::FreeStage { stage, executors });
    }

    /// Cancels a stage's attempts and its requests for slots.
    pub(super) fn stop_tasks(&mut self, stage: StageId) {
        let counts = &self.stages[stage.index()];
        if counts.waiting + counts.running == 0 {
            return;
        }
        for task in 0..self.stages[stage.index()].tasks.len() {
            let task = TaskId(task as u32);
            match self.stages[stage.index()].tasks[task.index()].state {
                TaskState::Waiting { request, .. } => {
                    self.actions.push_back(Action::WithdrawSlot { request });
                    self.change(stage, task, TaskState::Idle);
                }
                TaskState::Running { attempt, .. } => {
                    let attempt = TaskAttempt { query: self.query, stage, task, attempt };
                    self.actions.push_back(Action::CancelTask { attempt });
                    self.stages[stage.index()].tasks[task.index()].excused += 1;
                    self.change(stage, task, TaskState::Idle);
                }
                TaskState::Idle | TaskState::Stored { .. } => {}
            }
        }
    }

    fn start_stage(&mut self, stage: StageId, soon: &[bool]) {
        let counts = &self.stages[stage.index()];
        if counts.idle + counts.waiting == 0 {
            return;
        }
        let can_start = self.can_start(stage, soon);
        for task in 0..self.stages[stage.index()].tasks.len() {
            let task = TaskId(task as u32);
            if let TaskState::Waiting { request, roster } = self.stages[stage.index()].tasks[task.index()].state
                && (!can_start || roster != self.roster)
            {
                self.actions.push_back(Action::WithdrawSlot { request });
                self.change(stage, task, TaskState::Idle);
            }
            if can_start && matches!(self.stages[stage.index()].tasks[task.index()].state, TaskState::Idle) {
                self.start_task(stage, task);
                if self.phase == Phase::Over {
                    return;
                }
            }
        }
    }

    fn can_start(&mut self, stage: StageId, soon: &[bool]) -> bool {
        let spec = &self.graph.stages()[stage.index()];
        if self.stages[stage.index()].freeing || !spec.inputs.iter().all(|input| self.is_readable(*input)) {
            return false;
        }
        if self.stages[stage.index()].started || !spec.soft_inputs.iter().any(|input| soon[input.index()]) {
            return true;
        }
        let since = *self.stages[stage.index()].soft_wait_since_ms.get_or_insert(self.now_ms);
        let until = since.saturating_add(self.options.soft_wait_ms);
        if self.now_ms < until {
            self.wake(until);
        }
        self.now_ms >= until
    }

    /// Whether all outputs of `stage` are stored, and none on an executor in doubt.
    pub(super) fn is_readable(&self, stage: StageId) -> bool {
        let stage = &self.stages[stage.index()];
        let in_doubt = |state: &TaskState| {
            matches!(state, TaskState::Stored { executor, .. }
                if self.executors[executor.0].state == ExecutorState::Probing)
        };
        stage.is_complete()
            && (self.executors.iter().all(|executor| executor.state != ExecutorState::Probing)
                || !stage.tasks.iter().any(|task| in_doubt(&task.state)))
    }

    fn start_task(&mut self, stage: StageId, task: TaskId) {
        let probing = |id| self.executors.iter().any(|one| one.id == id && one.state == ExecutorState::Probing);
        let state = &mut self.stages[stage.index()].tasks[task.index()];
        if state.failures >= self.options.max_attempts {
            if state.blames.is_some_and(probing) {
                // The answer may excuse its last failure.
                return;
            }
            let mut error =
                state.last_error.take().unwrap_or_else(|| VolleyError::internal("a task failed without an error"));
            error.message = format!(
                "{} ({stage:?}, {task:?} failed {} times, volley.task_attempts = {})",
                error.message, state.failures, self.options.max_attempts
            );
            return self.fail(error);
        }
        let mut candidates: Vec<ExecutorId> = self
            .executors
            .iter()
            .filter(|executor| executor.takes_tasks())
            .map(|executor| executor.id)
            .filter(|id| !state.avoid.contains(id))
            .collect();
        if candidates.is_empty() {
            candidates =
                self.executors.iter().filter(|executor| executor.takes_tasks()).map(|executor| executor.id).collect();
            if !candidates.is_empty() && self.now_ms < state.not_before_ms {
                let until = state.not_before_ms;
                return self.wake(until);
            }
        }
        if candidates.is_empty() {
            // A probe may still bring one back.
            if self.executors.iter().all(|executor| executor.state != ExecutorState::Probing) {
                let message = match &self.last_loss {
                    Some(loss) => format!("no executor is left to run the query; last: {loss}"),
                    None => "the cluster has no live executor".to_owned(),
                };
                self.fail(VolleyError::new(ErrorCode::NoExecutors, message));
            }
            return;
        }
        let preferred = self.preferred(stage, task, &candidates);
        match self.graph.stages()[stage.index()].place {
            Place::Session => {
                if self.session_running < self.options.session_tasks.max(1)
                    && let Some(index) = self.executor_index(preferred)
                {
                    self.launch(stage, task, index, None);
                }
            }
            Place::Executors => {
                let request = SlotRequestId(self.next_request);
                self.next_request += 1;
                candidates.retain(|id| *id != preferred);
                self.actions.push_back(Action::RequestSlot(SlotRequest {
                    id: request,
                    preferred,
                    others: candidates,
                    urgent: self.graph.stages()[stage.index()].quick,
                }));
                self.change(stage, task, TaskState::Waiting { request, roster: self.roster });
            }
        }
    }

    /// Where a task runs if slots allow.
    ///
    /// A stage's only task goes where most of its input is. Tasks of wider stages read from everywhere alike; they are
    /// dealt over the slots, executors in turn, so that task `i` of every stage meets the same executor and with it the
    /// files that it has in its cache. `candidates` is not empty.
    fn preferred(&self, stage: StageId, task: TaskId, candidates: &[ExecutorId]) -> ExecutorId {
        let spec = &self.graph.stages()[stage.index()];
        if spec.tasks == 1 {
            let mut bytes = vec![0_u64; self.executors.len()];
            for state in spec.inputs.iter().flat_map(|input| &self.stages[input.index()].tasks) {
                if let TaskState::Stored { executor, bytes: stored, .. } = state.state {
                    bytes[executor.0] = bytes[executor.0].saturating_add(stored);
                }
            }
            let held = |id: &ExecutorId| self.executor_index(*id).map_or(0, |index| bytes[index.0]);
            let turn = stage.index() % candidates.len();
            let mut best = candidates[turn];
            for id in &candidates[turn..] {
                if held(id) > held(&best) {
                    best = *id;
                }
            }
            for id in &candidates[..turn] {
                if held(id) > held(&best) {
                    best = *id;
                }
            }
            return best;
        }
        let slots = |id: &ExecutorId| self.executor_index(*id).map_or(1, |index| self.executors[index.0].slots.max(1));
        let total: usize = candidates.iter().map(|id| slots(id) as usize).sum();
        let mut turn = task.index() % total.max(1);
        let rounds = candidates.iter().map(slots).max().unwrap_or(1);
        for round in 0..rounds {
            for id in candidates.iter().filter(|id| slots(id) > round) {
                if turn == 0 {
                    return *id;
                }
                turn -= 1;
            }
        }
        candidates[0]
    }

    pub(super) fn launch(
        &mut self,
        stage: StageId,
        task: TaskId,
        executor: ExecutorIndex,
        request: Option<SlotRequestId>,
    ) {
        let spec = &self.graph.stages()[stage.index()];
        debug_assert!(spec.inputs.iter().all(|input| self.is_readable(*input)), "{stage:?} starts without its inputs");
        let place = spec.place;
        let inputs = Arc::new(spec.inputs.iter().map(|input| self.locations(*input)).collect::<Vec<_>>());
        let state = &mut self.stages[stage.index()];
        let attempt = AttemptId(state.tasks[task.index()].next_attempt);
        state.tasks[task.index()].next_attempt += 1;
        if !std::mem::replace(&mut state.started, true) {
            self.actions.push_back(Action::StageStarted { stage });
        }
        self.change(stage, task, TaskState::Running { attempt, executor, inputs: Arc::clone(&inputs) });
        let target = &self.executors[executor.0];
        self.actions.push_back(Action::Launch(Launch {
            attempt: TaskAttempt { query: self.query, stage, task, attempt },
            place,
            executor: target.id,
            endpoint: Arc::clone(&target.endpoint),
            request,
            inputs,
        }));
    }

    /// Where the outputs of `stage` are that are stored now.
    fn locations(&self, stage: StageId) -> StageInput {
        let outputs = self.stages[stage.index()]
            .tasks
            .iter()
            .enumerate()
            .filter_map(|(task, state)| match &state.state {
                TaskState::Stored { attempt, executor, rows, .. } => Some(OutputLocation {
                    task: TaskId(task as u32),
                    attempt: *attempt,
                    executor: self.executors[executor.0].id,
                    endpoint: Arc::clone(&self.executors[executor.0].endpoint),
                    rows: Arc::clone(rows),
                }),
                _ => None,
            })
            .collect();
        StageInput { stage, outputs }
    }

    fn results(&self) -> impl Iterator<Item = StageId> + '_ {
        self.graph.stages().iter().filter(|stage| stage.is_result).map(|stage| stage.id)
    }

    fn results_complete(&self) -> bool {
        self.results().all(|stage| self.stages[stage.index()].is_complete())
    }

    fn announce_results(&mut self) {
        if self.results().any(|stage| !self.is_readable(stage)) {
            // A loss: what was announced no longer holds. A doubt: wait for the answer.
            self.announced &= self.results_complete();
        } else if !self.announced {
            self.announced = true;
            let result = self.results().map(|stage| self.locations(stage)).collect();
            self.actions.push_back(Action::ResultReady { result });
        }
    }

    fn wake(&mut self, at_ms: u64) {
        self.wake_at_ms = Some(self.wake_at_ms.map_or(at_ms, |earlier| earlier.min(at_ms)));
    }
}
