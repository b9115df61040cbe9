//! How files grow: the setting, and what the file system supports.

use forebay_aio::sync::atomic::{AtomicBool, Ordering};

/// How files grow (file_extend_method).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ExtendMethod {
    /// Allocates space, or writes zeros if the file system cannot allocate.
    #[default]
    PosixFallocate,
    /// Writes zeros.
    WriteZeros,
}

impl ExtendMethod {
    /// All methods with their names.
    pub const NAMES: [(&'static str, ExtendMethod); 2] = [
        ("posix_fallocate", ExtendMethod::PosixFallocate),
        ("write_zeros", ExtendMethod::WriteZeros),
    ];

    /// Returns the method of that name.
    pub fn by_name(name: &str) -> Option<ExtendMethod> {
        Self::NAMES.iter().find(|(known, _)| *known == name).map(|(_, method)| *method)
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
