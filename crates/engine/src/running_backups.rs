//! Base backups in progress.
//!
//! While one is, the first change of a page after the backup's checkpoint logs the whole page,
//! whatever full_page_writes says: the backup may copy a page while it is being written.

use forebay_aio::sync::Mutex;
use forebay_format::Lsn;
use forebay_wal::Wal;

/// The base backups in progress.
#[derive(Debug, Default)]
pub(crate) struct RunningBackups(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    running: u32,
    /// Where the last one began. No two begin at the same place.
    last_start: Lsn,
}

impl RunningBackups {
    /// A backup begins.
    pub(crate) fn enter(&self, wal: &Wal, full_page_writes: bool) {
        let mut state = self.0.lock();
        state.running += 1;
        if state.running == 1 && !full_page_writes {
            wal.set_full_page_writes(true);
        }
    }

    /// A backup ends.
    pub(crate) fn leave(&self, wal: &Wal, full_page_writes: bool) {
        let mut state = self.0.lock();
        state.running -= 1;
        if state.running == 0 && !full_page_writes {
            wal.set_full_page_writes(false);
        }
    }

    /// Reserves the LSN at which a backup begins. False if another one began there.
    pub(crate) fn take_start(&self, start: Lsn) -> bool {
        let mut state = self.0.lock();
        let free = start > state.last_start;
        if free {
            state.last_start = start;
        }
        free
    }
}
