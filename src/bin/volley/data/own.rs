//! A folder of the user's own Parquet: `TABLE.parquet` or `TABLE/*.parquet`, no manifest.

use std::fs;
use std::path::{Path, PathBuf};

use super::Table;
use crate::error::CliError;

/// Every table in `dir`, by name. `None` if the folder is missing or empty.
///
/// # Errors
/// `VOLLEY-DATA-FOREIGN`: the folder has something in it, but no Parquet; two files claim one table.
pub fn find(dir: &Path) -> Result<Option<Vec<Table>>, CliError> {
    let mut tables: Vec<Table> = Vec::new();
    let mut empty = true;
    let Some(entries) = list(dir)? else {
        return Ok(None);
    };
    for path in entries {
        empty = false;
        if is_parquet(&path) {
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            tables.push(table(name, path.clone(), false, vec![path])?);
        } else if path.is_dir() {
            let files: Vec<_> = list(&path)?.unwrap_or_default().into_iter().filter(|file| is_parquet(file)).collect();
            if !files.is_empty() {
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                tables.push(table(name, path, true, files)?);
            }
        }
    }
    if empty {
        return Ok(None);
    }
    if tables.is_empty() {
        return Err(CliError::usage(
            "VOLLEY-DATA-FOREIGN",
            format!("{} is not empty and holds no Parquet tables", dir.display()),
            "name an empty or missing folder with --data, or one with TABLE.parquet or TABLE/*.parquet",
        ));
    }
    tables.sort_by(|a, b| a.name.cmp(&b.name));
    if let Some(pair) = tables.windows(2).find(|pair| pair[0].name == pair[1].name) {
        return Err(CliError::usage(
            "VOLLEY-DATA-FOREIGN",
            format!("{} and {} are both table {}", pair[0].path.display(), pair[1].path.display(), pair[0].name),
            "remove one of them",
        ));
    }
    Ok(Some(tables))
}

/// Entries that are not hidden, in name order; `None` if there is no such folder.
fn list(dir: &Path) -> Result<Option<Vec<PathBuf>>, CliError> {
    let failed = |error: std::io::Error| CliError::io("read folder", dir, &error);
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => {
            return Err(CliError::usage(
                "VOLLEY-DATA-FOREIGN",
                format!("{} is not a folder", dir.display()),
                "name a folder with --data",
            ));
        }
        Err(error) => return Err(failed(error)),
    };
    let mut paths = Vec::new();
    for entry in entries {
        let entry = entry.map_err(failed)?;
        if !entry.file_name().as_encoded_bytes().starts_with(b".") {
            paths.push(entry.path());
        }
    }
    paths.sort();
    Ok(Some(paths))
}

fn is_parquet(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "parquet") && path.is_file()
}

fn table(name: String, path: PathBuf, is_dir: bool, files: Vec<PathBuf>) -> Result<Table, CliError> {
    let mut bytes = 0;
    for file in &files {
        bytes += fs::metadata(file).map_err(|error| CliError::io("read", file, &error))?.len();
    }
    Ok(Table { name, path, is_dir, files, bytes, rows: None })
}
