//! Whether the files of a task's tables are here as the plan recorded them.
//!
//! A file that another node sees under the same path may be missing here, or be another file. Reading on would give
//! rows of another table, or an error from deep inside a decoder. Only `file://` is checked: object stores are one place for all.

use std::path::Path;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_plan::ExecutionPlan;
use object_store::ObjectMeta;

use crate::error::{ErrorCode, Result, VolleyError};

/// Checks every local file that `plan` scans.
///
/// # Errors
/// [`ErrorCode::TableChanged`] names the first file that is missing or has another size or time.
pub(super) fn check_table_files(plan: &Arc<dyn ExecutionPlan>, endpoint: &str) -> Result<()> {
    let mut result = Ok(());
    // The visitor returns no error; it stops at the first wrong file.
    let _ = plan.apply(|node| {
        if let Some(source) = node.downcast_ref::<DataSourceExec>()
            && let Some(config) = source.data_source().downcast_ref::<FileScanConfig>()
            && config.object_store_url.as_str().starts_with("file://")
        {
            let files = config.file_groups.iter().flat_map(|group| group.iter());
            result = files.map(|file| &file.object_meta).try_for_each(|meta| check(meta, endpoint));
        }
        Ok(if result.is_ok() { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    });
    result
}

fn check(meta: &ObjectMeta, endpoint: &str) -> Result<()> {
    let path = format!("/{}", meta.location);
    let changed = |what: String| {
        Err(VolleyError::new(
            ErrorCode::TableChanged,
            format!(
                "the executor at {endpoint} {what}: every executor must see the same files under the same path \
                 (a shared folder, or an object store's URL)"
            ),
        ))
    };
    let found = match std::fs::metadata(Path::new(&path)) {
        Ok(found) => found,
        Err(error) => return changed(format!("cannot open {path} ({error})")),
    };
    if found.len() != meta.size {
        return changed(format!("sees {path} with {} bytes, the session recorded {}", found.len(), meta.size));
    }
    // Copies of a folder on each node are usual, and copying does not keep the time of every tool: seconds that differ are no
    // proof of other rows, but a file that is *newer* than the plan was written while the query was planned.
    let modified = found.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    let recorded = u64::try_from(meta.last_modified.timestamp()).unwrap_or_default();
    if modified.is_some_and(|modified| modified.as_secs() > recorded) && is_same_machine(endpoint) {
        return changed(format!("sees {path} changed since the session recorded it"));
    }
    Ok(())
}

/// Whether files here are the session's own, so that their times can be compared.
fn is_same_machine(endpoint: &str) -> bool {
    endpoint.starts_with("127.") || endpoint.starts_with("[::1]") || endpoint.starts_with("localhost:")
}
