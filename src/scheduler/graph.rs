//! The stage graph as the scheduler needs it: who reads whom, and where a stage runs.

use crate::error::{Result, VolleyError};
use crate::ids::StageId;

/// Where a stage's tasks run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// On executors, one slot per task.
    Executors,
    /// In the session's process, which uploads the output to an executor. No slot of an executor is taken.
    Session,
}

/// One stage.
#[derive(Clone, Debug)]
pub struct SchedulerStage {
    /// The stage; its number is its place in the graph.
    pub id: StageId,
    /// How many tasks it has, at least 1.
    pub tasks: usize,
    /// The stages whose output it reads: all their tasks are finished before one of its tasks starts.
    pub inputs: Vec<StageId>,
    /// The stages whose join keys filter its scans. Worth a short wait, never needed: its tasks wait for such a stage
    /// only while that one is [`quick`](Self::quick) and depends on nothing unfinished that is not.
    pub soft_inputs: Vec<StageId>,
    /// Whether the planner expects it to finish soon once its inputs are there.
    pub quick: bool,
    /// Where its tasks run.
    pub place: Place,
    /// Whether the session reads its output.
    pub is_result: bool,
}

/// A checked graph: stages numbered from 0, producers before their readers, no cycle.
#[derive(Clone, Debug)]
pub struct StageGraph {
    stages: Vec<SchedulerStage>,
    /// By stage: who reads its output.
    readers: Vec<Vec<StageId>>,
    /// By stage: whose scans its keys filter.
    soft_readers: Vec<Vec<StageId>>,
    /// Every stage after all its inputs, hard and soft.
    order: Vec<StageId>,
}

impl StageGraph {
    /// Checks the stages. A soft input that would close a cycle is dropped: the filter is then not used, which is
    /// always right.
    ///
    /// # Errors
    /// [`Internal`](crate::error::ErrorCode::Internal) if ids are not 0, 1, 2, …, an input does not exist or is not
    /// numbered before its reader, a stage has no task, or no stage is a result.
    pub fn try_new(mut stages: Vec<SchedulerStage>) -> Result<Self> {
        let count = stages.len();
        for (index, stage) in stages.iter().enumerate() {
            if stage.id.index() != index {
                return Err(VolleyError::internal(format!(
                    "{:?} stands at place {index} of the stage graph",
                    stage.id
                )));
            }
            if stage.tasks == 0 || u32::try_from(stage.tasks).is_err() {
                return Err(VolleyError::internal(format!("{:?} has {} tasks", stage.id, stage.tasks)));
            }
            if let Some(input) = stage.inputs.iter().find(|input| input.index() >= index) {
                return Err(VolleyError::internal(format!("{:?} reads {input:?}, which is not before it", stage.id)));
            }
            if let Some(input) = stage.soft_inputs.iter().find(|input| input.index() >= count) {
                return Err(VolleyError::internal(format!(
                    "{:?} is filtered by {input:?}, which does not exist",
                    stage.id
                )));
            }
        }
        if !stages.iter().any(|stage| stage.is_result) {
            return Err(VolleyError::internal("the stage graph has no result"));
        }
        for stage in &mut stages {
            stage.inputs.sort_unstable();
            stage.inputs.dedup();
            stage.soft_inputs.sort_unstable();
            stage.soft_inputs.dedup();
        }
        keep_acyclic_soft_inputs(&mut stages);

        let mut readers = vec![Vec::new(); count];
        let mut soft_readers = vec![Vec::new(); count];
        for stage in &stages {
            for input in &stage.inputs {
                readers[input.index()].push(stage.id);
            }
            for input in &stage.soft_inputs {
                soft_readers[input.index()].push(stage.id);
            }
        }
        let order = topological_order(&stages);
        Ok(Self { stages, readers, soft_readers, order })
    }

    /// The stages, by number.
    pub fn stages(&self) -> &[SchedulerStage] {
        &self.stages
    }

    /// The stages that read `stage`'s output.
    ///
    /// # Panics
    /// If the graph has no such stage.
    pub fn readers(&self, stage: StageId) -> &[StageId] {
        &self.readers[stage.index()]
    }

    /// The stages whose scans `stage`'s keys filter.
    ///
    /// # Panics
    /// If the graph has no such stage.
    pub fn soft_readers(&self, stage: StageId) -> &[StageId] {
        &self.soft_readers[stage.index()]
    }

    /// Every stage after all its inputs, hard and soft.
    pub fn order(&self) -> &[StageId] {
        &self.order
    }
}

/// Keeps a soft input only if it does not depend, over hard and kept soft inputs, on the stage that wants it.
fn keep_acyclic_soft_inputs(stages: &mut [SchedulerStage]) {
    let wanted: Vec<Vec<StageId>> = stages.iter_mut().map(|stage| std::mem::take(&mut stage.soft_inputs)).collect();
    for (index, soft_inputs) in wanted.into_iter().enumerate() {
        for input in soft_inputs {
            if !depends_on(stages, input.index(), index) {
                stages[index].soft_inputs.push(input);
            }
        }
    }
}

/// Whether `from` is `target` or depends on it.
fn depends_on(stages: &[SchedulerStage], from: usize, target: usize) -> bool {
    let mut seen = vec![false; stages.len()];
    let mut stack = vec![from];
    while let Some(index) = stack.pop() {
        if index == target {
            return true;
        }
        if !std::mem::replace(&mut seen[index], true) {
            let stage = &stages[index];
            stack.extend(stage.inputs.iter().chain(&stage.soft_inputs).map(|input| input.index()));
        }
    }
    false
}

/// Producers first; among those that could come next, the smallest number. The graph has no cycle.
fn topological_order(stages: &[SchedulerStage]) -> Vec<StageId> {
    let mut placed = vec![false; stages.len()];
    let mut order = Vec::with_capacity(stages.len());
    while order.len() < stages.len() {
        let next = stages.iter().find(|stage| {
            !placed[stage.id.index()]
                && stage.inputs.iter().chain(&stage.soft_inputs).all(|input| placed[input.index()])
        });
        match next {
            Some(stage) => {
                placed[stage.id.index()] = true;
                order.push(stage.id);
            }
            None => break,
        }
    }
    debug_assert_eq!(order.len(), stages.len(), "the stage graph has a cycle");
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `(inputs, soft inputs)` per stage; the last stage is the result.
    fn graph(stages: &[(&[u32], &[u32])]) -> Result<StageGraph> {
        let ids = |list: &[u32]| list.iter().copied().map(StageId).collect::<Vec<_>>();
        StageGraph::try_new(
            stages
                .iter()
                .enumerate()
                .map(|(index, (inputs, soft_inputs))| SchedulerStage {
                    id: StageId(index as u32),
                    tasks: 2,
                    inputs: ids(inputs),
                    soft_inputs: ids(soft_inputs),
                    quick: true,
                    place: Place::Executors,
                    is_result: index + 1 == stages.len(),
                })
                .collect(),
        )
    }

    #[test]
    fn order_has_filters_before_the_scans_they_filter() {
        let graph = graph(&[(&[], &[1]), (&[], &[]), (&[0, 1], &[])]).unwrap();
        assert_eq!(graph.order(), [StageId(1), StageId(0), StageId(2)]);
        assert_eq!(graph.readers(StageId(0)), [StageId(2)]);
        assert_eq!(graph.soft_readers(StageId(1)), [StageId(0)]);
    }

    #[test]
    fn soft_input_that_closes_a_cycle_is_dropped() {
        let graph = graph(&[(&[], &[1]), (&[0], &[1]), (&[1], &[])]).unwrap();
        assert!(graph.stages().iter().all(|stage| stage.soft_inputs.is_empty()));
    }

    #[test]
    fn nonsense_is_refused() {
        for (case, text) in [
            (graph(&[]), "no result"),
            (graph(&[(&[0], &[])]), "not before it"),
            (graph(&[(&[], &[7])]), "does not exist"),
        ] {
            assert!(case.unwrap_err().to_string().contains(text));
        }
    }
}
