//! Writing and keeping shuffle data.
//!
//! Owns partitioning of rows, output buffers, the store (memory, disk) and the block format. Depends on `ids`,
//! `error`, `config`, `wire`. Knows nothing of networks.
