//! Joins that emit build rows: from one shared build side to partitioned sides.
//!
//! ```text
//!   HashJoin Left CollectLeft          HashJoin Left Partitioned
//!     Coalesce                           Repartition hash(left keys, n)
//!       L                        ->        L
//!     R [n partitions]                   Repartition hash(right keys, n)
//!                                          R
//! ```
//! With the build side shared, an unmatched build row would come once per task. Partitioned, each row of either side
//! is in one partition, and so in one task. The output keeps its number of partitions; the shared form claims no
//! partitioning and no order for these join types, so no node above can have relied on one.

use std::sync::Arc;

use datafusion::common::{JoinType, Result as DfResult};
use datafusion::physical_expr::Partitioning;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec, PartitionMode};
use datafusion::physical_plan::repartition::RepartitionExec;

use super::tree::{Plan, SharedBuild, partitions, with_children};

/// The partitioned form of a shared-build hash join that emits build rows; `None` if the rule does not apply.
pub(super) fn partitioned_form(plan: &Plan) -> DfResult<Option<Plan>> {
    let Some(join) = plan.downcast_ref::<HashJoinExec>() else { return Ok(None) };
    let applies = SharedBuild::of(plan).is_some_and(|shared| shared.emits_build_rows() && !shared.null_aware);
    let width = partitions(join.right());
    if !applies || width < 2 || join.fetch().is_some() {
        return Ok(None);
    }
    let build = without_coalesce(join.left());
    let (left_keys, right_keys) = join.on().iter().cloned().unzip();
    let build = RepartitionExec::try_new(build, Partitioning::Hash(left_keys, width))?;
    let probe = RepartitionExec::try_new(Arc::clone(join.right()), Partitioning::Hash(right_keys, width))?;
    let partitioned = join
        .builder()
        .reset_state()
        .with_partition_mode(PartitionMode::Partitioned)
        .with_new_children(vec![Arc::new(build), Arc::new(probe)])?
        .build_exec()?;
    Ok(Some(partitioned))
}

/// The swapped form of a nested-loop join that emits build rows, whose shared side emits none; `None` if the rule does not
/// apply.
///
/// ```text
///   NestedLoopJoin Left               NestedLoopJoin Right
///     Coalesce                          Coalesce
///       L [m partitions]      ->          R
///     R [n partitions]                  L [m partitions]
/// ```
/// Only where it does not make more partitions than there were: nodes above rely on no other number, but the root's
/// consumer does. A full join emits rows of both sides by themselves and stays in one task.
pub(super) fn right_form(plan: &Plan) -> DfResult<Option<Plan>> {
    let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>() else { return Ok(None) };
    let emits = SharedBuild::of(plan).is_some_and(SharedBuild::emits_build_rows);
    let left = without_coalesce(join.left());
    let width = partitions(&left);
    if !emits || *join.join_type() == JoinType::Full || width < 2 || width > partitions(join.right()) {
        return Ok(None);
    }
    let right: Plan = match partitions(join.right()) {
        1 => Arc::clone(join.right()),
        _ => Arc::new(CoalescePartitionsExec::new(Arc::clone(join.right()))),
    };
    let split = with_children(plan, vec![left, right])?;
    let Some(split) = split.downcast_ref::<NestedLoopJoinExec>() else { return Ok(None) };
    let swapped = split.swap_inputs()?;
    Ok((swapped.schema() == plan.schema()).then_some(swapped))
}

/// The input of a merge of all partitions that drops no rows.
fn without_coalesce(plan: &Plan) -> Plan {
    match plan.downcast_ref::<CoalescePartitionsExec>() {
        Some(coalesce) if coalesce.fetch().is_none() => Arc::clone(coalesce.input()),
        _ => Arc::clone(plan),
    }
}
