//! Makes an ordinary DataFusion `SessionContext` distributed.

pub mod codec;
pub mod config;
pub mod control;
pub mod error;
pub mod exchange;
pub mod exec;
pub mod executor;
pub mod ids;
pub mod plan;
pub mod scheduler;
pub mod session;
pub mod shuffle;
pub mod wire;
