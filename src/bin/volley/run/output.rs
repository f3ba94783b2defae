//! The records of a run: each a line of `runs.jsonl` as soon as it is known, and on stdout with `--json`.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use datafusion::parquet::arrow::ArrowWriter;

use crate::compare::Rows;
use crate::error::{CliError, ExitStatus};
use crate::report::RunRecord;

pub const RUNS: &str = "runs.jsonl";
const RESULTS: &str = "results";

pub struct Output {
    dir: PathBuf,
    file: File,
    /// Also on stdout.
    json: bool,
    save_results: bool,
    records: Vec<RunRecord>,
}

impl Output {
    /// Makes `dir` and begins `runs.jsonl` in it anew.
    ///
    /// # Errors
    /// Of the disk.
    pub fn create(dir: &Path, json: bool, save_results: bool) -> Result<Self, CliError> {
        let wanted = if save_results { dir.join(RESULTS) } else { dir.to_owned() };
        fs::create_dir_all(&wanted).map_err(|error| CliError::io("make", &wanted, &error))?;
        let path = dir.join(RUNS);
        let file = File::create(&path).map_err(|error| CliError::io("write", &path, &error))?;
        Ok(Self { dir: dir.to_owned(), file, json, save_results, records: Vec::new() })
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    pub fn records(&self) -> &[RunRecord] {
        &self.records
    }

    /// # Errors
    /// Of the disk; `VOLLEY-STDOUT` if nobody reads stdout any more.
    pub fn record(&mut self, record: RunRecord) -> Result<(), CliError> {
        let mut line = record.line();
        line.push('\n');
        self.file.write_all(line.as_bytes()).map_err(|error| CliError::io("write", &self.dir.join(RUNS), &error))?;
        if self.json {
            print(&line)?;
        }
        self.records.push(record);
        Ok(())
    }

    /// Writes `rows` as `results/QUERY.parquet`, if that was asked for.
    ///
    /// # Errors
    /// Of the disk.
    pub fn save_result(&self, query: &str, rows: &Rows) -> Result<(), CliError> {
        if !self.save_results {
            return Ok(());
        }
        let path = self.dir.join(RESULTS).join(format!("{query}.parquet"));
        let failed = |error: io::Error| CliError::io("write", &path, &error);
        let file = File::create(&path).map_err(failed)?;
        let write = || {
            let mut writer = ArrowWriter::try_new(file, rows.schema.clone(), None)?;
            for batch in &rows.batches {
                writer.write(batch)?;
            }
            writer.close()
        };
        write().map(drop).map_err(|error| failed(io::Error::other(error)))
    }
}

/// `text` on stdout.
///
/// # Errors
/// `VOLLEY-STDOUT`: its reader is gone, or its disk full.
pub fn print(text: &str) -> Result<(), CliError> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).map_err(|error| {
        CliError::new("VOLLEY-STDOUT", ExitStatus::Local, format!("cannot write to stdout: {error}"), "")
    })
}
