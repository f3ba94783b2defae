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

use datafusion::common::Result as DfResult;
use datafusion::physical_expr::Partitioning;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::repartition::RepartitionExec;

use super::tree::{Plan, SharedBuild, partitions};

/// The partitioned form of a shared-build hash join that emits build rows; `None` if the rule does not apply.
pub(super) fn partitioned_form(plan: &Plan) -> DfResult<Option<Plan>> {
    let Some(join) = plan.downcast_ref::<HashJoinExec>() else { return Ok(None) };
    let applies = SharedBuild::of(plan).is_some_and(|shared| shared.emits_build_rows() && !shared.null_aware);
    let width = partitions(join.right());
    if !applies || width < 2 || join.fetch().is_some() {
        return Ok(None);
    }
    let mut build = Arc::clone(join.left());
    if let Some(coalesce) = build.downcast_ref::<CoalescePartitionsExec>()
        && coalesce.fetch().is_none()
    {
        build = Arc::clone(coalesce.input());
    }
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
