//! What the runner and its engine process say to each other: one JSON object a line, on the engine's stdin and stdout.
//!
//! ```text
//! runner                        engine
//! start {spec, data}      ->
//!                         <-    ready {processes}             or failed
//! run {id, statements}    ->
//!                         <-    progress {id, …}              twice a second
//!                         <-    done {id, …, result_bytes}    or failed {id, …}
//!                         <-    result_bytes bytes: the rows as an Arrow IPC stream
//! cancel {id}             ->    (the run then ends as failed, unless it had ended)
//! end of input            ->    the engine stops its cluster and exits
//! ```
//!
//! Rows travel in the same pipe, so that no file is left whatever happens to either side.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::data::Suite;
use crate::report::Engine;

/// The hidden subcommand that is an engine process.
pub const ENGINE_COMMAND: &str = "engine-process";

/// From the runner.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "snake_case")]
pub enum Request {
    Start { spec: EngineSpec, data: DataSpec },
    Run { id: u64, query: QueryText },
    Cancel { id: u64 },
}

/// What an engine is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineSpec {
    pub engine: Engine,
    /// Threads of the process, and its partitions if it is `single` and `options` say nothing else.
    pub threads: usize,
    /// Of an executor; of the process if it is `single`.
    pub memory_bytes: u64,
    pub executors: ExecutorsSpec,
    /// Of given executors.
    pub token: Option<String>,
    /// Options of the session by their full names.
    pub options: Vec<(String, String)>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExecutorsSpec {
    /// Child processes of the engine process.
    Local { count: usize, slots: usize },
    /// `HOST:PORT,…` or one name with a port; shared with others.
    Given { addresses: String },
}

/// The tables to register: those of a folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataSpec {
    pub suite: Suite,
    pub dir: PathBuf,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueryText {
    /// Run in time before `sql`.
    pub before: Vec<String>,
    pub sql: String,
    /// Run out of time after it, even if it failed.
    pub after: Vec<String>,
}

/// From the engine.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "snake_case")]
pub enum Reply {
    Ready { processes: Vec<Process> },
    Progress { id: u64, progress: Progress },
    Done { id: u64, done: Done },
    Failed { id: u64, failure: Failure },
}

/// A process of the engine whose CPU time and memory count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// `session`, `executor 1`.
    pub name: String,
    pub pid: u32,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    pub stages_done: u64,
    pub stages: u64,
    pub rows: u64,
    pub bytes: u64,
}

/// A run that ended.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Done {
    /// From before `sql()` to the last batch.
    pub seconds: f64,
    pub plan_ms: f64,
    pub first_row_ms: Option<f64>,
    pub rows: u64,
    /// Of the IPC stream that follows the line.
    pub result_bytes: u64,
    /// Nothing for `single`.
    pub cluster: Option<ClusterFigures>,
}

/// What only a cluster has.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterFigures {
    pub stages: u32,
    pub tasks: u32,
    /// Why nothing, or something, of it ran in the session; empty otherwise.
    pub why: String,
    /// Whether any stage ran on executors.
    pub distributed: bool,
    pub bytes_local: u64,
    pub bytes_remote: u64,
    pub spilled_bytes: u64,
    /// Parquet bytes read: everywhere, and in the session alone.
    pub scanned_bytes: u64,
    pub session_scanned_bytes: u64,
    /// CPU time of tasks on executors.
    pub task_cpu_ms: u64,
    /// The most connections to one peer that carried anything.
    pub channels: u32,
}

/// A run, or the start, that did not end well.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// `VOLLEY-…`.
    pub code: String,
    /// One line.
    pub message: String,
    pub remedy: String,
    pub seconds_ms: u64,
    pub cancelled: bool,
}
