//! How fast a long pass over dirty pages goes.

/// Decides when a pass rests. The pass asks between writes, and holds nothing while it rests.
pub trait Pace {
    /// Is the pass, with `done` of `total` pages behind it, further than it need be?
    fn is_ahead(&mut self, done: usize, total: usize) -> bool;

    /// Rests until it no longer is, or until there is a reason to go on at once.
    fn rest(&mut self, done: usize, total: usize);
}

/// As fast as the disk allows.
#[derive(Debug, Clone, Copy, Default)]
pub struct FullSpeed;

impl Pace for FullSpeed {
    fn is_ahead(&mut self, _done: usize, _total: usize) -> bool {
        false
    }

    fn rest(&mut self, _done: usize, _total: usize) {}
}
