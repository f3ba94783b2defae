//! Reading the executor's own store: batches as they are in memory, spill files on a blocking thread.

use std::collections::VecDeque;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;

use super::totals::TotalsCounter;
use crate::error::Result;
use crate::ids::{PartitionId, TaskAttempt};
use crate::shuffle::{ShuffleStore, StoredBlock};

/// The blocks of one output's partition.
#[derive(Debug)]
pub(super) struct LocalRun {
    stored_schema: SchemaRef,
    blocks: VecDeque<StoredBlock>,
    totals: Arc<TotalsCounter>,
}

impl LocalRun {
    pub(super) fn open(
        store: &ShuffleStore,
        attempt: TaskAttempt,
        partition: PartitionId,
        totals: Arc<TotalsCounter>,
    ) -> Result<Self> {
        let stored = store.read(attempt, partition)?;
        Ok(Self { stored_schema: stored.schema, blocks: stored.blocks.into(), totals })
    }

    /// The next batch; `None` at the end. A block counts against the store until it is passed on.
    pub(super) async fn next(&mut self) -> Result<Option<RecordBatch>> {
        let Some(block) = self.blocks.pop_front() else { return Ok(None) };
        let batch = block.load_async().await?.into_batch(&self.stored_schema)?;
        self.totals.local(block.rows(), block.bytes());
        Ok(Some(batch))
    }
}
