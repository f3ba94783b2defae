//! The store: what an executor keeps of its tasks' outputs.
//!
//! An output is visible from its writer's commit until it is freed. Blocks are in memory while the store's share
//! lasts; blocks that come after it is used up go to the task's spill file. A block handed to a reader stays
//! charged until the reader drops it, and stays readable even if the output is freed meanwhile: whoever has begun
//! to read gets all rows.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use parking_lot::RwLock;

use super::block::{BlockDecoder, BlockLimits, EncodedMessage};
use super::buffer::{OutputWriter, WriterOptions};
use super::spill::{SpillFile, SpillRange, WorkDir};
use crate::error::{ErrorCode, Result, VolleyError};
use crate::ids::{PartitionId, QueryId, StageId, TaskAttempt};
use crate::wire::PartitionSummary;

/// How much a store may keep, and where.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// Uncompressed bytes of blocks in memory.
    pub memory_bytes: u64,
    /// Parent of the store's own directory; created if missing.
    pub work_dir: PathBuf,
    /// Bytes of spill files.
    pub disk_limit_bytes: u64,
}

/// What a store has now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreStats {
    /// Bytes of blocks in memory, those still held by readers included.
    pub memory_bytes: u64,
    /// The most of them.
    pub memory_limit_bytes: u64,
    /// Bytes of spill files.
    pub disk_bytes: u64,
    /// The most of them.
    pub disk_limit_bytes: u64,
    /// Committed outputs.
    pub outputs: usize,
}

/// Keeps the outputs of one executor's tasks.
pub struct ShuffleStore {
    memory: Arc<MemoryShare>,
    dir: Arc<WorkDir>,
    /// Held for look-ups and inserts only, never while a block is encoded, written or read.
    outputs: RwLock<HashMap<TaskAttempt, Arc<StoredOutput>>>,
}

/// A committed output.
pub(super) struct StoredOutput {
    pub(super) schema: SchemaRef,
    /// Blocks in delivery order, and their sum, per shuffle partition.
    pub(super) partitions: Vec<(Vec<StoredBlock>, PartitionSummary)>,
}

impl ShuffleStore {
    /// A store with its own, locked directory below `work_dir`. Leftovers of dead owners there are removed.
    ///
    /// # Errors
    /// The directory cannot be created or written to.
    pub fn try_new(options: StoreOptions) -> Result<Arc<Self>> {
        Ok(Arc::new(Self {
            memory: Arc::new(MemoryShare { used: AtomicU64::new(0), limit: options.memory_bytes }),
            dir: WorkDir::create(&options.work_dir, options.disk_limit_bytes)?,
            outputs: RwLock::new(HashMap::new()),
        }))
    }

    /// The store's own directory, removed when the store is dropped.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// A writer for the output of `attempt`: `partitions` shuffle partitions, fed by `producers` streams.
    ///
    /// # Errors
    /// The attempt has an output already.
    pub fn writer(
        self: &Arc<Self>,
        attempt: TaskAttempt,
        schema: SchemaRef,
        partitions: usize,
        producers: usize,
        options: WriterOptions,
    ) -> Result<Arc<OutputWriter>> {
        if self.outputs.read().contains_key(&attempt) {
            return Err(VolleyError::internal(format!("output {attempt} is already stored")));
        }
        Ok(Arc::new(OutputWriter::new(Arc::clone(self), attempt, schema, partitions, producers, options)))
    }

    /// The blocks of one partition of a committed output, in delivery order: ascending producer, then as written.
    ///
    /// # Errors
    /// [`ErrorCode::OutputLost`] for an output that was never committed or is freed; a partition that the output
    /// does not have is a fault of ours. A partition without rows is not an error.
    pub fn read(&self, attempt: TaskAttempt, partition: PartitionId) -> Result<PartitionBlocks> {
        let output = self.outputs.read().get(&attempt).cloned().ok_or_else(|| {
            VolleyError::new(ErrorCode::OutputLost, format!("output {attempt} is not stored here"))
                .with_lost_output(attempt)
        })?;
        let (blocks, summary) = output.partitions.get(partition.index()).ok_or_else(|| {
            let count = output.partitions.len();
            VolleyError::new(
                ErrorCode::InvalidRequest,
                format!("output {attempt} has {count} partitions, not partition {partition}"),
            )
        })?;
        Ok(PartitionBlocks { schema: Arc::clone(&output.schema), blocks: blocks.clone(), summary: *summary })
    }

    /// Frees the outputs of a stage, or of all stages, of a query; returns how many there were.
    pub fn free(&self, query: QueryId, stage: Option<StageId>) -> usize {
        self.free_where(|id| id.query == query && stage.is_none_or(|stage| id.stage == stage))
    }

    /// Frees one output; whether there was one.
    pub fn free_attempt(&self, attempt: TaskAttempt) -> bool {
        self.free_where(|id| *id == attempt) > 0
    }

    fn free_where(&self, chosen: impl Fn(&TaskAttempt) -> bool) -> usize {
        // Dropped after the lock is released: dropping removes files.
        let freed: Vec<_> = self.outputs.write().extract_if(|id, _| chosen(id)).collect();
        freed.len()
    }

    /// What the store has now.
    pub fn stats(&self) -> StoreStats {
        StoreStats {
            memory_bytes: self.memory.used.load(Ordering::Relaxed),
            memory_limit_bytes: self.memory.limit,
            disk_bytes: self.dir.used(),
            disk_limit_bytes: self.dir.limit(),
            outputs: self.outputs.read().len(),
        }
    }

    pub(super) fn commit(&self, attempt: TaskAttempt, output: StoredOutput) -> Result<()> {
        match self.outputs.write().entry(attempt) {
            std::collections::hash_map::Entry::Vacant(entry) => {
                entry.insert(Arc::new(output));
                Ok(())
            }
            std::collections::hash_map::Entry::Occupied(_) => {
                Err(VolleyError::internal(format!("output {attempt} is already stored")))
            }
        }
    }

    /// A charge for a block in memory; `None` where it does not fit the share.
    pub(super) fn try_charge(&self, bytes: u64) -> Option<MemoryCharge> {
        let fits = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= self.memory.limit);
        self.memory.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).ok()?;
        Some(MemoryCharge { share: Arc::clone(&self.memory), bytes })
    }

    pub(super) fn spill_file(&self, attempt: TaskAttempt) -> Result<SpillFile> {
        SpillFile::create(&self.dir, attempt)
    }
}

impl fmt::Debug for ShuffleStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShuffleStore").field("dir", &self.dir.path()).field("stats", &self.stats()).finish()
    }
}

#[derive(Debug)]
struct MemoryShare {
    used: AtomicU64,
    limit: u64,
}

/// Bytes of the store's share, given back on drop.
#[derive(Debug)]
pub(super) struct MemoryCharge {
    share: Arc<MemoryShare>,
    bytes: u64,
}

impl Drop for MemoryCharge {
    fn drop(&mut self) {
        self.share.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// One partition of a committed output.
#[derive(Clone, Debug)]
pub struct PartitionBlocks {
    /// The schema of all blocks.
    pub schema: SchemaRef,
    /// The blocks in delivery order.
    pub blocks: Vec<StoredBlock>,
    /// The sum of the blocks.
    pub summary: PartitionSummary,
}

/// A block as it is kept. Cheap to clone; keeps the block alive.
#[derive(Clone, Debug)]
pub struct StoredBlock(Arc<Kept>);

#[derive(Debug)]
struct Kept {
    rows: u64,
    bytes: u64,
    place: Place,
}

#[derive(Debug)]
enum Place {
    Memory { batch: RecordBatch, _charge: MemoryCharge },
    Disk { file: Arc<SpillFile>, range: SpillRange },
}

/// A block's content.
#[derive(Clone, Debug)]
pub enum LoadedBlock {
    /// Rows as the writer's task made them.
    Batch(RecordBatch),
    /// Messages that can be decoded by themselves, encoded with the writer's codec.
    Messages(Vec<EncodedMessage>),
}

impl StoredBlock {
    pub(super) fn in_memory(batch: RecordBatch, bytes: u64, charge: MemoryCharge) -> Self {
        let rows = batch.num_rows() as u64;
        Self(Arc::new(Kept { rows, bytes, place: Place::Memory { batch, _charge: charge } }))
    }

    pub(super) fn on_disk(rows: u64, bytes: u64, file: Arc<SpillFile>, range: SpillRange) -> Self {
        Self(Arc::new(Kept { rows, bytes, place: Place::Disk { file, range } }))
    }

    /// Rows.
    pub fn rows(&self) -> u64 {
        self.0.rows
    }

    /// Uncompressed bytes.
    pub fn bytes(&self) -> u64 {
        self.0.bytes
    }

    /// Whether [`load`](Self::load) reads a file.
    pub fn is_on_disk(&self) -> bool {
        matches!(self.0.place, Place::Disk { .. })
    }

    /// Bytes on disk.
    pub fn disk_bytes(&self) -> u64 {
        match &self.0.place {
            Place::Memory { .. } => 0,
            Place::Disk { range, .. } => range.length() as u64,
        }
    }

    /// The content. Blocks the thread if the block [is on disk](Self::is_on_disk); the checksum is verified.
    ///
    /// # Errors
    /// Reading fails or the bytes are damaged; the error names the output as lost.
    pub fn load(&self) -> Result<LoadedBlock> {
        match &self.0.place {
            Place::Memory { batch, .. } => Ok(LoadedBlock::Batch(batch.clone())),
            Place::Disk { file, range } => file.read(range).map(LoadedBlock::Messages),
        }
    }

    /// As [`load`](Self::load), on a blocking thread of the current runtime where a file is read.
    /// Dropping the future abandons a read, which ends by itself.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub async fn load_async(&self) -> Result<LoadedBlock> {
        if !self.is_on_disk() {
            return self.load();
        }
        let block = self.clone();
        tokio::task::spawn_blocking(move || block.load())
            .await
            .unwrap_or_else(|error| Err(VolleyError::internal("reading a block panicked").with_source(error)))
    }
}

impl LoadedBlock {
    /// The rows.
    ///
    /// # Errors
    /// [`ErrorCode::Corrupt`] for messages that are not a block of `schema`.
    pub fn into_batch(self, schema: &SchemaRef) -> Result<RecordBatch> {
        match self {
            LoadedBlock::Batch(batch) => Ok(batch),
            LoadedBlock::Messages(messages) => {
                BlockDecoder::try_new(Arc::clone(schema), BlockLimits::default())?.decode_block(&messages)
            }
        }
    }
}
