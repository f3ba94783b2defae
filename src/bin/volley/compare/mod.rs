//! Whether a query gave the right rows, in the right order.
//!
//! - **Rows** are a multiset: every row has its equal in the reference and the other way round. Exact columns are equal by
//!   value whatever their type ([`canonical`]); floating-point columns within [`pairing::TOLERANCE`].
//! - **Order** is that of the ORDER BY keys ([`sql`], [`keys`]); rows with equal keys may come in any order.
//! - **At a LIMIT** the last rows may be any of those with the last key: rows above it must be the reference's, those
//!   at it a part of what the reference has there *without* the LIMIT.

pub mod canonical;
pub mod sql;

mod keys;
mod murmur3;
mod pairing;

use std::cmp::Ordering;
use std::fmt::Write;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::error::Result;

pub use canonical::Digest;
use canonical::{Canonical, is_float};
use keys::Keys;
use pairing::{Unmatched, pair};
pub use sql::{OrderBy, strip_final_limit};

/// Rows of each kind that a difference shows.
const SHOWN: usize = 3;
/// Characters of a value that a difference shows.
const SHOWN_CHARS: usize = 60;

/// A query's result, in the order in which it came.
#[derive(Debug, Clone)]
pub struct Rows {
    pub schema: SchemaRef,
    pub batches: Vec<RecordBatch>,
}

impl Rows {
    pub fn new(schema: SchemaRef, batches: Vec<RecordBatch>) -> Self {
        Self { schema, batches }
    }

    pub fn count(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    /// Of the exact columns; see [`Digest`].
    pub fn digest(&self) -> Digest {
        let float: Vec<_> = self.schema.fields().iter().map(|field| is_float(field.data_type())).collect();
        // Only a cast can fail, and floats can be cast to floats.
        Canonical::new(self, &float).map(|rows| rows.digest()).unwrap_or_default()
    }
}

/// What to compare a result with.
#[derive(Debug, Clone, Copy)]
pub struct Reference<'a> {
    pub rows: &'a Rows,
    /// The query as it was run; its ORDER BY and final LIMIT are read from it.
    pub sql: &'a str,
    /// The rows of [`strip_final_limit`]'s text, if they are there already.
    pub unlimited: Option<&'a Rows>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Equal {
        order: Order,
    },
    /// Not the reference's rows, but the query ends in a LIMIT and could have chosen others among equals: run the text of
    /// [`strip_final_limit`] for the reference and compare again with [`Reference::unlimited`].
    NeedsUnlimited,
    Different {
        kind: Difference,
        /// One line for each of the first differing rows, column by column.
        first_rows: String,
    },
}

impl Verdict {
    #[cfg(test)]
    pub fn is_equal(&self) -> bool {
        matches!(self, Verdict::Equal { .. })
    }
}

/// How far the order of equal rows was checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    /// The query asks for none.
    Free,
    /// By all keys.
    Checked,
    /// By the first `keys`; the others are not in the result.
    Partly { keys: usize, unread: Vec<String> },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Difference {
    /// Other column names or another number of them.
    Columns,
    Rows,
    /// The right rows in a wrong order.
    Order,
}

/// Compares `actual` with `reference`.
///
/// # Errors
/// A value that cannot be compared: a key that cannot be computed, a number column against a text column.
pub fn compare(actual: &Rows, reference: Reference<'_>) -> Result<Verdict> {
    if let Some(different) = compare_columns(actual, reference.rows) {
        return Ok(different);
    }
    let float = float_columns(actual, reference.rows);
    let (ours, theirs) = (Canonical::new(actual, &float)?, Canonical::new(reference.rows, &float)?);
    let unmatched = pair(&ours, 0..actual.count(), &theirs, 0..reference.rows.count());

    let order = OrderBy::read(reference.sql, &actual.schema);
    let keys = Keys::new(actual, &order, None)?;
    if unmatched == Unmatched::default() {
        return Ok(match keys.first_out_of_order() {
            None => Verdict::Equal { order: how_far(order) },
            Some(row) => out_of_order(actual, &order, row),
        });
    }
    let (count, expected) = (actual.count(), reference.rows.count());
    if count != expected || strip_final_limit(reference.sql).is_none() {
        let mut different = different_rows(actual, &unmatched.left, reference.rows, &unmatched.right);
        if let Verdict::Different { first_rows, .. } = &mut different
            && count != expected
        {
            first_rows.insert_str(0, &format!("{count} rows; expected {expected}\n"));
        }
        return Ok(different);
    }
    match reference.unlimited {
        None => Ok(Verdict::NeedsUnlimited),
        Some(unlimited) => compare_limited(actual, &keys, order, unlimited),
    }
}

/// `actual`, as many rows as the LIMIT leaves, against the rows without it.
fn compare_limited(actual: &Rows, keys: &Keys, order: OrderBy, unlimited: &Rows) -> Result<Verdict> {
    if let Some(row) = keys.first_out_of_order() {
        return Ok(out_of_order(actual, &order, row));
    }
    if let Some(different) = compare_columns(actual, unlimited) {
        return Ok(different);
    }
    let float = float_columns(actual, unlimited);
    let (ours, theirs) = (Canonical::new(actual, &float)?, Canonical::new(unlimited, &float)?);
    let all_keys = Keys::new(unlimited, &order, Some(&keys.types()))?;
    // Some rows are unmatched, so there is a last one.
    let last = keys.count - 1;
    let split = |of: &Keys, wanted: Ordering| -> Vec<usize> {
        (0..of.count).filter(|row| of.compare(*row, keys, last, true) == wanted).collect()
    };
    let above = pair(&ours, split(keys, Ordering::Less), &theirs, split(&all_keys, Ordering::Less));
    if above != Unmatched::default() {
        return Ok(different_rows(actual, &above.left, unlimited, &above.right));
    }
    // The reference may have more rows at the last key, so only ours must all be found.
    let at = pair(&ours, split(keys, Ordering::Equal), &theirs, split(&all_keys, Ordering::Equal));
    if !at.left.is_empty() {
        return Ok(different_rows(actual, &at.left, unlimited, &[]));
    }
    Ok(Verdict::Equal { order: how_far(order) })
}

fn how_far(order: OrderBy) -> Order {
    match (order.keys.len(), order.unread.is_empty()) {
        (0, true) => Order::Free,
        (_, true) => Order::Checked,
        (keys, false) => Order::Partly { keys, unread: order.unread },
    }
}

fn float_columns(a: &Rows, b: &Rows) -> Vec<bool> {
    a.schema
        .fields()
        .iter()
        .zip(b.schema.fields())
        .map(|(a, b)| is_float(a.data_type()) || is_float(b.data_type()))
        .collect()
}

fn compare_columns(actual: &Rows, reference: &Rows) -> Option<Verdict> {
    let names = |rows: &Rows| rows.schema.fields().iter().map(|field| field.name().clone()).collect::<Vec<_>>();
    let (ours, theirs) = (names(actual), names(reference));
    (ours != theirs).then(|| Verdict::Different {
        kind: Difference::Columns,
        first_rows: format!("columns {}; expected {}", ours.join(", "), theirs.join(", ")),
    })
}

fn different_rows(actual: &Rows, unexpected: &[usize], reference: &Rows, missing: &[usize]) -> Verdict {
    let mut text = String::new();
    show(&mut text, "unexpected", actual, unexpected);
    show(&mut text, "missing", reference, missing);
    Verdict::Different { kind: Difference::Rows, first_rows: text.trim_end().to_owned() }
}

fn out_of_order(actual: &Rows, order: &OrderBy, row: usize) -> Verdict {
    let keys: Vec<_> = order.keys.iter().map(|key| key.text.as_str()).collect();
    let mut text = format!("not in the order of {}:\n", keys.join(", "));
    show(&mut text, "row", actual, &[row - 1]);
    show(&mut text, "before", actual, &[row]);
    Verdict::Different { kind: Difference::Order, first_rows: text.trim_end().to_owned() }
}

/// The first of `places`, a line each: `missing row 17: a=1, b=NULL`, and how many more there are.
fn show(text: &mut String, what: &str, rows: &Rows, places: &[usize]) {
    for place in places.iter().take(SHOWN) {
        let _ = writeln!(text, "{what} row {}: {}", place + 1, row_text(rows, *place));
    }
    if places.len() > SHOWN {
        let _ = writeln!(text, "and {} more {what}", places.len() - SHOWN);
    }
}

fn row_text(rows: &Rows, mut place: usize) -> String {
    let options = FormatOptions::new().with_null("NULL");
    for batch in &rows.batches {
        if place >= batch.num_rows() {
            place -= batch.num_rows();
            continue;
        }
        let values = batch.schema_ref().fields().iter().zip(batch.columns()).map(|(field, column)| {
            let value = match ArrayFormatter::try_new(column.as_ref(), &options) {
                Ok(formatter) => formatter.value(place).try_to_string().unwrap_or_else(|error| error.to_string()),
                Err(error) => error.to_string(),
            };
            let shown: String = value.chars().take(SHOWN_CHARS).collect();
            let more = if shown.len() < value.len() { "…" } else { "" };
            format!("{}={shown}{more}", field.name())
        });
        return values.collect::<Vec<_>>().join(", ");
    }
    String::new()
}

#[cfg(test)]
mod tests;
