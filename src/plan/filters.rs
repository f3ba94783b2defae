//! Filters across stages: the keys of a finished build stage, put into scans of other stages.
//!
//! ```text
//!   Join  ──────────── build: Reader(stage 1)          stage 1 reports the range and list of its keys,
//!     │                                                and when stage 2's tasks are encoded after it,
//!   probe: Reader(stage 2)    stage 2: Scan [filter]   [filter] is that range and list
//! ```
//! In one process a join's dynamic filter reaches the scan while it runs. Across processes the filter's *value* is
//! put in when the scan's task is encoded, and a `FilterExec` above the scan applies it to rows too: a row that
//! it drops need not cross the exchange.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DataFusionError, NullEquality, Result as DfResult, ScalarValue};
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, DynamicFilterPhysicalExpr, InListExpr, in_list, lit};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::HashJoinExec;

use super::graph::{FilterSource, Stage};
use super::tree::{Plan, consumed_filters, for_each_expr, for_each_node};
use crate::codec::FilterValues;
use crate::exec::{KeyRequest, ShuffleReaderExec};
use crate::ids::StageId;
use crate::wire::{ColumnKeys, KeySummary};

/// A join with a dynamic filter, as the cut found it.
pub(super) struct JoinFilter {
    id: u64,
    build: Plan,
    build_keys: Vec<Arc<dyn PhysicalExpr>>,
    probe_keys: Vec<Arc<dyn PhysicalExpr>>,
    probe_schema: datafusion::arrow::datatypes::SchemaRef,
}

impl JoinFilter {
    /// The filter of `join`, whose build side was cut to `build`.
    pub(super) fn of(join: &HashJoinExec, build: &Plan) -> Option<Self> {
        // Keys that are NULL match here, and a range or list has no NULL.
        if join.null_equality() == NullEquality::NullEqualsNull {
            return None;
        }
        let filter = join.dynamic_expressions_produced().into_iter().next()?;
        let (build_keys, probe_keys): (Vec<_>, Vec<_>) = join.on().iter().cloned().unzip();
        Some(Self {
            id: filter.expression_id()?,
            build: Arc::clone(build),
            build_keys,
            probe_keys,
            probe_schema: join.right().schema(),
        })
    }

    fn build_stage(&self) -> Option<StageId> {
        let mut build = &self.build;
        while let Some(coalesce) = build.downcast_ref::<CoalescePartitionsExec>() {
            build = coalesce.input();
        }
        build.downcast_ref::<ShuffleReaderExec>().map(ShuffleReaderExec::stage)
    }
}

/// Connects filters: the build stages get key requests, the consuming stages `filter_inputs`.
pub(super) fn connect(joins: Vec<JoinFilter>, stages: &mut [Stage], max_values: usize) -> Vec<FilterSource> {
    let mut users: HashMap<u64, Vec<StageId>> = HashMap::new();
    for stage in stages.iter() {
        // Tasks have the same nodes; slicing may have taken a filter from its join.
        let Some(task) = stage.tasks.first() else { continue };
        let mut produced = HashSet::new();
        let mut consumed = HashSet::new();
        for_each_node(&task.plan, |node| {
            produced.extend(node.dynamic_expressions_produced().iter().filter_map(|expr| expr.expression_id()));
            if node.is::<DataSourceExec>() {
                consumed.extend(consumed_filters(node));
            }
        });
        for id in consumed.difference(&produced) {
            users.entry(*id).or_default().push(stage.id);
        }
    }
    let mut sources = vec![];
    for join in joins {
        let (Some(build), Some(mut consumers)) = (join.build_stage(), users.remove(&join.id)) else { continue };
        // A stage below the build side cannot wait for it.
        consumers.retain(|consumer| *consumer != build && !depends_on(stages, build, *consumer));
        if consumers.is_empty() {
            continue;
        }
        let Some(build_stage) = stages.get_mut(build.index()) else { continue };
        let request = build_stage.keys.len();
        build_stage.keys.push(KeyRequest { exprs: join.build_keys, max_values });
        for consumer in &consumers {
            if let Some(stage) = stages.get_mut(consumer.index())
                && !stage.inputs.contains(&build)
                && !stage.filter_inputs.contains(&build)
            {
                stage.filter_inputs.push(build);
            }
        }
        sources.push(FilterSource {
            id: join.id,
            build,
            request,
            probe_keys: join.probe_keys,
            probe_schema: join.probe_schema,
            consumers,
        });
    }
    sources
}

/// Whether `stage` needs `other`, directly or not, hard or for a filter.
fn depends_on(stages: &[Stage], stage: StageId, other: StageId) -> bool {
    let mut seen = HashSet::new();
    let mut open = vec![stage];
    while let Some(next) = open.pop() {
        if next == other {
            return true;
        }
        if seen.insert(next)
            && let Some(stage) = stages.get(next.index())
        {
            open.extend(stage.inputs.iter().chain(&stage.filter_inputs));
        }
    }
    false
}

/// What the keys of a finished build stage say about its join's probe rows; `None` if nothing.
///
/// # Errors
/// A value that cannot be cast to its key's type.
pub fn filter_predicate(source: &FilterSource, keys: &KeySummary) -> DfResult<Option<Arc<dyn PhysicalExpr>>> {
    let mut predicate: Option<Arc<dyn PhysicalExpr>> = None;
    for (key, column) in source.probe_keys.iter().zip(&keys.columns) {
        let Some(part) = column_predicate(source, key, column)? else { continue };
        predicate = Some(match predicate {
            None => part,
            Some(before) => Arc::new(BinaryExpr::new(before, Operator::And, part)),
        });
    }
    Ok(predicate)
}

fn column_predicate(
    source: &FilterSource,
    key: &Arc<dyn PhysicalExpr>,
    column: &ColumnKeys,
) -> DfResult<Option<Arc<dyn PhysicalExpr>>> {
    let data_type = key.data_type(&source.probe_schema)?;
    // Equality of floating-point keys is not the comparison of a range (-0.0, NaN).
    if data_type.is_floating() || data_type.is_nested() {
        return Ok(None);
    }
    let Some((low, high)) = &column.range else { return Ok(Some(lit(false))) };
    if let Some(values) = &column.values {
        let list = values.iter().map(|value| Ok(lit(value.cast_to(&data_type)?))).collect::<DfResult<Vec<_>>>()?;
        if list.len() == 1 {
            let value = Arc::clone(&list[0]);
            return Ok(Some(Arc::new(BinaryExpr::new(Arc::clone(key), Operator::Eq, value))));
        }
        let list = in_list(Arc::clone(key), list, &false, &source.probe_schema)?;
        return Ok(Some(Arc::new(BinaryExpr::new(range(key, low, high, &data_type)?, Operator::And, list))));
    }
    Ok(Some(range(key, low, high, &data_type)?))
}

fn range(
    key: &Arc<dyn PhysicalExpr>,
    low: &ScalarValue,
    high: &ScalarValue,
    data_type: &datafusion::arrow::datatypes::DataType,
) -> DfResult<Arc<dyn PhysicalExpr>> {
    let low = Arc::new(BinaryExpr::new(Arc::clone(key), Operator::GtEq, lit(low.cast_to(data_type)?)));
    let high = Arc::new(BinaryExpr::new(Arc::clone(key), Operator::LtEq, lit(high.cast_to(data_type)?)));
    Ok(Arc::new(BinaryExpr::new(low, Operator::And, high)))
}

/// The task's plan with a `FilterExec` above every scan whose filters have a value. Values that a scan cannot use
/// (a key that is an expression there, or of another type) are taken out of `values`.
///
/// # Errors
/// A plan that cannot be rebuilt.
pub fn apply_filter_values(plan: &Plan, values: &mut FilterValues) -> DfResult<Plan> {
    if values.is_empty() {
        return Ok(Arc::clone(plan));
    }
    let rewritten = Arc::clone(plan).transform_up(|node| {
        let Some(scan) = node.downcast_ref::<DataSourceExec>() else { return Ok(Transformed::no(node)) };
        let Some(config) = scan.data_source().downcast_ref::<FileScanConfig>() else {
            return Ok(Transformed::no(node));
        };
        let table_schema = Arc::clone(config.file_source.table_schema().table_schema());
        let mut predicate: Option<Arc<dyn PhysicalExpr>> = None;
        let mut uses: Vec<Arc<dyn PhysicalExpr>> = vec![];
        for_each_expr(&node, |expr| {
            if expr.downcast_ref::<DynamicFilterPhysicalExpr>().is_some() {
                uses.push(Arc::clone(expr));
            }
        });
        for filter in uses {
            let Some(id) = filter.expression_id() else { continue };
            let Some(value) = values.resolve(&filter)? else { continue };
            if !well_typed(&value, &table_schema) {
                values.remove(id);
                continue;
            }
            let projected = match config.file_source.projection() {
                None => Some(value),
                // An error says that the scan does not hand out the column.
                Some(projection) => projection.project_expr(&value).ok(),
            };
            if let Some(projected) = projected {
                predicate = Some(match predicate {
                    None => projected,
                    Some(before) => Arc::new(BinaryExpr::new(before, Operator::And, projected)),
                });
            }
        }
        match predicate {
            None => Ok(Transformed::no(node)),
            Some(predicate) => {
                let filter = FilterExec::try_new(predicate, Arc::clone(&node))?;
                Ok::<_, DataFusionError>(Transformed::yes(Arc::new(filter) as Plan))
            }
        }
    })?;
    Ok(rewritten.data)
}

/// Whether lists have the type of what they are compared with, as decoding requires.
fn well_typed(expr: &Arc<dyn PhysicalExpr>, schema: &datafusion::arrow::datatypes::Schema) -> bool {
    use datafusion::common::tree_node::TreeNodeRecursion;
    let mut typed = expr.data_type(schema).is_ok();
    let _ = expr.apply(|part| {
        let compared = if let Some(list) = part.downcast_ref::<InListExpr>() {
            Some((list.expr(), list.list().first()))
        } else {
            part.downcast_ref::<BinaryExpr>().map(|binary| (binary.left(), Some(binary.right())))
        };
        if let Some((left, Some(right))) = compared {
            typed &= match (left.data_type(schema), right.data_type(schema)) {
                (Ok(left), Ok(right)) => left == right,
                _ => false,
            };
        }
        Ok(TreeNodeRecursion::Continue)
    });
    typed
}
