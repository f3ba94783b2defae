//! The life of a task in structs: what is launched, what is reported.

use std::sync::Arc;

use bytes::Bytes;
use datafusion::common::ScalarValue;

use crate::error::VolleyError;
use crate::ids::{AttemptId, ExecutorId, QueryId, StageId, TaskAttempt, TaskId};

/// Everything an executor needs to run one attempt of one task.
#[derive(Clone, Debug)]
pub struct TaskDefinition {
    /// The attempt.
    pub id: TaskAttempt,
    /// The encoded plan; its root is a `ShuffleWriterExec`.
    pub plan: Bytes,
    /// The session's options, `(full name, value)`, those of `volley.*` included.
    pub options: Arc<Vec<(String, String)>>,
    /// Where the stages that the plan reads have their outputs.
    pub inputs: Vec<StageInput>,
}

/// Where the outputs of one stage are, in task order.
#[derive(Clone, Debug, PartialEq)]
pub struct StageInput {
    /// The stage that was written.
    pub stage: StageId,
    /// One location per task of that stage, sorted by task.
    pub outputs: Vec<OutputLocation>,
}

/// Where the committed output of one task is.
#[derive(Clone, Debug, PartialEq)]
pub struct OutputLocation {
    /// The task.
    pub task: TaskId,
    /// The attempt that committed.
    pub attempt: AttemptId,
    /// The executor process that holds it.
    pub executor: ExecutorId,
    /// That executor's address, `host:port`.
    pub endpoint: Arc<str>,
    /// Rows of each shuffle partition that this task holds, indexed by partition; what a reader checks.
    pub rows: Arc<Vec<u64>>,
}

/// What an attempt reports while it lives. `Finished` and `Failed` are final.
#[derive(Debug)]
pub enum TaskEvent {
    /// A sign of life, about each second.
    Progress {
        /// Rows written so far.
        rows: u64,
        /// Uncompressed bytes written so far.
        bytes: u64,
    },
    /// The attempt's output is committed.
    Finished(Box<TaskReport>),
    /// The attempt failed; nothing of its output is visible.
    Failed(VolleyError),
}

/// What a finished attempt says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskReport {
    /// What it stored.
    pub output: OutputSummary,
    /// The keys of its output that consumers elsewhere asked for, in the order of the request.
    pub keys: Vec<KeySummary>,
    /// What it read through exchanges.
    pub exchange: ExchangeTotals,
    /// Metrics of its plan's operators, in pre-order.
    pub metrics: Vec<OperatorMetric>,
    /// Wall time in milliseconds, decoding included.
    pub elapsed_ms: u64,
    /// CPU time of the task's own polls in microseconds.
    pub cpu_us: u64,
    /// Bytes of table files that its scans read.
    pub scanned_bytes: u64,
}

/// What an attempt stored.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OutputSummary {
    /// One entry per shuffle partition of the stage.
    pub partitions: Vec<PartitionSummary>,
    /// Bytes written to disk.
    pub spilled_bytes: u64,
}

impl OutputSummary {
    /// Rows of all partitions.
    pub fn rows(&self) -> u64 {
        self.partitions.iter().map(|p| p.rows).sum()
    }

    /// Uncompressed bytes of all partitions.
    pub fn bytes(&self) -> u64 {
        self.partitions.iter().map(|p| p.bytes).sum()
    }
}

/// One shuffle partition as one attempt stored it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartitionSummary {
    /// Rows.
    pub rows: u64,
    /// Uncompressed bytes of the Arrow buffers.
    pub bytes: u64,
    /// Messages.
    pub blocks: u64,
}

/// The values of one join's build keys, for filters in other stages.
#[derive(Clone, Debug, PartialEq)]
pub struct KeySummary {
    /// One entry per key column.
    pub columns: Vec<ColumnKeys>,
}

/// The values of one key column.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnKeys {
    /// Smallest and largest value that is not NULL; `None` if there is no such value.
    pub range: Option<(ScalarValue, ScalarValue)>,
    /// The distinct values that are not NULL; `None` if there are more than the limit.
    pub values: Option<Vec<ScalarValue>>,
}

/// What a reader's exchanges moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExchangeTotals {
    /// Uncompressed bytes read from the same executor's store.
    pub local_bytes: u64,
    /// Bytes of message bodies received from peers, as they were on the wire.
    pub remote_bytes: u64,
    /// Rows read locally.
    pub local_rows: u64,
    /// Rows received from peers.
    pub remote_rows: u64,
    /// Most channels used to one peer.
    pub channels: u32,
    /// Nanoseconds readers waited for a message.
    pub wait_ns: u64,
    /// Streams that their reader dropped before the end, such as below a LIMIT.
    pub dropped_early: u64,
}

impl ExchangeTotals {
    /// Adds another task's figures.
    pub fn add(&mut self, other: &ExchangeTotals) {
        self.local_bytes += other.local_bytes;
        self.remote_bytes += other.remote_bytes;
        self.local_rows += other.local_rows;
        self.remote_rows += other.remote_rows;
        self.channels = self.channels.max(other.channels);
        self.wait_ns += other.wait_ns;
        self.dropped_early += other.dropped_early;
    }
}

/// One figure of one operator of a task's plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorMetric {
    /// The operator's index in the plan's pre-order.
    pub operator: u32,
    /// The operator's name.
    pub operator_name: String,
    /// The metric's name, such as `output_rows`.
    pub name: String,
    /// The sum over partitions; nanoseconds for times.
    pub value: u64,
}

/// What an executor says of itself in the handshake.
#[derive(Clone, Debug, PartialEq)]
pub struct ExecutorInfo {
    /// This start of the process.
    pub id: ExecutorId,
    /// The address under which peers reach it.
    pub endpoint: Arc<str>,
    /// CPU threads for tasks.
    pub slots: u32,
    /// Its version of this crate, of DataFusion, its target and the result of hashing fixed values:
    /// executors and session must agree in all of them, or rows would go to different partitions.
    pub build: String,
    /// The operating system's process id, for local clusters.
    pub pid: u32,
    /// Names of scalar, aggregate and window functions and of option prefixes that it knows.
    pub functions: Vec<String>,
}

/// What of a query a call is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueryScope {
    /// The query.
    pub query: QueryId,
    /// One stage; `None` for all.
    pub stage: Option<StageId>,
}

/// Announces rows that a session stores as the output of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UploadRequest {
    /// The attempt.
    pub attempt: TaskAttempt,
    /// Shuffle partitions of its stage.
    pub partitions: u32,
}
