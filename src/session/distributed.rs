//! [`DistributedExec`]: the root of a distributed plan.
//!
//! A run: (1) the first polled stream starts the query on the cluster's live executors and waits for its last stages;
//! (2) the root's tail runs here over readers of those; (3) when the last stream is dropped, the run ends everywhere.
//! If a stored result is lost before any row has been handed out, its tasks run again; afterwards it is an error,
//! since rows cannot be taken back.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result as DfResult, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, EmptyRecordBatchStream, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
    ReplaceChildrenOptions,
};
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use parking_lot::Mutex;
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

use super::cluster::Cluster;
use super::planner::refusal;
use super::query::{QueryHandle, QueryState};
use super::stage_source::StageSource;
use crate::codec::VolleyCodec;
use crate::config::VolleyOptions;
use crate::error::{ErrorClass, ErrorCode, Result, VolleyError};
use crate::exchange::{ExchangeOptions, TaskExchange};
use crate::exec::ShuffleEnvironment;
use crate::ids::QueryId;
use crate::plan::{Place, StageGraph};
use crate::scheduler::{self, QueryOptions, QueryRequest, QueryRun, SchedulerStage, run_query};
use crate::wire::StageInput;

type Plan = Arc<dyn ExecutionPlan>;

/// Runs a cut plan on the cluster. It has the properties of the plan that it stands for.
#[derive(Debug)]
pub struct DistributedExec {
    original: Plan,
    shared: Arc<Shared>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
    /// The run whose streams are alive.
    current: Mutex<Weak<Run>>,
    /// Whether the tail has run before: then its nodes' state is reset.
    used: AtomicBool,
}

#[derive(Debug)]
struct Shared {
    graph: Arc<StageGraph>,
    cluster: Cluster,
    codec: Arc<VolleyCodec>,
    shipped_options: Arc<Vec<(String, String)>>,
    options: VolleyOptions,
    state: Arc<QueryState>,
}

impl DistributedExec {
    pub(super) fn new(
        original: Plan,
        graph: StageGraph,
        cluster: Cluster,
        codec: Arc<VolleyCodec>,
        shipped_options: Arc<Vec<(String, String)>>,
        options: VolleyOptions,
    ) -> Self {
        let graph = Arc::new(graph);
        let properties = PlanProperties::new(
            original.equivalence_properties().clone(),
            original.output_partitioning().clone(),
            original.pipeline_behavior(),
            original.boundedness(),
        );
        let state = QueryState::new(Arc::clone(&graph), options.codec);
        Self {
            original,
            shared: Arc::new(Shared { graph, cluster, codec, shipped_options, options, state }),
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
            current: Mutex::default(),
            used: AtomicBool::new(false),
        }
    }

    /// The plan that it stands for.
    pub fn original(&self) -> &Arc<dyn ExecutionPlan> {
        &self.original
    }

    /// The query's handle.
    pub fn handle(&self) -> QueryHandle {
        QueryHandle::new(Arc::clone(&self.shared.state))
    }

    /// The run that is under way, or a new one.
    fn run(&self) -> DfResult<Arc<Run>> {
        let mut current = self.current.lock();
        if let Some(run) = current.upgrade() {
            return Ok(run);
        }
        let (mut tail, mut local) = (Arc::clone(&self.shared.graph.root), Arc::clone(&self.original));
        if self.used.swap(true, Ordering::AcqRel) {
            tail = reset_plan_states(tail)?;
            local = reset_plan_states(local)?;
        }
        let run = Arc::new(Run { shared: Arc::clone(&self.shared), tail, local, started: OnceCell::new() });
        *current = Arc::downgrade(&run);
        Ok(run)
    }
}

/// One run of the query; ends when its last stream is dropped.
struct Run {
    shared: Arc<Shared>,
    tail: Plan,
    local: Plan,
    started: OnceCell<Started>,
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").finish_non_exhaustive()
    }
}

enum Started {
    /// The last stages are stored.
    Stored(Box<Stored>),
    /// The session runs the whole query.
    Local,
}

struct Stored {
    cancel: CancellationToken,
    query: QueryId,
    /// Where the results are now, and the tail over them; replaced when they are recovered.
    place: Mutex<ResultPlace>,
    run: tokio::sync::Mutex<QueryRun>,
    delivered: AtomicBool,
}

/// A tail and the context in which it reads one placement of the results.
#[derive(Clone)]
struct ResultPlace {
    generation: u64,
    tail: Plan,
    context: Arc<TaskContext>,
}

impl Run {
    async fn started(&self, context: &Arc<TaskContext>) -> Result<&Started> {
        self.started.get_or_try_init(|| self.start(context)).await
    }

    async fn start(&self, context: &Arc<TaskContext>) -> Result<Started> {
        let shared = &self.shared;
        let query = QueryId::random();
        let cancel = shared.state.start(query);
        let executors = shared.cluster.live().await?;
        let request = QueryRequest {
            id: query,
            graph: scheduler_graph(&shared.graph)?,
            source: Arc::new(StageSource {
                graph: Arc::clone(&shared.graph),
                codec: Arc::clone(&shared.codec),
                shipped_options: Arc::clone(&shared.shipped_options),
                options: shared.options.clone(),
                client: Arc::clone(shared.cluster.client()),
                context: Arc::clone(context),
            }),
            executors,
            arrivals: None,
            slots: Arc::clone(shared.cluster.slot_pool()),
            events: Arc::clone(&shared.state) as _,
            cleanup: Arc::clone(shared.cluster.cleanup()),
            options: QueryOptions::from(&shared.options),
        };
        let outcome = tokio::select! {
            outcome = run_query(request) => outcome,
            () = cancel.cancelled() => Err(cancelled()),
        };
        match outcome {
            Ok(outcome) => {
                shared.state.set_finished(outcome.finished);
                let place = self.place(0, query, Arc::clone(&self.tail), outcome.result, context);
                Ok(Started::Stored(Box::new(Stored {
                    cancel,
                    query,
                    place: Mutex::new(place),
                    run: tokio::sync::Mutex::new(outcome.run),
                    delivered: AtomicBool::new(false),
                })))
            }
            Err(error) if error.class() == ErrorClass::RunInSession => {
                let reason = error.to_string();
                if let Some(refused) = refusal(&self.local, &reason, &shared.options) {
                    return Err(refused.with_source(error));
                }
                tracing::warn!(%reason, "the query runs in the session");
                shared.state.set_fell_back(reason);
                Ok(Started::Local)
            }
            Err(error) => Err(error),
        }
    }

    fn place(
        &self,
        generation: u64,
        query: QueryId,
        tail: Plan,
        result: Vec<StageInput>,
        context: &Arc<TaskContext>,
    ) -> ResultPlace {
        let exchange = Arc::new(TaskExchange::new(
            Arc::clone(self.shared.cluster.client()),
            None,
            query,
            result,
            ExchangeOptions::of(&self.shared.options),
        ));
        self.shared.state.set_session_totals(exchange.totals());
        let environment = Arc::new(ShuffleEnvironment { source: exchange, output: None });
        ResultPlace { generation, tail, context: environment.install(context) }
    }

    /// The rows of one partition of the root.
    async fn partition(
        self: Arc<Self>,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> DfResult<BoxStream<'static, DfResult<RecordBatch>>> {
        let stored = match self.started(&context).await? {
            Started::Local => return Ok(self.local.execute(partition, context)?.boxed()),
            Started::Stored(stored) => stored,
        };
        let place = stored.place.lock().clone();
        if partition >= place.tail.output_partitioning().partition_count() {
            // A dropped round-robin leaves fewer partitions than the original had.
            return Ok(EmptyRecordBatchStream::new(self.tail.schema()).boxed());
        }
        let rows = place.tail.execute(partition, Arc::clone(&place.context))?;
        let reading = Reading { run: Arc::clone(&self), partition, context, generation: place.generation, rows };
        let cancel = stored.cancel.clone();
        let rows = stream::try_unfold(reading, |mut reading| async move {
            match reading.next().await? {
                Some(batch) => Ok(Some((batch, reading))),
                None => Ok(None),
            }
        });
        let stopped = stream::once(async move {
            cancel.cancelled().await;
            Err(DataFusionError::from(cancelled()))
        });
        Ok(until(rows.boxed(), stopped.boxed()))
    }
}

/// `rows`, unless `stopped` gives its error first.
fn until(
    rows: BoxStream<'static, DfResult<RecordBatch>>,
    stopped: BoxStream<'static, DfResult<RecordBatch>>,
) -> BoxStream<'static, DfResult<RecordBatch>> {
    stream::unfold(Some((rows, stopped)), |both| async move {
        let (mut rows, mut stopped) = both?;
        tokio::select! {
            biased;
            stop = stopped.next() => Some((stop?, None)),
            row = rows.next() => Some((row?, Some((rows, stopped)))),
        }
    })
    .boxed()
}

/// Reads one partition of the root's tail; starts over when the results were lost and made again.
struct Reading {
    run: Arc<Run>,
    partition: usize,
    context: Arc<TaskContext>,
    generation: u64,
    rows: SendableRecordBatchStream,
}

impl Reading {
    async fn next(&mut self) -> DfResult<Option<RecordBatch>> {
        loop {
            let error = match self.rows.next().await {
                None => return Ok(None),
                Some(Ok(batch)) => {
                    self.delivered().await;
                    return Ok(Some(batch));
                }
                Some(Err(error)) => error,
            };
            let lost = VolleyError::find(&error)
                .filter(|found| matches!(found.class(), ErrorClass::RerunProducer | ErrorClass::RetryTask))
                .map(VolleyError::clone_without_source);
            match lost {
                Some(lost) => self.recover(lost).await?,
                None => return Err(error),
            }
        }
    }

    async fn delivered(&mut self) {
        if let Some(Started::Stored(stored)) = self.run.started.get()
            && !stored.delivered.swap(true, Ordering::AcqRel)
        {
            stored.run.lock().await.rows_delivered();
        }
    }

    async fn recover(&mut self, error: VolleyError) -> DfResult<()> {
        let Some(Started::Stored(stored)) = self.run.started.get() else {
            return internal_err!("rows of a query that has not started");
        };
        let mut running = stored.run.lock().await;
        // Another partition's stream may have found the loss first.
        let known = stored.place.lock().clone();
        let place = if known.generation > self.generation {
            known
        } else {
            let result = running.recover(error).await?;
            self.run.shared.state.set_finished(running.finished().clone());
            let tail = reset_plan_states(Arc::clone(&self.run.tail))?;
            let place = self.run.place(known.generation + 1, stored.query, tail, result, &self.context);
            *stored.place.lock() = place.clone();
            place
        };
        self.generation = place.generation;
        self.rows = place.tail.execute(self.partition, Arc::clone(&place.context))?;
        Ok(())
    }
}

fn cancelled() -> VolleyError {
    VolleyError::new(ErrorCode::Cancelled, "the query was cancelled")
}

/// What the scheduler needs to know of the stages.
fn scheduler_graph(graph: &StageGraph) -> Result<scheduler::StageGraph> {
    let stages = graph.stages.iter().map(|stage| SchedulerStage {
        id: stage.id,
        tasks: stage.tasks.len(),
        inputs: stage.inputs.clone(),
        soft_inputs: stage.filter_inputs.clone(),
        quick: stage.quick,
        place: match stage.place {
            Place::Executors => scheduler::Place::Executors,
            Place::Session(_) => scheduler::Place::Session,
        },
        is_result: graph.root_inputs.contains(&stage.id),
    });
    scheduler::StageGraph::try_new(stages.collect())
}

impl DisplayAs for DistributedExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        let (stages, tasks) = (self.shared.graph.stages.len(), self.shared.graph.task_count());
        match format {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(f, "DistributedExec: stages={stages}, tasks={tasks}")
            }
            DisplayFormatType::TreeRender => writeln!(f, "stages={stages}\ntasks={tasks}"),
        }
    }
}

impl ExecutionPlan for DistributedExec {
    fn name(&self) -> &str {
        "DistributedExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Plan> {
        vec![]
    }

    fn apply_expressions(
        &self,
        _visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> DfResult<TreeNodeRecursion>,
    ) -> DfResult<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(self: Arc<Self>, children: Vec<Plan>, _options: ReplaceChildrenOptions) -> DfResult<Plan> {
        match children.is_empty() {
            true => Ok(self),
            false => internal_err!("DistributedExec is a leaf"),
        }
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Plan>) -> DfResult<Plan> {
        match children.is_empty() {
            true => Ok(self),
            false => internal_err!("DistributedExec is a leaf"),
        }
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> DfResult<SendableRecordBatchStream> {
        let schema: SchemaRef = self.schema();
        let run = self.run()?;
        let baseline = BaselineMetrics::new(&self.metrics, partition);
        let rows = stream::once(run.partition(partition, context)).try_flatten().map(move |batch| {
            if let Ok(batch) = &batch {
                baseline.record_output(batch.num_rows());
            }
            batch
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}
