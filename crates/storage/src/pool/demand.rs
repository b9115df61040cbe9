//! Waking the thread that sizes the pool while buffers are still free.

use forebay_aio::sync::OnceLock;
use forebay_aio::sync::atomic::{AtomicU64, Ordering};

/// A position that the hand does not reach: nobody is to be told.
const NEVER: u64 = u64::MAX;

/// A function that is called once, when the hand has come to a position.
pub(crate) struct Demand {
    /// The position; [`NEVER`] after the call.
    at_hand: AtomicU64,
    tell: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl Demand {
    pub(crate) fn new() -> Demand {
        Demand { at_hand: AtomicU64::new(NEVER), tell: OnceLock::new() }
    }

    /// Only the first call has an effect.
    pub(crate) fn set(&self, tell: Box<dyn Fn() + Send + Sync>) {
        let _ = self.tell.set(tell);
    }

    /// Tells once, when the hand has come to a position.
    pub(crate) fn tell_at(&self, hand: u64) {
        self.at_hand.store(hand, Ordering::Relaxed);
    }

    /// Tells once, wherever the hand is.
    pub(crate) fn tell_now(&self) {
        self.note(NEVER);
    }

    /// The hand has come to a position.
    pub(crate) fn note(&self, hand: u64) {
        if hand >= self.at_hand.load(Ordering::Relaxed)
            && self.at_hand.swap(NEVER, Ordering::Relaxed) != NEVER
            && let Some(tell) = self.tell.get()
        {
            tell();
        }
    }
}
