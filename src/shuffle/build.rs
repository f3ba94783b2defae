//! What members of a cluster must have in common for rows to meet.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Int64Array, StringArray, StringViewArray};
use datafusion::common::hash_utils::create_hashes;
use datafusion::physical_plan::repartition::REPARTITION_RANDOM_STATE;

/// This build: versions, target, and the result of hashing fixed values. Two processes that differ in it may send rows
/// with equal keys to different partitions, so they refuse each other.
pub fn build_id() -> String {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(vec![Some(1), None, Some(i64::MIN)])),
        Arc::new(StringArray::from(vec!["volley", "", "a string longer than twelve bytes"])),
        Arc::new(StringViewArray::from(vec!["volley", "", "a string longer than twelve bytes"])),
    ];
    let mut hashes = vec![0; 3];
    let hashed = match create_hashes(&columns, REPARTITION_RANDOM_STATE.random_state(), &mut hashes) {
        Ok(hashes) => hashes.iter().fold(0u64, |all, hash| all.rotate_left(21) ^ hash),
        Err(_) => 0,
    };
    format!(
        "{} {}, datafusion {}, {}-{}, hash {hashed:016x}",
        env!("CARGO_PKG_NAME"),
        env!("CARGO_PKG_VERSION"),
        datafusion::DATAFUSION_VERSION,
        std::env::consts::ARCH,
        std::env::consts::OS,
    )
}
