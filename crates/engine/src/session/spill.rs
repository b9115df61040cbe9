//! Temporary files, for what does not fit into memory.

use forebay_storage::{TempOptions, TempWriter};

use super::state::Session;
use crate::error::EngineError;

impl Session {
    /// Makes a temporary file. It counts against temp_file_limit, and is removed with its last
    /// user. Written and read with [`Session::io`].
    pub fn temp_file(&mut self, options: TempOptions) -> Result<TempWriter, EngineError> {
        self.check_cancel()?;
        self.limit_temp_space();
        Ok(self.core.temp_files.create(self.id(), &self.temp_space, options)?)
    }

    /// What the session's temporary files may take, as its settings say now.
    pub(super) fn limit_temp_space(&self) {
        self.temp_space.set_limit(self.settings.temp_file_limit);
        self.temp_space.set_log_from(self.settings.log_temp_files);
    }

    /// How the session's settings want temporary files written and read.
    pub fn temp_options(&mut self) -> TempOptions {
        let ahead = self.read_ahead();
        TempOptions { combine: ahead.combine_limit, depth: ahead.io_concurrency }
    }

    /// Bytes that a sort may take in memory.
    pub fn work_memory(&self) -> usize {
        self.settings.work_mem.saturating_mul(1024)
    }

    /// Bytes in the session's temporary files.
    pub fn temp_bytes(&self) -> u64 {
        self.temp_space.used()
    }
}
