//! Makes an ordinary DataFusion `SessionContext` distributed: a plan is cut into stages, executors run their tasks,
//! partitions move over Arrow Flight. No scheduler service.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use datafusion::execution::SessionStateBuilder;
//! use datafusion::prelude::SessionContext;
//! use datafusion_volley::session::{Cluster, ClusterOptions, SessionStateBuilderExt};
//!
//! let cluster = Cluster::connect("127.0.0.1:50051,127.0.0.1:50052", ClusterOptions::default()).await?;
//! let state = SessionStateBuilder::new_with_default_features().with_volley(&cluster).build();
//! let ctx = SessionContext::new_with_state(state); // everything after is plain DataFusion
//! # Ok(())
//! # }
//! ```
//!
//! # The rooms
//!
//! A room imports only rooms above it in this list (`tests/rooms.rs` holds it to that).
//!
//! | room | owns | contains no |
//! |---|---|---|
//! | [`ids`] [`error`] [`config`] | newtypes; errors classed by the caller's next move; options | use of them |
//! | [`wire`] | what crosses between processes, and its bytes | execution, I/O |
//! | [`shuffle`] | partitioning rows, keeping them in memory and on disk, the block format | network |
//! | [`exchange`] [`control`] | moving partitions; launching tasks | plans, scheduling |
//! | [`exec`] | `ShuffleWriterExec` and `ShuffleReaderExec` | Flight |
//! | [`codec`] | plans as bytes | decisions |
//! | [`plan`] | the stage graph: cutting, slicing, safety, filters across stages | async, network |
//! | [`scheduler`] | a state machine without I/O, and what turns it | plans |
//! | [`executor`] | running tasks, serving their outputs | scheduling |
//! | [`session`] | what users touch | rules of the rooms above |

#![warn(missing_docs)]

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
