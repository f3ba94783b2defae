//! [`ShuffleReaderExec`]: the leaf that stands for a stage's stored output.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result as DfResult, internal_err};
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, LexOrdering, Partitioning, PhysicalExpr};
use datafusion::physical_plan::coop::cooperative;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, SchedulingType};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::sorts::streaming_merge::StreamingMergeBuilder;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions};
use futures::StreamExt;

use super::ShuffleEnvironment;
use crate::ids::{PartitionId, StageId};

/// How a reader puts together what the producers wrote.
#[derive(Clone, Debug, PartialEq)]
pub enum ReadOrder {
    /// Producer after producer.
    Concatenate,
    /// The exchange keeps an order: its writer stores `lanes` sorted runs of each of its `width` partitions (shuffle
    /// partition = lane * width + partition), which the reader merges.
    Merge {
        /// Output partitions of the producing stage's plan.
        lanes: u32,
        /// Partitions of the exchange.
        width: u32,
        /// The order in which each run is sorted.
        ordering: LexOrdering,
    },
}

/// Reads partitions of one stage's shuffle. It claims exactly what the exchange node it replaces claims:
/// partitioning, orderings, equivalences, constants.
#[derive(Debug, Clone)]
pub struct ShuffleReaderExec {
    stage: StageId,
    partitions: Vec<PartitionId>,
    order: ReadOrder,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl ShuffleReaderExec {
    /// A reader whose output partition `i` is the shuffle partition `partitions[i]` of `stage`.
    ///
    /// # Errors
    /// `partitioning` has another number of partitions.
    pub fn try_new(
        stage: StageId,
        partitions: Vec<PartitionId>,
        order: ReadOrder,
        equivalences: EquivalenceProperties,
        partitioning: Partitioning,
    ) -> DfResult<Self> {
        if partitioning.partition_count() != partitions.len() {
            return internal_err!(
                "a reader of {} shuffle partitions cannot claim {} partitions",
                partitions.len(),
                partitioning.partition_count()
            );
        }
        let properties =
            PlanProperties::new(equivalences, partitioning, EmissionType::Incremental, Boundedness::Bounded)
                .with_scheduling_type(SchedulingType::Cooperative);
        Ok(Self { stage, partitions, order, properties: Arc::new(properties), metrics: ExecutionPlanMetricsSet::new() })
    }

    /// The stage that is read.
    pub fn stage(&self) -> StageId {
        self.stage
    }

    /// The shuffle partition behind each output partition.
    pub fn partitions(&self) -> &[PartitionId] {
        &self.partitions
    }

    /// How the producers' rows are put together.
    pub fn order(&self) -> &ReadOrder {
        &self.order
    }

    /// A reader of the output partitions in `set` only. A hash partitioning stays one, over fewer partitions: rows
    /// with equal keys are still together, and what is co-partitioned is sliced by the same set.
    ///
    /// # Errors
    /// An index out of range.
    pub fn sliced(&self, set: &[usize]) -> DfResult<Self> {
        let mut partitions = Vec::with_capacity(set.len());
        for index in set {
            match self.partitions.get(*index) {
                Some(partition) => partitions.push(*partition),
                None => return internal_err!("slice {set:?} of a reader of {} partitions", self.partitions.len()),
            }
        }
        let partitioning = match self.properties.output_partitioning() {
            Partitioning::Hash(exprs, _) => Partitioning::Hash(exprs.clone(), set.len()),
            _ => Partitioning::UnknownPartitioning(set.len()),
        };
        Self::try_new(
            self.stage,
            partitions,
            self.order.clone(),
            self.properties.equivalence_properties().clone(),
            partitioning,
        )
    }

    fn read(&self, environment: &ShuffleEnvironment, partition: PartitionId) -> DfResult<SendableRecordBatchStream> {
        Ok(environment.source.read(self.stage, partition, self.schema())?)
    }
}

impl DisplayAs for ShuffleReaderExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        match format {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(f, "ShuffleReaderExec: stage={}, partitioning={}", self.stage, self.properties.partitioning)?;
                if let ReadOrder::Merge { ordering, .. } = &self.order {
                    write!(f, ", merge=[{ordering}]")?;
                }
                Ok(())
            }
            DisplayFormatType::TreeRender => writeln!(f, "stage={}", self.stage),
        }
    }
}

impl ExecutionPlan for ShuffleReaderExec {
    fn name(&self) -> &str {
        "ShuffleReaderExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![]
    }

    fn apply_expressions(
        &self,
        _visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> DfResult<TreeNodeRecursion>,
    ) -> DfResult<TreeNodeRecursion> {
        // The declared hash expressions were evaluated by the writer, not here.
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        if !children.is_empty() {
            return internal_err!("ShuffleReaderExec is a leaf");
        }
        Ok(self)
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> DfResult<Arc<dyn ExecutionPlan>> {
        if !children.is_empty() {
            return internal_err!("ShuffleReaderExec is a leaf");
        }
        Ok(self)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> DfResult<SendableRecordBatchStream> {
        let Some(shuffle_partition) = self.partitions.get(partition).copied() else {
            return internal_err!("partition {partition} of a reader of {}", self.partitions.len());
        };
        let environment = ShuffleEnvironment::of(&context)?;
        let schema: SchemaRef = self.schema();
        let baseline = BaselineMetrics::new(&self.metrics, partition);
        match &self.order {
            ReadOrder::Concatenate => {
                let stream = self.read(&environment, shuffle_partition)?.map(move |batch| {
                    if let Ok(batch) = &batch {
                        baseline.record_output(batch.num_rows());
                    }
                    batch
                });
                Ok(Box::pin(cooperative(RecordBatchStreamAdapter::new(schema, stream))))
            }
            ReadOrder::Merge { lanes, width, ordering } => {
                let streams = (0..*lanes)
                    .map(|lane| self.read(&environment, PartitionId(lane * width + shuffle_partition.0)))
                    .collect::<DfResult<Vec<_>>>()?;
                let reservation = MemoryConsumer::new(format!("ShuffleReaderExec[{partition}]"))
                    .register(&context.runtime_env().memory_pool);
                StreamingMergeBuilder::new()
                    .with_streams(streams)
                    .with_schema(schema)
                    .with_expressions(ordering)
                    .with_metrics(baseline)
                    .with_batch_size(context.session_config().batch_size())
                    .with_reservation(reservation)
                    .build()
            }
        }
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}
