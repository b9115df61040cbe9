//! The state and generation of a handle, and the only function that changes them.
//!
//! State and generation share one atomic word, so a reader never sees the state of one use with the
//! generation of another.
//!
//! ```text
//!          take           define        stage        submit
//!    IDLE ------> HANDED_OUT ---> DEFINED ---> STAGED ---> SUBMITTED
//!     ^               |                                        |
//!     |    release    |                                        | executed
//!     +---------------+                                        v
//!     |                                                   COMPLETED_IO
//!     |                                                        | shared halves
//!     |      give back                  take out               v
//!     +------------------ COMPLETED_LOCAL <----------- COMPLETED_SHARED
//!   generation + 1
//! ```
//!
//! | Transition | Made by |
//! |---|---|
//! | take, release, define, stage | the handle's backend |
//! | submit | the method, for the backend |
//! | executed | the thread that finds the I/O executed: the backend, a worker, a reaper, a waiter |
//! | shared halves | the same thread, after it has continued a short transfer |
//! | take out, give back | the handle's backend |
//!
//! Each way into IDLE enters the next generation, so a reference to an earlier one means "done"
//! forever. There is no other way back. A method keeps an I/O until it is executed, and no I/O ends
//! before its shared completions have run.
//!
//! Transitions wake the threads that wait on the handle.

use crate::file::File;
use crate::op::OpKind;
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};
use crate::sync::{Condvar, Mutex};

named_enum! {
    /// The states of a handle, in the order in which an I/O goes through them.
    #[derive(Default)]
    #[repr(u8)]
    HandleState {
        /// It is on its backend's list of idle handles. It has no body.
        #[default]
        Idle = "IDLE",
        /// Its backend has taken it, and will define or release it. A backend holds at most one
        /// such handle ([`Acquired`](crate::Acquired)): if it could wait for a second one, two
        /// backends could wait for each other forever. It has no body; a waiter sleeps.
        HandedOut = "HANDED_OUT",
        /// File, operation, memory, target and completions are set. They don't change until
        /// COMPLETED_LOCAL, so any thread may read them. Its backend moves it on at once.
        Defined = "DEFINED",
        /// It is in its backend's batch. Only that backend can submit it, so it doesn't block on
        /// another backend before it has. A waiter sleeps.
        Staged = "STAGED",
        /// The method has it, queued or executing, and the kernel owns the memory. A waiter helps
        /// the method, or sleeps if the issuer's thread executes the I/O.
        Submitted = "SUBMITTED",
        /// It was executed once, and has a raw result. The thread that brought it here finishes it
        /// without delay: it continues a short transfer and runs the shared completions. A waiter
        /// sleeps.
        CompletedIo = "COMPLETED_IO",
        /// The shared object has its new state, the outcome is known, and the kernel no longer owns
        /// the memory. Waiters of other backends are done. The handle stays here until its backend
        /// asks for the report or needs the handle.
        CompletedShared = "COMPLETED_SHARED",
        /// Its backend takes the I/O out of it. Local completions and the report follow without the
        /// handle. IDLE follows at once.
        CompletedLocal = "COMPLETED_LOCAL",
    }
}

impl HandleState {
    /// The transitions: one line for each arrow of the drawing above.
    fn may_become(self, to: HandleState) -> bool {
        use HandleState::*;
        matches!(
            (self, to),
            (Idle, HandedOut)
                | (HandedOut, Idle)
                | (HandedOut, Defined)
                | (Defined, Staged)
                | (Staged, Submitted)
                | (Submitted, CompletedIo)
                | (CompletedIo, CompletedShared)
                | (CompletedShared, CompletedLocal)
                | (CompletedLocal, Idle)
        )
    }
}

const STATE_BITS: u32 = 4;

/// State and generation of a handle at one moment. 60 bits of generation last 36 years at a billion
/// uses a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word(u64);

impl Word {
    fn new(generation: u64, state: HandleState) -> Word {
        Word(generation << STATE_BITS | state as u64)
    }

    /// Which use of the handle.
    pub fn generation(self) -> u64 {
        self.0 >> STATE_BITS
    }

    /// State.
    pub fn state(self) -> HandleState {
        HandleState::ALL[(self.0 & 7) as usize]
    }
}

/// The word of one handle, and the threads that wait for it to change.
pub(crate) struct StateCell {
    word: AtomicU64,
    /// How many threads are in `wait_change` or about to enter it.
    waiters: AtomicU32,
    park: Mutex<()>,
    changed: Condvar,
}

impl StateCell {
    pub(crate) fn new() -> StateCell {
        StateCell {
            word: AtomicU64::new(Word::new(1, HandleState::Idle).0),
            waiters: AtomicU32::new(0),
            park: Mutex::new(()),
            changed: Condvar::new(),
        }
    }

    pub(crate) fn load(&self) -> Word {
        Word(self.word.load(SeqCst))
    }

    /// Makes a transition. Asserts that the handle is in `from` and that the transition exists. A
    /// handle that becomes idle enters its next generation.
    pub(crate) fn advance(&self, from: HandleState, to: HandleState) -> Word {
        assert!(from.may_become(to), "no handle goes from {} to {}", from.name(), to.name());
        let now = self.load();
        let next = Word::new(now.generation() + u64::from(to == HandleState::Idle), to);
        let moved =
            self.word.compare_exchange(Word::new(now.generation(), from).0, next.0, SeqCst, SeqCst);
        assert!(
            moved.is_ok(),
            "handle was {}, not {}, on its way to {}",
            now.state().name(),
            from.name(),
            to.name()
        );
        if to != HandleState::CompletedIo {
            // COMPLETED_IO is left without delay: waking a waiter twice is useless.
            self.nudge();
        }
        next
    }

    /// How many threads wait.
    pub(crate) fn sleepers(&self) -> u32 {
        self.waiters.load(SeqCst)
    }

    /// Makes the waiting threads check their conditions again.
    pub(crate) fn nudge(&self) {
        // Either this load sees the waiter's increment, or the waiter sees what was stored before
        // the nudge, because all of it is sequentially consistent. Taking the lock ensures that a
        // waiter that has checked its conditions is asleep.
        if self.waiters.load(SeqCst) > 0 {
            drop(self.park.lock());
            self.changed.notify_all();
        }
    }

    /// Sleeps until the word differs from `seen` or, after a nudge, `stay` (a sequentially
    /// consistent load) is false.
    pub(crate) fn wait_change(&self, seen: Word, stay: impl Fn() -> bool) {
        let mut parked = self.park.lock();
        self.waiters.fetch_add(1, SeqCst);
        while self.load() == seen && stay() {
            self.changed.wait(&mut parked);
        }
        self.waiters.fetch_sub(1, SeqCst);
    }
}

/// A reference to one use of one handle. Any thread may keep it and wait for it. If the handle has
/// a later generation, the I/O is finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WaitRef {
    /// Index in the table.
    pub index: u32,
    /// Which use of it.
    pub generation: u64,
}

/// One row of pg_aios.
#[derive(Clone, Debug, Default)]
pub struct HandleInfo {
    /// The backend slot that owns the handle.
    pub backend: u32,
    /// The id of the backend, shown as pid.
    pub backend_id: i32,
    /// Index in the table.
    pub io_id: u32,
    /// Which use of it.
    pub generation: u64,
    /// State.
    pub state: HandleState,
    /// Operation.
    pub operation: OpKind,
    /// First byte in the file.
    pub offset: Option<u64>,
    /// Bytes.
    pub length: Option<u64>,
    /// "smgr", "wal" or "file".
    pub target: Option<&'static str>,
    /// How many words of data it has.
    pub handle_data_len: usize,
    /// Bytes transferred, or minus the error number, once known.
    pub raw_result: Option<i64>,
    /// The status: UNKNOWN, OK, PARTIAL, WARNING or ERROR.
    pub result: &'static str,
    /// What the I/O is for.
    pub target_desc: Option<String>,
    /// Whether it is executed synchronously.
    pub f_sync: bool,
    /// Whether the memory is the backend's own.
    pub f_localmem: bool,
    /// Whether it goes through the page cache.
    pub f_buffered: bool,
    /// The file.
    pub file: Option<File>,
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_moves_are_those_of_the_drawing() {
        use HandleState::*;
        let round = [
            Idle,
            HandedOut,
            Defined,
            Staged,
            Submitted,
            CompletedIo,
            CompletedShared,
            CompletedLocal,
            Idle,
        ];
        for &from in HandleState::ALL {
            for &to in HandleState::ALL {
                let drawn =
                    round.windows(2).any(|w| w == [from, to]) || (from, to) == (HandedOut, Idle);
                assert_eq!(from.may_become(to), drawn, "{} -> {}", from.name(), to.name());
            }
        }
    }

    proptest! {
        /// Whatever transitions are asked for, the cell makes those that exist from its state, and
        /// the generation counts the uses.
        #[test]
        fn no_other_move_is_made(
            moves in prop::collection::vec((0usize..8, 0usize..8), 1..40),
            lawful in 0usize..30,
        ) {
            let cell = StateCell::new();
            let (mut state, mut generation) = (HandleState::Idle, cell.load().generation());
            // Existing transitions first, so that every state is reached.
            for _ in 0..lawful {
                let mut after = HandleState::ALL.iter().copied().rev();
                let next = after.find(|&to| state.may_become(to)).expect("no dead end");
                generation += u64::from(next == HandleState::Idle);
                let word = cell.advance(state, next);
                state = next;
                prop_assert_eq!((word.state(), word.generation()), (state, generation));
            }
            for (from, to) in moves {
                let (from, to) = (HandleState::ALL[from], HandleState::ALL[to]);
                let made = catch_unwind(AssertUnwindSafe(|| cell.advance(from, to))).is_ok();
                prop_assert_eq!(made, from == state && from.may_become(to));
                if made {
                    state = to;
                    generation += u64::from(to == HandleState::Idle);
                }
                let word = cell.load();
                prop_assert_eq!((word.state(), word.generation()), (state, generation));
            }
        }
    }
}
