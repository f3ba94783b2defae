//! Bounds of an Arrow IPC record batch, checked before arrow looks at it.
//!
//! Arrow's decoder trusts lengths in places: a buffer beyond the body panics, a compressed buffer that announces
//! `i64::MAX` bytes aborts the process. The walk here takes nodes and buffers in the very order in which the
//! decoder does (the columns' types, depth first), so that each is known to be in bounds and of a possible size.
//! What is inside the buffers (offsets, UTF-8, keys) is left to arrow's own validation.

use std::collections::VecDeque;

use arrow_ipc::{BodyCompressionMethod, CompressionType, RecordBatch};
use datafusion::arrow::buffer::Buffer;
use datafusion::arrow::datatypes::{DataType, UnionMode};

/// Rows of one message. A batch of ours has thousands.
const MAX_ROWS: i64 = u32::MAX as i64;
/// Elements of a nested column: far above any body, far below where sizes overflow.
const MAX_ELEMENTS: i64 = 1 << 40;

/// Checks a record batch message against the types of its columns and its body.
pub(super) fn check<'t>(
    batch: &RecordBatch<'_>,
    types: impl Iterator<Item = &'t DataType>,
    body: &Buffer,
    max_bytes: usize,
) -> Result<(), String> {
    if !(0..=MAX_ROWS).contains(&batch.length()) {
        return Err(format!("a message of {} rows", batch.length()));
    }
    let compressed = match batch.compression() {
        None => false,
        Some(compression)
            if compression.method() == BodyCompressionMethod::BUFFER
                && matches!(compression.codec(), CompressionType::LZ4_FRAME | CompressionType::ZSTD) =>
        {
            true
        }
        Some(_) => return Err("an unknown compression".into()),
    };
    let nodes = batch.nodes().ok_or("no field nodes")?;
    let buffers = batch.buffers().ok_or("no buffers")?;
    let mut walk = Walk {
        nodes: nodes.iter().map(|node| (node.length(), node.null_count())),
        buffers: buffers.iter().map(|buffer| (buffer.offset(), buffer.length())),
        variadic: batch.variadicBufferCounts().into_iter().flatten().collect(),
        body: body.as_slice(),
        compressed,
        budget: max_bytes,
    };
    for data_type in types {
        walk.column(data_type)?;
    }
    if walk.nodes.next().is_some() || walk.buffers.next().is_some() || !walk.variadic.is_empty() {
        return Err("a message with more columns than its schema".into());
    }
    Ok(())
}

struct Walk<'a, N, B> {
    nodes: N,
    buffers: B,
    variadic: VecDeque<i64>,
    body: &'a [u8],
    compressed: bool,
    /// Uncompressed bytes that the message may still ask for.
    budget: usize,
}

impl<N, B> Walk<'_, N, B>
where
    N: Iterator<Item = (i64, i64)>,
    B: Iterator<Item = (i64, i64)>,
{
    /// Elements and NULLs of the next node.
    fn node(&mut self) -> Result<(usize, usize), String> {
        let (length, nulls) = self.nodes.next().ok_or("a message with fewer columns than its schema")?;
        if !(0..=MAX_ELEMENTS).contains(&length) || !(0..=length).contains(&nulls) {
            return Err(format!("a column of {length} elements and {nulls} NULLs"));
        }
        Ok((length as usize, nulls as usize))
    }

    /// Uncompressed bytes of the next buffer.
    fn buffer(&mut self) -> Result<usize, String> {
        let (offset, length) = self.buffers.next().ok_or("a message with fewer buffers than its schema")?;
        let out_of_body = || format!("a buffer at {offset}+{length} of a body of {} bytes", self.body.len());
        let start = usize::try_from(offset).map_err(|_| out_of_body())?;
        let length = usize::try_from(length).map_err(|_| out_of_body())?;
        let end = start.checked_add(length).ok_or_else(out_of_body)?;
        let bytes = self.body.get(start..end).ok_or_else(out_of_body)?;
        if !start.is_multiple_of(8) {
            return Err(format!("a buffer at {offset}, which is not aligned"));
        }
        let uncompressed = match bytes {
            [] => 0,
            _ if !self.compressed => length,
            _ => {
                let announced = bytes.first_chunk::<8>().ok_or("a compressed buffer without its length")?;
                match i64::from_le_bytes(*announced) {
                    -1 => length - 8,
                    announced => usize::try_from(announced).map_err(|_| format!("a buffer of {announced} bytes"))?,
                }
            }
        };
        self.budget = self
            .budget
            .checked_sub(uncompressed)
            .ok_or_else(|| format!("a buffer of {uncompressed} bytes, above the limit for one message"))?;
        Ok(uncompressed)
    }

    fn buffers(&mut self, count: usize) -> Result<(), String> {
        for _ in 0..count {
            self.buffer()?;
        }
        Ok(())
    }

    fn column(&mut self, data_type: &DataType) -> Result<(), String> {
        match data_type {
            DataType::Null => {
                self.node()?;
            }
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Binary | DataType::LargeBinary => {
                self.node()?;
                self.buffers(3)?;
            }
            DataType::Utf8View | DataType::BinaryView => {
                self.node()?;
                let count = self.variadic.pop_front().ok_or("a view column without its buffer count")?;
                let count = usize::try_from(count).map_err(|_| format!("a view column of {count} buffers"))?;
                // The buffers run out long before an absurd count does.
                self.buffers(2)?;
                self.buffers(count)?;
            }
            DataType::List(field) | DataType::LargeList(field) | DataType::Map(field, _) => {
                self.node()?;
                self.buffers(2)?;
                self.column(field.data_type())?;
            }
            DataType::ListView(field) | DataType::LargeListView(field) => {
                self.node()?;
                self.buffers(3)?;
                self.column(field.data_type())?;
            }
            DataType::FixedSizeList(field, _) => {
                self.node()?;
                self.buffers(1)?;
                self.column(field.data_type())?;
            }
            DataType::Struct(fields) => {
                let (length, nulls) = self.node()?;
                let validity = self.buffer()?;
                if nulls > 0 && validity < length.div_ceil(8) {
                    return Err("a struct column whose NULLs are cut short".into());
                }
                for field in fields {
                    self.column(field.data_type())?;
                }
            }
            DataType::RunEndEncoded(run_ends, values) => {
                self.node()?;
                self.column(run_ends.data_type())?;
                self.column(values.data_type())?;
            }
            DataType::Union(fields, mode) => {
                let (length, _) = self.node()?;
                let type_ids = self.buffer()?;
                let enough = match mode {
                    UnionMode::Dense => self.buffer()? / 4 >= length,
                    UnionMode::Sparse => true,
                };
                if type_ids < length || !enough {
                    return Err("a union column that is cut short".into());
                }
                for (_, field) in fields.iter() {
                    self.column(field.data_type())?;
                }
            }
            // Fixed width, booleans, and the keys of dictionaries.
            _ => {
                self.node()?;
                self.buffers(2)?;
            }
        }
        Ok(())
    }
}
