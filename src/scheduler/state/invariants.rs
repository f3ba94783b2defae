//! What holds after every event, whatever happened.

use super::{ExecutorState, Phase, Scheduler, TaskState};
use crate::ids::AttemptId;
use crate::scheduler::graph::Place;

impl Scheduler {
    /// Checks every invariant; called after each event in debug builds and by the simulator.
    ///
    /// # Errors
    /// The invariant that is broken, in words.
    pub fn check_invariants(&self) -> Result<(), String> {
        let mut running = vec![0_u32; self.executors.len()];
        let mut session_running = 0;
        for (spec, stage) in self.graph.stages().iter().zip(&self.stages) {
            let id = spec.id;
            let (mut idle, mut waiting, mut active, mut stored) = (0, 0, 0, 0);
            for (number, task) in stage.tasks.iter().enumerate() {
                let newest = |attempt: AttemptId| attempt.0 + 1 == task.next_attempt;
                match &task.state {
                    TaskState::Idle => idle += 1,
                    TaskState::Waiting { .. } => waiting += 1,
                    TaskState::Running { attempt, executor, .. } => {
                        active += 1;
                        match spec.place {
                            Place::Executors => running[executor.0] += 1,
                            Place::Session => session_running += 1,
                        }
                        if !newest(*attempt) {
                            return Err(format!("{id:?} task {number}: an attempt runs beside a newer one"));
                        }
                        if self.executors[executor.0].state == ExecutorState::Lost {
                            return Err(format!("{id:?} task {number} runs on a lost executor"));
                        }
                    }
                    TaskState::Stored { executor, .. } => {
                        stored += 1;
                        if self.executors[executor.0].state == ExecutorState::Lost {
                            return Err(format!("{id:?} task {number} is stored on a lost executor"));
                        }
                    }
                }
                if task.next_attempt > self.options.max_attempts + task.excused {
                    return Err(format!(
                        "{id:?} task {number}: {} attempts, {} allowed, {} excused",
                        task.next_attempt, self.options.max_attempts, task.excused
                    ));
                }
            }
            if (idle, waiting, active, stored) != (stage.idle, stage.waiting, stage.running, stage.stored) {
                return Err(format!("{id:?}: its counts are wrong"));
            }
            if stage.freeing && stored + active + waiting > 0 {
                return Err(format!("{id:?} is being freed and in use"));
            }
            if stage.freeing && self.graph.readers(id).iter().any(|reader| self.stages[reader.index()].running > 0) {
                return Err(format!("{id:?} is being freed under a reader"));
            }
            if self.phase == Phase::Over && active + waiting > 0 {
                return Err(format!("{id:?} goes on after the end"));
            }
        }
        if session_running != self.session_running {
            return Err("the count of session tasks is wrong".into());
        }
        for (executor, running) in self.executors.iter().zip(running) {
            if running != executor.running || running > executor.slots {
                return Err(format!("{:?}: {running} tasks in {} slots", executor.id, executor.slots));
            }
        }
        Ok(())
    }
}
