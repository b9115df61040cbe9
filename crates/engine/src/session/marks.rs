//! What ends with a transaction, or with the rollback of a subtransaction: scans, snapshots.
//!
//! Each open level, the transaction or a subtransaction, keeps a token alive. A scan or snapshot
//! that begins in it holds a weak reference to that token. A level that is released gives its
//! tokens to the one around it; one that is rolled back drops them.

use std::sync::{Arc, Weak};

/// The tokens of an open level.
#[derive(Debug, Default)]
pub(super) struct Tokens {
    tokens: Vec<Arc<()>>,
    /// How many there were when those that nobody watches were last removed.
    watched: usize,
}

/// Tokens that are not worth a search for those that nobody watches.
const SEARCH_MIN: usize = 8;

impl Tokens {
    /// Takes over those of a level that was released into this one. Moves the shorter list, so that
    /// the release of many levels in one another takes no longer than that of as many in a row.
    pub(super) fn take_over(&mut self, mut released: Tokens) {
        if released.tokens.len() > self.tokens.len() {
            std::mem::swap(self, &mut released);
        }
        self.tokens.extend(released.tokens.into_iter().filter(is_watched));
        if self.tokens.len() > SEARCH_MIN.max(2 * self.watched) {
            self.tokens.retain(is_watched);
            self.watched = self.tokens.len();
        }
    }

    /// A reference to one of them.
    fn watch(&mut self) -> Weak<()> {
        match self.tokens.last() {
            Some(token) => Arc::downgrade(token),
            None => {
                let token = Arc::new(());
                let watched = Arc::downgrade(&token);
                self.tokens.push(token);
                watched
            }
        }
    }
}

fn is_watched(token: &Arc<()>) -> bool {
    Arc::weak_count(token) > 0
}

/// Made in a transaction or subtransaction of a session.
#[derive(Clone, Debug)]
pub(super) struct Mark {
    session: u32,
    token: Weak<()>,
}

impl Mark {
    /// A mark of a level of a session.
    pub(super) fn new(session: u32, level: &mut Tokens) -> Mark {
        Mark { session, token: level.watch() }
    }

    /// Whether it is one of this session, whose level is open or was released into one that is.
    pub(super) fn is_of(&self, session: u32) -> bool {
        self.session == session && self.token.strong_count() > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_outlive_a_release_only_while_somebody_watches_them() {
        let (mut outer, mut inner, mut idle) =
            (Tokens::default(), Tokens::default(), Tokens::default());
        let made_inside = inner.watch();
        let _ = idle.watch();
        outer.take_over(inner);
        outer.take_over(idle);
        assert_eq!(outer.tokens.len(), 1);
        assert_eq!(made_inside.strong_count(), 1);
        // Of several tokens any will do: they die together.
        let later = outer.watch();
        drop(outer);
        assert_eq!((made_inside.strong_count(), later.strong_count()), (0, 0));
    }

    #[test]
    fn tokens_that_nobody_watches_any_more_take_no_room() {
        let mut outer = Tokens::default();
        let mut watched = Vec::new();
        for _ in 0..10_000 {
            let mut inner = Tokens::default();
            let made_inside = inner.watch();
            outer.take_over(inner);
            if watched.len() < 4 {
                watched.push(made_inside);
            }
        }
        assert!(outer.tokens.len() <= SEARCH_MIN, "{}", outer.tokens.len());
        assert!(watched.iter().all(|token| token.strong_count() == 1));
        drop(outer);
        assert!(watched.iter().all(|token| token.strong_count() == 0));
    }
}
