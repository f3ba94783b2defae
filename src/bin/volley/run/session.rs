//! The session of an engine process: plain, or on a cluster.

use std::sync::Arc;
use std::time::Duration;

use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::{SessionConfig, SessionContext};

use super::protocol::{ClusterFigures, EngineSpec, Process, Progress};
use crate::error::{CliError, ExitStatus};
use crate::report::Engine;

pub struct Session {
    context: SessionContext,
    processes: Vec<Process>,
    slots: usize,
}

impl Session {
    /// Starts what `spec` says.
    ///
    /// # Errors
    /// `VOLLEY-OPTION`; for a cluster, whatever keeps it from starting.
    pub async fn start(spec: &EngineSpec) -> Result<Self, CliError> {
        match spec.engine {
            Engine::Single => Self::single(spec),
            Engine::Cluster => Err(CliError::new(
                "VOLLEY-NO-EXECUTORS",
                ExitStatus::NoCluster,
                "this build has no clusters",
                "use --legs single",
            )),
        }
    }

    fn single(spec: &EngineSpec) -> Result<Self, CliError> {
        let config = SessionConfig::new().with_information_schema(true).with_target_partitions(spec.threads);
        let config = with_options(config, &spec.options)?;
        let memory = usize::try_from(spec.memory_bytes).unwrap_or(usize::MAX);
        let runtime = RuntimeEnvBuilder::new()
            .with_memory_limit(memory, 1.0)
            .build_arc()
            .map_err(|error| crate::failure::of_datafusion(&error))?;
        Ok(Self { context: SessionContext::new_with_config_rt(config, runtime), processes: own(), slots: spec.threads })
    }

    pub fn context(&self) -> &SessionContext {
        &self.context
    }

    /// Whose CPU time and memory count: this one, then local executors.
    pub fn processes(&self) -> Vec<Process> {
        self.processes.clone()
    }

    pub fn slots(&self) -> usize {
        self.slots
    }

    /// Stops local executors, if need be by force after `within`.
    pub async fn stop(self, _within: Duration) {}
}

fn with_options(mut config: SessionConfig, options: &[(String, String)]) -> Result<SessionConfig, CliError> {
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
pub struct Watch {}

impl Watch {
    pub fn of(_plan: &Arc<dyn ExecutionPlan>) -> Self {
        Self {}
    }

    pub fn progress(&self) -> Progress {
        Progress::default()
    }

    /// `None` if the plan is an ordinary one.
    pub fn figures(&self) -> Option<ClusterFigures> {
        None
    }
}
