//! Tables as DataFusion listing tables.

use datafusion::common::TableReference;
use datafusion::error::DataFusionError;
use datafusion::prelude::{ParquetReadOptions, SessionContext};
use url::Url;

use super::{Dataset, Table};
use crate::error::{CliError, ExitStatus, one_line};

/// Registers every table of `dataset` with `ctx`, replacing tables of the same name, with the session's own options
/// (statistics are collected unless the session says otherwise). Paths are absolute: an executor on the same files
/// finds them whatever its working folder.
///
/// # Errors
/// `VOLLEY-DATA-DAMAGED`: a file is no Parquet, or the files of a table have different schemas.
pub async fn register(ctx: &SessionContext, dataset: &Dataset) -> Result<(), CliError> {
    for table in &dataset.tables {
        // Quoted, so that a name of the user's is taken as it is; the suites' names are the same either way.
        let name = TableReference::bare(table.name.clone());
        ctx.deregister_table(name.clone()).map_err(|error| unusable(table, &error))?;
        ctx.register_parquet(name, url(table)?, ParquetReadOptions::default())
            .await
            .map_err(|error| unusable(table, &error))?;
    }
    Ok(())
}

/// As a URL, since DataFusion takes `*`, `?` and `[` in a path for a pattern.
fn url(table: &Table) -> Result<Url, CliError> {
    let url = if table.is_dir { Url::from_directory_path(&table.path) } else { Url::from_file_path(&table.path) };
    url.map_err(|()| {
        CliError::usage(
            "VOLLEY-DATA-FOREIGN",
            format!("{} is not an absolute path", table.path.display()),
            "name the folder by an absolute path with --data",
        )
    })
}

fn unusable(table: &Table, error: &DataFusionError) -> CliError {
    CliError::new(
        "VOLLEY-DATA-DAMAGED",
        ExitStatus::Usage,
        format!("table {} in {} cannot be read: {}", table.name, table.path.display(), one_line(&error.to_string())),
        "replace the file, or remove the folder to have it generated again",
    )
}
