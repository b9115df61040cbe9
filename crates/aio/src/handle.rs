//! The table of I/O handles (skeleton).

use crate::file::File;
use crate::op::OpKind;

/// The states of a handle, in the order an I/O goes through them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum HandleState {
    /// In nobody's hands; on its backend's list of idle handles.
    Idle = 0,
    /// Taken by its backend, which is about to say what it is for. At most one per backend.
    HandedOut,
    /// File, operation, memory and target are set.
    Defined,
    /// In its backend's batch, not yet submitted.
    Staged,
    /// With the method: queued, or executing.
    Submitted,
    /// Executed. Whoever brought it here finishes it: continues a short transfer, runs the shared completion.
    CompletedIo,
    /// The shared object has its state after the I/O. Waiters of other backends are done.
    CompletedShared,
    /// The issuer has taken its report; next is Idle, one generation on.
    CompletedLocal,
}

impl HandleState {
    /// The name pg_aios shows.
    pub fn name(self) -> &'static str {
        match self {
            HandleState::Idle => "IDLE",
            HandleState::HandedOut => "HANDED_OUT",
            HandleState::Defined => "DEFINED",
            HandleState::Staged => "STAGED",
            HandleState::Submitted => "SUBMITTED",
            HandleState::CompletedIo => "COMPLETED_IO",
            HandleState::CompletedShared => "COMPLETED_SHARED",
            HandleState::CompletedLocal => "COMPLETED_LOCAL",
        }
    }
}

/// A reference to one use of one handle. Any thread may keep it and wait for it; once the handle has moved on to its next
/// generation, the I/O is known to be finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WaitRef {
    /// Index in the table.
    pub index: u32,
    /// Which use of it.
    pub generation: u64,
}

/// One row of pg_aios.
#[derive(Clone, Debug)]
pub struct HandleInfo {
    /// The backend slot that owns the handle.
    pub backend: u32,
    /// The owner's id, as given to [`Aio::backend_with_id`](crate::Aio::backend_with_id) (shown as pid).
    pub backend_id: i32,
    /// Index in the table.
    pub io_id: u32,
    /// Which use of it.
    pub generation: u64,
    /// State.
    pub state: HandleState,
    /// Operation.
    pub operation: OpKind,
    /// First byte in the file.
    pub offset: Option<u64>,
    /// Bytes.
    pub length: Option<u64>,
    /// smgr, wal, file.
    pub target: Option<&'static str>,
    /// Words of data.
    pub handle_data_len: usize,
    /// Bytes transferred or minus the error number, once known.
    pub raw_result: Option<i64>,
    /// UNKNOWN, OK, PARTIAL, WARNING, ERROR.
    pub result: &'static str,
    /// What for.
    pub target_desc: Option<String>,
    /// Executed synchronously.
    pub f_sync: bool,
    /// Memory of the backend's own.
    pub f_localmem: bool,
    /// Through the page cache.
    pub f_buffered: bool,
    /// The file.
    pub file: Option<File>,
}
