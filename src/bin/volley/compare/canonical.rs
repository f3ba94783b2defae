//! Rows by value: every row as a 128-bit hash of its exact columns and the values of its floating-point columns.
//!
//! Equal values of different types are equal here: text plain, viewed or behind a dictionary; whole numbers of any width
//! and decimals of any precision and scale; dates and times of any unit. A row's exact columns are written one after the
//! other in this form and hashed:
//!
//! | value | bytes |
//! |---|---|
//! | NULL | `0` |
//! | boolean | `1`, 0 or 1 |
//! | number | `2`, scale (1 byte), digits (16 bytes, or 32 if they need it); no trailing zeros behind the point |
//! | text, binary | `3` or `4`, length (4 bytes), the bytes |
//! | date, timestamp, time, duration | `5` to `8`, nanoseconds (16 bytes) |
//! | anything else | `9`, length (4 bytes), the text it is shown as |

use std::fmt;

use datafusion::arrow::array::*;
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{i256, *};
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};

use super::Rows;
use super::murmur3::hash128;

const NANOS_PER_DAY: i128 = 86_400_000_000_000;

/// Stands for a multiset of rows: the sum of the rows' hashes, so their order does not matter. Floating-point columns
/// are left out, since their last digits depend on the order of additions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Digest(pub u128);

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// Rows in the form in which they are compared.
pub struct Canonical {
    /// One per row, over the exact columns.
    pub exact: Vec<u128>,
    /// How many floating-point columns there are.
    pub width: usize,
    /// Row by row, `width` each.
    floats: Vec<Option<f64>>,
}

impl Canonical {
    /// `float[i]`: whether column `i` is compared as floating point.
    ///
    /// # Errors
    /// A column marked as floating point that has no numbers.
    pub fn new(rows: &Rows, float: &[bool]) -> Result<Self, ArrowError> {
        let width = float.iter().filter(|float| **float).count();
        let count = rows.count();
        let mut exact = Vec::with_capacity(count);
        let mut floats = Vec::with_capacity(count * width);
        let mut bytes = Vec::new();
        for batch in &rows.batches {
            let mut exacts = Vec::new();
            let mut numbers = Vec::new();
            for (column, float) in batch.columns().iter().zip(float) {
                if *float {
                    numbers.push(cast(column, &DataType::Float64)?);
                } else {
                    exacts.push(encoder(column)?);
                }
            }
            let numbers: Vec<&Float64Array> = numbers.iter().map(|array| array.as_primitive()).collect();
            for row in 0..batch.num_rows() {
                bytes.clear();
                for encode in &exacts {
                    encode(row, &mut bytes);
                }
                exact.push(hash128(&bytes));
                floats.extend(numbers.iter().map(|array| array.is_valid(row).then(|| array.value(row))));
            }
        }
        Ok(Self { exact, width, floats })
    }

    pub fn floats(&self, row: usize) -> &[Option<f64>] {
        &self.floats[row * self.width..(row + 1) * self.width]
    }

    pub fn digest(&self) -> Digest {
        Digest(self.exact.iter().fold(0, |sum, hash| sum.wrapping_add(*hash)))
    }
}

/// Whether values of this type are compared with a tolerance.
pub fn is_float(data_type: &DataType) -> bool {
    match data_type {
        DataType::Float16 | DataType::Float32 | DataType::Float64 => true,
        DataType::Dictionary(_, values) => is_float(values),
        _ => false,
    }
}

type Encode<'a> = Box<dyn Fn(usize, &mut Vec<u8>) + 'a>;

/// Appends the canonical bytes of a row's value.
fn encoder(array: &dyn Array) -> Result<Encode<'_>, ArrowError> {
    let encode: Encode<'_> = match array.data_type() {
        DataType::Null => Box::new(|_, out| out.push(0)),
        DataType::Boolean => {
            let array = array.as_boolean();
            valid(array, move |row, out| out.extend([1, u8::from(array.value(row))]))
        }
        DataType::Int8 => whole::<Int8Type>(array),
        DataType::Int16 => whole::<Int16Type>(array),
        DataType::Int32 => whole::<Int32Type>(array),
        DataType::Int64 => whole::<Int64Type>(array),
        DataType::UInt8 => whole::<UInt8Type>(array),
        DataType::UInt16 => whole::<UInt16Type>(array),
        DataType::UInt32 => whole::<UInt32Type>(array),
        DataType::UInt64 => whole::<UInt64Type>(array),
        DataType::Decimal32(_, scale) => decimal::<Decimal32Type>(array, *scale),
        DataType::Decimal64(_, scale) => decimal::<Decimal64Type>(array, *scale),
        DataType::Decimal128(_, scale) => decimal::<Decimal128Type>(array, *scale),
        DataType::Decimal256(_, scale) => {
            let (array, scale) = (array.as_primitive::<Decimal256Type>(), *scale);
            valid(array, move |row, out| wide_number(array.value(row), scale, out))
        }
        DataType::Utf8 => texts(array.as_string::<i32>()),
        DataType::LargeUtf8 => texts(array.as_string::<i64>()),
        DataType::Utf8View => texts(array.as_string_view()),
        DataType::Binary => blobs(array.as_binary::<i32>()),
        DataType::LargeBinary => blobs(array.as_binary::<i64>()),
        DataType::BinaryView => blobs(array.as_binary_view()),
        DataType::FixedSizeBinary(_) => blobs(array.as_fixed_size_binary()),
        DataType::Date32 => nanos::<Date32Type>(array, 5, NANOS_PER_DAY),
        DataType::Date64 => nanos::<Date64Type>(array, 5, 1_000_000),
        DataType::Timestamp(TimeUnit::Second, _) => nanos::<TimestampSecondType>(array, 6, 1_000_000_000),
        DataType::Timestamp(TimeUnit::Millisecond, _) => nanos::<TimestampMillisecondType>(array, 6, 1_000_000),
        DataType::Timestamp(TimeUnit::Microsecond, _) => nanos::<TimestampMicrosecondType>(array, 6, 1_000),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => nanos::<TimestampNanosecondType>(array, 6, 1),
        DataType::Time32(TimeUnit::Second) => nanos::<Time32SecondType>(array, 7, 1_000_000_000),
        DataType::Time32(_) => nanos::<Time32MillisecondType>(array, 7, 1_000_000),
        DataType::Time64(TimeUnit::Microsecond) => nanos::<Time64MicrosecondType>(array, 7, 1_000),
        DataType::Time64(_) => nanos::<Time64NanosecondType>(array, 7, 1),
        DataType::Duration(TimeUnit::Second) => nanos::<DurationSecondType>(array, 8, 1_000_000_000),
        DataType::Duration(TimeUnit::Millisecond) => nanos::<DurationMillisecondType>(array, 8, 1_000_000),
        DataType::Duration(TimeUnit::Microsecond) => nanos::<DurationMicrosecondType>(array, 8, 1_000),
        DataType::Duration(TimeUnit::Nanosecond) => nanos::<DurationNanosecondType>(array, 8, 1),
        DataType::Dictionary(_, _) => {
            let dictionary = array.as_any_dictionary();
            let keys = if dictionary.values().is_empty() { vec![] } else { dictionary.normalized_keys() };
            let value = encoder(dictionary.values().as_ref())?;
            // Both a key and the value behind it can be NULL.
            valid(array, move |row, out| value(keys[row], out))
        }
        _ => {
            let shown = ArrayFormatter::try_new(array, &FormatOptions::new())?;
            valid(array, move |row, out| sized(9, shown.value(row).to_string().as_bytes(), out))
        }
    };
    Ok(encode)
}

/// `encode` where there is a value, else NULL.
fn valid<'a>(array: &'a (impl Array + ?Sized), encode: impl Fn(usize, &mut Vec<u8>) + 'a) -> Encode<'a> {
    Box::new(move |row, out| if array.is_null(row) { out.push(0) } else { encode(row, out) })
}

fn whole<T: ArrowPrimitiveType>(array: &dyn Array) -> Encode<'_>
where
    T::Native: Into<i128>,
{
    let array = array.as_primitive::<T>();
    valid(array, move |row, out| number(array.value(row).into(), 0, out))
}

fn decimal<T: DecimalType>(array: &dyn Array, scale: i8) -> Encode<'_>
where
    T::Native: Into<i128>,
{
    let array = array.as_primitive::<T>();
    valid(array, move |row, out| number(array.value(row).into(), scale, out))
}

fn nanos<T: ArrowPrimitiveType>(array: &dyn Array, tag: u8, unit: i128) -> Encode<'_>
where
    T::Native: Into<i128>,
{
    let array = array.as_primitive::<T>();
    valid(array, move |row, out| {
        out.push(tag);
        out.extend((array.value(row).into() * unit).to_le_bytes());
    })
}

fn texts<'a>(array: impl ArrayAccessor<Item = &'a str> + Copy + 'a) -> Encode<'a> {
    Box::new(move |row, out| if array.is_null(row) { out.push(0) } else { sized(3, array.value(row).as_bytes(), out) })
}

fn blobs<'a>(array: impl ArrayAccessor<Item = &'a [u8]> + Copy + 'a) -> Encode<'a> {
    Box::new(move |row, out| if array.is_null(row) { out.push(0) } else { sized(4, array.value(row), out) })
}

fn sized(tag: u8, bytes: &[u8], out: &mut Vec<u8>) {
    out.push(tag);
    out.extend((bytes.len() as u32).to_le_bytes());
    out.extend(bytes);
}

/// `digits * 10^-scale`.
fn number(mut digits: i128, mut scale: i8, out: &mut Vec<u8>) {
    while scale > 0 && digits % 10 == 0 {
        digits /= 10;
        scale -= 1;
    }
    while scale < 0 {
        let Some(larger) = digits.checked_mul(10) else { return wide_number(i256::from_i128(digits), scale, out) };
        digits = larger;
        scale += 1;
    }
    out.extend([2, scale as u8]);
    out.extend(digits.to_le_bytes());
}

fn wide_number(mut digits: i256, mut scale: i8, out: &mut Vec<u8>) {
    let ten = i256::from_i128(10);
    while scale > 0 && digits.checked_rem(ten) == Some(i256::ZERO) {
        digits = digits.wrapping_div(ten);
        scale -= 1;
    }
    while scale < 0
        && let Some(larger) = digits.checked_mul(ten)
    {
        digits = larger;
        scale += 1;
    }
    let (low, high) = digits.to_parts();
    out.extend([2, scale as u8]);
    out.extend(low.to_le_bytes());
    // Only if the sixteen bytes are not the number.
    if high != (low as i128) >> 127 {
        out.extend(high.to_le_bytes());
    }
}
