//! What ends with a transaction, or with the rollback of a subtransaction: scans, snapshots.
//!
//! Each open level, the transaction or a subtransaction, keeps a token alive. What is made in it
//! holds a weak reference to that token. A level that is released gives its tokens to the one around
//! it; one that is rolled back drops them.

use std::sync::{Arc, Weak};

use super::state::Session;
use crate::error::EngineError;

/// The tokens of an open level.
#[derive(Debug, Default)]
pub(super) struct Tokens(Vec<Arc<()>>);

impl Tokens {
    /// Takes over those of a level that was released into this one.
    pub(super) fn take_over(&mut self, released: Tokens) {
        self.0.extend(released.0.into_iter().filter(|token| Arc::weak_count(token) > 0));
    }

    /// A reference to one of them.
    fn watch(&mut self) -> Weak<()> {
        match self.0.last() {
            Some(token) => Arc::downgrade(token),
            None => {
                let token = Arc::new(());
                let watched = Arc::downgrade(&token);
                self.0.push(token);
                watched
            }
        }
    }
}

/// Made in a transaction or subtransaction of a session.
#[derive(Clone, Debug)]
pub(super) struct Mark {
    session: u32,
    token: Weak<()>,
}

impl Session {
    /// The mark of the innermost open level.
    pub(super) fn mark(&mut self) -> Result<Mark, EngineError> {
        let session = self.id;
        let token = self.running()?.innermost().tokens.watch();
        Ok(Mark { session, token })
    }

    /// Fails (24000) unless the mark is one of the running transaction, and was not rolled back.
    pub(super) fn check_mark(
        &self,
        mark: &Mark,
        what: impl FnOnce() -> String,
    ) -> Result<(), EngineError> {
        if self.open.is_some() && self.id == mark.session && mark.token.strong_count() > 0 {
            return Ok(());
        }
        let message = format!("{} cannot be used after its transaction has ended", what());
        Err(EngineError::statement("24000", message))
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
        assert_eq!(outer.0.len(), 1);
        assert_eq!(made_inside.strong_count(), 1);
        // Of several tokens any will do: they die together.
        let later = outer.watch();
        drop(outer);
        assert_eq!((made_inside.strong_count(), later.strong_count()), (0, 0));
    }
}
