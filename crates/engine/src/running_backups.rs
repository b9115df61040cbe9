//! Base backups under way: how many, and what the log owes them.
//!
//! While one runs, every page that changes for the first time after the backup's checkpoint is
//! logged whole, whatever full_page_writes says: its files are copied while they are written, and a
//! page may be copied half.

use forebay_aio::sync::Mutex;
use forebay_format::Lsn;
use forebay_wal::Wal;

/// The backups under way.
#[derive(Debug, Default)]
pub(crate) struct RunningBackups(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    running: u32,
    /// Where the last one began: no two begin at the same place.
    last_start: Lsn,
}

impl RunningBackups {
    /// One more runs.
    pub(crate) fn enter(&self, wal: &Wal, full_page_writes: bool) {
        let mut state = self.0.lock();
        state.running += 1;
        if state.running == 1 && !full_page_writes {
            wal.set_full_page_writes(true);
        }
    }

    /// One less runs.
    pub(crate) fn leave(&self, wal: &Wal, full_page_writes: bool) {
        let mut state = self.0.lock();
        state.running -= 1;
        if state.running == 0 && !full_page_writes {
            wal.set_full_page_writes(false);
        }
    }

    /// Takes a place to begin at; false if another one began there.
    pub(crate) fn take_start(&self, start: Lsn) -> bool {
        let mut state = self.0.lock();
        let free = start > state.last_start;
        if free {
            state.last_start = start;
        }
        free
    }
}
