//! A value in a cache line of its own.

/// Aligns a value to a cache line, so that frequent writes to it do not slow readers of others.
#[derive(Default)]
#[repr(align(64))]
pub(crate) struct CacheLine<T>(pub(crate) T);

impl<T> std::ops::Deref for CacheLine<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}
