//! What the nodes find in their `TaskContext`.

use std::sync::Arc;

use datafusion::common::{Result as DfResult, internal_datafusion_err};
use datafusion::execution::TaskContext;

use crate::exchange::ShuffleSource;
use crate::shuffle::OutputWriter;

/// A task's surroundings: an opaque extension of its session configuration, invisible to `SHOW ALL`.
#[derive(Debug)]
pub struct ShuffleEnvironment {
    /// Where readers read.
    pub source: Arc<dyn ShuffleSource>,
    /// Where the writer writes; `None` for the part of a plan that runs in the session.
    pub output: Option<Arc<OutputWriter>>,
}

impl ShuffleEnvironment {
    /// The environment that whoever runs the plan put into the context.
    ///
    /// # Errors
    /// The plan runs outside a task.
    pub fn of(context: &TaskContext) -> DfResult<Arc<ShuffleEnvironment>> {
        context.session_config().get_extension::<ShuffleEnvironment>().ok_or_else(|| {
            internal_datafusion_err!(
                "a shuffle node was executed outside a task: its context has no ShuffleEnvironment"
            )
        })
    }

    /// The same context with this environment.
    pub fn install(self: Arc<Self>, context: &TaskContext) -> Arc<TaskContext> {
        Arc::new(TaskContext::new(
            context.task_id(),
            context.session_id(),
            context.session_config().clone().with_extension(self),
            context.scalar_functions().clone(),
            context.higher_order_functions().clone(),
            context.aggregate_functions().clone(),
            context.window_functions().clone(),
            context.runtime_env(),
        ))
    }
}
