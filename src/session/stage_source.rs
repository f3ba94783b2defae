//! What the scheduler asks the session: the plan of an attempt, and to run the attempts that cannot leave.

use std::collections::HashSet;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::common::ScalarValue;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use futures::{StreamExt, TryStreamExt, stream};

use crate::codec::{FilterValues, VolleyCodec, encode_plan};
use crate::config::VolleyOptions;
use crate::error::{Result, VolleyError};
use crate::exchange::{ExchangeClient, ExchangeOptions, TaskExchange};
use crate::exec::ShuffleEnvironment;
use crate::ids::{PartitionId, TaskAttempt};
use crate::plan::{FilterSource, Stage, StageGraph, StageOutput, apply_filter_values, filter_predicate};
use crate::scheduler::{FinishedStages, SessionTask, TaskSource};
use crate::shuffle::RowPartitioner;
use crate::wire::{ColumnKeys, KeySummary, StageInput, TaskDefinition, TaskReport, UploadRequest};

/// The stages of one query.
#[derive(Debug)]
pub(super) struct StageSource {
    pub(super) graph: Arc<StageGraph>,
    pub(super) codec: Arc<VolleyCodec>,
    pub(super) shipped_options: Arc<Vec<(String, String)>>,
    pub(super) options: VolleyOptions,
    pub(super) client: Arc<ExchangeClient>,
    /// The session's own context, for stages that it runs.
    pub(super) context: Arc<TaskContext>,
}

impl StageSource {
    fn stage(&self, attempt: TaskAttempt) -> Result<&Stage> {
        self.graph
            .stages
            .get(attempt.stage.index())
            .ok_or_else(|| VolleyError::internal(format!("there is no stage {}", attempt.stage)))
    }

    /// The values of the filters that a stage's scans use, as far as their builds are finished.
    fn filter_values(&self, stage: &Stage, finished: &FinishedStages) -> Result<FilterValues> {
        let mut values = FilterValues::default();
        for source in self.graph.filters.iter().filter(|source| source.consumers.contains(&stage.id)) {
            let Some(keys) = self.keys(source, finished) else { continue };
            if let Some(predicate) = filter_predicate(source, &keys)? {
                values.insert(source.id, source.probe_keys.clone(), predicate);
            }
        }
        Ok(values)
    }

    /// The keys of a finished build, over all its tasks; `None` if it is not finished, or too large to filter much.
    fn keys(&self, source: &FilterSource, finished: &FinishedStages) -> Option<KeySummary> {
        let tasks = finished.stage(source.build)?;
        let rows: u64 = tasks.iter().map(|task| task.report.output.rows()).sum();
        if rows > self.options.filter_max_rows as u64 {
            return None;
        }
        let mut merged: Option<KeySummary> = None;
        for task in tasks {
            let summary = task.report.keys.get(source.request)?;
            merged = Some(match merged {
                None => summary.clone(),
                Some(merged) => merge(merged, summary, self.options.filter_max_values),
            });
        }
        merged
    }
}

fn merge(mut into: KeySummary, from: &KeySummary, max_values: usize) -> KeySummary {
    for (into, from) in into.columns.iter_mut().zip(&from.columns) {
        *into = merge_column(into, from, max_values);
    }
    into
}

fn merge_column(one: &ColumnKeys, other: &ColumnKeys, max_values: usize) -> ColumnKeys {
    let range = match (&one.range, &other.range) {
        (Some((low, high)), Some((other_low, other_high))) => {
            let smaller = |a: &ScalarValue, b: &ScalarValue| a.partial_cmp(b).is_some_and(|order| order.is_lt());
            let low = if smaller(other_low, low) { other_low } else { low };
            let high = if smaller(high, other_high) { other_high } else { high };
            Some((low.clone(), high.clone()))
        }
        (Some(range), None) | (None, Some(range)) => Some(range.clone()),
        (None, None) => None,
    };
    let values = match (&one.values, &other.values) {
        (Some(one), Some(other)) => {
            let mut seen: HashSet<&ScalarValue> = HashSet::new();
            let values: Vec<ScalarValue> =
                one.iter().chain(other).filter(|value| seen.insert(*value)).cloned().collect();
            (values.len() <= max_values).then_some(values)
        }
        _ => None,
    };
    ColumnKeys { range, values }
}

#[async_trait]
impl TaskSource for StageSource {
    fn define(&self, attempt: TaskAttempt, inputs: &[StageInput], finished: &FinishedStages) -> Result<TaskDefinition> {
        let stage = self.stage(attempt)?;
        let task = stage
            .tasks
            .get(attempt.task.index())
            .ok_or_else(|| VolleyError::internal(format!("stage {} has no task {}", stage.id, attempt.task)))?;
        let mut values = self.filter_values(stage, finished)?;
        let plan = apply_filter_values(&task.plan, &mut values)?;
        let writer: Arc<dyn ExecutionPlan> = Arc::new(stage.writer(task, plan)?);
        Ok(TaskDefinition {
            id: attempt,
            plan: encode_plan(&writer, self.codec.as_ref(), &values)?,
            options: Arc::clone(&self.shipped_options),
            inputs: inputs.to_vec(),
        })
    }

    /// Runs the stage's plan here, one partition after the other, and uploads its rows.
    async fn run_in_session(&self, task: SessionTask) -> Result<TaskReport> {
        let stage = self.stage(task.attempt)?;
        let exchange = Arc::new(TaskExchange::new(
            Arc::clone(&self.client),
            None,
            task.attempt.query,
            task.inputs.to_vec(),
            ExchangeOptions::of(&self.options),
        ));
        let totals = exchange.totals();
        let environment = Arc::new(ShuffleEnvironment { source: exchange, output: None });
        let context = environment.install(&self.context);
        // A second attempt must not see what the first left in the nodes.
        let plan = reset_plan_states(Arc::clone(&stage.plan))?;
        let rows = stage_rows(stage, plan, context)?;
        let summary = self
            .client
            .upload(
                Arc::clone(&task.endpoint),
                UploadRequest { attempt: task.attempt, partitions: stage.shuffle_partitions() as u32 },
                stage.plan.schema(),
                rows,
                ExchangeOptions::of(&self.options),
            )
            .await?;
        Ok(TaskReport { output: summary, exchange: totals.snapshot(), ..TaskReport::default() })
    }
}

type RoutedRows = stream::BoxStream<'static, Result<(PartitionId, datafusion::arrow::record_batch::RecordBatch)>>;

/// The plan's rows with the shuffle partition of each batch.
fn stage_rows(stage: &Stage, plan: Arc<dyn ExecutionPlan>, context: Arc<TaskContext>) -> Result<RoutedRows> {
    use datafusion::physical_plan::ExecutionPlanProperties;

    let mut lanes: Vec<RoutedRows> = vec![];
    for lane in 0..plan.output_partitioning().partition_count() {
        let input = plan.execute(lane, Arc::clone(&context))?.map_err(|error| VolleyError::from_execution(&error));
        let first = |width: usize| (lane * width) as u32;
        let (mut partitioner, first) = match &stage.output {
            StageOutput::Passthrough => (None, lane as u32),
            StageOutput::Routed(partitioning) => (Some(RowPartitioner::try_new(partitioning, Default::default())?), 0),
            StageOutput::RoutedLanes(partitioning) => (
                Some(RowPartitioner::try_new(partitioning, Default::default())?),
                first(partitioning.partition_count()),
            ),
        };
        let routed = input
            .and_then(move |batch| {
                let mut parts = vec![];
                let result = match &mut partitioner {
                    None => {
                        parts.push(Ok((PartitionId(first), batch)));
                        Ok(())
                    }
                    Some(partitioner) => partitioner.route(batch, |partition, rows| {
                        parts.push(Ok((PartitionId(first + partition.0), rows)));
                        Ok(())
                    }),
                };
                futures::future::ready(result.map(|()| stream::iter(parts)))
            })
            .try_flatten()
            .boxed();
        lanes.push(routed);
    }
    // All lanes start at once: a join may wait until each of its partitions has been polled. Which lane's batch comes
    // first does not matter: within a lane the order is kept, and a reader of several lanes claims none.
    Ok(stream::select_all(lanes).boxed())
}
