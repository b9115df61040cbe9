//! Registered files: the kernel knows files that are used often by a number, so that it need not
//! look them up and count references for each I/O.
//!
//! A file gets one of [`FILES`] numbers at its 32nd use, and a ring registers it at the 32nd use in
//! this ring. A registration costs a system call, which pays only after some dozen I/Os. The number
//! is the same in every ring.
//!
//! It is off by default: 8 KiB random reads on one ring cost 3.4 us of processor time in place of
//! 3.6, and nothing less with registered memory.
//!
//! A ring keeps a registered file open. So the last close removes the file from every ring (see
//! [`crate::registration`]). Otherwise a dropped file would keep its space and its lock.

use crate::sync::atomic::{AtomicBool, Ordering::Relaxed};
use crate::sync::{Arc, Mutex, OnceLock};

use super::ring::{FILES, FileTable, Ring, Rings};
use crate::file::File;
use crate::methods::probe::registration_refusal;
use crate::registration::Registrar;

/// After this many uses a file gets a number, and a ring registers it.
const OFTEN: u8 = 32;

/// In place of a count of uses: the ring has the file.
const REGISTERED: u8 = u8::MAX;

/// In place of a count of uses: the ring can't have the file.
const REFUSED: u8 = u8::MAX - 1;

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

    /// How many files have a number.
    pub(super) fn count(&self) -> u64 {
        self.taken.lock().iter().filter(|&&t| t).count() as u64
    }

    /// Counts a use of `file` in `ring`; returns its number there, if it has one. Only the ring's
    /// backend calls this.
    pub(super) fn number(self: &Arc<Files>, ring: &Ring, file: &File) -> Option<u32> {
        let Some(number) = file.mark().number(&**self) else {
            // Not at every use, in case all numbers are taken.
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
        let table =
            ring.file_table.get_or_init(|| match submitter.register_files_sparse(FILES as u32) {
                Ok(()) => FileTable::Registered,
                Err(e) => {
                    self.complain(&e);
                    FileTable::Refused
                }
            });
        if *table == FileTable::Refused {
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

impl Registrar for Files {
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
            // The number is not used again: some ring still has the old file under it.
            tracing::warn!("io_uring does not let go of a closed file");
        }
    }
}
