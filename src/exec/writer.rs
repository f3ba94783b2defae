//! [`ShuffleWriterExec`]: the root of every stage.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{RecordBatch, UInt64Array};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::runtime::JoinSet;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result as DfResult, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricBuilder, MetricsSet, Time};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
    ReplaceChildrenOptions,
};
use futures::StreamExt;
use parking_lot::Mutex;

use super::keys::KeyCollector;
use super::{KeyRequest, ShuffleEnvironment};
use crate::ids::PartitionId;
use crate::shuffle::{ProducerWriter, RowPartitioner};
use crate::wire::KeySummary;

/// Where the rows of the writer's input go.
#[derive(Clone, Debug)]
pub enum WriterOutput {
    /// Input partition `i` becomes the shuffle partition `partitions[i]`. Input partitions past the list hold no
    /// rows: a plan may come back from decoding with an empty one more.
    Passthrough {
        /// The shuffle partitions.
        partitions: Vec<PartitionId>,
    },
    /// Rows are routed by a hash or range partitioning.
    Routed {
        /// The partitioning of the exchange.
        partitioning: Partitioning,
    },
    /// Rows are routed, and each input partition's rows are kept apart because they are sorted: input partition `i`
    /// writes the shuffle partitions `lanes[i] * width + p`.
    RoutedLanes {
        /// The partitioning of the exchange.
        partitioning: Partitioning,
        /// The lane of each input partition.
        lanes: Vec<u32>,
    },
}

/// Partitions its input's rows and hands them to the task's output. It has one output partition, which runs all input
/// partitions at once and ends with one row: the number of rows written.
#[derive(Debug)]
pub struct ShuffleWriterExec {
    input: Arc<dyn ExecutionPlan>,
    output: WriterOutput,
    shuffle_partitions: u32,
    keys: Vec<KeyRequest>,
    collected: Arc<Mutex<Option<Vec<KeySummary>>>>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl ShuffleWriterExec {
    /// A writer of `input` into a shuffle of `shuffle_partitions` (those of other tasks included), which also reports
    /// the join keys in `keys`.
    ///
    /// # Errors
    /// An output that does not fit the input's number of partitions.
    pub fn try_new(
        input: Arc<dyn ExecutionPlan>,
        output: WriterOutput,
        shuffle_partitions: u32,
        keys: Vec<KeyRequest>,
    ) -> DfResult<Self> {
        let count = input.output_partitioning().partition_count();
        match &output {
            WriterOutput::Passthrough { partitions } if partitions.len() > count => {
                return internal_err!("a writer of {} partitions over {count}", partitions.len());
            }
            WriterOutput::RoutedLanes { lanes, .. } if lanes.len() > count => {
                return internal_err!("a writer of {} lanes over {count} partitions", lanes.len());
            }
            _ => {}
        }
        let properties = PlanProperties::new(
            EquivalenceProperties::new(summary_schema()),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        Ok(Self {
            input,
            output,
            shuffle_partitions,
            keys,
            collected: Arc::default(),
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }

    /// The plan whose rows are written.
    pub fn input(&self) -> &Arc<dyn ExecutionPlan> {
        &self.input
    }

    /// Where the rows go.
    pub fn output(&self) -> &WriterOutput {
        &self.output
    }

    /// Partitions of the stage's shuffle.
    pub fn shuffle_partitions(&self) -> u32 {
        self.shuffle_partitions
    }

    /// The join keys that are reported.
    pub fn keys(&self) -> &[KeyRequest] {
        &self.keys
    }

    /// Streams that feed the output: one per partition of the input.
    pub fn producers(&self) -> usize {
        self.input.output_partitioning().partition_count()
    }

    /// The collected keys, one per request; `None` before the writer's stream has ended.
    pub fn take_key_summaries(&self) -> Option<Vec<KeySummary>> {
        self.collected.lock().take()
    }
}

fn summary_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("rows", DataType::UInt64, false)]))
}

/// Writes one input partition; returns its rows and its keys.
struct Lane {
    index: usize,
    output: WriterOutput,
    keys: Vec<KeyRequest>,
    writer: ProducerWriter,
    routing_time: Time,
    store_time: Time,
}

/// Where a lane's rows go.
enum Route {
    /// All to one shuffle partition; `None`: the lane is past the task's own partitions and has no rows.
    To(Option<PartitionId>),
    /// By the partitioner, from this shuffle partition on.
    By(RowPartitioner, u32),
}

impl Lane {
    async fn write(mut self, mut input: SendableRecordBatchStream) -> DfResult<(u64, Vec<KeyCollector>)> {
        let schema = input.schema();
        let mut keys = self.keys.iter().map(|k| KeyCollector::try_new(k, &schema)).collect::<DfResult<Vec<_>>>()?;
        let mut route = self.route()?;
        let mut rows = 0;
        while let Some(batch) = input.next().await {
            let batch = batch?;
            if batch.num_rows() == 0 {
                continue;
            }
            rows += batch.num_rows() as u64;
            for collector in &mut keys {
                collector.add(&batch)?;
            }
            match &mut route {
                Route::By(partitioner, first) => {
                    let (writer, time, first) = (&mut self.writer, &self.store_time, *first);
                    partitioner.route(batch, |partition, batch| {
                        let _timer = time.timer();
                        writer.push(PartitionId(first + partition.0), batch)
                    })?;
                }
                Route::To(Some(partition)) => {
                    let _timer = self.store_time.timer();
                    self.writer.push(*partition, batch)?;
                }
                Route::To(None) => {
                    return internal_err!("rows in input partition {}, which the task does not own", self.index);
                }
            }
        }
        let _timer = self.store_time.timer();
        self.writer.finish()?;
        Ok((rows, keys))
    }

    fn route(&self) -> DfResult<Route> {
        Ok(match &self.output {
            WriterOutput::Passthrough { partitions } => Route::To(partitions.get(self.index).copied()),
            WriterOutput::Routed { partitioning } => {
                Route::By(RowPartitioner::try_new(partitioning, self.routing_time.clone())?, 0)
            }
            WriterOutput::RoutedLanes { partitioning, lanes } => match lanes.get(self.index) {
                Some(lane) => Route::By(
                    RowPartitioner::try_new(partitioning, self.routing_time.clone())?,
                    lane * partitioning.partition_count() as u32,
                ),
                None => Route::To(None),
            },
        })
    }
}

impl DisplayAs for ShuffleWriterExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        if matches!(format, DisplayFormatType::TreeRender) {
            return Ok(());
        }
        match &self.output {
            WriterOutput::Passthrough { .. } => write!(f, "ShuffleWriterExec: passthrough"),
            WriterOutput::Routed { partitioning } => write!(f, "ShuffleWriterExec: {partitioning}"),
            WriterOutput::RoutedLanes { partitioning, .. } => {
                write!(f, "ShuffleWriterExec: {partitioning}, order kept")
            }
        }
    }
}

impl ExecutionPlan for ShuffleWriterExec {
    fn name(&self) -> &str {
        "ShuffleWriterExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> DfResult<TreeNodeRecursion>,
    ) -> DfResult<TreeNodeRecursion> {
        let routing: &[Arc<dyn PhysicalExpr>] = match &self.output {
            WriterOutput::Routed { partitioning: Partitioning::Hash(exprs, _) }
            | WriterOutput::RoutedLanes { partitioning: Partitioning::Hash(exprs, _), .. } => exprs,
            _ => &[],
        };
        for expr in routing.iter().chain(self.keys.iter().flat_map(|key| &key.exprs)) {
            if visit(expr)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        match (children.pop(), children.is_empty()) {
            (Some(input), true) => {
                Ok(Arc::new(Self::try_new(input, self.output.clone(), self.shuffle_partitions, self.keys.clone())?))
            }
            _ => internal_err!("ShuffleWriterExec has one child"),
        }
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> DfResult<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> DfResult<SendableRecordBatchStream> {
        if partition != 0 {
            return internal_err!("ShuffleWriterExec has one partition, not {partition}");
        }
        let environment = ShuffleEnvironment::of(&context)?;
        let Some(output) = environment.output.clone() else {
            return internal_err!("ShuffleWriterExec was executed where nothing takes its rows");
        };
        let count = self.input.output_partitioning().partition_count();
        let routing_time = MetricBuilder::new(&self.metrics).subset_time("routing_time", 0);
        let store_time = MetricBuilder::new(&self.metrics).subset_time("store_time", 0);
        let written = MetricBuilder::new(&self.metrics).output_rows(0);
        // All partitions start now and in this process: a join in this plan may wait until each of its partitions
        // has been polled.
        let mut lanes = JoinSet::new();
        for index in 0..count {
            let lane = Lane {
                index,
                output: self.output.clone(),
                keys: self.keys.clone(),
                writer: output.producer(index)?,
                routing_time: routing_time.clone(),
                store_time: store_time.clone(),
            };
            let input = self.input.execute(index, Arc::clone(&context))?;
            lanes.spawn(async move { (index, lane.write(input).await) });
        }
        let requests = self.keys.len();
        let collected = Arc::clone(&self.collected);
        let stream = futures::stream::once(async move {
            let mut rows = 0;
            let mut keys: Vec<(usize, Vec<KeyCollector>)> = vec![];
            while let Some(joined) = lanes.join_next().await {
                let (index, result) = joined.map_err(task_error)?;
                let (lane_rows, lane_keys) = result?;
                rows += lane_rows;
                keys.push((index, lane_keys));
            }
            written.add(rows as usize);
            keys.sort_by_key(|(index, _)| *index);
            let mut by_request: Vec<Vec<KeyCollector>> = (0..requests).map(|_| vec![]).collect();
            for (_, lane_keys) in keys {
                for (request, collector) in by_request.iter_mut().zip(lane_keys) {
                    request.push(collector);
                }
            }
            *collected.lock() = Some(by_request.into_iter().map(KeyCollector::merge).collect::<DfResult<_>>()?);
            Ok(RecordBatch::try_new(summary_schema(), vec![Arc::new(UInt64Array::from(vec![rows]))])?)
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(summary_schema(), stream)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// A lane that panicked, as an error that names it so.
fn task_error(error: tokio::task::JoinError) -> DataFusionError {
    use crate::error::{ErrorCode, VolleyError};
    if error.is_panic() {
        let panic = error.into_panic();
        let text = panic
            .downcast_ref::<&str>()
            .map(|text| (*text).to_string())
            .or_else(|| panic.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "no message".to_string());
        return VolleyError::new(ErrorCode::TaskPanicked, format!("a partition of the task panicked: {text}")).into();
    }
    VolleyError::new(ErrorCode::Cancelled, "the task was cancelled").into()
}
