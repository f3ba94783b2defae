//! Which files a suite's data has: the tables, how many parts each is cut into and how the parts are laid out.
//!
//! The rule, also recorded in the manifest ([`RULE`]): a table is one file until its encoded, uncompressed data passes
//! [`PART_BYTES`]; then it is cut into parts of about that size. The largest tables have at least [`MIN_FACT_PARTS`]
//! parts at any scale, so that the few partitions of a small cluster have whole files to read. Files are
//! `TABLE/part-NNNN.parquet`, row groups about [`ROW_GROUP_BYTES`].
//!
//! Parts are contiguous ranges of the generator's *source rows* (a ticket or order with all its lines), so the rows of
//! a table do not depend on the number of its parts. Tables that keep history (the generator derives a row from the
//! one before) and small tables are never cut.

use tpcdsgen::config::{Session, Table as DsTable};

use super::{Scale, Suite};

/// Encoded bytes of a row group before compression: what Spark and others aim at, one read of a column is megabytes.
pub const ROW_GROUP_BYTES: usize = 128 << 20;
/// Encoded bytes of a part before compression: two row groups.
pub const PART_BYTES: u64 = 256 << 20;
/// Files of the largest tables at any scale.
pub const MIN_FACT_PARTS: u64 = 4;
/// The layout rule in words, for the manifest.
pub const RULE: &str = "TABLE/part-NNNN.parquet; one file per 256 MiB of encoded data, at least 4 for store_sales, \
catalog_sales, web_sales, inventory, lineitem and orders; row groups of about 128 MiB; snappy; page index; no bloom filters";

/// One table at one scale.
#[derive(Debug, Clone, PartialEq)]
pub struct TablePlan {
    pub name: &'static str,
    /// Rows (orders, tickets) the generator iterates over.
    pub source_rows: u64,
    /// About how many rows the table has.
    pub rows: u64,
    /// About how many bytes the table's files have.
    pub bytes: u64,
    pub parts: u64,
}

/// One file to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartPlan {
    pub table: &'static str,
    /// Zero-based.
    pub part: u64,
    pub parts: u64,
    /// First and last source row, one-based, inclusive. `first > last`: no rows.
    pub first: u64,
    pub last: u64,
    /// About how many rows the file has.
    pub rows: u64,
    /// About how many bytes.
    pub bytes: u64,
}

impl PartPlan {
    /// `part-0003.parquet`
    pub fn file_name(&self) -> String {
        format!("part-{:04}.parquet", self.part)
    }
}

/// How a table grows: facts measured at scale 1.
struct Shape {
    name: &'static str,
    /// Rows for one source row.
    rows_per_source: f64,
    /// Encoded bytes a row.
    bytes_per_row: f64,
    cut: Cut,
}

#[derive(Clone, Copy, PartialEq)]
enum Cut {
    Never,
    BySize,
    /// By size, at least [`MIN_FACT_PARTS`].
    Fact,
}

const fn shape(name: &'static str, rows_per_source: f64, bytes_per_row: f64, cut: Cut) -> Shape {
    Shape { name, rows_per_source, bytes_per_row, cut }
}

const TPC_DS: [Shape; 25] = [
    shape("call_center", 1.0, 410.0, Cut::Never),
    shape("catalog_page", 1.0, 110.0, Cut::Never),
    shape("catalog_returns", 0.9, 81.0, Cut::BySize),
    shape("catalog_sales", 9.01, 77.0, Cut::Fact),
    shape("customer", 1.0, 82.0, Cut::BySize),
    shape("customer_address", 1.0, 42.0, Cut::BySize),
    shape("customer_demographics", 1.0, 5.1, Cut::Never),
    shape("date_dim", 1.0, 53.0, Cut::Never),
    shape("dbgen_version", 1.0, 250.0, Cut::Never),
    shape("household_demographics", 1.0, 6.4, Cut::Never),
    shape("income_band", 1.0, 20.0, Cut::Never),
    shape("inventory", 1.0, 3.1, Cut::Fact),
    shape("item", 1.0, 165.0, Cut::Never),
    shape("promotion", 1.0, 90.0, Cut::Never),
    shape("reason", 1.0, 45.0, Cut::Never),
    shape("ship_mode", 1.0, 72.0, Cut::Never),
    shape("store", 1.0, 250.0, Cut::Never),
    shape("store_returns", 1.2, 57.3, Cut::BySize),
    shape("store_sales", 12.0, 44.5, Cut::Fact),
    shape("time_dim", 1.0, 34.0, Cut::Never),
    shape("warehouse", 1.0, 200.0, Cut::Never),
    shape("web_page", 1.0, 42.0, Cut::Never),
    shape("web_returns", 1.2, 87.0, Cut::BySize),
    shape("web_sales", 12.0, 75.1, Cut::Fact),
    shape("web_site", 1.0, 200.0, Cut::Never),
];

/// With the rows at scale 1.
const TPC_H: [(Shape, u64); 8] = [
    (shape("customer", 1.0, 169.0, Cut::BySize), 150_000),
    (shape("lineitem", 4.0, 63.0, Cut::Fact), 1_500_000),
    (shape("nation", 1.0, 107.0, Cut::Never), 25),
    (shape("orders", 1.0, 78.0, Cut::Fact), 1_500_000),
    (shape("part", 1.0, 70.0, Cut::BySize), 200_000),
    (shape("partsupp", 4.0, 140.0, Cut::BySize), 200_000),
    (shape("region", 1.0, 111.0, Cut::Never), 5),
    (shape("supplier", 1.0, 164.0, Cut::BySize), 10_000),
];

/// The names of a suite's tables, in alphabetical order.
pub fn table_names(suite: Suite) -> Vec<&'static str> {
    match suite {
        Suite::TpcDs => TPC_DS.iter().map(|shape| shape.name).collect(),
        Suite::TpcH => TPC_H.iter().map(|(shape, _)| shape.name).collect(),
    }
}

/// Every table of `suite` at `scale`.
pub fn tables(suite: Suite, scale: &Scale) -> Vec<TablePlan> {
    match suite {
        Suite::TpcDs => {
            let session = ds_session(scale);
            TPC_DS.iter().map(|shape| plan(shape, session.get_scaling().get_row_count(ds_table(shape.name)))).collect()
        }
        Suite::TpcH => TPC_H
            .iter()
            .map(|(shape, rows_at_1)| {
                // The generator truncates; nation and region have no scale.
                let rows = match shape.cut {
                    Cut::Never => *rows_at_1,
                    _ => (*rows_at_1 as f64 * scale.factor()) as u64,
                };
                plan(shape, rows)
            })
            .collect(),
    }
}

fn plan(shape: &Shape, source_rows: u64) -> TablePlan {
    let rows = (source_rows as f64 * shape.rows_per_source).round() as u64;
    let bytes = (rows as f64 * shape.bytes_per_row).round() as u64;
    let by_size = bytes.div_ceil(PART_BYTES).max(1);
    let parts = match shape.cut {
        Cut::Never => 1,
        Cut::BySize => by_size,
        Cut::Fact => by_size.max(MIN_FACT_PARTS),
    };
    TablePlan { name: shape.name, source_rows, rows, bytes, parts: parts.min(source_rows).max(1) }
}

/// The files of `table`: every source row in exactly one part, sizes differing by at most one source row.
pub fn parts(table: &TablePlan) -> Vec<PartPlan> {
    let edge = |part: u64| (u128::from(table.source_rows) * u128::from(part) / u128::from(table.parts)) as u64;
    (0..table.parts)
        .map(|part| PartPlan {
            table: table.name,
            part,
            parts: table.parts,
            first: edge(part) + 1,
            last: edge(part + 1),
            rows: table.rows / table.parts,
            bytes: table.bytes / table.parts,
        })
        .collect()
}

/// A TPC-DS generator session in the mode that [`Suite::compatibility`] names, the crate's default.
pub fn ds_session(scale: &Scale) -> Session {
    tpcdsgen::config::SessionBuilder::new()
        .with_scale_factor(scale.factor())
        .build()
        .expect("a checked scale is one the generator takes")
}

/// The generator's own name of a table of ours.
///
/// # Panics
/// On a name that is not in [`table_names`].
pub fn ds_table(name: &str) -> DsTable {
    *DsTable::values()
        .iter()
        .find(|table| table.get_name() == name)
        .unwrap_or_else(|| panic!("{name} is no table of TPC-DS"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(suite: Suite, scale: &str) -> Vec<(&'static str, u64)> {
        tables(suite, &scale.parse().unwrap())
            .iter()
            .filter(|table| table.parts > 1)
            .map(|table| (table.name, table.parts))
            .collect()
    }

    #[test]
    fn facts_have_several_files_at_any_scale_and_more_as_they_grow() {
        let facts = [("catalog_sales", 4), ("inventory", 4), ("store_sales", 4), ("web_sales", 4)];
        assert_eq!(counts(Suite::TpcDs, "0.01"), facts);
        assert_eq!(counts(Suite::TpcDs, "1"), facts);
        let at_100 = counts(Suite::TpcDs, "100");
        assert!(at_100.contains(&("store_sales", 48)), "{at_100:?}");
        assert!(at_100.contains(&("store_returns", 7)), "{at_100:?}");
        assert_eq!(counts(Suite::TpcH, "0.01"), [("lineitem", 4), ("orders", 4)]);
    }

    #[test]
    fn every_source_row_is_in_one_part() {
        for (rows, parts_wanted) in [(0, 1), (1, 1), (7, 4), (10, 3), (1_000_003, 64)] {
            let table = TablePlan { name: "t", source_rows: rows, rows, bytes: 0, parts: parts_wanted };
            let mut next = 1;
            for part in parts(&table) {
                assert_eq!(part.first, next);
                next = part.last + 1;
                let size = part.last + 1 - part.first;
                assert!(size.abs_diff(rows / parts_wanted) <= 1, "{part:?}");
            }
            assert_eq!(next, rows + 1);
        }
    }

    #[test]
    fn our_table_names_are_the_generators() {
        let mut names: Vec<_> = DsTable::values().iter().map(|table| table.get_name()).collect();
        names.sort_unstable();
        assert_eq!(table_names(Suite::TpcDs), names);
    }
}
