//! What must not be sent to executors, and why.
//!
//! datafusion-proto loses some things without an error: the plan would encode, and give other rows. Each entry here
//! names one of them; a node that is on no list and has no encoding fails its trial at planning.

use std::collections::HashSet;

use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::physical_plan::{CsvSource, FileScanConfig};
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_expr::ScalarFunctionExpr;
use datafusion::physical_expr::window::{PlainAggregateWindowExpr, SlidingAggregateWindowExpr, StandardWindowExpr};
use datafusion::physical_plan::WindowExpr;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
use datafusion::physical_plan::recursive_query::RecursiveQueryExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec, WindowUDFExpr};

use super::tree::{Plan, for_each_expr, for_each_node};
use crate::exec::ShuffleReaderExec;

/// Why this node (not what is below it) must run in the session; `None` if it may run on executors.
pub fn executor_reason(plan: &Plan) -> Option<String> {
    if plan.is::<RecursiveQueryExec>() {
        return Some("a recursive query keeps its work table in one process".into());
    }
    if let Some(window) = plan.downcast_ref::<WindowAggExec>() {
        return window_reason(window.window_expr());
    }
    if let Some(window) = plan.downcast_ref::<BoundedWindowAggExec>() {
        return window_reason(window.window_expr());
    }
    if let Some(source) = plan.downcast_ref::<DataSourceExec>() {
        return source_reason(source);
    }
    let known_leaf = plan.is::<EmptyExec>() || plan.is::<PlaceholderRowExec>() || plan.is::<ShuffleReaderExec>();
    (plan.children().is_empty() && !known_leaf).then(|| format!("{} lives in the session", plan.name()))
}

fn source_reason(source: &DataSourceExec) -> Option<String> {
    if source.data_source().downcast_ref::<MemorySourceConfig>().is_some() {
        return Some("its rows are in the session's memory".into());
    }
    let Some(config) = source.data_source().downcast_ref::<FileScanConfig>() else {
        return Some("its source is known to the session only".into());
    };
    if config.file_compression_type != FileCompressionType::UNCOMPRESSED {
        return Some("the encoding loses the compression of text files".into());
    }
    if config.expr_adapter_factory.is_some() {
        return Some("the encoding loses the adapter for changed schemas".into());
    }
    match config.file_source.file_type() {
        "parquet" => None,
        "csv" => match config.file_source.downcast_ref::<CsvSource>() {
            Some(csv) if csv.terminator().is_none() => None,
            _ => Some("the encoding loses the line terminator of CSV".into()),
        },
        // Whether the file is one array is private to the source and not encoded.
        "json" => Some("the encoding loses whether JSON files are arrays".into()),
        "arrow" => Some("the encoding loses whether Arrow files are streams".into()),
        other => Some(format!("{other} files are not known on executors")),
    }
}

fn window_reason(exprs: &[std::sync::Arc<dyn WindowExpr>]) -> Option<String> {
    exprs.iter().find_map(|expr| {
        let any = expr.as_any();
        let filtered = any.downcast_ref::<PlainAggregateWindowExpr>().is_some_and(|e| has_filter(e))
            || any.downcast_ref::<SlidingAggregateWindowExpr>().is_some_and(|e| has_filter(e));
        if filtered {
            return Some("the encoding loses the FILTER of a window function".into());
        }
        // The fields are private; their names in the debug form are asserted by a test.
        if let Some(standard) = any.downcast_ref::<StandardWindowExpr>() {
            let text = format!("{:?}", standard.get_standard_func_expr());
            if text.contains("ignore_nulls: true") {
                return Some("the encoding loses IGNORE NULLS of a window function".into());
            }
            if text.contains("is_reversed: true") {
                return Some("the encoding loses that a window function is reversed".into());
            }
        }
        None
    })
}

/// The trait that hands out the filter is private, its name in the debug form is asserted by a test.
fn has_filter(expr: &dyn std::fmt::Debug) -> bool {
    format!("{expr:?}").contains("filter: Some(")
}

/// Bytes of table files that a plan reads: ranges of files where it reads ranges.
pub fn scan_bytes(plan: &Plan) -> u64 {
    let mut bytes = 0;
    for_each_node(plan, |node| {
        if let Some(source) = node.downcast_ref::<DataSourceExec>()
            && let Some(config) = source.data_source().downcast_ref::<FileScanConfig>()
        {
            for file in config.file_groups.iter().flat_map(|group| group.iter()) {
                bytes += match &file.range {
                    Some(range) => u64::try_from(range.end - range.start).unwrap_or_default(),
                    None => file.object_meta.size,
                };
            }
        }
    });
    bytes
}

/// A function that `node` calls and executors do not know, as a reason.
pub(super) fn missing_function(plan: &Plan, known: &HashSet<String>) -> Option<String> {
    let mut names: Vec<String> = vec![];
    for_each_expr(plan, |expr| {
        if let Some(function) = expr.downcast_ref::<ScalarFunctionExpr>() {
            names.push(function.fun().name().to_string());
        }
    });
    if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        names.extend(aggregate.aggr_expr().iter().map(|expr| expr.fun().name().to_string()));
    }
    let windows = match (plan.downcast_ref::<WindowAggExec>(), plan.downcast_ref::<BoundedWindowAggExec>()) {
        (Some(window), _) => window.window_expr(),
        (_, Some(window)) => window.window_expr(),
        _ => &[],
    };
    for expr in windows {
        let any = expr.as_any();
        if let Some(plain) = any.downcast_ref::<PlainAggregateWindowExpr>() {
            names.push(plain.get_aggregate_expr().fun().name().to_string());
        } else if let Some(sliding) = any.downcast_ref::<SlidingAggregateWindowExpr>() {
            names.push(sliding.get_aggregate_expr().fun().name().to_string());
        } else if let Some(standard) = any.downcast_ref::<StandardWindowExpr>()
            && let Some(function) = standard.get_standard_func_expr().as_any().downcast_ref::<WindowUDFExpr>()
        {
            names.push(function.fun().name().to_string());
        }
    }
    names
        .into_iter()
        .find(|name| !known.contains(name))
        .map(|name| format!("executors do not know the function {name}"))
}
