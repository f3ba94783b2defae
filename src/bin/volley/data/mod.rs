//! The benchmark's tables as Parquet: made when they are missing, checked when they are there, registered with a session.
//!
//! A folder is one of
//! - **generated**: it has a `manifest.json` ([`manifest`]), written after every file was in place. Used when suite,
//!   scale and the size of every file agree, refused by name otherwise: nothing that was complete once is overwritten;
//! - **being generated**, or left by a process that died: it has a `.volley-partial` and no manifest ([`generate`]).
//!   Never used; made anew;
//! - **the user's own**: Parquet files without a manifest, as `TABLE.parquet` or `TABLE/*.parquet` ([`own`]). Used as
//!   it is, every table in it, and reported as having no manifest.
//!
//! How the files are cut: [`layout`].

pub mod layout;
pub mod manifest;
pub mod progress;

mod generate;
mod generators;
mod own;
mod register;
mod write;

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};

use crate::error::CliError;
use manifest::Manifest;
pub use progress::Progress;
pub use register::register;

/// Which benchmark the data and queries are derived from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Suite {
    TpcDs,
    TpcH,
}

impl Suite {
    /// `tpcds`, `tpch`: the command's and the folders' word.
    pub fn word(self) -> &'static str {
        match self {
            Suite::TpcDs => "tpcds",
            Suite::TpcH => "tpch",
        }
    }

    /// `TPC-DS`, `TPC-H`.
    pub fn title(self) -> &'static str {
        match self {
            Suite::TpcDs => "TPC-DS",
            Suite::TpcH => "TPC-H",
        }
    }

    /// The crate that makes the data, and its version.
    pub fn generator(self) -> (&'static str, &'static str) {
        match self {
            Suite::TpcDs => ("tpcdsgen", "4.0"),
            Suite::TpcH => ("tpchgen", "4.0"),
        }
    }

    /// The reference implementation whose rows the generator makes: the C `dsdgen` (`c`, the default of its two modes)
    /// and `dbgen`.
    pub fn compatibility(self) -> &'static str {
        match self {
            Suite::TpcDs => "c",
            Suite::TpcH => "dbgen",
        }
    }
}

impl fmt::Display for Suite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// A scale factor: a positive decimal number, about the gigabytes of text the specification's generator would write.
///
/// Written shortest (`1`, `0.01`), so `1.0` and `1` are the same scale.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Scale(f64);

/// A number, so neither NaN.
impl Eq for Scale {}

impl Scale {
    /// The largest scale that the specification defines.
    pub const MAX: f64 = 100_000.0;

    pub fn factor(&self) -> f64 {
        self.0
    }
}

impl FromStr for Scale {
    type Err = CliError;

    fn from_str(text: &str) -> Result<Self, CliError> {
        match text.trim().parse::<f64>() {
            Ok(factor) if factor > 0.0 && factor <= Self::MAX => Ok(Self(factor)),
            _ => Err(CliError::usage(
                "VOLLEY-SCALE",
                format!("scale {text:?} is not a number above 0 and up to {}", Self::MAX),
                "give a scale such as 1, 10 or 0.1",
            )),
        }
    }
}

impl TryFrom<String> for Scale {
    type Error = CliError;

    fn try_from(text: String) -> Result<Self, CliError> {
        text.parse()
    }
}

impl From<Scale> for String {
    fn from(scale: Scale) -> String {
        scale.to_string()
    }
}

impl fmt::Display for Scale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A folder of tables that can be used.
#[derive(Debug, Clone)]
pub struct Dataset {
    pub suite: Suite,
    /// Absolute.
    pub dir: PathBuf,
    /// `None`: the user's own files.
    pub manifest: Option<Manifest>,
    /// By name.
    pub tables: Vec<Table>,
    /// Whether this call made it.
    pub generated: bool,
}

/// A table's files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    pub name: String,
    /// What a listing table is opened on: a folder of Parquet files, or one file.
    pub path: PathBuf,
    pub is_dir: bool,
    /// Absolute, in name order.
    pub files: Vec<PathBuf>,
    pub bytes: u64,
    /// Known from a manifest.
    pub rows: Option<u64>,
}

impl Dataset {
    /// Of all files.
    pub fn bytes(&self) -> u64 {
        self.tables.iter().map(|table| table.bytes).sum()
    }

    /// For reports: `tpcds scale 1, tpcdsgen 4.0` or what else the folder says of itself.
    pub fn describe(&self) -> String {
        match &self.manifest {
            Some(manifest) => format!(
                "{} scale {}, {} {} (compatibility {})",
                manifest.suite,
                manifest.scale,
                manifest.generator.name,
                manifest.generator.version,
                manifest.generator.compatibility
            ),
            None => "the user's own files, no manifest".to_owned(),
        }
    }

    /// The suite's tables that the folder lacks; its queries on them will fail. Always empty for generated data.
    pub fn missing_tables(&self) -> Vec<&'static str> {
        layout::table_names(self.suite)
            .into_iter()
            // Nothing reads it: it records the generator's run.
            .filter(|name| *name != "dbgen_version")
            .filter(|name| !self.tables.iter().any(|table| table.name == *name))
            .collect()
    }
}

/// The tables of `suite` at `scale` in `dir`, made there if the folder is missing, empty or was left unfinished.
///
/// Blocks, and uses every core while it generates: call it where blocking is allowed. A second process that wants the
/// same folder waits for the first. Soon after `cancel` is set it removes what it began and returns.
///
/// # Errors
/// `VOLLEY-DATA-SCALE`, `-SUITE`, `-DAMAGED`, `-MANIFEST`, `-FOREIGN`: the folder holds something else, each with what to do;
/// `VOLLEY-DISK-FULL` and others of the disk; `VOLLEY-INTERRUPTED`.
pub fn ensure(
    suite: Suite,
    scale: &Scale,
    dir: &Path,
    progress: &Progress,
    cancel: &AtomicBool,
) -> Result<Dataset, CliError> {
    if let Some(dataset) = open(suite, Some(scale), dir)? {
        return Ok(dataset);
    }
    generate::generate(suite, scale, dir, progress, cancel)
}

/// The folder as it is, without making anything: `None` if it is missing, empty or unfinished.
///
/// Checks that each file of a manifest is there with its size; [`verify`] reads them.
///
/// # Errors
/// As [`ensure`], but for those of writing.
pub fn open(suite: Suite, scale: Option<&Scale>, dir: &Path) -> Result<Option<Dataset>, CliError> {
    let dir = std::path::absolute(dir).map_err(|error| CliError::io("find", dir, &error))?;
    if let Some(manifest) = Manifest::read(&dir)? {
        manifest.expect(&dir, suite, scale)?;
        manifest.check_sizes(&dir)?;
        return Ok(Some(of_manifest(dir, manifest)));
    }
    if generate::is_unfinished(&dir) {
        return Ok(None);
    }
    let Some(tables) = own::find(&dir)? else {
        return Ok(None);
    };
    Ok(Some(Dataset { suite, dir, manifest: None, tables, generated: false }))
}

fn of_manifest(dir: PathBuf, manifest: Manifest) -> Dataset {
    let mut tables: Vec<Table> = Vec::new();
    for file in &manifest.files {
        let path = manifest.path_of(&dir, file);
        match tables.last_mut() {
            Some(table) if table.name == file.table => {
                table.files.push(path);
                table.bytes += file.bytes;
                table.rows = table.rows.map(|rows| rows + file.rows);
            }
            _ => tables.push(Table {
                name: file.table.clone(),
                path: dir.join(&file.table),
                is_dir: true,
                files: vec![path],
                bytes: file.bytes,
                rows: Some(file.rows),
            }),
        }
    }
    Dataset { suite: manifest.suite, dir, manifest: Some(manifest), tables, generated: false }
}

/// Reads every file of a generated folder and compares its checksum. Nothing to compare in a user's own folder.
///
/// # Errors
/// `VOLLEY-DATA-DAMAGED` names the first file that differs; `VOLLEY-INTERRUPTED` soon after `cancel` is set.
pub fn verify(dataset: &Dataset, cancel: &AtomicBool) -> Result<(), CliError> {
    let Some(manifest) = &dataset.manifest else {
        return Ok(());
    };
    for file in &manifest.files {
        if cancel.load(Ordering::Relaxed) {
            return Err(CliError::interrupted("the check of the data was interrupted", "the data is unchanged"));
        }
        let path = manifest.path_of(&dataset.dir, file);
        let (crc32, _) = write::checksum(&path).map_err(|error| CliError::io("read", &path, &error))?;
        let found = format!("{crc32:08x}");
        if found != file.crc32 {
            let how = format!("has checksum {found}, {} was written", file.crc32);
            return Err(manifest::damaged(&dataset.dir, &file.path, how));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
