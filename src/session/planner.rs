//! The query planner: plans as before, then cuts.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::common::Result as DfResult;
use datafusion::common::tree_node::TreeNode;
use datafusion::datasource::sink::DataSinkExec;
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::analyze::AnalyzeExec;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::explain::ExplainExec;
use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use datafusion::physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner};
use datafusion_proto::physical_plan::DefaultPhysicalExtensionCodec;

use super::builder::UserCodec;
use super::cluster::Cluster;
use super::distributed::DistributedExec;
use super::explain::{DistributedAnalyzeExec, DistributedExplainExec};
use crate::codec::VolleyCodec;
use crate::config::{LocalFallback, VolleyOptions};
use crate::error::{ErrorCode, VolleyError};
use crate::plan::{CutSettings, StageGraph, cut, display_graph, executor_reason, scan_bytes};

type Plan = Arc<dyn ExecutionPlan>;

/// Plans with the session's own planner and cuts what it made.
pub(super) struct VolleyPlanner {
    previous: Option<Arc<dyn QueryPlanner + Send + Sync>>,
    cluster: Cluster,
}

impl VolleyPlanner {
    /// What its debug form starts with.
    pub(super) const NAME: &'static str = "VolleyPlanner";

    pub(super) fn new(previous: Option<Arc<dyn QueryPlanner + Send + Sync>>, cluster: Cluster) -> Self {
        Self { previous, cluster }
    }

    async fn plan(&self, logical: &LogicalPlan, session: &dyn datafusion::catalog::Session) -> DfResult<Plan> {
        match &self.previous {
            Some(previous) => previous.create_physical_plan(logical, session).await,
            None => DefaultPhysicalPlanner::default().create_physical_plan(logical, session).await,
        }
    }
}

impl fmt::Debug for VolleyPlanner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(Self::NAME).field("previous", &self.previous).field("cluster", &self.cluster).finish()
    }
}

#[async_trait]
impl QueryPlanner for VolleyPlanner {
    async fn create_physical_plan(
        &self,
        logical: &LogicalPlan,
        session: &dyn datafusion::catalog::Session,
    ) -> DfResult<Plan> {
        let plan = self.plan(logical, session).await?;
        let options = VolleyOptions::of(session.config_options());
        if !options.enabled {
            return Ok(plan);
        }
        let distributor = Distributor::new(&self.cluster, session, options);
        if plan.is::<ExplainExec>() {
            let LogicalPlan::Explain(explain) = logical else { return Ok(plan) };
            if !distributor.options.explain {
                return Ok(plan);
            }
            let explained = self.plan(explain.plan.as_ref(), session).await?;
            let text = distributor.explain(&explained)?;
            return Ok(Arc::new(DistributedExplainExec::new(plan, text)));
        }
        distributor.distribute(plan)
    }
}

/// Turns one finished plan into a distributed one.
struct Distributor<'a> {
    cluster: &'a Cluster,
    session: &'a dyn datafusion::catalog::Session,
    options: VolleyOptions,
}

impl<'a> Distributor<'a> {
    fn new(cluster: &'a Cluster, session: &'a dyn datafusion::catalog::Session, options: VolleyOptions) -> Self {
        Self { cluster, session, options }
    }

    /// Nodes that must stay in the session keep their place; what is below them is distributed.
    fn distribute(&self, plan: Plan) -> DfResult<Plan> {
        if let Some(analyze) = plan.downcast_ref::<AnalyzeExec>() {
            let child = self.distribute(Arc::clone(analyze.input()))?;
            let distributed = child.downcast_ref::<DistributedExec>().map(DistributedExec::handle);
            let plan = with_child(&plan, child)?;
            return Ok(match distributed {
                Some(handle) if self.options.explain => Arc::new(DistributedAnalyzeExec::new(plan, handle)),
                _ => plan,
            });
        }
        if let Some(sink) = plan.downcast_ref::<DataSinkExec>() {
            let child = self.distribute(Arc::clone(sink.input()))?;
            return with_child(&plan, child);
        }
        if let Some(reason) = session_reason(&plan, &self.options) {
            return self.stay(plan, &reason);
        }
        let graph = match self.cut(&plan) {
            Ok(graph) => graph,
            Err(error) => {
                let reason = format!("it cannot be cut: {}", error.strip_backtrace());
                tracing::warn!(%reason, "the query runs in the session");
                return self.stay(plan, &reason);
            }
        };
        let codec = match self.session.config().get_extension::<UserCodec>() {
            Some(user) => VolleyCodec::new(Arc::clone(&user.0)),
            None => VolleyCodec::new(Arc::new(DefaultPhysicalExtensionCodec {})),
        };
        Ok(Arc::new(DistributedExec::new(
            plan,
            graph,
            self.cluster.clone(),
            Arc::new(codec),
            changed_options(self.session),
            self.options.clone(),
        )))
    }

    fn cut(&self, plan: &Plan) -> DfResult<StageGraph> {
        let executors = self.cluster.executors();
        // A function must be known everywhere that its stage may run.
        let functions = executors
            .iter()
            .map(|executor| executor.functions.iter().cloned().collect())
            .reduce(|all: std::collections::HashSet<String>, some| all.intersection(&some).cloned().collect());
        cut(
            plan,
            &CutSettings {
                slots: self.cluster.slots().max(1),
                replicate_max_bytes: self.options.replicate_max_bytes.0,
                filter_max_values: self.options.filter_max_values,
                filters: self.options.filter_max_rows > 0,
                functions: functions.map(Arc::new),
            },
        )
    }

    /// The plan as it was, if it may run in the session.
    fn stay(&self, plan: Plan, reason: &str) -> DfResult<Plan> {
        match refusal(&plan, reason, &self.options) {
            Some(error) => Err(error.into()),
            None => Ok(plan),
        }
    }

    fn explain(&self, plan: &Plan) -> DfResult<String> {
        let below = below_session_nodes(plan);
        if let Some(reason) = session_reason(below, &self.options) {
            return Ok(format!("the whole query runs in the session: {reason}"));
        }
        Ok(match self.cut(below) {
            Ok(graph) => display_graph(&graph),
            Err(error) => format!("the whole query runs in the session: it cannot be cut: {}", error.strip_backtrace()),
        })
    }
}

/// The error for running `plan` in the session, where `local_fallback` forbids it.
pub(super) fn refusal(plan: &Plan, reason: &str, options: &VolleyOptions) -> Option<VolleyError> {
    let bytes = scan_bytes(plan);
    let why = match options.local_fallback {
        LocalFallback::Always => return None,
        LocalFallback::Small if bytes <= options.max_local_bytes.0 => return None,
        LocalFallback::Small => format!(
            "it reads {bytes} bytes of table files, more than volley.max_local_bytes = {}",
            options.max_local_bytes
        ),
        // What reads no table has nothing to distribute.
        LocalFallback::Never if bytes == 0 => return None,
        LocalFallback::Never => "volley.local_fallback = never".to_string(),
    };
    Some(VolleyError::new(
        ErrorCode::LocalRefused,
        format!(
            "the query cannot run on executors ({reason}), and not in the session: {why}; \
             SET volley.local_fallback = 'always' to run it here all the same"
        ),
    ))
}

/// Why a whole query stays in the session; `None` if it is distributed.
pub fn session_reason(plan: &Plan, options: &VolleyOptions) -> Option<String> {
    if !options.enabled {
        return Some("volley.enabled is false".into());
    }
    if plan.boundedness().is_unbounded() {
        return Some("it never ends: streams are not distributed".into());
    }
    let mut tables = 0;
    let mut session_leaves = vec![];
    // The visitor returns no error.
    let _ = plan.apply(|node| {
        if node.children().is_empty() && !node.is::<EmptyExec>() && !node.is::<PlaceholderRowExec>() {
            match executor_reason(node) {
                None if node.is::<DataSourceExec>() => tables += 1,
                None => {}
                Some(reason) => session_leaves.push(reason),
            }
        }
        Ok(datafusion::common::tree_node::TreeNodeRecursion::Continue)
    });
    if tables == 0 {
        return match session_leaves.first() {
            Some(_) if options.force => None,
            Some(reason) => Some(format!("it reads nothing that executors could read: {reason}")),
            None => Some("it reads no table".into()),
        };
    }
    let bytes = scan_bytes(plan);
    (bytes < options.min_distributed_bytes.0).then(|| {
        format!(
            "it reads {bytes} bytes of table files, less than volley.min_distributed_bytes = {}",
            options.min_distributed_bytes
        )
    })
}

fn below_session_nodes(plan: &Plan) -> &Plan {
    let mut plan = plan;
    while plan.is::<AnalyzeExec>() || plan.is::<DataSinkExec>() {
        match plan.children().first() {
            Some(child) => plan = child,
            None => break,
        }
    }
    plan
}

fn with_child(plan: &Plan, child: Plan) -> DfResult<Plan> {
    use datafusion::physical_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
    Arc::clone(plan).replace_children(vec![child], ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
}

/// The options that differ from the defaults, `(full name, value)`: what executors are sent.
fn changed_options(session: &dyn datafusion::catalog::Session) -> Arc<Vec<(String, String)>> {
    let mut defaults = datafusion::common::config::ConfigOptions::new();
    defaults.extensions.insert(VolleyOptions::default());
    let defaults: std::collections::HashMap<String, Option<String>> =
        defaults.entries().into_iter().map(|entry| (entry.key, entry.value)).collect();
    let changed = session
        .config_options()
        .entries()
        .into_iter()
        .filter(|entry| defaults.get(&entry.key) != Some(&entry.value))
        .filter_map(|entry| Some((entry.key, entry.value?)))
        .collect();
    Arc::new(changed)
}
