//! Counting what a task's readers move.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use crate::wire::ExchangeTotals;

/// The running [`ExchangeTotals`] of one task; its streams add to it from any thread.
#[derive(Debug, Default)]
pub struct TotalsCounter {
    local_bytes: AtomicU64,
    remote_bytes: AtomicU64,
    local_rows: AtomicU64,
    remote_rows: AtomicU64,
    channels: AtomicU32,
    wait_ns: AtomicU64,
    dropped_early: AtomicU64,
}

impl TotalsCounter {
    pub(super) fn local(&self, rows: u64, bytes: u64) {
        self.local_rows.fetch_add(rows, Ordering::Relaxed);
        self.local_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn remote_rows(&self, rows: u64) {
        self.remote_rows.fetch_add(rows, Ordering::Relaxed);
    }

    pub(super) fn remote_bytes(&self, bytes: u64) {
        self.remote_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn channels(&self, used: u32) {
        self.channels.fetch_max(used, Ordering::Relaxed);
    }

    pub(super) fn waited(&self, time: Duration) {
        self.wait_ns.fetch_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub(super) fn dropped_early(&self) {
        self.dropped_early.fetch_add(1, Ordering::Relaxed);
    }

    /// The sums now.
    pub fn snapshot(&self) -> ExchangeTotals {
        ExchangeTotals {
            local_bytes: self.local_bytes.load(Ordering::Relaxed),
            remote_bytes: self.remote_bytes.load(Ordering::Relaxed),
            local_rows: self.local_rows.load(Ordering::Relaxed),
            remote_rows: self.remote_rows.load(Ordering::Relaxed),
            channels: self.channels.load(Ordering::Relaxed),
            wait_ns: self.wait_ns.load(Ordering::Relaxed),
            dropped_early: self.dropped_early.load(Ordering::Relaxed),
        }
    }
}
