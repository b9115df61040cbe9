//! The sessions of an engine: how many there may be, and how to reach them.

use std::collections::HashMap;

use forebay_aio::sync::Mutex;

use crate::door::OTHER_BACKENDS;
use crate::error::EngineError;
use crate::locks::{Interrupt, InterruptKind};

/// The first session's number; the engine's own backends, made before, have those below it.
const FIRST: u32 = OTHER_BACKENDS as u32 + 1;

#[derive(Debug)]
struct State {
    sessions: HashMap<u32, Interrupt>,
    last: u32,
}

/// The sessions.
#[derive(Debug)]
pub(crate) struct Registry {
    max: usize,
    state: Mutex<State>,
}

impl Registry {
    /// At most `max` sessions.
    pub(crate) fn new(max: usize) -> Registry {
        let state = State { sessions: HashMap::new(), last: FIRST - 1 };
        Registry { max, state: Mutex::new(state) }
    }

    /// Enters a session; its number. 53300 if there are too many.
    pub(crate) fn enter(&self, interrupt: &Interrupt) -> Result<u32, EngineError> {
        let mut state = self.state.lock();
        if state.sessions.len() >= self.max {
            return Err(EngineError::statement("53300", "sorry, too many clients already"));
        }
        // Numbers look like process ids: positive, and not soon used again.
        let mut id = state.last;
        loop {
            id = if id >= i32::MAX as u32 { FIRST } else { id + 1 };
            if !state.sessions.contains_key(&id) {
                break;
            }
        }
        state.last = id;
        state.sessions.insert(id, interrupt.clone());
        Ok(id)
    }

    /// Sessions there are.
    pub(crate) fn len(&self) -> usize {
        self.state.lock().sessions.len()
    }

    /// A session is gone.
    pub(crate) fn leave(&self, id: u32) {
        self.state.lock().sessions.remove(&id);
    }

    /// Asks every session to end.
    pub(crate) fn terminate_all(&self) {
        for interrupt in self.state.lock().sessions.values() {
            interrupt.request(InterruptKind::Terminate);
        }
    }

    /// Asks one session for something; false if there is none of this number.
    pub(crate) fn interrupt(&self, id: u32, kind: InterruptKind) -> bool {
        let state = self.state.lock();
        let interrupt = state.sessions.get(&id);
        if let Some(interrupt) = interrupt {
            interrupt.request(kind);
        }
        interrupt.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_bounded_and_numbers_are_not_reused_at_once() {
        let registry = Registry::new(2);
        let interrupt = Interrupt::new();
        let first = registry.enter(&interrupt).expect("first");
        let second = registry.enter(&Interrupt::new()).expect("second");
        assert_eq!(registry.enter(&interrupt).expect_err("third").sqlstate(), "53300");
        registry.leave(second);
        let third = registry.enter(&Interrupt::new()).expect("room again");
        assert!(third != first && third != second);
        assert!(registry.interrupt(first, InterruptKind::Cancel));
        assert_eq!(interrupt.pending(), Some(InterruptKind::Cancel));
        assert!(!registry.interrupt(second, InterruptKind::Cancel));
    }
}
