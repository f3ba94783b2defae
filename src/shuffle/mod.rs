//! Writing and keeping shuffle data.
//!
//! Owns partitioning of rows ([`RowPartitioner`]), output buffers ([`OutputWriter`]), the store in memory and on
//! disk ([`ShuffleStore`]) and the block format ([`BlockEncoder`], [`BlockDecoder`]). Depends on `ids`, `error`,
//! `config`, `wire`. Knows nothing of networks, plans or scheduling.
//!
//! ```text
//! rows -> RowPartitioner -> ProducerWriter (one per plan partition, no locks) -> blocks of about 1 MiB
//!                               |  in memory while the store's share lasts, then the task's spill file
//!                               v
//!                           OutputWriter::commit -> visible in ShuffleStore -> read(partition) -> blocks in order
//! ```

mod block;
mod buffer;
mod build;
mod check;
mod compact;
mod partition;
mod spill;
mod store;

pub use block::{BlockDecoder, BlockEncoder, BlockLimits, EncodedMessage};
pub use buffer::{OutputWriter, ProducerWriter, WriterOptions};
pub use build::build_id;
pub use compact::{batch_bytes, split_into_blocks};
pub use partition::RowPartitioner;
pub use store::{LoadedBlock, PartitionBlocks, ShuffleStore, StoreOptions, StoreStats, StoredBlock};
