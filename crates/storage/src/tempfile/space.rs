//! What one session has in temporary files, and may have.

use crate::error::StorageError;
use forebay_aio::sync::Arc;
use forebay_aio::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

/// The account of one session. Its files hold it, and give back what they took when they go.
#[derive(Debug)]
pub struct TempSpace {
    /// temp_file_limit in kB; below 0: none.
    limit: AtomicI64,
    /// log_temp_files in kB; below 0: nothing is logged.
    log_from: AtomicI64,
    used: AtomicU64,
}

impl TempSpace {
    /// Nothing used, no limit, nothing logged.
    pub fn new() -> Arc<TempSpace> {
        Arc::new(TempSpace {
            limit: AtomicI64::new(-1),
            log_from: AtomicI64::new(-1),
            used: AtomicU64::new(0),
        })
    }

    /// Sets temp_file_limit, in kB; below 0: none. What is used already stays, even above it.
    pub fn set_limit(&self, kilobytes: i64) {
        self.limit.store(kilobytes, Relaxed);
    }

    /// Sets log_temp_files: files from so many kB on are logged when they go; below 0: none are.
    pub fn set_log_from(&self, kilobytes: i64) {
        self.log_from.store(kilobytes, Relaxed);
    }

    /// Bytes in the session's files.
    pub fn used(&self) -> u64 {
        self.used.load(Relaxed)
    }

    /// Takes bytes that are about to be written; an error, and nothing taken, if that is more than
    /// the session may have.
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
