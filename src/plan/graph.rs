//! The stage graph: plain data that the rules make and others read.

use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::physical_expr::{Partitioning, PhysicalExpr};
use datafusion::physical_plan::ExecutionPlan;

use crate::exec::{KeyRequest, ShuffleWriterExec, WriterOutput};
use crate::ids::{PartitionId, StageId};

/// A query, cut.
#[derive(Debug)]
pub struct StageGraph {
    /// The stages; a stage's number is its index, and its inputs have smaller ones.
    pub stages: Vec<Stage>,
    /// The part that runs in the session, over readers of the last stages.
    pub root: Arc<dyn ExecutionPlan>,
    /// The stages that `root` reads.
    pub root_inputs: Vec<StageId>,
    /// Joins whose keys filter scans in other stages.
    pub filters: Vec<FilterSource>,
}

/// Where a stage's tasks run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// On executors.
    Executors,
    /// In the session, for this reason; its output is uploaded.
    Session(String),
}

/// How a stage's rows are partitioned into its shuffle.
#[derive(Clone, Debug)]
pub enum StageOutput {
    /// Each output partition of the plan is a shuffle partition.
    Passthrough,
    /// Rows are routed.
    Routed(Partitioning),
    /// Rows are routed, and those of different output partitions of the plan are kept apart: each is sorted.
    RoutedLanes(Partitioning),
}

/// A plan fragment between exchanges.
#[derive(Debug)]
pub struct Stage {
    /// Its number.
    pub id: StageId,
    /// Its plan, whole.
    pub plan: Arc<dyn ExecutionPlan>,
    /// How its rows are partitioned.
    pub output: StageOutput,
    /// The stages it reads: all their tasks must be done first.
    pub inputs: Vec<StageId>,
    /// Stages whose join keys would filter this stage's scans, if they are there in time.
    pub filter_inputs: Vec<StageId>,
    /// Its tasks.
    pub tasks: Vec<StageTask>,
    /// Why it has one task although its plan has several partitions.
    pub single_task_reason: Option<String>,
    /// Where its tasks run.
    pub place: Place,
    /// The join keys that it reports; [`FilterSource::request`] is an index into it.
    pub keys: Vec<KeyRequest>,
    /// Bytes of table files that it reads, after pruning of files.
    pub scan_bytes: u64,
    /// Whether it is expected to end soon: it and all it depends on read little.
    pub quick: bool,
}

/// A set of a stage's output partitions that runs in one process.
#[derive(Debug)]
pub struct StageTask {
    /// The output partitions of the stage's plan, ascending.
    pub partitions: Vec<u32>,
    /// The plan of these partitions.
    pub plan: Arc<dyn ExecutionPlan>,
}

/// A join whose build side is a stage and whose dynamic filter is used elsewhere.
#[derive(Clone, Debug)]
pub struct FilterSource {
    /// The filter's expression id.
    pub id: u64,
    /// The stage whose rows are the join's build side.
    pub build: StageId,
    /// Index into the build stage's [`Stage::keys`].
    pub request: usize,
    /// The join's probe keys: what the filter is about, in the join's column space.
    pub probe_keys: Vec<Arc<dyn PhysicalExpr>>,
    /// The schema of that column space.
    pub probe_schema: SchemaRef,
    /// The stages whose scans use it.
    pub consumers: Vec<StageId>,
}

impl Stage {
    /// Partitions of the stage's shuffle.
    pub fn shuffle_partitions(&self) -> usize {
        let plan_partitions = super::tree::partitions(&self.plan);
        match &self.output {
            StageOutput::Passthrough => plan_partitions,
            StageOutput::Routed(partitioning) => partitioning.partition_count(),
            StageOutput::RoutedLanes(partitioning) => partitioning.partition_count() * plan_partitions,
        }
    }

    /// The plan of one task with its writer, whose input is `plan` (the task's own plan, or that with filters put in).
    ///
    /// # Errors
    /// A plan with fewer partitions than the task has.
    pub fn writer(
        &self,
        task: &StageTask,
        plan: Arc<dyn ExecutionPlan>,
    ) -> datafusion::common::Result<ShuffleWriterExec> {
        let output = match &self.output {
            StageOutput::Passthrough => {
                WriterOutput::Passthrough { partitions: task.partitions.iter().copied().map(PartitionId).collect() }
            }
            StageOutput::Routed(partitioning) => WriterOutput::Routed { partitioning: partitioning.clone() },
            StageOutput::RoutedLanes(partitioning) => {
                WriterOutput::RoutedLanes { partitioning: partitioning.clone(), lanes: task.partitions.clone() }
            }
        };
        ShuffleWriterExec::try_new(plan, output, self.shuffle_partitions() as u32, self.keys.clone())
    }
}

impl StageGraph {
    /// Tasks of all stages.
    pub fn task_count(&self) -> usize {
        self.stages.iter().map(|stage| stage.tasks.len()).sum()
    }
}
