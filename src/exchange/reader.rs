//! A task's view of the stages it reads: [`ShuffleSource`] over the own store and the peers.
//!
//! ```text
//! read(stage, partition):   tasks  0 1 | 2 | 3 4      outputs in task order, those without rows left out
//!                           peer   a a | own| b b     consecutive outputs of one peer are one `DoGet`
//!                           run      1    2    3      runs are delivered in order; up to two more are fetched meanwhile
//! ```
//!
//! Rows are counted per run against what the producers reported when they committed: a run that ends with other
//! counts is an error, whatever the peer said.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::stream;

use super::ShuffleSource;
use super::flight::{ExchangeClient, ExchangeOptions, RemoteRun};
use super::local::LocalRun;
use super::totals::TotalsCounter;
use crate::error::{ErrorCode, Result, VolleyError};
use crate::ids::{ExecutorId, PartitionId, QueryId, StageId, TaskAttempt, TaskId};
use crate::shuffle::ShuffleStore;
use crate::wire::{OutputLocation, StageInput, Ticket};

/// Runs that are fetched before they are read. Each holds at most its HTTP/2 window and two messages.
const RUNS_AHEAD: usize = 2;

/// What one task, or a session's root, reads.
pub struct TaskExchange {
    shared: Arc<Shared>,
    inputs: HashMap<StageId, Vec<OutputLocation>>,
}

struct Shared {
    client: Arc<ExchangeClient>,
    own: Option<(ExecutorId, Arc<ShuffleStore>)>,
    query: QueryId,
    options: ExchangeOptions,
    totals: Arc<TotalsCounter>,
}

impl TaskExchange {
    /// The exchange of a task of `query` that reads `inputs`. Outputs on the executor `own` are read from its store
    /// directly; a session has none.
    pub fn new(
        client: Arc<ExchangeClient>,
        own: Option<(ExecutorId, Arc<ShuffleStore>)>,
        query: QueryId,
        inputs: Vec<StageInput>,
        options: ExchangeOptions,
    ) -> Self {
        let inputs = inputs.into_iter().map(|input| (input.stage, input.outputs)).collect();
        let shared = Shared { client, own, query, options, totals: Arc::default() };
        Self { shared: Arc::new(shared), inputs }
    }

    /// What its streams have moved so far.
    pub fn totals(&self) -> Arc<TotalsCounter> {
        Arc::clone(&self.shared.totals)
    }

    fn outputs(&self, stage: StageId) -> Result<&[OutputLocation]> {
        self.inputs
            .get(&stage)
            .map(Vec::as_slice)
            .ok_or_else(|| VolleyError::internal(format!("the locations of stage {stage} are not known")))
    }

    fn stream(
        &self,
        stage: StageId,
        outputs: &[OutputLocation],
        partition: PartitionId,
        schema: SchemaRef,
    ) -> Result<SendableRecordBatchStream> {
        let waiting = plan_runs(stage, outputs, partition, self.shared.own.as_ref().map(|(id, _)| *id))?;
        let delivery = Delivery {
            shared: Arc::clone(&self.shared),
            stage,
            partition,
            schema: Arc::clone(&schema),
            waiting,
            started: VecDeque::new(),
            finished: false,
        };
        let batches = stream::try_unfold(delivery, |mut delivery| async move {
            match delivery.next().await {
                Ok(Some(batch)) => Ok(Some((batch, delivery))),
                Ok(None) => Ok(None),
                Err(error) => {
                    delivery.abandon();
                    Err(DataFusionError::from(error))
                }
            }
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))
    }
}

impl ShuffleSource for TaskExchange {
    fn read(&self, stage: StageId, partition: PartitionId, schema: SchemaRef) -> Result<SendableRecordBatchStream> {
        self.stream(stage, self.outputs(stage)?, partition, schema)
    }

    fn read_task(
        &self,
        stage: StageId,
        task: TaskId,
        partition: PartitionId,
        schema: SchemaRef,
    ) -> Result<SendableRecordBatchStream> {
        let output = self.outputs(stage)?.iter().find(|output| output.task == task).ok_or_else(|| {
            VolleyError::internal(format!("the location of task {task} of stage {stage} is not known"))
        })?;
        self.stream(stage, std::slice::from_ref(output), partition, schema)
    }

    fn tasks(&self, stage: StageId) -> Result<Vec<TaskId>> {
        Ok(self.outputs(stage)?.iter().map(|output| output.task).collect())
    }
}

impl fmt::Debug for TaskExchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskExchange")
            .field("query", &self.shared.query)
            .field("stages", &self.inputs.keys())
            .finish_non_exhaustive()
    }
}

/// Consecutive outputs that one process holds.
#[derive(Debug, PartialEq, Eq)]
struct RunPlan {
    /// `None` for the own store.
    endpoint: Option<Arc<str>>,
    executor: ExecutorId,
    outputs: Vec<(TaskId, crate::ids::AttemptId)>,
    rows: u64,
}

fn plan_runs(
    stage: StageId,
    outputs: &[OutputLocation],
    partition: PartitionId,
    own: Option<ExecutorId>,
) -> Result<VecDeque<RunPlan>> {
    let mut runs: VecDeque<RunPlan> = VecDeque::new();
    for output in outputs {
        let rows = *output.rows.get(partition.index()).ok_or_else(|| {
            VolleyError::internal(format!("task {} of stage {stage} has no partition {partition}", output.task))
        })?;
        if rows == 0 {
            continue;
        }
        let name = (output.task, output.attempt);
        let local = own == Some(output.executor);
        match runs.back_mut() {
            // The store is read output by output.
            Some(last) if !local && last.executor == output.executor => {
                last.outputs.push(name);
                last.rows = last.rows.saturating_add(rows);
            }
            _ => runs.push_back(RunPlan {
                endpoint: (!local).then(|| Arc::clone(&output.endpoint)),
                executor: output.executor,
                outputs: vec![name],
                rows,
            }),
        }
    }
    Ok(runs)
}

/// The state of one partition's stream.
struct Delivery {
    shared: Arc<Shared>,
    stage: StageId,
    partition: PartitionId,
    schema: SchemaRef,
    waiting: VecDeque<RunPlan>,
    started: VecDeque<Started>,
    finished: bool,
}

struct Started {
    run: Run,
    rows: u64,
    expected: u64,
    first: Option<TaskAttempt>,
}

enum Run {
    Local(LocalRun),
    Remote(Box<RemoteRun>),
}

impl Delivery {
    /// After an error: what is still open is not counted as dropped by the reader.
    fn abandon(&mut self) {
        self.finished = true;
    }

    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            while self.started.len() <= RUNS_AHEAD
                && let Some(plan) = self.waiting.pop_front()
            {
                let started = self.start(plan)?;
                self.started.push_back(started);
            }
            let Some(current) = self.started.front_mut() else {
                self.finished = true;
                return Ok(None);
            };
            let batch = match &mut current.run {
                Run::Local(run) => run.next().await?,
                Run::Remote(run) => run.next().await?,
            };
            match batch {
                Some(batch) => {
                    current.rows += batch.num_rows() as u64;
                    return self.with_schema(batch).map(Some);
                }
                None => {
                    current.check()?;
                    self.started.pop_front();
                }
            }
        }
    }

    fn start(&self, plan: RunPlan) -> Result<Started> {
        let Shared { client, own, query, options, totals } = &*self.shared;
        let ticket = Ticket {
            query: *query,
            stage: self.stage,
            outputs: plan.outputs,
            partitions: self.partition.0..self.partition.0.saturating_add(1),
            first_block: 0,
            codec: options.codec,
        };
        let first = ticket.attempts().next();
        let run = match (plan.endpoint, own, first) {
            (Some(endpoint), _, _) => Run::Remote(Box::new(RemoteRun::start(
                client,
                endpoint,
                &ticket,
                Arc::clone(&self.schema),
                *options,
                Arc::clone(totals),
            )?)),
            (None, Some((_, store)), Some(output)) => {
                Run::Local(LocalRun::open(store, output, self.partition, Arc::clone(totals))?)
            }
            (None, ..) => return Err(VolleyError::internal("a local run without a store")),
        };
        Ok(Started { run, rows: 0, expected: plan.rows, first })
    }

    fn with_schema(&self, batch: RecordBatch) -> Result<RecordBatch> {
        if Arc::ptr_eq(batch.schema_ref(), &self.schema) {
            return Ok(batch);
        }
        let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), batch.columns().to_vec(), &rows).map_err(|error| {
            VolleyError::internal(format!("rows of stage {} do not fit their reader: {error}", self.stage))
                .with_source(error)
        })
    }
}

impl Started {
    fn check(&self) -> Result<()> {
        if self.rows == self.expected {
            return Ok(());
        }
        let mut error = VolleyError::new(
            ErrorCode::Truncated,
            format!("{} rows were read where {} were written", self.rows, self.expected),
        );
        error.lost_output = self.first;
        Err(error)
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        let unread = !self.waiting.is_empty() || !self.started.is_empty();
        if !self.finished && unread {
            self.shared.totals.dropped_early();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::AttemptId;

    #[test]
    fn consecutive_outputs_of_a_peer_are_one_run_and_empty_ones_none() {
        // (task, executor, rows)
        let outputs: Vec<_> = [(0, 1, 5), (1, 1, 7), (2, 2, 0), (3, 1, 1), (4, 9, 2), (5, 9, 3), (6, 2, 4)]
            .into_iter()
            .map(|(task, executor, rows)| OutputLocation {
                task: TaskId(task),
                attempt: AttemptId(0),
                executor: ExecutorId(executor),
                endpoint: format!("host:{executor}").into(),
                rows: Arc::new(vec![0, rows]),
            })
            .collect();
        let runs = plan_runs(StageId(0), &outputs, PartitionId(1), Some(ExecutorId(9))).unwrap();
        let summary: Vec<_> = runs
            .iter()
            .map(|run| {
                let tasks: Vec<u32> = run.outputs.iter().map(|(task, _)| task.0).collect();
                (run.endpoint.as_deref(), tasks, run.rows)
            })
            .collect();
        assert_eq!(
            summary,
            [(Some("host:1"), vec![0, 1, 3], 13), (None, vec![4], 2), (None, vec![5], 3), (Some("host:2"), vec![6], 4),]
        );
        assert!(plan_runs(StageId(0), &outputs, PartitionId(0), None).unwrap().is_empty());
        assert!(plan_runs(StageId(0), &outputs, PartitionId(2), None).is_err());
    }
}
