//! Our errors as gRPC statuses and back, so that an error's class survives the wire.
//!
//! A status of ours has the error as protobuf in its binary details. A status without it comes from the transport,
//! or from a server that is not ours; its gRPC code decides.

use bytes::Bytes;
use prost::Message;
use tonic::{Code, Status};

use super::convert::{error_from_proto, error_to_proto};
use super::proto;
use crate::error::{ErrorCode, VolleyError};

/// Longest message in a status. A status travels in HTTP/2 trailers, twice (text and details, escaped); peers bound
/// those to 16 KiB by default.
const MAX_MESSAGE_BYTES: usize = 2 << 10;

/// The status of an error.
pub(crate) fn to_status(error: &VolleyError) -> Status {
    let mut encoded = error_to_proto(error);
    truncate(&mut encoded.message, MAX_MESSAGE_BYTES);
    let code = match error.code {
        ErrorCode::Unauthenticated => Code::Unauthenticated,
        ErrorCode::InvalidRequest | ErrorCode::InvalidOption => Code::InvalidArgument,
        ErrorCode::OutputLost => Code::NotFound,
        ErrorCode::Corrupt | ErrorCode::Truncated => Code::DataLoss,
        ErrorCode::DeadlineExceeded => Code::DeadlineExceeded,
        ErrorCode::Draining | ErrorCode::Unreachable => Code::Unavailable,
        ErrorCode::DiskFull | ErrorCode::Memory => Code::ResourceExhausted,
        ErrorCode::Cancelled => Code::Cancelled,
        ErrorCode::VersionMismatch => Code::FailedPrecondition,
        _ => Code::Internal,
    };
    let text = format!("{}: {}", error.code, encoded.message);
    Status::with_details(code, text, Bytes::from(encoded.encode_to_vec()))
}

/// The error of a status that `peer` (an address) gave.
pub(crate) fn from_status(status: Status, peer: &str) -> VolleyError {
    if let Some(error) = from_details(status.details()) {
        return error;
    }
    let code = match status.code() {
        Code::Unauthenticated | Code::PermissionDenied => ErrorCode::Unauthenticated,
        Code::DeadlineExceeded => ErrorCode::DeadlineExceeded,
        Code::Unimplemented => ErrorCode::VersionMismatch,
        Code::InvalidArgument | Code::OutOfRange => ErrorCode::InvalidRequest,
        Code::NotFound => ErrorCode::OutputLost,
        Code::DataLoss => ErrorCode::Corrupt,
        // What the transport reports of a connection that broke: unavailable, unknown, internal, cancelled.
        _ => ErrorCode::Unreachable,
    };
    let text = status.message().trim();
    let text = if text.is_empty() { "connection lost" } else { text };
    VolleyError::new(code, format!("{peer}: {text}")).with_source(status)
}

fn from_details(details: &[u8]) -> Option<VolleyError> {
    let error = proto::Error::decode(details).ok()?;
    ErrorCode::parse(&error.code)?;
    error_from_proto(error).ok()
}

fn truncate(text: &mut String, max: usize) {
    const MARK: &str = " …";
    if text.len() > max {
        text.truncate(text.floor_char_boundary(max - MARK.len()));
        text.push_str(MARK);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{AttemptId, QueryId, StageId, TaskAttempt, TaskId};

    #[test]
    fn every_code_survives() {
        let output = TaskAttempt { query: QueryId(1), stage: StageId(2), task: TaskId(3), attempt: AttemptId(4) };
        for code in ErrorCode::ALL {
            let error = VolleyError::new(*code, "why: ä").with_source("cause").with_lost_output(output);
            let again = from_status(to_status(&error), "peer:1");
            assert_eq!((again.code, again.lost_output), (*code, Some(output)));
            assert_eq!(again.message, "why: ä: cause");
        }
        let long = VolleyError::new(ErrorCode::TaskFailed, "ä".repeat(100_000));
        let status = to_status(&long);
        assert!(status.message().len() < 3_000 && from_status(status, "p").message.ends_with('…'));
    }

    #[test]
    fn statuses_of_others_are_classed() {
        let cases = [
            (Code::Unavailable, ErrorCode::Unreachable),
            (Code::Unknown, ErrorCode::Unreachable),
            (Code::Unauthenticated, ErrorCode::Unauthenticated),
            (Code::Unimplemented, ErrorCode::VersionMismatch),
        ];
        for (code, expect) in cases {
            let error = from_status(Status::new(code, "text"), "host:1");
            assert_eq!((error.code, error.message.as_str()), (expect, "host:1: text"));
        }
        let garbage = Status::with_details(Code::Internal, "x", Bytes::from_static(b"\xff\xff"));
        assert_eq!(from_status(garbage, "p").code, ErrorCode::Unreachable);
    }
}
