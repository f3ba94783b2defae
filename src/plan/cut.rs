//! Cutting a plan into stages.
//!
//! ```text
//!   SortPreservingMerge                 SortPreservingMerge          session
//!     Sort                                Reader(stage 2)
//!       Agg Final                       ─────────────────
//!         Repartition hash      ->      Sort                         stage 2
//!           Agg Partial                   Agg Final
//!             Scan                          Reader(stage 1)
//!                                       ─────────────────
//!                                       Agg Partial                  stage 1
//!                                         Scan
//! ```
//! The optimizer has run; nothing is re-optimised. A reader claims exactly what the exchange node that it replaces
//! claims, computed from the node over its *cut* child: never what lies below it.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::common::{Result as DfResult, internal_err};
use datafusion::datasource::source::DataSourceExec;
use datafusion::logical_expr::physical_planning_context::ScalarSubqueryResults;
use datafusion::physical_expr::Partitioning;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::execution_plan::need_data_exchange;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::recursive_query::RecursiveQueryExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::scalar_subquery::{ScalarSubqueryExec, ScalarSubqueryLink};
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::{ExecutionPlan, PlanProperties};

use super::filters::{self, JoinFilter};
use super::graph::{Place, Stage, StageGraph, StageOutput, StageTask};
use super::joins::{partitioned_form, right_form};
use super::safety::{executor_reason, missing_function, scan_bytes};
use super::slice::{Slice, slice};
use super::tree::{
    Plan, SharedBuild, consumed_filters, for_each_node, is_volatile, partitions, uses_scalar_subquery, with_children,
};
use crate::exec::{ReadOrder, ShuffleReaderExec};
use crate::ids::{PartitionId, StageId};

/// Bytes of table files up to which a stage (with all it depends on) is expected to end soon enough for a scan
/// elsewhere to wait for its keys: 32 MiB are read and filtered in about a tenth of a second.
const QUICK_BYTES: u64 = 32 << 20;

/// What the cut needs to know.
#[derive(Clone, Debug)]
pub struct CutSettings {
    /// Slots of the cluster: no stage has more tasks.
    pub slots: usize,
    /// Bytes of table files up to which a build side runs in every task.
    pub replicate_max_bytes: u64,
    /// Distinct join keys up to which a filter across stages is a list; 0 rows of keys switch filters off.
    pub filter_max_values: usize,
    /// Whether filters across stages are used.
    pub filters: bool,
    /// Names of the functions that executors know; `None`: the same as the session.
    pub functions: Option<Arc<HashSet<String>>>,
}

/// Cuts a plan into stages.
///
/// # Errors
/// A node that cannot be rebuilt over its cut children.
pub fn cut(plan: &Plan, settings: &CutSettings) -> DfResult<StageGraph> {
    let mut cutter = Cutter { settings, stages: vec![], joins: vec![] };
    let root = cutter.cut(plan, None)?;
    let root = cutter.root_tail(root, None)?;
    if partitions(&root) > partitions(plan) {
        // Whoever consumes the plan asks for the partitions that it had: rows of others would be lost.
        return internal_err!("cutting made {} partitions of {}", partitions(&root), partitions(plan));
    }
    let root_inputs = inputs_of(&root);
    let Cutter { mut stages, joins, .. } = cutter;
    let filters = match settings.filters {
        true => filters::connect(joins, &mut stages, settings.filter_max_values),
        false => vec![],
    };
    Ok(StageGraph { stages, root, root_inputs, filters })
}

/// The results of scalar subqueries that a subtree may use, and the readers that give them.
#[derive(Clone)]
struct SubqueryScope {
    links: Vec<ScalarSubqueryLink>,
    results: ScalarSubqueryResults,
}

struct Cutter<'a> {
    settings: &'a CutSettings,
    stages: Vec<Stage>,
    joins: Vec<JoinFilter>,
}

/// The stages that a plan reads, ascending.
fn inputs_of(plan: &Plan) -> Vec<StageId> {
    let mut inputs = vec![];
    for_each_node(plan, |node| {
        if let Some(reader) = node.downcast_ref::<ShuffleReaderExec>() {
            inputs.push(reader.stage());
        }
    });
    inputs.sort_unstable();
    inputs.dedup();
    inputs
}

impl Cutter<'_> {
    /// The plan with everything below its exchanges moved into stages.
    fn cut(&mut self, plan: &Plan, scope: Option<&SubqueryScope>) -> DfResult<Plan> {
        if plan.is::<RecursiveQueryExec>() {
            // The work table is shared inside one process: the query stays whole.
            return self.stage_passthrough(Arc::clone(plan), scope);
        }
        if let Some(node) = plan.downcast_ref::<ScalarSubqueryExec>() {
            return self.cut_scalar_subqueries(node);
        }
        if plan.children().is_empty() {
            return match executor_reason(plan) {
                // A leaf of the session's is a stage by itself, so that what reads it still runs on executors.
                Some(_) => self.stage_passthrough(Arc::clone(plan), scope),
                None => Ok(Arc::clone(plan)),
            };
        }
        if let Some(node) = plan.downcast_ref::<RepartitionExec>()
            && matches!(node.partitioning(), Partitioning::RoundRobinBatch(_))
        {
            // Dropped: spreading rows over threads is what tasks do, and it mostly stands above one partition.
            return self.cut(node.input(), scope);
        }
        if SharedBuild::of(plan).is_some() {
            return self.cut_shared_build_join(plan, scope);
        }
        let children = plan.children().into_iter().map(|child| self.cut(child, scope)).collect::<DfResult<Vec<_>>>()?;
        if let Some(join) = plan.downcast_ref::<HashJoinExec>()
            && let Some(build) = children.first()
        {
            self.joins.extend(JoinFilter::of(join, build));
        }
        let node = with_children(plan, children)?;
        if !need_data_exchange(Arc::clone(&node)) {
            return Ok(node);
        }
        match node.downcast_ref::<RepartitionExec>() {
            Some(repartition) => self.cut_repartition(repartition, scope),
            None => self.cut_merge(&node, scope),
        }
    }

    fn cut_repartition(&mut self, node: &RepartitionExec, scope: Option<&SubqueryScope>) -> DfResult<Plan> {
        let input = Arc::clone(node.input());
        let partitioning = node.partitioning().clone();
        let width = partitioning.partition_count() as u32;
        let lanes = partitions(&input) as u32;
        let ordering = node.properties().output_ordering().cloned();
        match (node.preserve_order() && lanes > 1, ordering) {
            (true, Some(ordering)) => self.stage(
                input,
                StageOutput::RoutedLanes(partitioning),
                node.properties(),
                ReadOrder::Merge { lanes, width, ordering },
                scope,
            ),
            _ => self.stage(input, StageOutput::Routed(partitioning), node.properties(), ReadOrder::Concatenate, scope),
        }
    }

    /// A coalesce or merge stays above a reader; its limit goes below, too, or each task would make all its rows.
    fn cut_merge(&mut self, node: &Plan, scope: Option<&SubqueryScope>) -> DfResult<Plan> {
        let child = Arc::clone(node.children()[0]);
        if child.is::<ShuffleReaderExec>() {
            return Ok(Arc::clone(node));
        }
        let child = match node.fetch() {
            Some(fetch) => Arc::new(LocalLimitExec::new(child, fetch)) as Plan,
            None => child,
        };
        let reader = self.stage_passthrough(child, scope)?;
        with_children(node, vec![reader])
    }

    /// A join whose build side is whole in every task.
    fn cut_shared_build_join(&mut self, plan: &Plan, scope: Option<&SubqueryScope>) -> DfResult<Plan> {
        if let Some(partitioned) = partitioned_form(plan)? {
            let cut = self.cut(&partitioned, scope)?;
            // The partitioned form has no filter of its own; the original's keys are its build side's.
            if let (Some(original), Some(join)) =
                (plan.downcast_ref::<HashJoinExec>(), cut.downcast_ref::<HashJoinExec>())
            {
                self.joins.extend(JoinFilter::of(original, join.left()));
            }
            return Ok(cut);
        }
        if let Some(swapped) = right_form(plan)? {
            return self.cut(&swapped, scope);
        }
        let children = plan.children();
        let (build, probe) = (children[0], children[1]);
        let probe_is_split =
            partitions(probe) > 1 && SharedBuild::of(plan).is_some_and(|shared| shared.single_task_reason().is_none());
        let replicated = probe_is_split && self.may_replicate(build, scope) && !filter_leaves_stage(plan, probe);
        let cut_build = match replicated {
            true => Arc::clone(build),
            false => {
                let cut = self.cut(build, scope)?;
                // Without an exchange node a build of one partition would run in every task: a large one is moved.
                match probe_is_split && partitions(&cut) == 1 && reads_tables(&cut) && !self.may_replicate(&cut, scope)
                {
                    true => self.stage_passthrough(cut, scope)?,
                    false => cut,
                }
            }
        };
        let cut_probe = self.cut(probe, scope)?;
        if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
            self.joins.extend(JoinFilter::of(join, &cut_build));
        }
        with_children(plan, vec![cut_build, cut_probe])
    }

    /// Whether a build side may run in every task: little data, the same rows each time, nothing of the session's.
    fn may_replicate(&self, build: &Plan, scope: Option<&SubqueryScope>) -> bool {
        let mut sendable = true;
        for_each_node(build, |node| {
            sendable &= executor_reason(node).is_none() && !node.is::<ScalarSubqueryExec>();
        });
        sendable
            && scan_bytes(build) <= self.settings.replicate_max_bytes
            && !is_volatile(build)
            && (scope.is_none() || !uses_scalar_subquery(build))
    }

    /// Subqueries run first; each stage that uses a result is wrapped so that it reads the subquery's stage.
    fn cut_scalar_subqueries(&mut self, node: &ScalarSubqueryExec) -> DfResult<Plan> {
        let mut links = vec![];
        for link in node.subqueries() {
            let subquery = self.cut(&link.plan, None)?;
            let reader = match subquery.is::<ShuffleReaderExec>() && partitions(&subquery) == 1 {
                true => subquery,
                false => self.stage_passthrough(subquery, None)?,
            };
            links.push(ScalarSubqueryLink { plan: reader, index: link.index });
        }
        let scope = SubqueryScope { links: links.clone(), results: node.results().clone() };
        let input = self.cut(node.input(), Some(&scope))?;
        Ok(Arc::new(ScalarSubqueryExec::new(input, links, node.results().clone())))
    }

    /// What the session runs itself: the light one-partition nodes at the top. The rest becomes a last stage.
    fn root_tail(&mut self, plan: Plan, scope: Option<&SubqueryScope>) -> DfResult<Plan> {
        if plan.is::<ShuffleReaderExec>() {
            return Ok(plan);
        }
        if let Some(node) = plan.downcast_ref::<ScalarSubqueryExec>() {
            let links = node.subqueries().to_vec();
            let inner = SubqueryScope { links: links.clone(), results: node.results().clone() };
            let input = self.root_tail(Arc::clone(node.input()), Some(&inner))?;
            return Ok(Arc::new(ScalarSubqueryExec::new(input, links, node.results().clone())));
        }
        if partitions(&plan) == 1 && is_light(&plan) && plan.children().len() == 1 {
            let child = self.root_tail(Arc::clone(plan.children()[0]), scope)?;
            return with_children(&plan, vec![child]);
        }
        match reads_tables(&plan) || !inputs_of(&plan).is_empty() {
            true => self.stage_passthrough(plan, scope),
            false => Ok(plan),
        }
    }

    fn stage_passthrough(&mut self, plan: Plan, scope: Option<&SubqueryScope>) -> DfResult<Plan> {
        let claims = Arc::clone(plan.properties());
        self.stage(plan, StageOutput::Passthrough, &claims, ReadOrder::Concatenate, scope)
    }

    /// Adds a stage and returns its reader.
    fn stage(
        &mut self,
        plan: Plan,
        output: StageOutput,
        claims: &PlanProperties,
        order: ReadOrder,
        scope: Option<&SubqueryScope>,
    ) -> DfResult<Plan> {
        let plan: Plan = match scope {
            Some(scope) if uses_scalar_subquery(&plan) => {
                Arc::new(ScalarSubqueryExec::new(plan, scope.links.clone(), scope.results.clone()))
            }
            _ => plan,
        };
        let id = StageId(self.stages.len() as u32);
        let place = self.place(&plan);
        let (tasks, single_task_reason) = match place {
            Place::Executors => tasks(&plan, self.settings.slots)?,
            Place::Session(_) => (vec![whole(&plan)], None),
        };
        let inputs = inputs_of(&plan);
        let bytes = scan_bytes(&plan);
        let quick = bytes <= QUICK_BYTES
            && inputs.iter().all(|input| self.stages.get(input.index()).is_some_and(|stage| stage.quick));
        let partitioning = match &claims.partitioning {
            Partitioning::Hash(exprs, count) => Partitioning::Hash(exprs.clone(), *count),
            other => Partitioning::UnknownPartitioning(other.partition_count()),
        };
        let reader = ShuffleReaderExec::try_new(
            id,
            (0..partitioning.partition_count() as u32).map(PartitionId).collect(),
            order,
            claims.eq_properties.clone(),
            partitioning,
        )?;
        self.stages.push(Stage {
            id,
            plan,
            output,
            inputs,
            filter_inputs: vec![],
            tasks,
            single_task_reason,
            place,
            keys: vec![],
            scan_bytes: bytes,
            quick,
        });
        Ok(Arc::new(reader))
    }

    fn place(&self, plan: &Plan) -> Place {
        let mut reason = None;
        for_each_node(plan, |node| {
            if reason.is_none() {
                reason = executor_reason(node)
                    .or_else(|| self.settings.functions.as_ref().and_then(|known| missing_function(node, known)));
            }
        });
        reason.map_or(Place::Executors, Place::Session)
    }
}

/// All of a plan as one task.
fn whole(plan: &Plan) -> StageTask {
    StageTask { partitions: (0..partitions(plan) as u32).collect(), plan: Arc::clone(plan) }
}

/// The tasks of a stage: partition `p` goes to task `p % tasks`, the same for every stage, so that what is read by
/// the same partition of several stages is often on the same executor. One task, with the reason, where the plan cannot be split.
fn tasks(plan: &Plan, slots: usize) -> DfResult<(Vec<StageTask>, Option<String>)> {
    let count = partitions(plan);
    let wanted = count.min(slots).max(1);
    if wanted == 1 {
        return Ok((vec![whole(plan)], None));
    }
    let mut tasks = vec![];
    for task in 0..wanted {
        let set: Vec<usize> = (task..count).step_by(wanted).collect();
        match slice(plan, &set)? {
            Slice::Plan(sliced) if sliced.schema() == plan.schema() => {
                tasks.push(StageTask { partitions: set.into_iter().map(|p| p as u32).collect(), plan: sliced });
            }
            Slice::Plan(_) => {
                return Ok((vec![whole(plan)], Some("a part of it would have another schema".into())));
            }
            Slice::Impossible(reason) => return Ok((vec![whole(plan)], Some(reason))),
        }
    }
    Ok((tasks, None))
}

/// Whether a plan reads table files itself.
fn reads_tables(plan: &Plan) -> bool {
    let mut found = false;
    for_each_node(plan, |node| found |= node.is::<DataSourceExec>());
    found
}

/// Whether a join's dynamic filter is used by a scan below an exchange of its probe side: then its keys must be known
/// outside its stage, and the build side has to be a stage.
fn filter_leaves_stage(join: &Plan, probe: &Plan) -> bool {
    let produced: Vec<u64> =
        join.dynamic_expressions_produced().iter().filter_map(|expr| expr.expression_id()).collect();
    !produced.is_empty() && used_below_exchange(probe, &produced, false)
}

fn used_below_exchange(plan: &Plan, ids: &[u64], below: bool) -> bool {
    if below && plan.is::<DataSourceExec>() && consumed_filters(plan).iter().any(|id| ids.contains(id)) {
        return true;
    }
    let below = below || need_data_exchange(Arc::clone(plan)) || plan.is::<RepartitionExec>() && !is_round_robin(plan);
    plan.children().into_iter().any(|child| used_below_exchange(child, ids, below))
}

fn is_round_robin(plan: &Plan) -> bool {
    plan.downcast_ref::<RepartitionExec>()
        .is_some_and(|node| matches!(node.partitioning(), Partitioning::RoundRobinBatch(_)))
}

/// Nodes that cost about nothing per row: the session runs them rather than move rows twice.
fn is_light(plan: &Plan) -> bool {
    plan.is::<CoalescePartitionsExec>()
        || plan.is::<SortPreservingMergeExec>()
        || plan.is::<GlobalLimitExec>()
        || plan.is::<LocalLimitExec>()
        || plan.is::<ProjectionExec>()
        || plan.is::<FilterExec>()
        || plan.is::<CooperativeExec>()
        || plan.downcast_ref::<AggregateExec>().is_some_and(|node| {
            node.group_expr().is_empty()
                && !node.mode().input_mode().eq(&datafusion::physical_plan::aggregates::AggregateInputMode::Raw)
        })
}
