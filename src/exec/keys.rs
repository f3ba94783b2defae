//! Collecting a build side's join keys while they are written, for filters in other stages.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::arrow::row::{RowConverter, SortField};
use datafusion::common::{Result as DfResult, ScalarValue};
use datafusion::physical_expr::PhysicalExpr;
use datafusion_functions_aggregate_common::min_max::{max_batch, min_batch};

use crate::wire::{ColumnKeys, KeySummary};

/// Which keys of its output a stage reports: one expression per key column, over the stage's schema.
#[derive(Clone, Debug)]
pub struct KeyRequest {
    /// The key expressions.
    pub exprs: Vec<Arc<dyn PhysicalExpr>>,
    /// Distinct values up to which they are listed.
    pub max_values: usize,
}

/// Gathers one [`KeyRequest`] over the batches of one lane.
pub(super) struct KeyCollector {
    request: KeyRequest,
    columns: Vec<ColumnCollector>,
}

struct ColumnCollector {
    range: Option<(ScalarValue, ScalarValue)>,
    rows: Option<RowConverter>,
    values: HashSet<Box<[u8]>>,
}

impl KeyCollector {
    pub(super) fn try_new(request: &KeyRequest, schema: &SchemaRef) -> DfResult<Self> {
        let columns = request
            .exprs
            .iter()
            .map(|expr| {
                let rows = RowConverter::new(vec![SortField::new(expr.data_type(schema)?)]).ok();
                Ok(ColumnCollector { range: None, rows, values: HashSet::new() })
            })
            .collect::<DfResult<_>>()?;
        Ok(Self { request: request.clone(), columns })
    }

    pub(super) fn add(&mut self, batch: &RecordBatch) -> DfResult<()> {
        for (expr, column) in self.request.exprs.iter().zip(&mut self.columns) {
            let array = expr.evaluate(batch)?.into_array(batch.num_rows())?;
            if array.null_count() == array.len() {
                continue;
            }
            column.add(&array, self.request.max_values)?;
        }
        Ok(())
    }

    /// The summary of several lanes' collectors for the same request.
    pub(super) fn merge(collectors: Vec<KeyCollector>) -> DfResult<KeySummary> {
        let mut merged: Option<KeyCollector> = None;
        for collector in collectors {
            match &mut merged {
                None => merged = Some(collector),
                Some(merged) => {
                    let limit = merged.request.max_values;
                    for (into, from) in merged.columns.iter_mut().zip(collector.columns) {
                        into.merge(from, limit)?;
                    }
                }
            }
        }
        let columns = match merged {
            None => vec![],
            Some(merged) => merged.columns.into_iter().map(ColumnCollector::finish).collect::<DfResult<_>>()?,
        };
        Ok(KeySummary { columns })
    }
}

impl ColumnCollector {
    fn add(&mut self, array: &ArrayRef, max_values: usize) -> DfResult<()> {
        self.widen(min_batch(array)?, max_batch(array)?)?;
        let Some(converter) = &mut self.rows else { return Ok(()) };
        let rows = converter.convert_columns(std::slice::from_ref(array))?;
        for (index, row) in rows.iter().enumerate() {
            if array.is_null(index) || self.values.contains(row.data()) {
                continue;
            }
            if self.values.len() == max_values {
                self.rows = None;
                self.values = HashSet::new();
                return Ok(());
            }
            self.values.insert(row.data().into());
        }
        Ok(())
    }

    fn widen(&mut self, low: ScalarValue, high: ScalarValue) -> DfResult<()> {
        self.range = Some(match self.range.take() {
            None => (low, high),
            Some((old_low, old_high)) => (
                if low.try_cmp(&old_low)?.is_lt() { low } else { old_low },
                if high.try_cmp(&old_high)?.is_gt() { high } else { old_high },
            ),
        });
        Ok(())
    }

    fn merge(&mut self, other: ColumnCollector, max_values: usize) -> DfResult<()> {
        if let Some((low, high)) = other.range {
            self.widen(low, high)?;
        }
        if self.rows.is_some() && other.rows.is_some() {
            self.values.extend(other.values);
            if self.values.len() <= max_values {
                return Ok(());
            }
        }
        self.rows = None;
        self.values = HashSet::new();
        Ok(())
    }

    fn finish(self) -> DfResult<ColumnKeys> {
        let Some(converter) = &self.rows else { return Ok(ColumnKeys { range: self.range, values: None }) };
        let mut sorted: Vec<&Box<[u8]>> = self.values.iter().collect();
        sorted.sort_unstable();
        let parser = converter.parser();
        let columns = converter.convert_rows(sorted.iter().map(|bytes| parser.parse(bytes)))?;
        let mut values = Vec::with_capacity(sorted.len());
        for array in columns.iter().take(1) {
            for index in 0..array.len() {
                values.push(ScalarValue::try_from_array(array, index)?);
            }
        }
        Ok(ColumnKeys { range: self.range, values: Some(values) })
    }
}
