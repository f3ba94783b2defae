//! Sort keys of the rows of a result, to check its order and to find the rows at its end.

use std::cmp::Ordering;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Float64Array, new_empty_array};
use datafusion::arrow::compute::{cast, concat};
use datafusion::arrow::datatypes::{DataType, Float64Type};
use datafusion::arrow::row::{RowConverter, Rows as EncodedRows, SortField};
use datafusion::error::Result;

use super::Rows;
use super::canonical::is_float;
use super::pairing::{compare_values, near};
use super::sql::{Key, OrderBy};

/// The keys of all rows of one result.
pub struct Keys {
    columns: Vec<Column>,
    pub count: usize,
}

struct Column {
    values: Values,
    descending: bool,
    nulls_first: bool,
}

enum Values {
    /// Ascending, NULL smallest; direction and NULLs are [`Column`]'s. One column, so that the two are told apart.
    Exact {
        encoded: EncodedRows,
        array: ArrayRef,
    },
    Float(Float64Array),
}

impl Keys {
    /// `types`: the keys' types in another result, to which these are brought so that they can be compared.
    pub fn new(rows: &Rows, order: &OrderBy, types: Option<&[DataType]>) -> Result<Self> {
        let mut columns = Vec::with_capacity(order.keys.len());
        for (index, key) in order.keys.iter().enumerate() {
            columns.push(Column::new(rows, key, types.map(|types| &types[index]))?);
        }
        Ok(Self { columns, count: rows.count() })
    }

    pub fn types(&self) -> Vec<DataType> {
        self.columns
            .iter()
            .map(|column| match &column.values {
                Values::Exact { array, .. } => array.data_type().clone(),
                Values::Float(_) => DataType::Float64,
            })
            .collect()
    }

    /// The first row that is smaller than the one before it.
    pub fn first_out_of_order(&self) -> Option<usize> {
        (1..self.count).find(|row| self.compare(row - 1, self, *row, false).is_gt())
    }

    /// Row `row` against row `other_row` of `other`; `tolerant`: floats nearly equal are equal.
    pub fn compare(&self, row: usize, other: &Self, other_row: usize, tolerant: bool) -> Ordering {
        self.columns
            .iter()
            .zip(&other.columns)
            .map(|(a, b)| a.compare(row, b, other_row, tolerant))
            .find(|order| order.is_ne())
            .unwrap_or(Ordering::Equal)
    }
}

impl Column {
    fn new(rows: &Rows, key: &Key, as_type: Option<&DataType>) -> Result<Self> {
        let mut pieces = Vec::with_capacity(rows.batches.len());
        for batch in &rows.batches {
            pieces.push(key.evaluate(batch)?);
        }
        let pieces: Vec<&dyn Array> = pieces.iter().map(AsRef::as_ref).collect();
        let mut array = if pieces.is_empty() { new_empty_array(&DataType::Null) } else { concat(&pieces)? };
        if let DataType::Dictionary(_, values) = array.data_type() {
            array = cast(&array, &values.clone())?;
        }
        if let Some(as_type) = as_type
            && array.data_type() != as_type
        {
            array = cast(&array, as_type)?;
        }
        let values = if is_float(array.data_type()) {
            Values::Float(cast(&array, &DataType::Float64)?.as_primitive::<Float64Type>().clone())
        } else {
            let converter = RowConverter::new(vec![SortField::new(array.data_type().clone())])?;
            Values::Exact { encoded: converter.convert_columns(&[array.clone()])?, array }
        };
        Ok(Self { values, descending: key.descending, nulls_first: key.nulls_first })
    }

    fn compare(&self, row: usize, other: &Self, other_row: usize, tolerant: bool) -> Ordering {
        let nulls = match (self.is_null(row), other.is_null(other_row)) {
            (true, true) => return Ordering::Equal,
            (false, false) => None,
            (true, false) => Some(Ordering::Less),
            (false, true) => Some(Ordering::Greater),
        };
        if let Some(order) = nulls {
            return if self.nulls_first { order } else { order.reverse() };
        }
        let order = match (&self.values, &other.values) {
            (Values::Exact { encoded: a, .. }, Values::Exact { encoded: b, .. }) => a.row(row).cmp(&b.row(other_row)),
            (Values::Float(a), Values::Float(b)) => {
                let (a, b) = (Some(a.value(row)), Some(b.value(other_row)));
                if tolerant && near(a, b) { Ordering::Equal } else { compare_values(a, b) }
            }
            _ => unreachable!("both were brought to one type"),
        };
        if self.descending { order.reverse() } else { order }
    }

    fn is_null(&self, row: usize) -> bool {
        match &self.values {
            Values::Exact { array, .. } => array.is_null(row),
            Values::Float(array) => array.is_null(row),
        }
    }
}
