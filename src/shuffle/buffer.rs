//! Writing one attempt's output.
//!
//! ```text
//! plan partition 0 -> ProducerWriter 0 -> lanes (0, 0) (0, 1) … (0, N-1)      a lane: pending rows, then blocks
//! plan partition 1 -> ProducerWriter 1 -> lanes (1, 0) (1, 1) … (1, N-1)
//!                                               |
//! OutputWriter::commit:  shuffle partition p = blocks of (0, p), then of (1, p), …
//! ```
//!
//! *Locking.* A producer owns its lanes: pushing takes no lock. What producers share is the store's byte counter
//! (atomic) and the spill file, in which each append writes to a range of its own. The one mutex here is taken
//! when a producer ends.
//!
//! *Order.* A lane keeps the order of its pushes; a shuffle partition is its lanes in ascending producer order. So
//! the stored order depends on the producers' streams only, never on which thread was faster.

use std::collections::BTreeMap;
use std::fmt;
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::compute::concat_batches;
use datafusion::arrow::datatypes::SchemaRef;
use parking_lot::Mutex;

use super::block::BlockEncoder;
use super::compact::{batch_bytes, compact_batch, dictionaries_fit, pinned_bytes, row_bytes, split_into_blocks};
use super::spill::SpillFile;
use super::store::{ShuffleStore, StoredBlock, StoredOutput};
use crate::config::BodyCodec;
use crate::error::{ErrorCode, Result, VolleyError};
use crate::ids::{PartitionId, TaskAttempt};
use crate::wire::{OutputSummary, PartitionSummary};

/// Pending rows of a lane may keep this many times `message_bytes` of foreign buffers alive before they are copied
/// out of them. Views of few rows in large buffers are the case; 8 keeps the copies rare otherwise.
const MAX_PINNED_MESSAGES: usize = 8;

/// When a block is full, and how it is encoded if it goes to disk.
#[derive(Clone, Copy, Debug)]
pub struct WriterOptions {
    /// Compression of blocks on disk.
    pub codec: BodyCodec,
    /// Uncompressed bytes of a block; a single larger row is a block of its own.
    pub message_bytes: usize,
    /// Rows of a block.
    pub batch_rows: usize,
}

impl Default for WriterOptions {
    /// No compression, 1 MiB, 8,192 rows (DataFusion's batch size).
    fn default() -> Self {
        Self { codec: BodyCodec::None, message_bytes: 1 << 20, batch_rows: 8_192 }
    }
}

/// The output of one attempt while it is written. Dropped without [`commit`](Self::commit), nothing of it remains.
pub struct OutputWriter {
    store: Arc<ShuffleStore>,
    attempt: TaskAttempt,
    schema: SchemaRef,
    partitions: usize,
    producers: usize,
    options: WriterOptions,
    spill: OnceLock<Arc<SpillFile>>,
    spill_creation: Mutex<()>,
    rows: AtomicU64,
    bytes: AtomicU64,
    spilled_bytes: AtomicU64,
    state: Mutex<WriterState>,
}

#[derive(Default)]
struct WriterState {
    /// Producers that were asked for; `None` while they write, then their blocks per shuffle partition.
    producers: BTreeMap<usize, Option<Vec<Vec<StoredBlock>>>>,
    committed: bool,
}

impl OutputWriter {
    pub(super) fn new(
        store: Arc<ShuffleStore>,
        attempt: TaskAttempt,
        schema: SchemaRef,
        partitions: usize,
        producers: usize,
        options: WriterOptions,
    ) -> Self {
        Self {
            store,
            attempt,
            schema,
            partitions,
            producers,
            options,
            spill: OnceLock::new(),
            spill_creation: Mutex::new(()),
            rows: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            spilled_bytes: AtomicU64::new(0),
            state: Mutex::new(WriterState::default()),
        }
    }

    /// The attempt.
    pub fn attempt(&self) -> TaskAttempt {
        self.attempt
    }

    /// The schema of the rows.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The number of shuffle partitions.
    pub fn partitions(&self) -> usize {
        self.partitions
    }

    /// The writer of one producing stream. Each is taken once, in any order, and must be finished before the commit.
    ///
    /// # Errors
    /// An index that is taken already or beyond the number of producers.
    pub fn producer(self: &Arc<Self>, index: usize) -> Result<ProducerWriter> {
        let mut state = self.state.lock();
        if index >= self.producers || state.producers.contains_key(&index) {
            return Err(VolleyError::internal(format!(
                "producer {index} of {} of output {} is taken twice or does not exist",
                self.producers, self.attempt
            )));
        }
        state.producers.insert(index, None);
        let lanes = (0..self.partitions).map(|_| Lane::default()).collect();
        Ok(ProducerWriter { output: Arc::clone(self), index, lanes, encoder: None })
    }

    /// Makes the output visible.
    ///
    /// # Errors
    /// A producer has not finished, which would lose its rows; or the output is committed already.
    pub fn commit(&self) -> Result<OutputSummary> {
        let producers = {
            let mut state = self.state.lock();
            let finished = state.producers.values().flatten().count();
            if state.committed || finished != self.producers {
                return Err(VolleyError::internal(format!(
                    "output {} is committed with {finished} of {} producers finished{}",
                    self.attempt,
                    self.producers,
                    if state.committed { ", a second time" } else { "" }
                )));
            }
            state.committed = true;
            mem::take(&mut state.producers)
        };
        let mut partitions: Vec<(Vec<StoredBlock>, PartitionSummary)> = vec![Default::default(); self.partitions];
        for lanes in producers.into_values().flatten() {
            for ((blocks, summary), lane) in partitions.iter_mut().zip(lanes) {
                for block in &lane {
                    summary.rows += block.rows();
                    summary.bytes += block.bytes();
                    summary.blocks += 1;
                }
                blocks.extend(lane);
            }
        }
        let summary = OutputSummary {
            partitions: partitions.iter().map(|(_, summary)| *summary).collect(),
            spilled_bytes: self.spilled_bytes(),
        };
        self.store.commit(self.attempt, StoredOutput { schema: Arc::clone(&self.schema), partitions })?;
        Ok(summary)
    }

    /// Rows stored so far; rows still pending in a lane are not counted.
    pub fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }

    /// Uncompressed bytes stored so far.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Bytes written to disk so far.
    pub fn spilled_bytes(&self) -> u64 {
        self.spilled_bytes.load(Ordering::Relaxed)
    }

    fn keep(&self, batch: RecordBatch, encoder: &mut Option<BlockEncoder>) -> Result<StoredBlock> {
        let (rows, bytes) = (batch.num_rows() as u64, batch_bytes(&batch) as u64);
        let block = match self.store.try_charge(bytes) {
            Some(charge) => StoredBlock::in_memory(batch, bytes, charge),
            None => {
                let encoder = match encoder {
                    Some(encoder) => encoder,
                    none => none.insert(BlockEncoder::try_new(Arc::clone(&self.schema), self.options.codec)?),
                };
                let messages = encoder.encode_whole(&batch)?;
                let file = self.spill_file()?;
                let range = file.append(&messages)?;
                self.spilled_bytes.fetch_add(range.length() as u64, Ordering::Relaxed);
                StoredBlock::on_disk(rows, bytes, file, range)
            }
        };
        self.rows.fetch_add(rows, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(block)
    }

    fn spill_file(&self) -> Result<Arc<SpillFile>> {
        if let Some(file) = self.spill.get() {
            return Ok(Arc::clone(file));
        }
        let _creating = self.spill_creation.lock();
        if let Some(file) = self.spill.get() {
            return Ok(Arc::clone(file));
        }
        let file = Arc::new(self.store.spill_file(self.attempt)?);
        Ok(Arc::clone(self.spill.get_or_init(|| file)))
    }
}

impl fmt::Debug for OutputWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutputWriter")
            .field("attempt", &self.attempt)
            .field("partitions", &self.partitions)
            .field("rows", &self.rows())
            .finish_non_exhaustive()
    }
}

/// Writes the rows of one producing stream. Synchronous: it computes, and writes to the spill file when memory is
/// used up. Dropped without [`finish`](Self::finish), its output cannot be committed.
pub struct ProducerWriter {
    output: Arc<OutputWriter>,
    index: usize,
    lanes: Vec<Lane>,
    encoder: Option<BlockEncoder>,
}

#[derive(Default)]
struct Lane {
    pending: Vec<RecordBatch>,
    rows: usize,
    bytes: usize,
    pinned: usize,
    blocks: Vec<StoredBlock>,
}

impl ProducerWriter {
    /// Appends rows to a shuffle partition.
    ///
    /// # Errors
    /// A partition that the output does not have; rows that do not fit the schema; disk errors.
    pub fn push(&mut self, partition: PartitionId, batch: RecordBatch) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let batch = with_schema(batch, &self.output.schema)?;
        let lane = self.lanes.get_mut(partition.index()).ok_or_else(|| {
            VolleyError::internal(format!("output {} has no partition {partition}", self.output.attempt))
        })?;
        let WriterOptions { message_bytes, batch_rows, .. } = self.output.options;
        let (rows, bytes) = (batch.num_rows(), row_bytes(&batch));
        // A batch that is a block by itself, or several, is not worth copying into a larger one.
        let large = rows.saturating_mul(2) >= batch_rows || bytes.saturating_mul(2) >= message_bytes;
        let full = lane.rows + rows > batch_rows || lane.bytes + bytes > message_bytes;
        if large || full {
            Self::close_block(&self.output, lane, &mut self.encoder)?;
        }
        if large {
            for block in split_into_blocks(&batch, message_bytes, batch_rows).map_err(arrow_error)? {
                lane.blocks.push(self.output.keep(block, &mut self.encoder)?);
            }
            return Ok(());
        }
        lane.rows += rows;
        lane.bytes += bytes;
        lane.pinned += pinned_bytes(&batch);
        lane.pending.push(batch);
        if lane.pinned > message_bytes.saturating_mul(MAX_PINNED_MESSAGES) {
            for batch in &mut lane.pending {
                *batch = compact_batch(batch).map_err(arrow_error)?;
            }
            // What is left is the rows' own; counting it again would copy nothing, again and again.
            lane.pinned = 0;
        }
        Ok(())
    }

    /// Closes all lanes and hands the blocks to the output.
    ///
    /// # Errors
    /// Disk errors.
    pub fn finish(mut self) -> Result<()> {
        let mut lanes = Vec::with_capacity(self.lanes.len());
        for mut lane in mem::take(&mut self.lanes) {
            Self::close_block(&self.output, &mut lane, &mut self.encoder)?;
            lanes.push(lane.blocks);
        }
        self.output.state.lock().producers.insert(self.index, Some(lanes));
        Ok(())
    }

    fn close_block(output: &OutputWriter, lane: &mut Lane, encoder: &mut Option<BlockEncoder>) -> Result<()> {
        let pending = mem::take(&mut lane.pending);
        (lane.rows, lane.bytes, lane.pinned) = (0, 0, 0);
        join(output, pending, &mut lane.blocks, encoder)
    }
}

/// Joins pending batches into one block; into several where a dictionary's keys would overflow.
fn join(
    output: &OutputWriter,
    mut pending: Vec<RecordBatch>,
    blocks: &mut Vec<StoredBlock>,
    encoder: &mut Option<BlockEncoder>,
) -> Result<()> {
    if pending.is_empty() {
        return Ok(());
    }
    if pending.len() > 1 && !dictionaries_fit(&pending) {
        let rest = pending.split_off(pending.len() / 2);
        join(output, pending, blocks, encoder)?;
        return join(output, rest, blocks, encoder);
    }
    let joined = if pending.len() == 1 {
        pending.remove(0)
    } else {
        concat_batches(&output.schema, &pending).map_err(arrow_error)?
    };
    blocks.push(output.keep(compact_batch(&joined).map_err(arrow_error)?, encoder)?);
    Ok(())
}

/// The batch under the output's schema (an operator's batches may differ from it in metadata).
fn with_schema(batch: RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    if Arc::ptr_eq(batch.schema_ref(), schema) {
        return Ok(batch);
    }
    let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::clone(schema), batch.columns().to_vec(), &rows).map_err(|error| {
        VolleyError::new(ErrorCode::TaskFailed, format!("rows do not fit the plan's schema: {error}"))
            .with_source(error)
    })
}

fn arrow_error(error: datafusion::arrow::error::ArrowError) -> VolleyError {
    VolleyError::new(ErrorCode::TaskFailed, "cannot copy rows into a block").with_source(error)
}

impl fmt::Debug for ProducerWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProducerWriter").field("output", &self.output).field("index", &self.index).finish()
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{ArrayRef, AsArray, DictionaryArray, Int64Array, StringViewArray, UInt8Array};
    use datafusion::arrow::datatypes::{Int64Type, Schema, UInt8Type};

    use super::*;
    use crate::ids::{AttemptId, QueryId, StageId, TaskId};
    use crate::shuffle::{StoreOptions, batch_bytes};

    fn attempt(task: u32) -> TaskAttempt {
        TaskAttempt { query: QueryId(1), stage: StageId(0), task: TaskId(task), attempt: AttemptId(0) }
    }

    fn store(memory_bytes: u64) -> (tempfile::TempDir, Arc<ShuffleStore>) {
        let dir = tempfile::tempdir().unwrap();
        let options = StoreOptions { memory_bytes, work_dir: dir.path().into(), disk_limit_bytes: 1 << 30 };
        let store = ShuffleStore::try_new(options).unwrap();
        (dir, store)
    }

    fn batch(first: i64, rows: usize) -> RecordBatch {
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(first..first + rows as i64));
        let texts: ArrayRef = Arc::new(StringViewArray::from_iter_values(
            (0..rows).map(|row| format!("number {} with a text too long for a view", first + row as i64)),
        ));
        RecordBatch::try_from_iter([("n", numbers), ("t", texts)]).unwrap()
    }

    fn read(store: &ShuffleStore, task: u32, partition: u32) -> Vec<RecordBatch> {
        let stored = store.read(attempt(task), PartitionId(partition)).unwrap();
        let batches: Vec<_> = stored
            .blocks
            .iter()
            .map(|block| {
                let batch = block.load().unwrap().into_batch(&stored.schema).unwrap();
                assert_eq!(batch.num_rows() as u64, block.rows());
                batch
            })
            .collect();
        assert_eq!(batches.iter().map(|batch| batch.num_rows() as u64).sum::<u64>(), stored.summary.rows);
        batches
    }

    #[test]
    fn lanes_keep_their_order_whatever_the_threads_do() {
        for memory in [1 << 30, 20_000, 0] {
            let (_dir, store) = store(memory);
            let options = WriterOptions { message_bytes: 10_000, batch_rows: 100, codec: BodyCodec::Lz4 };
            let writer = store.writer(attempt(0), batch(0, 1).schema(), 2, 3, options).unwrap();
            std::thread::scope(|scope| {
                for index in [2, 0, 1] {
                    let mut producer = writer.producer(index).unwrap();
                    scope.spawn(move || {
                        for step in 0..40 {
                            let first = index as i64 * 1_000_000 + step * 1_000;
                            producer.push(PartitionId(0), batch(first, 7 + step as usize * 5)).unwrap();
                        }
                        producer.finish().unwrap();
                    });
                }
            });
            assert!(store.read(attempt(0), PartitionId(0)).is_err(), "visible before the commit");
            let summary = writer.commit().unwrap();
            assert_eq!(summary.rows(), (0..40).map(|step| 3 * (7 + step * 5)).sum::<u64>());
            assert_eq!(memory == 1 << 30, summary.spilled_bytes == 0);
            let batches = read(&store, 0, 0);
            let numbers: Vec<i64> = batches
                .iter()
                .flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec())
                .collect();
            assert!(numbers.is_sorted() && numbers.len() as u64 == summary.rows());
            assert!(batches.iter().all(|batch| batch.num_rows() <= 100 && batch_bytes(batch) <= 10_000));
            assert!(batches.len() < numbers.len() / 50, "{} blocks: small pushes were not joined", batches.len());
            assert!(read(&store, 0, 1).is_empty());
        }
    }

    #[test]
    fn nothing_remains_without_commit_or_after_free() {
        for memory in [1 << 30, 0] {
            let (_dir, store) = store(memory);
            let schema = batch(0, 1).schema();
            let write = |task| {
                let writer = store.writer(attempt(task), Arc::clone(&schema), 1, 1, WriterOptions::default()).unwrap();
                let mut producer = writer.producer(0).unwrap();
                producer.push(PartitionId(0), batch(0, 20_000)).unwrap();
                (writer, producer)
            };
            let (writer, producer) = write(0);
            assert!(writer.commit().is_err(), "a producer still writes");
            drop((writer, producer));
            for task in [1, 2] {
                let (writer, producer) = write(task);
                producer.finish().unwrap();
                writer.commit().unwrap();
            }
            let stats = store.stats();
            assert_eq!((stats.outputs, stats.memory_bytes > 0), (2, memory > 0));
            assert_eq!(stats.disk_bytes > 0, memory == 0);
            let held = store.read(attempt(1), PartitionId(0)).unwrap();
            assert!(store.free_attempt(attempt(1)) && !store.free_attempt(attempt(1)));
            assert_eq!(store.free(QueryId(1), Some(StageId(9))), 0);
            assert_eq!(store.free(QueryId(1), None), 1);
            let error = store.read(attempt(1), PartitionId(0)).unwrap_err();
            assert_eq!((error.code, error.lost_output), (ErrorCode::OutputLost, Some(attempt(1))));
            let rows: u64 = held.blocks.iter().map(|block| block.load().map(|_| block.rows()).unwrap()).sum();
            assert_eq!(rows, 20_000, "who has begun to read gets all rows");
            drop(held);
            let stats = store.stats();
            assert_eq!((stats.memory_bytes, stats.disk_bytes, stats.outputs), (0, 0, 0));
        }
    }

    #[test]
    fn a_full_disk_is_an_error_and_nothing_is_lost_silently() {
        let dir = tempfile::tempdir().unwrap();
        let options = StoreOptions { memory_bytes: 0, work_dir: dir.path().into(), disk_limit_bytes: 100_000 };
        let store = ShuffleStore::try_new(options).unwrap();
        let writer = store.writer(attempt(0), batch(0, 1).schema(), 1, 1, WriterOptions::default()).unwrap();
        let mut producer = writer.producer(0).unwrap();
        let error = (0..100).find_map(|_| producer.push(PartitionId(0), batch(0, 8_192)).err()).unwrap();
        assert_eq!(error.code, ErrorCode::DiskFull);
    }

    #[test]
    fn rows_without_columns_and_large_rows_are_kept() {
        let (_dir, store) = store(0);
        let schema = Arc::new(Schema::empty());
        let writer = store.writer(attempt(0), Arc::clone(&schema), 1, 1, WriterOptions::default()).unwrap();
        let mut producer = writer.producer(0).unwrap();
        for rows in [3, 20_000, 4] {
            let options = RecordBatchOptions::new().with_row_count(Some(rows));
            let rows = RecordBatch::try_new_with_options(Arc::clone(&schema), vec![], &options).unwrap();
            producer.push(PartitionId(0), rows).unwrap();
        }
        producer.finish().unwrap();
        assert_eq!(writer.commit().unwrap().rows(), 20_007);
        read(&store, 0, 0);

        let text: ArrayRef =
            Arc::new(StringViewArray::from(vec!["x".repeat(5 << 20), "y".into(), "z".repeat(3 << 20)]));
        let large = RecordBatch::try_from_iter([("t", text)]).unwrap();
        let writer = store.writer(attempt(1), large.schema(), 1, 1, WriterOptions::default()).unwrap();
        let mut producer = writer.producer(0).unwrap();
        producer.push(PartitionId(0), large.clone()).unwrap();
        producer.finish().unwrap();
        writer.commit().unwrap();
        assert_eq!(concat_batches(&large.schema(), &read(&store, 1, 0)).unwrap(), large);
    }

    #[test]
    fn dictionaries_stay_and_small_keys_never_overflow() {
        let (_dir, store) = store(0);
        let of = |base: usize| {
            let keys = UInt8Array::from_iter_values(0..200);
            let values: ArrayRef =
                Arc::new(StringViewArray::from_iter_values((0..200).map(|v| format!("{}", base + v))));
            let column: ArrayRef = Arc::new(DictionaryArray::<UInt8Type>::try_new(keys, values).unwrap());
            RecordBatch::try_from_iter([("d", column)]).unwrap()
        };
        let writer = store.writer(attempt(0), of(0).schema(), 1, 1, WriterOptions::default()).unwrap();
        let mut producer = writer.producer(0).unwrap();
        for step in 0..5 {
            producer.push(PartitionId(0), of(step * 1_000)).unwrap();
        }
        producer.finish().unwrap();
        writer.commit().unwrap();
        let batches = read(&store, 0, 0);
        assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 1_000);
        assert_eq!(batches[0].slice(0, 200), of(0));
    }
}
