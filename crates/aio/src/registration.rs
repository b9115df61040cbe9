//! What a method made known to the kernel under a number, so that each I/O need not look it up or
//! pin it again: memory, open files.
//!
//! Whatever is registered outlives its owner inside the kernel: memory stays pinned, a file stays
//! open. So a [`Region`] and a [`File`] carry a [`Mark`], by which they are taken out of every ring
//! before they are unmapped or closed. No I/O can be in flight on them then, since each holds a
//! clone. Otherwise a number could mean memory that is mapped no more: the kernel would read into
//! pages that nobody sees.
//!
//! [`Region`]: crate::Region
//! [`File`]: crate::File

use std::fmt;
use std::sync::{OnceLock, Weak};

use crate::method::{IoUringRefusal, RefusalCause};
use crate::sync::Arc;

/// What came of the wish to register memory. I/O works the same in every case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Registration {
    /// The method has no use for it, or it is switched off.
    Unused,
    /// Registered, until the region goes.
    Registered,
    /// Not registered.
    Refused(RegistrationRefusal),
}

/// Why something could not be registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegistrationRefusal {
    /// More memory than may be locked.
    #[error(
        "{needed} bytes need to be locked, and the limit (RLIMIT_MEMLOCK) is {limit} bytes for all of a user's processes"
    )]
    LockedMemory {
        /// Bytes to be locked.
        needed: u64,
        /// The limit.
        limit: u64,
    },
    /// The system refused.
    #[error("{}", ByCause(*.0))]
    System(RefusalCause),
    /// More pieces than are provided for.
    #[error("{limit} pieces are registered already")]
    Full {
        /// Most pieces.
        limit: usize,
    },
    /// Another engine of this process has registered it.
    #[error("it is registered with another engine already")]
    Elsewhere,
}

/// The cause alone, without what io_uring's set-up says before it.
struct ByCause(RefusalCause);

impl fmt::Display for ByCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = IoUringRefusal { cause: self.0 }.to_string();
        f.write_str(whole.split_once(": ").map_or(whole.as_str(), |(_, cause)| cause))
    }
}

/// What is registered now, and how many I/Os made use of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RegistrationStats {
    /// Bytes of registered memory.
    pub memory: u64,
    /// Registered files.
    pub files: u64,
    /// Operations handed to the kernel.
    pub operations: u64,
    /// Those of them that named registered memory.
    pub with_memory: u64,
    /// Those of them that named a registered file.
    pub with_file: u64,
    /// Those of them that the kernel did not take with registered memory, and that were executed
    /// without.
    pub refused: u64,
}

/// Who has registered something, and must take it out again.
pub(crate) trait Keeper: Send + Sync {
    /// `count` numbers from `number` on mean nothing any more: their memory or file is about to go.
    fn forget(&self, number: u32, count: u32);
}

/// Under which number a region or file is registered, and with whom. Set once: what was registered
/// with a method that is gone stays unregistered.
#[derive(Default)]
pub(crate) struct Mark(OnceLock<Place>);

struct Place {
    /// The reference keeps the keeper's address from being used again, so that the address is an
    /// identity.
    keeper: Weak<dyn Keeper>,
    number: u32,
    count: u32,
}

impl Mark {
    /// The first number, if it is `keeper` who registered it.
    pub(crate) fn number<K: Keeper>(&self, keeper: &K) -> Option<u32> {
        let place = self.0.get()?;
        std::ptr::addr_eq(place.keeper.as_ptr(), keeper).then_some(place.number)
    }

    /// Registered with anyone, alive or not.
    pub(crate) fn is_set(&self) -> bool {
        self.0.get().is_some()
    }

    /// Marks. False: somebody else did before.
    pub(crate) fn set<K: Keeper + 'static>(
        &self,
        keeper: &Arc<K>,
        number: u32,
        count: u32,
    ) -> bool {
        let keeper: Weak<dyn Keeper> = Arc::<K>::downgrade(keeper);
        self.0.set(Place { keeper, number, count }).is_ok()
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        if let Some(place) = self.0.get()
            && let Some(keeper) = place.keeper.upgrade()
        {
            keeper.forget(place.number, place.count);
        }
    }
}

impl fmt::Debug for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Mark").field(&self.0.get().map(|p| p.number)).finish()
    }
}
