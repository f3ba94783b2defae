//! Small questions about plans that several rules ask.

use std::sync::Arc;

use datafusion::common::JoinType;
use datafusion::common::Result as DfResult;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::DynamicFilterPhysicalExpr;
use datafusion::physical_expr::scalar_subquery::ScalarSubqueryExpr;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec, PartitionMode};
use datafusion::physical_plan::scalar_subquery::ScalarSubqueryExec;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, ExecutionPlan, ExecutionPlanProperties, ReplaceChildrenOptions,
};

pub(super) type Plan = Arc<dyn ExecutionPlan>;

/// Output partitions of a plan.
pub(super) fn partitions(plan: &Plan) -> usize {
    plan.output_partitioning().partition_count()
}

/// The same node over other children.
pub(super) fn with_children(plan: &Plan, children: Vec<Plan>) -> DfResult<Plan> {
    if children.is_empty() {
        return Ok(Arc::clone(plan));
    }
    Arc::clone(plan).replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
}

/// A join whose build side (child 0) is shared by all partitions of its probe side (child 1).
#[derive(Clone, Copy)]
pub(super) struct SharedBuild {
    pub(super) join_type: JoinType,
    pub(super) null_aware: bool,
}

impl SharedBuild {
    pub(super) fn of(plan: &Plan) -> Option<Self> {
        if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
            return (*join.partition_mode() == PartitionMode::CollectLeft)
                .then(|| Self { join_type: *join.join_type(), null_aware: join.null_aware });
        }
        if let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>() {
            return Some(Self { join_type: *join.join_type(), null_aware: false });
        }
        plan.is::<CrossJoinExec>().then_some(Self { join_type: JoinType::Inner, null_aware: false })
    }

    /// Whether the join emits build rows by themselves at its end: then one process must see all probe rows, or an
    /// unmatched row comes once per task.
    pub(super) fn emits_build_rows(self) -> bool {
        matches!(
            self.join_type,
            JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark | JoinType::Full
        )
    }

    /// Why the join cannot run in several tasks; `None` if it can.
    pub(super) fn single_task_reason(self) -> Option<&'static str> {
        if self.null_aware {
            return Some("a null-aware anti join must see all rows in one process");
        }
        self.emits_build_rows().then_some("a join with one shared build side emits build rows")
    }
}

/// Visits every node of `plan`.
pub(super) fn for_each_node(plan: &Plan, mut visit: impl FnMut(&Plan)) {
    // The visitor returns no error.
    let _ = plan.apply(|node| {
        visit(node);
        Ok(TreeNodeRecursion::Continue)
    });
}

/// Visits every expression (and sub-expression) that `node` itself evaluates.
pub(super) fn for_each_expr(node: &Plan, mut visit: impl FnMut(&Arc<dyn PhysicalExpr>)) {
    let _ = node.apply_expressions(&mut |expr| {
        expr.apply(|part| {
            visit(part);
            Ok(TreeNodeRecursion::Continue)
        })
    });
}

/// Ids of the dynamic filters that a node uses but does not produce.
pub(super) fn consumed_filters(node: &Plan) -> Vec<u64> {
    let produced: Vec<_> = node.dynamic_expressions_produced().iter().filter_map(|expr| expr.expression_id()).collect();
    let mut ids = vec![];
    for_each_expr(node, |expr| {
        if expr.downcast_ref::<DynamicFilterPhysicalExpr>().is_some()
            && let Some(id) = expr.expression_id()
            && !produced.contains(&id)
        {
            ids.push(id);
        }
    });
    ids
}

/// Whether the plan uses the result of a scalar subquery that a node above it computes.
pub(super) fn uses_scalar_subquery(plan: &Plan) -> bool {
    let mut found = false;
    let _ = plan.apply(|node| {
        for_each_expr(node, |expr| found |= expr.downcast_ref::<ScalarSubqueryExpr>().is_some());
        Ok(match (found, node.is::<ScalarSubqueryExec>()) {
            (true, _) => TreeNodeRecursion::Stop,
            (false, true) => TreeNodeRecursion::Jump,
            (false, false) => TreeNodeRecursion::Continue,
        })
    });
    found
}

/// Whether running the plan twice may give different rows.
pub(super) fn is_volatile(plan: &Plan) -> bool {
    let mut found = false;
    for_each_node(plan, |node| for_each_expr(node, |expr| found |= expr.is_volatile_node()));
    found
}
