//! From a finished physical plan to stages.
//!
//! Owns the stage graph as plain data ([`StageGraph`]), cutting, slicing, the rules about what must not be split or
//! sent, filters across stages, and their display. Depends on `exec` and `codec`. Contains nothing asynchronous, no
//! network and no state of a running query.
//!
//! The order of work is in [`cut`]: normalise joins, cut at exchanges, decide tasks, connect filters.

mod cut;
mod display;
mod filters;
mod graph;
mod joins;
mod safety;
mod slice;
mod tree;

pub use cut::{CutSettings, cut};
pub use display::display_graph;
pub use filters::{apply_filter_values, filter_predicate};
pub use graph::{FilterSource, Place, Stage, StageGraph, StageOutput, StageTask};
pub use safety::{executor_reason, scan_bytes};
