//! EXPLAIN and EXPLAIN ANALYZE: DataFusion's own rows, and one of ours after them.

use std::fmt::{self, Write};
use std::sync::Arc;

use datafusion::arrow::array::{RecordBatch, StringArray};
use datafusion::arrow::compute::cast;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result as DfResult, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions};
use futures::{StreamExt, stream};

use super::query::{QueryHandle, QueryStatistics, StageStatistics};
use crate::config::Bytes;

type Plan = Arc<dyn ExecutionPlan>;

/// Where the text of the added row comes from.
#[derive(Clone, Debug)]
enum Added {
    Text(String),
    /// Known when the query has run.
    Statistics(Box<QueryHandle>),
}

/// Rows of `input`, then one more with the given name.
#[derive(Debug)]
struct WithRow {
    input: Plan,
    name: &'static str,
    added: Added,
}

macro_rules! explain_node {
    ($(#[$doc:meta])* $node:ident) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub(super) struct $node(WithRow);

        impl DisplayAs for $node {
            fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str(stringify!($node))
            }
        }

        impl ExecutionPlan for $node {
            fn name(&self) -> &str {
                stringify!($node)
            }

            fn properties(&self) -> &Arc<PlanProperties> {
                self.0.input.properties()
            }

            fn children(&self) -> Vec<&Plan> {
                vec![&self.0.input]
            }

            fn apply_expressions(
                &self,
                _visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> DfResult<TreeNodeRecursion>,
            ) -> DfResult<TreeNodeRecursion> {
                Ok(TreeNodeRecursion::Continue)
            }

            fn replace_children(
                self: Arc<Self>,
                children: Vec<Plan>,
                _options: ReplaceChildrenOptions,
            ) -> DfResult<Plan> {
                Ok(Arc::new(Self(self.0.with_input(children)?)))
            }

            fn with_new_children(self: Arc<Self>, children: Vec<Plan>) -> DfResult<Plan> {
                Ok(Arc::new(Self(self.0.with_input(children)?)))
            }

            fn execute(&self, partition: usize, context: Arc<TaskContext>) -> DfResult<SendableRecordBatchStream> {
                self.0.execute(partition, context)
            }
        }
    };
}

explain_node!(
    /// EXPLAIN with the row `distributed_plan`.
    DistributedExplainExec
);
explain_node!(
    /// EXPLAIN ANALYZE with the row `Distributed Plan with Metrics`.
    DistributedAnalyzeExec
);

impl DistributedExplainExec {
    pub(super) fn new(input: Plan, text: String) -> Self {
        Self(WithRow { input, name: "distributed_plan", added: Added::Text(text) })
    }
}

impl DistributedAnalyzeExec {
    pub(super) fn new(input: Plan, handle: QueryHandle) -> Self {
        Self(WithRow { input, name: "Distributed Plan with Metrics", added: Added::Statistics(Box::new(handle)) })
    }
}

impl WithRow {
    fn with_input(&self, mut children: Vec<Plan>) -> DfResult<Self> {
        match (children.pop(), children.is_empty()) {
            (Some(input), true) => Ok(Self { input, name: self.name, added: self.added.clone() }),
            _ => internal_err!("an EXPLAIN node has one child"),
        }
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> DfResult<SendableRecordBatchStream> {
        let schema = self.input.schema();
        let rows = self.input.execute(partition, context)?;
        let (added, name, row_schema) = (self.added.clone(), self.name, Arc::clone(&schema));
        let last = stream::once(async move {
            let text = match &added {
                Added::Text(text) => text.clone(),
                Added::Statistics(handle) => match handle.statistics() {
                    Some(statistics) => describe(&statistics),
                    None => "the query did not run to its end".to_string(),
                },
            };
            let columns = [name, text.as_str()]
                .iter()
                .zip(row_schema.fields())
                .map(|(text, field)| Ok(cast(&StringArray::from(vec![*text]), field.data_type())?))
                .collect::<DfResult<Vec<_>>>()?;
            Ok(RecordBatch::try_new(row_schema, columns)?)
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows.chain(last))))
    }
}

/// A query's statistics as text, consumers first.
fn describe(statistics: &QueryStatistics) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    if let Some(reason) = &statistics.fell_back {
        let _ = writeln!(text, "the whole query ran in the session: {reason}");
    }
    let _ = writeln!(
        text,
        "session: read {} rows, {} remote, codec {}, {} to a peer",
        statistics.session.remote_rows,
        bytes(statistics.session.remote_bytes),
        statistics.codec,
        channels(statistics.session.channels),
    );
    for stage in statistics.stages.iter().rev() {
        describe_stage(&mut text, stage, statistics);
    }
    text
}

fn describe_stage(text: &mut String, stage: &StageStatistics, statistics: &QueryStatistics) {
    let _ = write!(text, "stage {}: {} tasks on {}", stage.id, stage.tasks, stage.place);
    if let Some(reason) = &stage.reason {
        let _ = write!(text, " ({reason})");
    }
    let exchange = &stage.exchange;
    let _ = writeln!(
        text,
        "\n  wrote {} rows, {}, spilled {}; scanned {}; read {} local, {} remote (codec {}, {} to a peer), \
         waited {} ms; longest task {} ms, compute {} ms",
        stage.rows,
        bytes(stage.bytes),
        bytes(stage.spilled_bytes),
        bytes(stage.scanned_bytes),
        bytes(exchange.local_bytes),
        bytes(exchange.remote_bytes),
        statistics.codec,
        channels(exchange.channels),
        exchange.wait_ns / 1_000_000,
        stage.elapsed_ms,
        stage.cpu_ms,
    );
    let mut operator = None;
    for metric in &stage.metrics {
        if operator != Some(metric.operator) {
            if operator.is_some() {
                text.push('\n');
            }
            let _ = write!(text, "  {}:", metric.operator_name);
            operator = Some(metric.operator);
        }
        let _ = write!(text, " {}={}", metric.name, metric.value);
    }
    if operator.is_some() {
        text.push('\n');
    }
}

fn bytes(count: u64) -> String {
    match count {
        0..10_000 => format!("{count} B"),
        10_000..10_000_000 => format!("{:.1} KiB", count as f64 / Bytes::kib(1).0 as f64),
        _ => format!("{:.1} MiB", count as f64 / Bytes::mib(1).0 as f64),
    }
}

fn channels(count: u32) -> String {
    if count == 1 { "1 channel".into() } else { format!("{count} channels") }
}
