//! Errors, classed by what the caller does next.
//!
//! Retry policy is data here ([`ErrorCode::class`]), never a string match elsewhere. An error crosses the
//! wire as code, message and lost output, so that its class survives; inside DataFusion it travels as
//! [`DataFusionError::External`] and is found again with [`VolleyError::find`], however it was wrapped.
//!
//! Depends on `ids`. Contains no transport and no policy about how often something is tried.

use std::error::Error;
use std::fmt;

use datafusion::common::DataFusionError;

use crate::ids::TaskAttempt;

/// What the caller does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorClass {
    /// The attempt is lost; the same task may succeed elsewhere.
    RetryTask,
    /// Stored output that the attempt reads is lost; its producers run again first.
    RerunProducer,
    /// This part of the query cannot run on executors; the session runs it.
    RunInSession,
    /// Running again gives the same error.
    Fatal,
    /// Someone asked for it to stop.
    Cancelled,
}

macro_rules! error_codes {
    ($($(#[$doc:meta])* $name:ident = $text:literal => $class:ident,)*) => {
        /// Stable names of errors: what users search for, and what decides the next move.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum ErrorCode {
            $($(#[$doc])* $name,)*
        }

        impl ErrorCode {
            /// Every code.
            pub const ALL: &'static [ErrorCode] = &[$(ErrorCode::$name,)*];

            /// The code's stable text, such as `VOLLEY-UNREACHABLE`.
            pub fn as_str(self) -> &'static str {
                match self { $(ErrorCode::$name => $text,)* }
            }

            /// What the caller does next.
            pub fn class(self) -> ErrorClass {
                match self { $(ErrorCode::$name => ErrorClass::$class,)* }
            }
        }
    };
}

error_codes! {
    /// No connection to an executor within the deadline.
    Unreachable = "VOLLEY-UNREACHABLE" => RetryTask,
    /// A call or a stream made no progress within its deadline.
    DeadlineExceeded = "VOLLEY-DEADLINE" => RetryTask,
    /// The stream that is a task's life broke before its final status.
    AttemptLost = "VOLLEY-ATTEMPT-LOST" => RetryTask,
    /// The executor is draining and takes no new tasks.
    Draining = "VOLLEY-DRAINING" => RetryTask,
    /// A file or disk operation of the shuffle store failed.
    Disk = "VOLLEY-DISK" => RetryTask,
    /// The executor's disk limit is reached or its disk is full.
    DiskFull = "VOLLEY-DISK-FULL" => RetryTask,
    /// A task panicked.
    TaskPanicked = "VOLLEY-TASK-PANICKED" => RetryTask,
    /// A stored output is not (or no longer) there.
    OutputLost = "VOLLEY-OUTPUT-LOST" => RerunProducer,
    /// Bytes from a peer or a file fail their checksum or are not a valid message.
    Corrupt = "VOLLEY-CORRUPT" => RerunProducer,
    /// A stream ended without its digest, or with other counts than its digest says.
    Truncated = "VOLLEY-TRUNCATED" => RerunProducer,
    /// A plan cannot be encoded for executors.
    EncodePlan = "VOLLEY-ENCODE-PLAN" => RunInSession,
    /// An executor cannot decode a plan.
    DecodePlan = "VOLLEY-DECODE-PLAN" => RunInSession,
    /// Running in the session is not allowed (`local_fallback`) or would exceed its limit.
    LocalRefused = "VOLLEY-LOCAL-REFUSED" => Fatal,
    /// The operators' memory limit is reached.
    Memory = "VOLLEY-MEMORY" => Fatal,
    /// The task's own error: the query's fault, not the cluster's.
    TaskFailed = "VOLLEY-TASK-FAILED" => Fatal,
    /// The peer runs another version, target or protocol.
    VersionMismatch = "VOLLEY-VERSION" => Fatal,
    /// The token is missing or wrong.
    Unauthenticated = "VOLLEY-AUTH" => Fatal,
    /// The cluster has no live executor.
    NoExecutors = "VOLLEY-NO-EXECUTORS" => Fatal,
    /// The last stage was lost after some of its rows had reached the user.
    ResultLost = "VOLLEY-RESULT-LOST" => Fatal,
    /// An address cannot be listened on.
    Bind = "VOLLEY-BIND" => Fatal,
    /// An option has an invalid value.
    InvalidOption = "VOLLEY-OPTION" => Fatal,
    /// Bytes from the wire that no correct peer sends: a ticket, action or upload.
    InvalidRequest = "VOLLEY-REQUEST" => Fatal,
    /// A table file on the executor is missing or differs from what the plan recorded.
    TableChanged = "VOLLEY-TABLE-CHANGED" => Fatal,
    /// The query was cancelled.
    Cancelled = "VOLLEY-CANCELLED" => Cancelled,
    /// A fault of ours.
    Internal = "VOLLEY-INTERNAL" => Fatal,
}

impl ErrorCode {
    /// The code with this text; `None` for a text of no code, as a newer peer may send.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|code| code.as_str() == text)
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An error of this crate.
#[derive(Debug)]
pub struct VolleyError {
    /// What happened, and what the caller does next.
    pub code: ErrorCode,
    /// What, where and the remedy, in one line.
    pub message: String,
    /// For [`ErrorClass::RerunProducer`]: the output that is lost.
    pub lost_output: Option<TaskAttempt>,
    /// What caused it.
    pub source: Option<Box<dyn Error + Send + Sync>>,
}

/// Results of this crate.
pub type Result<T, E = VolleyError> = std::result::Result<T, E>;

impl VolleyError {
    /// An error without a cause.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), lost_output: None, source: None }
    }

    /// A fault of ours.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::Internal, message)
    }

    /// Adds what caused it.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Names the output that is lost.
    #[must_use]
    pub fn with_lost_output(mut self, output: TaskAttempt) -> Self {
        self.lost_output = Some(output);
        self
    }

    /// What the caller does next.
    pub fn class(&self) -> ErrorClass {
        self.code.class()
    }

    /// The error of this crate inside `error`, however DataFusion, Arrow or a box wrapped it.
    pub fn find<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a VolleyError> {
        let mut current = Some(error);
        while let Some(error) = current {
            if let Some(found) = error.downcast_ref::<VolleyError>() {
                return Some(found);
            }
            // `source` of an external error skips the boxed error itself, so look inside.
            if let Some(DataFusionError::External(inner)) = error.downcast_ref::<DataFusionError>()
                && let Some(found) = inner.downcast_ref::<VolleyError>()
            {
                return Some(found);
            }
            if let Some(shared) = error.downcast_ref::<std::sync::Arc<DataFusionError>>() {
                current = Some(shared.as_ref());
                continue;
            }
            current = error.source();
        }
        None
    }

    /// Classes an error that a plan's execution gave: our own error keeps its code; resource
    /// exhaustion is [`ErrorCode::Memory`]; anything else is [`ErrorCode::TaskFailed`].
    pub fn from_execution(error: &DataFusionError) -> Self {
        if let Some(found) = Self::find(error) {
            return found.clone_without_source();
        }
        let code = match error.find_root() {
            DataFusionError::ResourcesExhausted(_) => ErrorCode::Memory,
            _ => ErrorCode::TaskFailed,
        };
        Self::new(code, error.strip_backtrace())
    }

    /// The same error; its cause is kept as text in the message.
    pub fn clone_without_source(&self) -> Self {
        let message = match &self.source {
            Some(source) => format!("{}: {source}", self.message),
            None => self.message.clone(),
        };
        Self { code: self.code, message, lost_output: self.lost_output, source: None }
    }
}

impl fmt::Display for VolleyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

impl Error for VolleyError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as &(dyn Error + 'static))
    }
}

impl From<VolleyError> for DataFusionError {
    fn from(error: VolleyError) -> Self {
        DataFusionError::External(Box::new(error))
    }
}

impl From<DataFusionError> for VolleyError {
    fn from(error: DataFusionError) -> Self {
        Self::from_execution(&error)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::error::ArrowError;

    use super::*;

    #[test]
    fn codes_round_trip_and_are_unique() {
        for code in ErrorCode::ALL {
            assert_eq!(ErrorCode::parse(code.as_str()), Some(*code));
        }
    }

    #[test]
    fn found_through_every_wrapping() {
        let ours = || DataFusionError::from(VolleyError::new(ErrorCode::OutputLost, "gone"));
        let wrapped = [
            ours(),
            ours().context("reading"),
            DataFusionError::Shared(Arc::new(ours())),
            DataFusionError::ArrowError(Box::new(ArrowError::ExternalError(Box::new(ours()))), None),
            DataFusionError::External(Box::new(ours())),
            DataFusionError::External(Box::new(ArrowError::ExternalError(Box::new(Arc::new(ours()))))),
        ];
        for error in wrapped {
            let found = VolleyError::find(&error).unwrap_or_else(|| panic!("not found in {error:?}"));
            assert_eq!(found.code, ErrorCode::OutputLost);
        }
        assert!(VolleyError::find(&DataFusionError::Plan("x".into())).is_none());
    }
}
