//! The two plan nodes that stand where a plan was cut.
//!
//! [`ShuffleWriterExec`] is the root of every stage: it partitions its input's rows and hands them to the task's
//! [`OutputWriter`](crate::shuffle::OutputWriter). [`ShuffleReaderExec`] is a leaf that stands for the exchange below it and reads from the task's
//! [`ShuffleSource`](crate::exchange::ShuffleSource). Both find their surroundings in the `TaskContext`
//! ([`ShuffleEnvironment`]), so that a plan names stages and partitions only, never a place.
//!
//! Depends on `exchange`, `shuffle`, `wire`, `ids`. Knows nothing of Flight.

mod environment;
mod keys;
mod reader;
mod writer;

pub use environment::ShuffleEnvironment;
pub use keys::KeyRequest;
pub use reader::{ReadOrder, ShuffleReaderExec};
pub use writer::{ShuffleWriterExec, WriterOutput};
