//! Running tasks and serving their outputs.
//!
//! Owns the Flight server ([`serve`]) and the seam between it and the task runtime ([`TaskHost`]). Depends on the
//! rooms above. Contains no decisions about what runs where.

mod server;

pub use server::{FlightServer, ServerOptions, TaskHost, serve};
