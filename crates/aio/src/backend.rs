//! One thread's side: stage, submit, wait (skeleton).

use std::path::Path;

use crate::aio::Aio;
use crate::completion::IoResult;
use crate::error::AioError;
use crate::file::File;
use crate::handle::WaitRef;
use crate::memory::AlignedBuf;
use crate::op::Io;
use crate::stats::{BackendType, IoContext, IoObject, IoOp};
use crate::sync::Arc;

/// The right to start I/O. Owned by one thread at a time; dropping it waits for what is in flight.
pub struct Backend {
    aio: Arc<Aio>,
}

impl Backend {
    /// Most I/Os a batch stages before it is submitted by itself.
    pub const MAX_STAGED: usize = 32;

    /// The slot's number: unique among living backends, below `max_backends`.
    pub fn slot(&self) -> u32 {
        todo!()
    }
    /// The id shown as pid.
    pub fn id(&self) -> i32 {
        todo!()
    }
    /// Whose I/O it is.
    pub fn backend_type(&self) -> BackendType {
        todo!()
    }
    /// The door.
    pub fn aio(&self) -> &Arc<Aio> {
        &self.aio
    }

    /// Starts an I/O: outside of a batch it is submitted at once, inside it is staged. Waits for the oldest I/O in flight where no
    /// handle is idle. A failed I/O is not an error here, but in its report.
    pub fn start(&mut self, io: Io) -> WaitRef {
        let _ = io;
        todo!()
    }

    /// Begins staging. Batches don't nest. While anything is staged, don't block on another backend without [`Backend::submit`].
    pub fn begin_batch(&mut self) {
        todo!()
    }
    /// Submits what is staged and ends the batch.
    pub fn end_batch(&mut self) {
        todo!()
    }
    /// Submits what is staged; the batch goes on.
    pub fn submit(&mut self) {
        todo!()
    }
    /// I/Os staged and not yet submitted.
    pub fn staged(&self) -> usize {
        todo!()
    }
    /// Own I/Os whose handles are in use.
    pub fn in_flight(&self) -> usize {
        todo!()
    }
    /// Handles that could be taken without waiting.
    pub fn idle_handles(&self) -> usize {
        todo!()
    }

    /// Waits for an I/O, anyone's, after submitting what is staged. For an own one the report comes with it, once.
    pub fn wait(&mut self, r: WaitRef) -> IoResult {
        let _ = r;
        todo!()
    }
    /// Has it finished? Never blocks; notices completions that already arrived.
    pub fn is_done(&mut self, r: WaitRef) -> bool {
        let _ = r;
        todo!()
    }
    /// The report of an own I/O will not be asked for.
    pub fn forget(&mut self, r: WaitRef) {
        let _ = r;
        todo!()
    }
    /// Waits for all own I/O and drops the reports nobody asked for (end of a transaction, after an error). Ends an open batch.
    /// Returns how many reports of failed I/Os were dropped.
    pub fn drain(&mut self) -> usize {
        todo!()
    }

    /// Starts and waits, executing in this thread.
    pub fn run(&mut self, io: Io) -> Result<usize, AioError> {
        let _ = io;
        todo!()
    }
    /// Reads up to `buf.len()` bytes; less only at the end of the file.
    pub fn read_at(&mut self, file: &File, offset: u64, buf: &mut AlignedBuf) -> Result<usize, AioError> {
        let _ = (file, offset, buf);
        todo!()
    }
    /// Reads `buf.len()` bytes.
    pub fn read_exact_at(&mut self, file: &File, offset: u64, buf: &mut AlignedBuf) -> Result<(), AioError> {
        let _ = (file, offset, buf);
        todo!()
    }
    /// Writes all of `buf`.
    pub fn write_all_at(&mut self, file: &File, offset: u64, buf: &AlignedBuf) -> Result<(), AioError> {
        let _ = (file, offset, buf);
        todo!()
    }
    /// Makes data and metadata durable.
    pub fn fsync(&mut self, file: &File) -> Result<(), AioError> {
        let _ = file;
        todo!()
    }
    /// Makes data durable.
    pub fn fdatasync(&mut self, file: &File) -> Result<(), AioError> {
        let _ = file;
        todo!()
    }
    /// A whole small file.
    pub fn read_file(&mut self, path: &Path) -> Result<Vec<u8>, AioError> {
        let _ = path;
        todo!()
    }
    /// Creates or replaces the contents of a small file and syncs it (not its directory).
    pub fn write_file(&mut self, path: &Path, bytes: &[u8]) -> Result<(), AioError> {
        let _ = (path, bytes);
        todo!()
    }

    /// Counts in pg_stat_io under this backend's type. I/Os with an account are counted by themselves.
    pub fn count(&mut self, object: IoObject, context: IoContext, op: IoOp, n: u64) {
        let _ = (object, context, op, n);
        todo!()
    }
}
