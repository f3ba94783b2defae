//! Errors as the user of the command sees them: one line with code, what, where and remedy, and an exit status.

use std::fmt;
use std::process::ExitCode;

/// What the process returns to its caller. The numbers are part of the command's interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum ExitStatus {
    /// Everything ran and every row was right.
    Right = 0,
    /// A query gave other rows than the reference.
    WrongRows = 1,
    /// The command line, an option or an input file is at fault.
    Usage = 2,
    /// A query failed or timed out.
    Failed = 3,
    /// No usable cluster.
    NoCluster = 4,
    /// Disk, port or memory of this machine.
    Local = 5,
    /// Ctrl-C.
    Interrupted = 130,
}

impl From<ExitStatus> for ExitCode {
    fn from(status: ExitStatus) -> Self {
        ExitCode::from(status as u8)
    }
}

/// One line for the user. `message` names what is wrong and where, `remedy` what to do about it.
///
/// Its `Display` is `CODE: message; remedy`, without a line break whatever the parts contain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CliError {
    /// Stable, for scripts: `VOLLEY-…`.
    pub code: &'static str,
    pub exit: ExitStatus,
    pub message: String,
    pub remedy: String,
}

impl CliError {
    pub fn new(code: &'static str, exit: ExitStatus, message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { code, exit, message: message.into(), remedy: remedy.into() }
    }

    /// A word on the command line or in an input file that cannot be used.
    pub fn usage(code: &'static str, message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(code, ExitStatus::Usage, message, remedy)
    }

    /// The user pressed Ctrl-C; `remedy` says where partial results are, or that nothing was kept.
    pub fn interrupted(message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new("VOLLEY-INTERRUPTED", ExitStatus::Interrupted, message, remedy)
    }

    /// An I/O error at `place`, with full disks and missing permissions told apart.
    pub fn io(what: &str, place: &std::path::Path, error: &std::io::Error) -> Self {
        use std::io::ErrorKind;
        let place = place.display();
        let (code, remedy) = match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
                ("VOLLEY-DISK-FULL", "free some space or name a folder on another disk")
            }
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
                ("VOLLEY-DISK-ACCESS", "name a folder that this user may read and write")
            }
            _ => ("VOLLEY-DISK", "check the path and the disk"),
        };
        Self::new(code, ExitStatus::Local, format!("cannot {what} {place}: {error}"), remedy)
    }
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, one_line(&self.message))?;
        if !self.remedy.is_empty() {
            write!(f, "; {}", one_line(&self.remedy))?;
        }
        Ok(())
    }
}

impl std::error::Error for CliError {}

/// `text` with every run of white space, line breaks included, as one space.
pub fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_one_line_with_code_what_and_remedy() {
        let error = CliError::usage("VOLLEY-DATA-SCALE", "data/ holds\n scale 1", "name another\nfolder");
        assert_eq!(error.to_string(), "VOLLEY-DATA-SCALE: data/ holds scale 1; name another folder");
        assert_eq!(error.exit as u8, 2);
    }

    #[test]
    fn a_full_disk_is_told_apart() {
        let check = |kind: std::io::ErrorKind, code: &str| {
            let error = CliError::io("write", std::path::Path::new("x"), &kind.into());
            assert_eq!((error.code, error.exit), (code, ExitStatus::Local));
        };
        check(std::io::ErrorKind::StorageFull, "VOLLEY-DISK-FULL");
        check(std::io::ErrorKind::PermissionDenied, "VOLLEY-DISK-ACCESS");
        check(std::io::ErrorKind::Other, "VOLLEY-DISK");
    }
}
