//! What users touch: a cluster, and a session that runs on it.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use datafusion::execution::SessionStateBuilder;
//! use datafusion::prelude::SessionContext;
//! use datafusion_volley::session::{Cluster, ClusterOptions, SessionStateBuilderExt};
//!
//! let cluster = Cluster::connect("127.0.0.1:50051,127.0.0.1:50052", ClusterOptions::default()).await?;
//! let state = SessionStateBuilder::new_with_default_features().with_volley(&cluster).build();
//! let ctx = SessionContext::new_with_state(state);
//! # Ok(())
//! # }
//! ```
//!
//! Owns the extension traits, the query planner, [`Cluster`], [`QueryHandle`] and EXPLAIN. Depends on all rooms above.
//! Contains no rule about plans (`plan`) and no decision about what runs where (`scheduler`).

mod builder;
mod children;
mod cluster;
mod distributed;
mod explain;
mod planner;
mod query;
mod stage_source;

pub use builder::{SessionContextExt, SessionStateBuilderExt, VolleySession};
pub use children::ExecutorCommand;
pub use cluster::{Cluster, ClusterOptions};
pub use distributed::DistributedExec;
pub use planner::session_reason;
pub use query::{QueryHandle, QueryProgress, QueryStatistics, StageStatistics};
