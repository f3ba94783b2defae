//! Errors of queries and clusters in the words of the command.

use datafusion::error::DataFusionError;
use datafusion_volley::error::{ErrorCode, VolleyError};

use crate::error::{CliError, ExitStatus, one_line};

/// A query that failed.
pub fn of_datafusion(error: &DataFusionError) -> CliError {
    if let Some(ours) = VolleyError::find(error) {
        return of_volley(ours);
    }
    let message = one_line(&error.strip_backtrace());
    let failed = |code, remedy: &str| CliError::new(code, ExitStatus::Failed, message.clone(), remedy);
    // DataFusion says it of `SET` in this form alone; the root is whatever the value's parser says.
    if matches!(error, DataFusionError::Context(what, _) if what.starts_with("Error setting config")) {
        return CliError::usage("VOLLEY-OPTION", message, "SHOW ALL lists options and values");
    }
    match error.find_root() {
        DataFusionError::ResourcesExhausted(_) => failed("VOLLEY-MEMORY", "give more with --memory"),
        DataFusionError::SQL(..) => CliError::usage("VOLLEY-SQL", message, "correct the statement"),
        DataFusionError::Plan(_) | DataFusionError::SchemaError(..) => {
            CliError::usage("VOLLEY-SQL", message, "correct the statement")
        }
        _ => failed("VOLLEY-QUERY-FAILED", ""),
    }
}

/// An error of the library, with what the user can do about it.
pub fn of_volley(error: &VolleyError) -> CliError {
    let (exit, remedy) = match error.code {
        ErrorCode::NoExecutors | ErrorCode::Unreachable => {
            (ExitStatus::NoCluster, "start executors, or correct the addresses")
        }
        ErrorCode::VersionMismatch => (ExitStatus::NoCluster, "run the same version of volley everywhere"),
        ErrorCode::Unauthenticated => {
            (ExitStatus::NoCluster, "give the executors' token with --token-file or VOLLEY_TOKEN")
        }
        ErrorCode::Draining => (ExitStatus::NoCluster, "start other executors"),
        ErrorCode::InvalidOption => (ExitStatus::Usage, "correct the option"),
        ErrorCode::TableChanged => (ExitStatus::Usage, "give every executor the same files at the same paths"),
        ErrorCode::Bind => (ExitStatus::Local, "name another port with --listen, or stop what uses this one"),
        ErrorCode::Memory => (ExitStatus::Failed, "give executors more with --memory"),
        ErrorCode::Disk | ErrorCode::DiskFull => (ExitStatus::Local, "free some space, or name another --work-dir"),
        _ => (ExitStatus::Failed, ""),
    };
    CliError::new(error.code.as_str(), exit, one_line(&error.message), remedy)
}

/// A code that came from an engine process as text.
pub fn of_text(code: &str, message: &str, remedy: &str, otherwise: ExitStatus) -> CliError {
    let exit = match code {
        _ if code.starts_with("VOLLEY-DATA") => ExitStatus::Usage,
        "VOLLEY-OPTION" | "VOLLEY-SQL" => ExitStatus::Usage,
        "VOLLEY-LOCAL" | "VOLLEY-BIND" => ExitStatus::Local,
        _ if code.starts_with("VOLLEY-DISK") => ExitStatus::Local,
        _ => otherwise,
    };
    CliError::new(known_code(code), exit, message, remedy)
}

/// Codes are static; one that this build does not know becomes the general one.
fn known_code(code: &str) -> &'static str {
    const OWN: [&str; 8] = [
        "VOLLEY-DATA-DAMAGED",
        "VOLLEY-DATA-SCALE",
        "VOLLEY-DATA-SUITE",
        "VOLLEY-DATA-MANIFEST",
        "VOLLEY-DATA-FOREIGN",
        "VOLLEY-DISK-ACCESS",
        "VOLLEY-SQL",
        "VOLLEY-LOCAL",
    ];
    ErrorCode::parse(code)
        .map(ErrorCode::as_str)
        .or_else(|| OWN.into_iter().find(|own| *own == code))
        .unwrap_or("VOLLEY-ENGINE")
}
