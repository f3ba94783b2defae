//! A finished plan's metrics as plain figures.

use std::sync::Arc;

use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::MetricValue;

use crate::wire::OperatorMetric;

/// Every operator's metrics, summed over partitions, in the plan's pre-order.
pub(super) fn operator_metrics(plan: &Arc<dyn ExecutionPlan>) -> Vec<OperatorMetric> {
    let mut figures = vec![];
    let mut next = 0;
    collect(plan, &mut next, &mut figures);
    figures
}

fn collect(plan: &Arc<dyn ExecutionPlan>, next: &mut u32, figures: &mut Vec<OperatorMetric>) {
    let operator = *next;
    *next += 1;
    if let Some(metrics) = plan.metrics() {
        for metric in metrics.aggregate_by_name().iter() {
            let value = metric.value();
            // A point in time means nothing in another process.
            if matches!(value, MetricValue::StartTimestamp(_) | MetricValue::EndTimestamp(_)) || value.as_usize() == 0 {
                continue;
            }
            figures.push(OperatorMetric {
                operator,
                operator_name: plan.name().to_string(),
                name: value.name().to_string(),
                value: value.as_usize() as u64,
            });
        }
    }
    for child in plan.children() {
        collect(child, next, figures);
    }
}

/// The sum of all operators' metric of this name.
pub(super) fn total(figures: &[OperatorMetric], name: &str) -> u64 {
    figures.iter().filter(|figure| figure.name == name).map(|figure| figure.value).sum()
}
