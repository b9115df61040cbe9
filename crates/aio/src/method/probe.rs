//! Can io_uring be used here, and if not, what is the true cause? (skeleton)

/// Why io_uring can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("io_uring can't be used: {cause}")]
pub struct IoUringRefusal {
    /// The true cause.
    pub cause: String,
    /// What to do about it.
    pub hint: String,
}

/// Sets up a small ring, sends a no-op through it, and says why not.
pub fn probe_io_uring() -> Result<(), IoUringRefusal> {
    todo!()
}
