//! How files grow: the setting, and what the file system supports.

use forebay_aio::named_enum;
use forebay_aio::sync::atomic::{AtomicBool, Ordering};

named_enum! {
    /// How files grow (file_extend_method).
    #[derive(Default)]
    ExtendMethod {
        /// Allocates space, or writes zeros if the file system cannot allocate.
        #[default]
        PosixFallocate = "posix_fallocate",
        /// Writes zeros.
        WriteZeros = "write_zeros",
    }
}

/// How files grow at present.
#[derive(Debug)]
pub(super) struct Growing {
    /// The setting asks for zeros to be written.
    pub(super) zeros: AtomicBool,
    /// The file system has refused to allocate.
    pub(super) refused: AtomicBool,
}

impl Growing {
    pub(super) fn new(method: ExtendMethod) -> Growing {
        let zeros = AtomicBool::new(method == ExtendMethod::WriteZeros);
        Growing { zeros, refused: AtomicBool::new(false) }
    }

    pub(super) fn allocates(&self) -> bool {
        !self.zeros.load(Ordering::Relaxed) && !self.refused.load(Ordering::Relaxed)
    }
}
