//! Registration: memory and open files that the kernel knows by a number, so that it need not pin
//! memory or look up a file for each I/O.
//!
//! What is registered outlives its owner inside the kernel: memory stays pinned, and a file stays
//! open. So a [`Region`] and a [`File`] carry a [`Mark`] that removes them from every ring before
//! they are unmapped or closed. No I/O is in flight on them then, since each holds a clone. Without
//! that the kernel could read into pages that are mapped no more.
//!
//! [`Region`]: crate::Region
//! [`File`]: crate::File

use std::fmt;
use std::sync::{OnceLock, Weak};

use crate::refusal::RefusalCause;
use crate::sync::Arc;

/// The result of a registration of memory. I/O works in every case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Registration {
    /// The method can't use it, or it is switched off.
    Unused,
    /// Registered until the region is dropped.
    Registered,
    /// Not registered.
    Refused(RegistrationRefusal),
}

/// Why something could not be registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegistrationRefusal {
    /// It needs more memory than may be locked.
    #[error(
        "{needed} bytes need to be locked, and the limit (RLIMIT_MEMLOCK) is {limit} bytes \
         for all of a user's processes"
    )]
    LockedMemory {
        /// Bytes to be locked.
        needed: u64,
        /// The limit.
        limit: u64,
    },
    /// The system refused.
    #[error("{0}")]
    System(RefusalCause),
    /// All numbers for pieces are in use.
    #[error("{limit} pieces are registered already")]
    Full {
        /// The maximum number of pieces.
        limit: usize,
    },
    /// Another engine of this process has registered it.
    #[error("it is registered with another engine already")]
    Elsewhere,
}

/// What is registered now, and how many I/Os used it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RegistrationStats {
    /// Bytes of registered memory.
    pub memory: u64,
    /// Registered files.
    pub files: u64,
    /// Operations handed to the kernel.
    pub operations: u64,
    /// Operations that used registered memory.
    pub with_memory: u64,
    /// Operations that used a registered file.
    pub with_file: u64,
    /// Operations that the kernel refused with registered memory, and that were executed without
    /// it.
    pub refused: u64,
}

/// Registers things, and must remove them again.
pub(crate) trait Registrar: Send + Sync {
    /// `count` numbers from `number` on become invalid: their memory or file is about to be
    /// dropped.
    fn forget(&self, number: u32, count: u32);
}

/// The number under which a region or file is registered, and with which registrar. It is set once:
/// what was registered with a method that is gone stays unregistered.
#[derive(Default)]
pub(crate) struct Mark(OnceLock<Registered>);

struct Registered {
    /// The reference keeps the registrar's address from being reused, so that the address
    /// identifies it.
    registrar: Weak<dyn Registrar>,
    number: u32,
    count: u32,
}

impl Mark {
    /// The first number, if it was registered with `registrar`.
    pub(crate) fn number<K: Registrar>(&self, registrar: &K) -> Option<u32> {
        let registered = self.0.get()?;
        std::ptr::addr_eq(registered.registrar.as_ptr(), registrar).then_some(registered.number)
    }

    /// Whether it was registered with any registrar, alive or not.
    pub(crate) fn is_set(&self) -> bool {
        self.0.get().is_some()
    }

    /// Sets the mark. False if it was already set.
    pub(crate) fn set<K: Registrar + 'static>(
        &self,
        registrar: &Arc<K>,
        number: u32,
        count: u32,
    ) -> bool {
        let registrar: Weak<dyn Registrar> = Arc::<K>::downgrade(registrar);
        self.0.set(Registered { registrar, number, count }).is_ok()
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        if let Some(registered) = self.0.get()
            && let Some(registrar) = registered.registrar.upgrade()
        {
            registrar.forget(registered.number, registered.count);
        }
    }
}

impl fmt::Debug for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Mark").field(&self.0.get().map(|p| p.number)).finish()
    }
}
