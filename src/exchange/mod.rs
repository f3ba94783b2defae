//! Moving partitions to their readers.
//!
//! Owns the seam [`ShuffleSource`] (what a `ShuffleReaderExec` reads from) and its implementations: the
//! executor's own store, and peers over Flight. Depends on `wire` and `shuffle`. Contains no plans and no
//! decisions about what runs where.

mod flight;
mod local;
mod reader;
mod totals;

use std::fmt::Debug;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::execution::SendableRecordBatchStream;

use crate::error::Result;
use crate::ids::{PartitionId, StageId, TaskId};

pub use flight::{ExchangeClient, ExchangeOptions};
pub(crate) use flight::{MAX_MESSAGE_BYTES, frame};
pub use reader::TaskExchange;
pub use totals::TotalsCounter;

/// Reads stored shuffle partitions, wherever they are.
///
/// Delivery order is fixed by (producer task, block), whatever the fetch order, so that a stage's output
/// depends on its inputs only. A stream that ends without error has delivered exactly the rows that were
/// written.
pub trait ShuffleSource: Debug + Send + Sync {
    /// The rows of `partition` that all tasks of `stage` wrote, in task order. Fetching starts at the first poll;
    /// dropping the stream stops it.
    ///
    /// # Errors
    /// A stage whose locations are not known.
    fn read(&self, stage: StageId, partition: PartitionId, schema: SchemaRef) -> Result<SendableRecordBatchStream>;

    /// The rows of `partition` that one task wrote, in the order of writing.
    ///
    /// # Errors
    /// A stage or task whose locations are not known.
    fn read_task(
        &self,
        stage: StageId,
        task: TaskId,
        partition: PartitionId,
        schema: SchemaRef,
    ) -> Result<SendableRecordBatchStream>;

    /// The tasks that wrote `stage`.
    ///
    /// # Errors
    /// A stage whose locations are not known.
    fn tasks(&self, stage: StageId) -> Result<Vec<TaskId>>;
}
