//! What an executor process does: run tasks, keep their outputs, serve them.
//!
//! Owns the task runtime ([`TaskRunner`]), the Flight server ([`serve`]), the seam between them ([`TaskHost`]) and the
//! process that holds both ([`Executor`]). Depends on the rooms above. Knows nothing of scheduling: it runs what it is
//! told and reports.

mod host;
mod metrics;
mod object_stores;
mod process;
mod runner;
mod server;
mod tables;

pub use object_stores::UrlObjectStores;
pub use process::{
    Executor, ExecutorExtensions, ExecutorOptions, default_memory_bytes, default_shuffle_memory_bytes, default_slots,
};
pub use runner::{SessionTemplate, TaskRunner};
pub use server::{FlightServer, ServerOptions, TaskHost, serve};
