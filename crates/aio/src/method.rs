//! Methods: who executes staged I/O, and how its end is noticed (skeleton).

mod probe;

pub use probe::{IoUringRefusal, probe_io_uring};
