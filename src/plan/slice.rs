//! Slicing: the plan of some of a plan's output partitions.
//!
//! ```text
//!   Agg [0 1 2 3]                   Agg [1 3]
//!     Join Partitioned [0 1 2 3]      Join Partitioned [1 3]      the same set in every child
//!       Reader [0 1 2 3]       ->       Reader [1 3]
//!       Reader [0 1 2 3]                Reader [1 3]
//!
//!   Join CollectLeft [0 1 2 3]      Join CollectLeft [1 3]
//!     Coalesce [0]             ->     Coalesce [0]                the build side whole, in every task
//!     Scan [0 1 2 3]                  Scan [1 3]
//! ```

use std::sync::Arc;

use datafusion::common::Result as DfResult;
use datafusion::datasource::physical_plan::{FileScanConfig, FileScanConfigBuilder};
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode, SortMergeJoinExec};
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::scalar_subquery::ScalarSubqueryExec;
use datafusion::physical_plan::union::{InterleaveExec, UnionExec};

use super::tree::{Plan, SharedBuild, partitions, with_children};
use crate::exec::ShuffleReaderExec;

/// A slice, or why there is none: then all partitions must run in one task.
pub(super) enum Slice {
    Plan(Plan),
    Impossible(String),
}

/// The children's slices; returns from the caller with the first reason why there is none.
macro_rules! sliced {
    ($slice:expr) => {
        match $slice? {
            Slice::Plan(plan) => plan,
            impossible => return Ok(impossible),
        }
    };
}

/// The plan of the output partitions in `set` (ascending). Output partition `i` of the result is partition `set[i]`.
pub(super) fn slice(plan: &Plan, set: &[usize]) -> DfResult<Slice> {
    let count = partitions(plan);
    if set.len() == count {
        return Ok(Slice::Plan(Arc::clone(plan)));
    }
    if let Some(reader) = plan.downcast_ref::<ShuffleReaderExec>() {
        return Ok(Slice::Plan(Arc::new(reader.sliced(set)?)));
    }
    if let Some(source) = plan.downcast_ref::<DataSourceExec>() {
        return Ok(slice_scan(source, set));
    }
    if plan.is::<RepartitionExec>() {
        return Ok(Slice::Impossible("it repartitions inside".into()));
    }
    if let Some(join) = SharedBuild::of(plan) {
        if let Some(reason) = join.single_task_reason() {
            return Ok(Slice::Impossible(reason.into()));
        }
        let children = plan.children();
        let probe = sliced!(slice(children[1], set));
        return Ok(Slice::Plan(with_children(plan, vec![Arc::clone(children[0]), probe])?));
    }
    if plan.is::<ScalarSubqueryExec>() {
        let mut children: Vec<Plan> = plan.children().into_iter().cloned().collect();
        children[0] = sliced!(slice(&children[0], set));
        return Ok(Slice::Plan(with_children(plan, children)?));
    }
    if plan.is::<UnionExec>() {
        return slice_union(plan, set);
    }
    let children = plan.children();
    let same_set = children.len() == 1
        || plan.is::<InterleaveExec>()
        || plan.is::<HashJoinExec>()
        || plan.is::<SortMergeJoinExec>();
    if !same_set {
        return Ok(Slice::Impossible(format!("{} cannot be split", plan.name())));
    }
    let mut slices = vec![];
    for child in children {
        if partitions(child) != count {
            return Ok(Slice::Impossible(format!("{} has other partitions than its input", plan.name())));
        }
        slices.push(sliced!(slice(child, set)));
    }
    if slices.len() > 1 && slices.iter().any(|slice| partitions(slice) != set.len()) {
        return Ok(Slice::Impossible(format!("{} would pair other partitions", plan.name())));
    }
    slice_join_filter(plan, set.len(), count, slices)
}

/// A partitioned join routes its dynamic filter by `hash % partitions`: with one partition there is nothing to route,
/// with some of several it would prune rows of others. Then the filter goes.
fn slice_join_filter(plan: &Plan, kept: usize, count: usize, children: Vec<Plan>) -> DfResult<Slice> {
    if let Some(join) = plan.downcast_ref::<HashJoinExec>()
        && *join.partition_mode() == PartitionMode::Partitioned
        && kept > 1
        && kept < count
        && !join.dynamic_filter_is_absent()
    {
        return Ok(Slice::Plan(join.builder().reset_state().with_new_children(children)?.build_exec()?));
    }
    Ok(Slice::Plan(with_children(plan, children)?))
}

/// Reads the presence of a join's filter in one word.
trait DynamicFilterPresence {
    fn dynamic_filter_is_absent(&self) -> bool;
}

impl DynamicFilterPresence for HashJoinExec {
    fn dynamic_filter_is_absent(&self) -> bool {
        use datafusion::physical_plan::ExecutionPlan;
        self.dynamic_expressions_produced().is_empty()
    }
}

fn slice_scan(source: &DataSourceExec, set: &[usize]) -> Slice {
    let Some(config) = source.data_source().downcast_ref::<FileScanConfig>() else {
        return Slice::Impossible("its source is not made of files".into());
    };
    let groups: Option<Vec<_>> = set.iter().map(|index| config.file_groups.get(*index).cloned()).collect();
    match groups {
        Some(groups) => Slice::Plan(DataSourceExec::from_data_source(
            FileScanConfigBuilder::from(config.clone()).with_file_groups(groups).build(),
        )),
        None => Slice::Impossible("its scan has fewer file groups than partitions".into()),
    }
}

/// Each child its share of the set. A child without a share is dropped: run over emptied leaves, a global aggregate
/// there would invent a row. Rebuilt with `try_new` (replacing children would check their number), with the union's
/// own schema: a column is nullable if it is so in any child, dropped ones included.
fn slice_union(plan: &Plan, set: &[usize]) -> DfResult<Slice> {
    let mut kept: Vec<Plan> = vec![];
    let mut offset = 0;
    for child in plan.children() {
        let count = partitions(child);
        let share: Vec<usize> =
            set.iter().filter(|index| (offset..offset + count).contains(*index)).map(|index| index - offset).collect();
        offset += count;
        if share.is_empty() {
            continue;
        }
        let sliced = sliced!(slice(child, &share));
        if partitions(&sliced) == share.len() {
            kept.push(sliced);
        } else if sliced.is::<UnionExec>() {
            // Its last child is the partition of no rows below: in the middle it would shift all that follow.
            let mut children: Vec<Plan> = sliced.children().into_iter().cloned().collect();
            children.pop();
            kept.extend(children);
        } else {
            return Ok(Slice::Impossible("a union inside of it would shift partitions".into()));
        }
    }
    if let [only] = kept.as_slice()
        && only.schema() == plan.schema()
    {
        return Ok(Slice::Plan(Arc::clone(only)));
    }
    // One more partition, of no rows, at the end: it brings the schema, and keeps a union of one child from
    // collapsing on the way. The writer knows that partitions past the task's set are empty.
    if kept.len() == 1 || kept.iter().any(|child| child.schema() != plan.schema()) {
        kept.push(Arc::new(EmptyExec::new(plan.schema())));
    }
    Ok(Slice::Plan(UnionExec::try_new(kept)?))
}
