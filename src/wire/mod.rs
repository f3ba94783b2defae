//! What crosses between processes: plain structs, and their bytes.
//!
//! Owns the structs that sessions and executors exchange ([`TaskDefinition`], [`TaskEvent`], [`Ticket`],
//! [`StreamNote`], …), their protobuf form ([`WireMessage`]), errors as statuses, and how a channel to an executor
//! is opened. Depends on `ids`, `error`, `config`. Contains no execution.

mod client;
mod convert;
mod note;
mod proto;
mod status;
mod task;
mod ticket;

pub use client::Token;
pub use convert::WireMessage;
pub use note::{StreamDigest, StreamNote};
pub use task::{
    ColumnKeys, ExchangeTotals, ExecutorInfo, KeySummary, OperatorMetric, OutputLocation, OutputSummary,
    PartitionSummary, QueryScope, StageInput, TaskDefinition, TaskEvent, TaskReport, UploadRequest,
};
pub use ticket::Ticket;

pub(crate) use client::{ChannelSettings, connect};
pub(crate) use status::{from_status, to_status};

/// Names of the Flight actions.
pub(crate) mod action {
    /// Empty body; answers one `ExecutorInfo`.
    pub const HANDSHAKE: &str = "volley.handshake";
    /// Body `TaskDefinition`; answers `TaskEvent`s until the task's end. Dropping the answer cancels the task.
    pub const LAUNCH: &str = "volley.launch";
    /// Body `QueryScope` without stage; answers an empty result at once, then nothing while it is held.
    pub const LEASE: &str = "volley.lease";
    /// Body `QueryScope`; answers one empty result.
    pub const FREE: &str = "volley.free";
}
