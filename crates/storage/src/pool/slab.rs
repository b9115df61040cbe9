//! An array that grows in place: it has addresses for all elements that it may ever have, and
//! memory for those that exist. Elements are never removed, so a reference to one stays valid, and
//! readers take no lock.

use forebay_aio::sync::Mutex;
use forebay_aio::sync::atomic::{AtomicUsize, Ordering};
use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::ops::Deref;

/// A growing array.
pub(crate) struct Slab<T> {
    /// The system provides memory for them as they are written.
    items: Box<[UnsafeCell<MaybeUninit<T>>]>,
    /// So many items from the start on exist.
    len: AtomicUsize,
    growing: Mutex<()>,
}

// SAFETY: shared access gives `&T`, and `grow` moves values of T in from any thread.
unsafe impl<T: Send + Sync> Sync for Slab<T> {}

impl<T> Slab<T> {
    /// Makes an array with room for `most` elements, of which `len` exist at first.
    pub(crate) fn new(most: usize, len: usize, make: impl Fn(usize) -> T) -> Slab<T> {
        let items = Box::<[UnsafeCell<MaybeUninit<T>>]>::new_uninit_slice(most.max(len));
        // SAFETY: a cell of what may be uninitialized needs no value.
        let items = unsafe { items.assume_init() };
        let slab = Slab { items, len: AtomicUsize::new(0), growing: Mutex::new(()) };
        slab.grow(len, make);
        slab
    }

    /// Makes elements until there are `to` of them.
    pub(crate) fn grow(&self, to: usize, make: impl Fn(usize) -> T) {
        let _growing = self.growing.lock();
        let len = self.len.load(Ordering::Relaxed);
        for at in len..to {
            // SAFETY: nobody reads beyond the length, and the lock excludes other writers.
            unsafe { (*self.items[at].get()).write(make(at)) };
        }
        self.len.store(len.max(to), Ordering::Release);
    }
}

impl<T> Deref for Slab<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        let len = self.len.load(Ordering::Acquire);
        // SAFETY: `len` elements have been initialized, and are never written again but through
        // their own means. A cell has the layout of its contents.
        unsafe { std::slice::from_raw_parts(self.items.as_ptr().cast::<T>(), len) }
    }
}

impl<T> Drop for Slab<T> {
    fn drop(&mut self) {
        for item in &mut self.items[..self.len.load(Ordering::Relaxed)] {
            // SAFETY: the element exists, and nobody uses it afterwards.
            unsafe { item.get_mut().assume_init_drop() };
        }
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn elements_stay_where_they_are() {
        let slab = Slab::new(1000, 3, |n| n * 2);
        assert_eq!(*slab, [0, 2, 4]);
        let first = &slab[0];
        slab.grow(500, |n| n * 3);
        assert_eq!((slab.len(), slab[2], slab[3], slab[499]), (500, 4, 9, 1497));
        assert!(std::ptr::eq(first, &slab[0]));
        slab.grow(10, |_| unreachable!("they exist already"));
        assert_eq!(slab.len(), 500);
    }

    #[test]
    fn elements_are_dropped_once() {
        let one = Arc::new(());
        let slab = Slab::new(10, 4, |_| Arc::clone(&one));
        assert_eq!(Arc::strong_count(&one), 5);
        drop(slab);
        assert_eq!(Arc::strong_count(&one), 1);
    }
}
