//! The space that one session uses, and may use, for temporary files.

use crate::error::StorageError;
use forebay_aio::sync::Arc;
use forebay_aio::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

/// The account of one session. Its files refer to it, and give back their space when they go.
#[derive(Debug)]
pub struct TempSpace {
    /// temp_file_limit in kB; negative: no limit.
    limit: AtomicI64,
    /// log_temp_files in kB; negative: nothing is logged.
    log_from: AtomicI64,
    used: AtomicU64,
}

impl TempSpace {
    /// Makes an account with nothing used, no limit, and nothing logged.
    pub fn new() -> Arc<TempSpace> {
        Arc::new(TempSpace {
            limit: AtomicI64::new(-1),
            log_from: AtomicI64::new(-1),
            used: AtomicU64::new(0),
        })
    }

    /// Sets temp_file_limit, in kB; negative: no limit. Space in use above the limit stays in use.
    pub fn set_limit(&self, kilobytes: i64) {
        self.limit.store(kilobytes, Relaxed);
    }

    /// Sets log_temp_files, in kB: files of at least this size are logged when they go; negative:
    /// no files.
    pub fn set_log_from(&self, kilobytes: i64) {
        self.log_from.store(kilobytes, Relaxed);
    }

    /// Returns the bytes in the session's files.
    pub fn used(&self) -> u64 {
        self.used.load(Relaxed)
    }

    /// Counts bytes that are about to be written. If they exceed the limit, returns an error and
    /// counts none.
    pub(super) fn take(&self, bytes: u64) -> Result<(), StorageError> {
        let used = self.used.fetch_add(bytes, Relaxed) + bytes;
        let limit = self.limit.load(Relaxed);
        match u64::try_from(limit) {
            Ok(kilobytes) if used > kilobytes.saturating_mul(1024) => {
                self.give_back(bytes);
                Err(StorageError::TempLimit { kilobytes: limit })
            }
            _ => Ok(()),
        }
    }

    pub(super) fn give_back(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Relaxed);
    }

    pub(super) fn logs(&self, bytes: u64) -> bool {
        u64::try_from(self.log_from.load(Relaxed)).is_ok_and(|from| bytes / 1024 >= from)
    }
}
