//! Registered files: those used often are named by a number, and the kernel need not look them up
//! and count references for each I/O.
//!
//! A file gets its number at its 32nd use (of [`FILES`] there are in all), and a ring registers it
//! at the 32nd use in this ring: a registration costs a system call, which pays only after some
//! dozen I/Os. The number is the same in every ring.
//!
//! Off unless asked for: with one ring, 8 KiB random reads at depth 32 cost 3.4 us of processor
//! time instead of 3.6 (medians of ten interleaved runs that spread over 2.9 to 5.1), and beside
//! registered memory no less at all. It may pay where many processors count references to one file;
//! that has not been measured.
//!
//! A ring keeps a registered file open. So the last close takes it out of every ring that has it
//! (see [`crate::registration`]): otherwise a dropped file would hold its space, and a lock on it
//! would last.

use crate::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};
use crate::sync::{Arc, Mutex, OnceLock};

use super::ring::{Ring, Rings};
use crate::file::File;
use crate::method::registration_refusal;
use crate::registration::Keeper;

/// Numbers that there are.
pub(super) const FILES: usize = 128;

/// Uses after which a file gets a number, and after which a ring registers it.
const OFTEN: u8 = 32;

/// In place of a count of uses: the ring has the file.
const REGISTERED: u8 = u8::MAX;

/// In place of a count of uses: the ring can't have it.
const REFUSED: u8 = u8::MAX - 1;

/// A ring's table of files.
#[derive(Default)]
pub(super) struct FileState(AtomicU8);

const ABSENT: u8 = 0;
const PRESENT: u8 = 1;
const IMPOSSIBLE: u8 = 2;

/// The registered files of one method.
pub(super) struct Files {
    rings: Arc<Rings>,
    taken: Mutex<[bool; FILES]>,
    complained: AtomicBool,
}

impl Files {
    pub(super) fn new(rings: Arc<Rings>) -> Arc<Files> {
        Arc::new(Files {
            rings,
            taken: Mutex::new([false; FILES]),
            complained: AtomicBool::new(false),
        })
    }

    /// Files that have a number.
    pub(super) fn count(&self) -> u64 {
        self.taken.lock().iter().filter(|&&t| t).count() as u64
    }

    /// The number under which `ring` knows `file`, about to be used once more. Only the ring's
    /// backend calls this.
    pub(super) fn number(self: &Arc<Files>, ring: &Ring, file: &File) -> Option<u32> {
        let Some(number) = file.mark().number(&**self) else {
            // Not at every use, where all numbers are taken.
            if file.count_use() % 1024 == u32::from(OFTEN) {
                self.assign(file);
            }
            return None;
        };
        let seen = &ring.files[number as usize];
        match seen.load(Relaxed) {
            REGISTERED => Some(number),
            REFUSED => None,
            OFTEN => {
                let known = self.register(ring, number, file);
                seen.store(if known { REGISTERED } else { REFUSED }, Relaxed);
                known.then_some(number)
            }
            n => {
                seen.store(n + 1, Relaxed);
                None
            }
        }
    }

    fn assign(self: &Arc<Files>, file: &File) {
        let mut taken = self.taken.lock();
        if let Some(number) = taken.iter().position(|t| !t) {
            taken[number] = file.mark().set(self, number as u32, 1);
        }
    }

    fn register(&self, ring: &Ring, number: u32, file: &File) -> bool {
        let Some(fd) = file.raw_fd() else { return false };
        let submitter = ring.submitter();
        let table = &ring.file_table.0;
        if table.load(Relaxed) == ABSENT {
            let made = submitter.register_files_sparse(FILES as u32);
            table.store(if made.is_ok() { PRESENT } else { IMPOSSIBLE }, Relaxed);
            if let Err(e) = made {
                self.complain(&e);
            }
        }
        if table.load(Relaxed) == IMPOSSIBLE {
            return false;
        }
        match submitter.register_files_update(number, &[fd]) {
            Ok(n) => n == 1,
            Err(e) => {
                self.complain(&e);
                false
            }
        }
    }

    fn complain(&self, e: &std::io::Error) {
        if !self.complained.swap(true, Relaxed) {
            let cause = registration_refusal(e.raw_os_error().unwrap_or(libc::EIO));
            let refusal = crate::registration::RegistrationRefusal::System(cause);
            tracing::info!(
                "could not register files with io_uring: {refusal}; I/O goes on without"
            );
        }
    }
}

impl Keeper for Files {
    fn forget(&self, number: u32, _count: u32) {
        let mut clean = true;
        for ring in self.rings.iter().filter_map(OnceLock::get) {
            let seen = &ring.files[number as usize];
            if seen.load(Relaxed) == REGISTERED {
                clean &= ring.submitter().register_files_update(number, &[-1]).is_ok();
            }
            seen.store(0, Relaxed);
        }
        if clean {
            self.taken.lock()[number as usize] = false;
        } else {
            // The number is not given out again: some ring still means the old file by it.
            tracing::warn!("io_uring does not let go of a closed file");
        }
    }
}
