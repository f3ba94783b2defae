//! Sizes of batches, and making a batch own no more memory than its rows need.
//!
//! A batch may be a slice of a larger one, or hold views into buffers of which it uses a part. Kept in the store
//! it would pin those buffers, and views would ship them whole. [`compact_batch`] copies where that happens and
//! leaves the rest alone.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayData, ArrayRef, AsArray, MutableArrayData, RecordBatch, RecordBatchOptions, UInt64Array, make_array,
};
use datafusion::arrow::compute::{cast, take};
use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::error::ArrowError;

/// A column may pin this many bytes beyond its own before it is copied: below it a copy frees nothing worth it.
const SLACK_BYTES: usize = 4 << 10;

/// Bytes of the batch's rows in Arrow's layout, uncompressed: of a slice only the slice, of views only what they
/// refer to, of a dictionary its keys and all its values.
pub fn batch_bytes(batch: &RecordBatch) -> usize {
    batch.columns().iter().map(|column| array_bytes(column.as_ref(), true)).sum()
}

/// As [`batch_bytes`], without dictionaries' values: what shrinks when the batch is split by rows.
pub(super) fn row_bytes(batch: &RecordBatch) -> usize {
    batch.columns().iter().map(|column| array_bytes(column.as_ref(), false)).sum()
}

/// Bytes of the buffers that the batch keeps alive.
pub(super) fn pinned_bytes(batch: &RecordBatch) -> usize {
    batch.columns().iter().map(|column| column.get_buffer_memory_size()).sum()
}

fn array_bytes(array: &dyn Array, with_dictionaries: bool) -> usize {
    let len = array.len();
    let nulls = if array.nulls().is_some() { len.div_ceil(8) } else { 0 };
    let inner = |array: &dyn Array| array_bytes(array, with_dictionaries);
    let own = match array.data_type() {
        DataType::Utf8View => len * 16 + array.as_string_view().total_buffer_bytes_used(),
        DataType::BinaryView => len * 16 + array.as_binary_view().total_buffer_bytes_used(),
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            (len + 1) * 4 + sliced(list.values(), list.offsets().iter().map(|offset| *offset as usize), inner)
        }
        DataType::LargeList(_) => {
            let list = array.as_list::<i64>();
            (len + 1) * 8 + sliced(list.values(), list.offsets().iter().map(|offset| *offset as usize), inner)
        }
        DataType::Map(..) => {
            let map = array.as_map();
            let entries: ArrayRef = Arc::new(map.entries().clone());
            (len + 1) * 4 + sliced(&entries, map.offsets().iter().map(|offset| *offset as usize), inner)
        }
        DataType::FixedSizeList(..) => inner(array.as_fixed_size_list().values().as_ref()),
        DataType::Struct(_) => array.as_struct().columns().iter().map(|column| inner(column.as_ref())).sum(),
        DataType::Dictionary(key, _) => {
            let values = if with_dictionaries { inner(array.as_any_dictionary().values().as_ref()) } else { 0 };
            len * key.primitive_width().unwrap_or(8) + values
        }
        // Fixed width and plain strings, whose slices arrow measures (nulls included).
        _ => {
            let data = array.to_data();
            return data.get_slice_memory_size().unwrap_or_else(|_| data.get_buffer_memory_size());
        }
    };
    nulls + own
}

/// Bytes of the part of a list's values between its first and last offset.
fn sliced(
    values: &ArrayRef,
    mut offsets: impl DoubleEndedIterator<Item = usize>,
    bytes: impl Fn(&dyn Array) -> usize,
) -> usize {
    let first = offsets.next().unwrap_or(0);
    let last = offsets.next_back().unwrap_or(first);
    bytes(values.slice(first, last.saturating_sub(first)).as_ref())
}

/// The same rows; columns that pin more than twice what they use are copied.
///
/// # Errors
/// Arrow's own, for arrays that are not valid.
pub(super) fn compact_batch(batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    let columns = batch.columns().iter().map(compact_array).collect::<Result<Vec<_>, _>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(batch.schema(), columns, &options)
}

/// Splits a batch into blocks of at most `message_bytes` (single larger rows apart) and `batch_rows`, each of which
/// ships no more than its own rows. The blocks share the batch's buffers where they can.
///
/// # Errors
/// Arrow's own, for arrays that are not valid.
pub fn split_into_blocks(
    batch: &RecordBatch,
    message_bytes: usize,
    batch_rows: usize,
) -> Result<Vec<RecordBatch>, ArrowError> {
    let rows = batch.num_rows();
    if rows == 0 {
        return Ok(vec![]);
    }
    let batch = compact_batch(batch)?;
    let by_bytes = row_bytes(&batch).div_ceil(message_bytes.max(1));
    let pieces = by_bytes.max(rows.div_ceil(batch_rows.max(1))).clamp(1, rows);
    if pieces == 1 {
        return Ok(vec![batch]);
    }
    let step = rows.div_ceil(pieces);
    (0..rows).step_by(step).map(|start| compact_views(&batch.slice(start, step.min(rows - start)))).collect()
}

/// As [`compact_batch`], for one of several slices of a batch that are all kept: only columns with views are looked
/// at. The others share the batch's buffers, and encoding a slice takes its part of them only; views would ship
/// the data of all slices with each.
fn compact_views(slice: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    let column =
        |array: &ArrayRef| if has_views(array.data_type()) { compact_array(array) } else { Ok(Arc::clone(array)) };
    let columns = slice.columns().iter().map(column).collect::<Result<Vec<_>, _>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(slice.num_rows()));
    RecordBatch::try_new_with_options(slice.schema(), columns, &options)
}

fn has_views(data_type: &DataType) -> bool {
    contains(data_type, &|inner| matches!(inner, DataType::Utf8View | DataType::BinaryView))
}

fn has_dictionary(data_type: &DataType) -> bool {
    contains(data_type, &|inner| matches!(inner, DataType::Dictionary(..)))
}

/// Whether the type, or one inside it, is `wanted`.
fn contains(data_type: &DataType, wanted: &impl Fn(&DataType) -> bool) -> bool {
    wanted(data_type)
        || match data_type {
            DataType::List(field)
            | DataType::LargeList(field)
            | DataType::ListView(field)
            | DataType::LargeListView(field)
            | DataType::FixedSizeList(field, _)
            | DataType::Map(field, _)
            | DataType::RunEndEncoded(_, field) => contains(field.data_type(), wanted),
            DataType::Struct(fields) => fields.iter().any(|field| contains(field.data_type(), wanted)),
            DataType::Union(fields, _) => fields.iter().any(|(_, field)| contains(field.data_type(), wanted)),
            DataType::Dictionary(_, values) => contains(values, wanted),
            _ => false,
        }
}

fn is_sparse(array: &dyn Array) -> bool {
    let (pinned, used) = (array.get_buffer_memory_size(), array_bytes(array, true));
    pinned > used.saturating_mul(2).saturating_add(SLACK_BYTES)
}

fn compact_array(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    if let DataType::Dictionary(..) = array.data_type()
        && let Some(smaller) = compact_dictionary(array)?
    {
        return Ok(smaller);
    }
    if !is_sparse(array.as_ref()) {
        return Ok(Arc::clone(array));
    }
    match array.data_type() {
        // `gc` copies the strings; where all are inline it keeps the views, so those are copied first.
        DataType::Utf8View => Ok(Arc::new(copied(array.as_ref())?.as_string_view().gc())),
        DataType::BinaryView => Ok(Arc::new(copied(array.as_ref())?.as_binary_view().gc())),
        _ => {
            let copy = copied(array.as_ref())?;
            if !is_sparse(copy.as_ref()) {
                return Ok(copy);
            }
            // Views or dictionaries inside lists and structs: their buffers are shared even by a copy.
            let data = copy.to_data();
            let children = data
                .child_data()
                .iter()
                .map(|child| compact_array(&make_array(child.clone())).map(|child| child.to_data()))
                .collect::<Result<Vec<_>, _>>()?;
            Ok(make_array(data.into_builder().child_data(children).build()?))
        }
    }
}

/// Whether batches can be joined: arrow panics where the values of a dictionary column become more than its keys can
/// number.
pub(super) fn dictionaries_fit(batches: &[RecordBatch]) -> bool {
    let Some(first) = batches.first() else { return true };
    (0..first.num_columns()).all(|index| {
        let has = first.schema_ref().fields().get(index).is_some_and(|field| has_dictionary(field.data_type()));
        !has || values_fit(&batches.iter().map(|batch| batch.column(index).to_data()).collect::<Vec<_>>())
    })
}

fn values_fit(parts: &[ArrayData]) -> bool {
    let Some(first) = parts.first() else { return true };
    if let DataType::Dictionary(key, _) = first.data_type() {
        let mut distinct: Vec<&ArrayData> = Vec::new();
        for values in parts.iter().filter_map(|part| part.child_data().first()) {
            if !distinct.iter().any(|other| other.ptr_eq(values)) {
                distinct.push(values);
            }
        }
        let total: usize = distinct.iter().map(|values| values.len()).sum();
        // A dictionary of 2^31 values is in no block.
        let most = match key.as_ref() {
            DataType::Int8 => 1 << 7,
            DataType::UInt8 => 1 << 8,
            DataType::Int16 => 1 << 15,
            DataType::UInt16 => 1 << 16,
            _ => 1 << 31,
        };
        if total > most {
            return false;
        }
    }
    (0..first.child_data().len()).all(|index| {
        values_fit(&parts.iter().filter_map(|part| part.child_data().get(index).cloned()).collect::<Vec<_>>())
    })
}

/// The array with buffers of its own (views' data and dictionaries' values stay shared).
fn copied(array: &dyn Array) -> Result<ArrayRef, ArrowError> {
    let data = array.to_data();
    let mut copy = MutableArrayData::new(vec![&data], false, data.len());
    copy.try_extend(0, 0, data.len())?;
    Ok(make_array(copy.freeze()))
}

/// A dictionary array whose values are only those its keys use; `None` where that would not save half.
fn compact_dictionary(array: &ArrayRef) -> Result<Option<ArrayRef>, ArrowError> {
    let dictionary = array.as_any_dictionary();
    let values = dictionary.values();
    if values.len() <= array.len().saturating_mul(2) || array_bytes(values.as_ref(), true) <= SLACK_BYTES {
        return Ok(None);
    }
    let mut new_key_of = vec![None; values.len()];
    let mut used = Vec::new();
    let keys = dictionary.normalized_keys();
    let new_keys: UInt64Array = keys
        .iter()
        .enumerate()
        .map(|(row, key)| {
            if array.is_null(row) {
                return None;
            }
            let slot = new_key_of.get_mut(*key)?;
            Some(*slot.get_or_insert_with(|| {
                used.push(*key as u64);
                used.len() as u64 - 1
            }))
        })
        .collect();
    let DataType::Dictionary(key_type, _) = array.data_type() else { return Ok(None) };
    let new_keys = cast(&new_keys, key_type)?;
    let new_values = take(values.as_ref(), &UInt64Array::from(used), None)?;
    let new_values = compact_array(&new_values)?;
    let data = new_keys
        .to_data()
        .into_builder()
        .data_type(array.data_type().clone())
        .child_data(vec![new_values.to_data()])
        .build()?;
    Ok(Some(make_array(data)))
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{DictionaryArray, Int64Array, ListArray, StringArray, StringViewArray, StructArray};
    use datafusion::arrow::datatypes::{Field, Int32Type};

    use super::*;

    fn text(row: usize) -> String {
        format!("a string that is too long for a view, {row}")
    }

    /// A sparse slice becomes small, keeps its rows, and a dense array is left alone.
    fn check(whole: ArrayRef) {
        let slice = whole.slice(whole.len() / 2, 3);
        let small = compact_array(&slice).unwrap();
        assert_eq!(&small, &slice);
        let kind = whole.data_type();
        assert!(small.get_buffer_memory_size() < 3 * SLACK_BYTES, "{kind}: {}", small.get_buffer_memory_size());
        assert!(array_bytes(small.as_ref(), true) < 1_000, "{kind}");
        let dense = compact_array(&whole).unwrap();
        assert!(dense.to_data().ptr_eq(&whole.to_data()), "{kind} is copied without need");
    }

    #[test]
    fn slices_and_views_own_only_their_rows() {
        let rows = 50_000;
        let strings = || (0..rows).map(text);
        check(Arc::new(Int64Array::from_iter_values(0..rows as i64)));
        check(Arc::new(StringArray::from_iter_values(strings())));
        check(Arc::new(StringViewArray::from_iter_values(strings())));
        check(Arc::new(StringViewArray::from_iter_values((0..rows).map(|row| row.to_string()))));
        check(Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(
            (0..rows as i32).map(|row| Some(vec![Some(row), None])),
        )));
        let inner: ArrayRef = Arc::new(StringViewArray::from_iter_values(strings()));
        let field = Arc::new(Field::new("s", DataType::Utf8View, false));
        check(Arc::new(StructArray::from(vec![(field, inner)])));
        check(Arc::new(
            strings()
                .map(Some)
                .collect::<Vec<_>>()
                .iter()
                .map(|s| s.as_deref())
                .collect::<DictionaryArray<Int32Type>>(),
        ));
    }
}
