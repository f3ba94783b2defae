//! The session of an engine process and of `volley sql`: plain, or on a cluster.

use std::sync::Arc;
use std::time::Duration;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_volley::config::VolleyOptions;
use datafusion_volley::executor::UrlObjectStores;
use datafusion_volley::session::{
    Cluster, ClusterOptions, ExecutorCommand, QueryHandle, QueryStatistics, SessionStateBuilderExt, session_reason,
};

use super::protocol::{ClusterFigures, EngineSpec, ExecutorsSpec, Process, Progress};
use crate::error::CliError;
use crate::failure;
use crate::report::Engine;

pub struct Session {
    context: SessionContext,
    cluster: Option<Cluster>,
    processes: Vec<Process>,
}

impl Session {
    /// Starts what `spec` says, inside a runtime.
    ///
    /// # Errors
    /// `VOLLEY-OPTION`; for a cluster, whatever keeps it from starting.
    pub async fn start(spec: &EngineSpec) -> Result<Self, CliError> {
        match spec.engine {
            Engine::Single => Self::single(spec),
            Engine::Cluster => Self::cluster(spec).await,
        }
    }

    fn single(spec: &EngineSpec) -> Result<Self, CliError> {
        let config = with_options(SessionConfig::new().with_target_partitions(spec.threads), &spec.options)?;
        let memory = usize::try_from(spec.memory_bytes).unwrap_or(usize::MAX);
        let runtime = RuntimeEnvBuilder::new()
            .with_memory_limit(memory, 1.0)
            .with_object_store_registry(Arc::new(UrlObjectStores::new(tokio::runtime::Handle::current())))
            .build_arc()
            .map_err(|error| failure::of_datafusion(&error))?;
        let context = SessionContext::new_with_config_rt(config, runtime);
        Ok(Self { context, cluster: None, processes: own() })
    }

    async fn cluster(spec: &EngineSpec) -> Result<Self, CliError> {
        let config = SessionConfig::new().with_option_extension(VolleyOptions::default());
        let config = with_options(config, &spec.options)?;
        let mut processes = own();
        let cluster = match &spec.executors {
            ExecutorsSpec::Given { addresses } => {
                Cluster::connect(addresses.clone(), ClusterOptions { token: spec.token.clone() }).await
            }
            ExecutorsSpec::Local { count, slots } => Cluster::spawn(child(*count, *slots, spec.memory_bytes)?).await,
        };
        let cluster = cluster.map_err(|error| failure::of_volley(&error))?;
        if let ExecutorsSpec::Local { .. } = spec.executors {
            let executors = cluster.executors().into_iter().enumerate();
            processes.extend(
                executors
                    .map(|(number, executor)| Process { name: format!("executor {}", number + 1), pid: executor.pid }),
            );
        }
        let runtime = RuntimeEnvBuilder::new()
            .with_object_store_registry(cluster.object_store_registry())
            .build_arc()
            .map_err(|error| failure::of_datafusion(&error))?;
        let state = SessionStateBuilder::new_with_default_features()
            .with_config(config)
            .with_runtime_env(runtime)
            .with_volley(&cluster)
            .build();
        Ok(Self { context: SessionContext::new_with_state(state), cluster: Some(cluster), processes })
    }

    pub fn context(&self) -> &SessionContext {
        &self.context
    }

    /// Whose CPU time and memory count: this one, then local executors.
    pub fn processes(&self) -> Vec<Process> {
        self.processes.clone()
    }

    /// Stops local executors; they are ended by force with this process if that takes longer than `within`.
    pub async fn stop(self, within: Duration) {
        if let Some(cluster) = self.cluster {
            let _ = tokio::time::timeout(within, cluster.shutdown()).await;
        }
    }
}

/// This program as an executor that ends with its parent.
fn child(count: usize, slots: usize, memory_bytes: u64) -> Result<ExecutorCommand, CliError> {
    let program = std::env::current_exe().map_err(|error| {
        CliError::new("VOLLEY-LOCAL", crate::error::ExitStatus::Local, format!("cannot find this program: {error}"), "")
    })?;
    let arguments = [
        "executor",
        "--listen",
        "127.0.0.1:0",
        "--slots",
        &slots.to_string(),
        "--memory",
        &memory_bytes.to_string(),
        "--drain",
        "1",
        "--ready-stdout",
        "--exit-with-parent",
    ];
    Ok(ExecutorCommand::new(program, arguments, count))
}

fn with_options(config: SessionConfig, options: &[(String, String)]) -> Result<SessionConfig, CliError> {
    let mut config = config.with_information_schema(true);
    for (option, value) in options {
        config.options_mut().set(option, value).map_err(|error| {
            CliError::usage("VOLLEY-OPTION", format!("{option} = {value}: {}", error.strip_backtrace()), "correct it")
        })?;
    }
    Ok(config)
}

fn own() -> Vec<Process> {
    vec![Process { name: "session".to_owned(), pid: std::process::id() }]
}

/// What a plan tells while it runs and afterwards.
#[derive(Debug, Clone)]
pub struct Watch {
    plan: Arc<dyn ExecutionPlan>,
    handle: Option<QueryHandle>,
    /// Why there is no handle.
    reason: Option<String>,
    distributes: bool,
}

impl Watch {
    /// `plan` of a session with `options`; of a plain session if it has none of ours.
    pub fn of(plan: &Arc<dyn ExecutionPlan>, context: &SessionContext) -> Self {
        let state = context.state();
        let options = state.config_options().extensions.get::<VolleyOptions>();
        let handle = QueryHandle::of(plan);
        let reason = match (&handle, options) {
            (None, Some(options)) => session_reason(plan, options),
            _ => None,
        };
        Self { plan: Arc::clone(plan), handle, reason, distributes: options.is_some() }
    }

    pub fn progress(&self) -> Progress {
        let progress = self.handle.as_ref().map(QueryHandle::progress).unwrap_or_default();
        Progress {
            stages_done: progress.stages_done as u64,
            stages: progress.stages as u64,
            rows: progress.rows,
            bytes: progress.bytes,
        }
    }

    /// Of the run that has ended; `None` in a plain session.
    pub fn figures(&self) -> Option<ClusterFigures> {
        if !self.distributes {
            return None;
        }
        let session_scanned_bytes = scanned_bytes(&self.plan);
        let Some(statistics) = self.handle.as_ref().and_then(QueryHandle::statistics) else {
            return Some(ClusterFigures {
                why: self.reason.clone().unwrap_or_else(|| "nothing to distribute".to_owned()),
                scanned_bytes: session_scanned_bytes,
                session_scanned_bytes,
                ..ClusterFigures::default()
            });
        };
        Some(figures(&statistics, session_scanned_bytes))
    }
}

fn figures(statistics: &QueryStatistics, session_scanned_bytes: u64) -> ClusterFigures {
    let mut figures = ClusterFigures {
        stages: u32::try_from(statistics.stages.len()).unwrap_or(u32::MAX),
        bytes_local: statistics.local_bytes(),
        bytes_remote: statistics.remote_bytes(),
        spilled_bytes: statistics.spilled_bytes(),
        scanned_bytes: session_scanned_bytes,
        session_scanned_bytes,
        channels: statistics.session.channels,
        ..ClusterFigures::default()
    };
    let mut reasons = Vec::new();
    for stage in &statistics.stages {
        figures.tasks = figures.tasks.saturating_add(u32::try_from(stage.tasks).unwrap_or(u32::MAX));
        figures.scanned_bytes += stage.scanned_bytes;
        figures.channels = figures.channels.max(stage.exchange.channels);
        if stage.place == "executors" {
            figures.distributed = true;
            figures.task_cpu_ms += stage.cpu_ms;
        } else {
            figures.session_scanned_bytes += stage.scanned_bytes;
            reasons.extend(stage.reason.clone());
        }
    }
    if let Some(reason) = &statistics.fell_back {
        figures.distributed = false;
        reasons.insert(0, reason.clone());
    }
    reasons.dedup();
    figures.why = reasons.join("; ");
    figures
}

/// Bytes of files that the nodes of this process read.
fn scanned_bytes(plan: &Arc<dyn ExecutionPlan>) -> u64 {
    let mut bytes = 0;
    // The visitor returns no error.
    let _ = plan.apply(|node| {
        let scanned = node.metrics().and_then(|metrics| metrics.sum_by_name("bytes_scanned"));
        bytes += scanned.map_or(0, |value| value.as_usize() as u64);
        Ok(TreeNodeRecursion::Continue)
    });
    bytes
}
