//! The protobuf messages, written by hand. Field numbers are the protocol: append, never reuse.
//!
//! Ids are numbers in their own right (`bytes` of 16 for the 128-bit ones, big-endian). Conversion to and from the
//! structs that the other rooms use is in `convert`; nothing here is visible outside `wire`.

use bytes::Bytes;
use prost::Message;

#[derive(Clone, PartialEq, Message)]
pub(super) struct Attempt {
    #[prost(bytes = "bytes", tag = "1")]
    pub query: Bytes,
    #[prost(uint32, tag = "2")]
    pub stage: u32,
    #[prost(uint32, tag = "3")]
    pub task: u32,
    #[prost(uint32, tag = "4")]
    pub attempt: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Task {
    #[prost(message, optional, tag = "1")]
    pub id: Option<Attempt>,
    #[prost(bytes = "bytes", tag = "2")]
    pub plan: Bytes,
    #[prost(message, repeated, tag = "3")]
    pub options: Vec<Pair>,
    #[prost(message, repeated, tag = "4")]
    pub inputs: Vec<Input>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Pair {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub value: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Input {
    #[prost(uint32, tag = "1")]
    pub stage: u32,
    #[prost(message, repeated, tag = "2")]
    pub outputs: Vec<Location>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Location {
    #[prost(uint32, tag = "1")]
    pub task: u32,
    #[prost(uint32, tag = "2")]
    pub attempt: u32,
    #[prost(bytes = "bytes", tag = "3")]
    pub executor: Bytes,
    #[prost(string, tag = "4")]
    pub endpoint: String,
    #[prost(uint64, repeated, tag = "5")]
    pub rows: Vec<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Event {
    #[prost(oneof = "EventKind", tags = "1, 2, 3")]
    pub kind: Option<EventKind>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(super) enum EventKind {
    #[prost(message, tag = "1")]
    Progress(Progress),
    #[prost(message, tag = "2")]
    Finished(Report),
    #[prost(message, tag = "3")]
    Failed(Error),
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Progress {
    #[prost(uint64, tag = "1")]
    pub rows: u64,
    #[prost(uint64, tag = "2")]
    pub bytes: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Report {
    #[prost(message, optional, tag = "1")]
    pub output: Option<Output>,
    #[prost(message, repeated, tag = "2")]
    pub keys: Vec<Keys>,
    #[prost(message, optional, tag = "3")]
    pub exchange: Option<Exchange>,
    #[prost(message, repeated, tag = "4")]
    pub metrics: Vec<Metric>,
    #[prost(uint64, tag = "5")]
    pub elapsed_ms: u64,
    #[prost(uint64, tag = "6")]
    pub cpu_us: u64,
    #[prost(uint64, tag = "7")]
    pub scanned_bytes: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Output {
    #[prost(message, repeated, tag = "1")]
    pub partitions: Vec<Partition>,
    #[prost(uint64, tag = "2")]
    pub spilled_bytes: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Partition {
    #[prost(uint64, tag = "1")]
    pub rows: u64,
    #[prost(uint64, tag = "2")]
    pub bytes: u64,
    #[prost(uint64, tag = "3")]
    pub blocks: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Keys {
    #[prost(message, repeated, tag = "1")]
    pub columns: Vec<Column>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Column {
    /// Empty, or smallest and largest value; each a DataFusion `ScalarValue`.
    #[prost(bytes = "bytes", repeated, tag = "1")]
    pub range: Vec<Bytes>,
    #[prost(message, optional, tag = "2")]
    pub values: Option<Values>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Values {
    #[prost(bytes = "bytes", repeated, tag = "1")]
    pub values: Vec<Bytes>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Exchange {
    #[prost(uint64, tag = "1")]
    pub local_bytes: u64,
    #[prost(uint64, tag = "2")]
    pub remote_bytes: u64,
    #[prost(uint64, tag = "3")]
    pub local_rows: u64,
    #[prost(uint64, tag = "4")]
    pub remote_rows: u64,
    #[prost(uint32, tag = "5")]
    pub channels: u32,
    #[prost(uint64, tag = "6")]
    pub wait_ns: u64,
    #[prost(uint64, tag = "7")]
    pub dropped_early: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Metric {
    #[prost(uint32, tag = "1")]
    pub operator: u32,
    #[prost(string, tag = "2")]
    pub operator_name: String,
    #[prost(string, tag = "3")]
    pub name: String,
    #[prost(uint64, tag = "4")]
    pub value: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Error {
    #[prost(string, tag = "1")]
    pub code: String,
    #[prost(string, tag = "2")]
    pub message: String,
    #[prost(message, optional, tag = "3")]
    pub lost_output: Option<Attempt>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Info {
    #[prost(bytes = "bytes", tag = "1")]
    pub id: Bytes,
    #[prost(string, tag = "2")]
    pub endpoint: String,
    #[prost(uint32, tag = "3")]
    pub slots: u32,
    #[prost(string, tag = "4")]
    pub build: String,
    #[prost(uint32, tag = "5")]
    pub pid: u32,
    #[prost(string, repeated, tag = "6")]
    pub functions: Vec<String>,
}

/// The body of the actions `lease` and `free`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct QueryScope {
    #[prost(bytes = "bytes", tag = "1")]
    pub query: Bytes,
    #[prost(uint32, optional, tag = "2")]
    pub stage: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Ticket {
    #[prost(bytes = "bytes", tag = "1")]
    pub query: Bytes,
    #[prost(uint32, tag = "2")]
    pub stage: u32,
    #[prost(message, repeated, tag = "3")]
    pub outputs: Vec<TicketOutput>,
    #[prost(uint32, tag = "4")]
    pub first_partition: u32,
    #[prost(uint32, tag = "5")]
    pub end_partition: u32,
    #[prost(uint64, tag = "6")]
    pub first_block: u64,
    /// As the option's text: `none`, `lz4`, `zstd(3)`.
    #[prost(string, tag = "7")]
    pub codec: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TicketOutput {
    #[prost(uint32, tag = "1")]
    pub task: u32,
    #[prost(uint32, tag = "2")]
    pub attempt: u32,
}

/// The descriptor's command of an upload.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Upload {
    #[prost(message, optional, tag = "1")]
    pub attempt: Option<Attempt>,
    #[prost(uint32, tag = "2")]
    pub partitions: u32,
}

/// `app_metadata` of a message with data, and of the last message of a stream.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Note {
    #[prost(oneof = "NoteKind", tags = "1, 2")]
    pub kind: Option<NoteKind>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(super) enum NoteKind {
    #[prost(message, tag = "1")]
    Data(DataNote),
    #[prost(message, tag = "2")]
    Digest(DigestNote),
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct DataNote {
    #[prost(uint64, tag = "1")]
    pub sequence: u64,
    #[prost(fixed32, tag = "2")]
    pub crc32: u32,
    #[prost(uint32, tag = "3")]
    pub partition: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct DigestNote {
    #[prost(uint64, tag = "1")]
    pub messages: u64,
    #[prost(uint64, tag = "2")]
    pub rows: u64,
    #[prost(uint64, tag = "3")]
    pub bytes: u64,
    #[prost(fixed32, tag = "4")]
    pub checksum: u32,
}
