//! Running one attempt: decode a fresh plan, run all its partitions, commit its output, report.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use datafusion::common::config::ConfigOptions;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::{SessionState, SessionStateBuilder, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionConfig;
use datafusion_proto::physical_plan::PhysicalExtensionCodec;
use futures::StreamExt;
use parking_lot::Mutex;

use super::metrics::{operator_metrics, total};
use super::tables::check_table_files;
use crate::codec::{VolleyCodec, decode_plan};
use crate::config::VolleyOptions;
use crate::error::{ErrorCode, Result, VolleyError};
use crate::exchange::ShuffleSource;
use crate::exec::{ShuffleEnvironment, ShuffleWriterExec};
use crate::ids::QueryId;
use crate::shuffle::{OutputWriter, ShuffleStore, WriterOptions};
use crate::wire::{TaskDefinition, TaskReport};

/// Adds a user's functions, file formats or anything else to the state in which plans are decoded.
pub type SessionTemplate = Arc<dyn Fn(SessionStateBuilder) -> SessionStateBuilder + Send + Sync>;

/// Session states kept for queries: one per query that runs now, and a few that have ended.
const KEPT_STATES: usize = 64;

/// Runs attempts in this process.
pub struct TaskRunner {
    store: Arc<ShuffleStore>,
    runtime: Arc<RuntimeEnv>,
    codec: VolleyCodec,
    template: Option<SessionTemplate>,
    states: Mutex<HashMap<QueryId, Arc<TaskContext>>>,
}

impl std::fmt::Debug for TaskRunner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TaskRunner").field("store", &self.store).finish_non_exhaustive()
    }
}

/// An attempt that is decoded and ready to run.
#[derive(Debug)]
pub struct PreparedTask {
    plan: Arc<dyn ExecutionPlan>,
    output: Arc<OutputWriter>,
    context: Arc<TaskContext>,
    started: Instant,
}

impl TaskRunner {
    /// A runner whose tasks share `runtime` (memory pool, disk manager, object stores, caches) and `store`.
    pub fn new(
        store: Arc<ShuffleStore>,
        runtime: Arc<RuntimeEnv>,
        codec: Arc<dyn PhysicalExtensionCodec>,
        template: Option<SessionTemplate>,
    ) -> Self {
        Self { store, runtime, codec: VolleyCodec::new(codec), template, states: Mutex::default() }
    }

    /// The store of outputs.
    pub fn store(&self) -> &Arc<ShuffleStore> {
        &self.store
    }

    /// Names of the functions that plans may call here, and of option prefixes.
    pub fn functions(&self) -> Vec<String> {
        let state = self.state(SessionConfig::new());
        let mut names: Vec<String> = state.scalar_functions().values().map(|f| f.name().to_string()).collect();
        names.extend(state.aggregate_functions().values().map(|f| f.name().to_string()));
        names.extend(state.window_functions().values().map(|f| f.name().to_string()));
        names.extend(state.higher_order_functions().values().map(|f| f.name().to_string()));
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Decodes a task and prepares its output. `endpoint` is how errors name this executor.
    ///
    /// # Errors
    /// The plan cannot be decoded here; options that do not exist here; a plan that is no stage; table files that are not here
    /// as the plan recorded them.
    pub fn prepare(
        &self,
        task: &TaskDefinition,
        source: Arc<dyn ShuffleSource>,
        endpoint: &str,
    ) -> Result<PreparedTask> {
        let started = Instant::now();
        let context = self.context(task)?;
        let plan = decode_plan(&task.plan, &context, &self.codec)?;
        check_table_files(&plan, endpoint)?;
        let writer = plan
            .downcast_ref::<ShuffleWriterExec>()
            .ok_or_else(|| VolleyError::new(ErrorCode::InvalidRequest, "the task's plan does not end in a writer"))?;
        let options = VolleyOptions::of(context.session_config().options());
        let output = self.store.writer(
            task.id,
            writer.input().schema(),
            writer.shuffle_partitions() as usize,
            writer.producers(),
            WriterOptions {
                codec: options.codec,
                message_bytes: options.message_bytes.as_usize(),
                batch_rows: context.session_config().batch_size(),
            },
        )?;
        let environment = Arc::new(ShuffleEnvironment { source, output: Some(Arc::clone(&output)) });
        let context = environment.install(&context);
        Ok(PreparedTask { plan, output, context, started })
    }

    /// Drops what is kept for a query.
    pub fn forget(&self, query: QueryId) {
        self.states.lock().remove(&query);
    }

    /// The context in which a query's plans are decoded and run; made once per query, as it registers every function.
    fn context(&self, task: &TaskDefinition) -> Result<Arc<TaskContext>> {
        if let Some(context) = self.states.lock().get(&task.id.query) {
            return Ok(Arc::clone(context));
        }
        let config = session_config(&task.options)?;
        let context = self.state(config).task_ctx();
        let mut states = self.states.lock();
        if states.len() >= KEPT_STATES {
            states.clear();
        }
        states.insert(task.id.query, Arc::clone(&context));
        Ok(context)
    }

    fn state(&self, config: SessionConfig) -> SessionState {
        let builder = SessionStateBuilder::new()
            .with_config(config)
            .with_runtime_env(Arc::clone(&self.runtime))
            .with_default_features();
        match &self.template {
            None => builder.build(),
            Some(template) => template(builder).build(),
        }
    }
}

/// The session's options, with what is unsafe across processes switched off.
fn session_config(options: &[(String, String)]) -> Result<SessionConfig> {
    let mut config = ConfigOptions::new();
    config.extensions.insert(VolleyOptions::default());
    // This one sets three others, so it comes first.
    const SETS_OTHERS: &str = "datafusion.optimizer.enable_dynamic_filter_pushdown";
    let (first, rest): (Vec<_>, Vec<_>) = options.iter().partition(|(key, _)| key == SETS_OTHERS);
    for (key, value) in first.into_iter().chain(rest) {
        config.set(key, value).map_err(|error| {
            VolleyError::new(
                ErrorCode::DecodePlan,
                format!(
                    "the executor does not know the session's option {key} = '{value}': {}",
                    error.strip_backtrace()
                ),
            )
        })?;
    }
    // Partitions of one scan would share one queue of files, and a task that runs some of them would read them all.
    config.execution.enable_file_stream_work_stealing = false;
    Ok(SessionConfig::from(config))
}

impl PreparedTask {
    /// Rows and uncompressed bytes stored so far.
    pub fn progress(&self) -> (u64, u64) {
        (self.output.rows(), self.output.bytes())
    }

    /// The output that is being written, for progress while [`run`](Self::run) has the task.
    pub fn output(&self) -> Arc<OutputWriter> {
        Arc::clone(&self.output)
    }

    /// Runs the attempt to its end and commits its output.
    ///
    /// Cancel safety: dropping the future stops the work; nothing of the output stays.
    ///
    /// # Errors
    /// Whatever the plan's execution gives, classed.
    pub async fn run(self) -> Result<TaskReport> {
        let Self { plan, output, context, started } = self;
        let mut stream = plan.execute(0, context)?;
        while let Some(batch) = stream.next().await {
            batch.map_err(|error| VolleyError::from_execution(&error))?;
        }
        drop(stream);
        let summary = output.commit()?;
        let keys = plan.downcast_ref::<ShuffleWriterExec>().and_then(ShuffleWriterExec::take_key_summaries);
        let metrics = operator_metrics(&plan);
        Ok(TaskReport {
            output: summary,
            keys: keys.unwrap_or_default(),
            cpu_us: total(&metrics, "elapsed_compute") / 1_000,
            scanned_bytes: total(&metrics, "bytes_scanned"),
            metrics,
            elapsed_ms: started.elapsed().as_millis() as u64,
            ..TaskReport::default()
        })
    }
}
