//! The state of a handle, its generation, and the one function that moves it on.
//!
//! State and generation share one atomic word, so a reader never sees the state of one use with the
//! generation of another. Who may move a handle on:
//!
//! ```text
//!          take          define       stage      submit
//!    IDLE -----> HANDED_OUT ---> DEFINED ---> STAGED ---> SUBMITTED       its backend, or the method for it
//!     ^              |                                        |
//!     |   release    |                                        | executed  whoever finds it executed: the backend, a worker,
//!     +--------------+                                        v           who reaps the ring, a waiter
//!     |                                                 COMPLETED_IO
//!     |                                                       | shared    the same thread, after what is left of a short
//!     |                                                       | halves    transfer and the shared completions
//!     |       give back                  take out             v
//!     +------------------ COMPLETED_LOCAL <---------- COMPLETED_SHARED    its backend
//!   generation + 1
//! ```
//!
//! Every way into IDLE enters the next generation: a reference to an earlier one means "done", for
//! ever. There is no way back but by that, no I/O is taken out of a method's hands, and none ends
//! without its shared completions having run.
//!
//! Moves wake the threads that wait on the handle, if there are any.

use crate::file::File;
use crate::op::OpKind;
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};
use crate::sync::{Condvar, Mutex};

/// The states of a handle, in the order an I/O goes through them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum HandleState {
    /// In nobody's hands; on its backend's list of idle handles. Has no body.
    Idle = 0,
    /// Taken by its backend, which is about to say what it is for, or to release it. A caller holds
    /// at most one ([`Acquired`](crate::Acquired)): were it to wait for a second, and another
    /// backend for its first, neither would go on. Has no body; a waiter sleeps.
    HandedOut,
    /// File, operation, memory, target and completions are set, and stay as they are until
    /// COMPLETED_LOCAL: any thread may read them. Its backend moves it on at once.
    Defined,
    /// In its backend's batch. Only its backend can submit it, so that backend doesn't block on
    /// another before it has. A waiter sleeps.
    Staged,
    /// With the method: queued, or executing. The memory is the kernel's. A waiter helps the
    /// method; or sleeps, if the issuer's thread itself is executing it.
    Submitted,
    /// Executed once, with a raw result. Whoever brought it here, and nobody else, finishes it
    /// without delay: continues a short transfer, runs the shared completions. A waiter sleeps.
    CompletedIo,
    /// The shared object has its state after the I/O, and the outcome is known. The memory is no
    /// longer the kernel's. Waiters of other backends are done. It stays here until its backend
    /// asks, or needs the handle.
    CompletedShared,
    /// Its backend takes the I/O out of it; local completions and the report follow, without the
    /// handle. Next is IDLE, at once.
    CompletedLocal,
}

impl HandleState {
    /// The name pg_aios shows.
    pub fn name(self) -> &'static str {
        match self {
            HandleState::Idle => "IDLE",
            HandleState::HandedOut => "HANDED_OUT",
            HandleState::Defined => "DEFINED",
            HandleState::Staged => "STAGED",
            HandleState::Submitted => "SUBMITTED",
            HandleState::CompletedIo => "COMPLETED_IO",
            HandleState::CompletedShared => "COMPLETED_SHARED",
            HandleState::CompletedLocal => "COMPLETED_LOCAL",
        }
    }
}

impl HandleState {
    const ALL: [HandleState; 8] = [
        HandleState::Idle,
        HandleState::HandedOut,
        HandleState::Defined,
        HandleState::Staged,
        HandleState::Submitted,
        HandleState::CompletedIo,
        HandleState::CompletedShared,
        HandleState::CompletedLocal,
    ];

    /// The moves there are: one line for each arrow of the drawing above.
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
    /// Threads in (or about to enter) `wait_change`.
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

    /// The one transition function. Asserts that the handle is in `from` and that the move exists;
    /// a handle that becomes idle enters its next generation.
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
            // COMPLETED_IO is left again without delay: no use in waking anyone twice.
            self.nudge();
        }
        next
    }

    /// Threads that wait.
    pub(crate) fn sleepers(&self) -> u32 {
        self.waiters.load(SeqCst)
    }

    /// Makes the threads that wait look again.
    pub(crate) fn nudge(&self) {
        // Either this load sees the waiter's increment, or the waiter sees what was stored before
        // the nudge: all of it is sequentially consistent. Taking the lock makes sure that a waiter
        // that looked before sleeps already.
        if self.waiters.load(SeqCst) > 0 {
            drop(self.park.lock());
            self.changed.notify_all();
        }
    }

    /// Sleeps until the word is another than `seen`, or, after a nudge, `stay` (a sequentially
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

/// A reference to one use of one handle. Any thread may keep it and wait for it; once the handle
/// has moved on to its next generation, the I/O is known to be finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WaitRef {
    /// Index in the table.
    pub index: u32,
    /// Which use of it.
    pub generation: u64,
}

/// One row of pg_aios.
#[derive(Clone, Debug)]
pub struct HandleInfo {
    /// The backend slot that owns the handle.
    pub backend: u32,
    /// The owner's id, as given to [`Aio::backend_with_id`](crate::Aio::backend_with_id) (shown as
    /// pid).
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
    /// smgr, wal, file.
    pub target: Option<&'static str>,
    /// Words of data.
    pub handle_data_len: usize,
    /// Bytes transferred or minus the error number, once known.
    pub raw_result: Option<i64>,
    /// UNKNOWN, OK, PARTIAL, WARNING, ERROR.
    pub result: &'static str,
    /// What for.
    pub target_desc: Option<String>,
    /// Executed synchronously.
    pub f_sync: bool,
    /// Memory of the backend's own.
    pub f_localmem: bool,
    /// Through the page cache.
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
        for from in HandleState::ALL {
            for to in HandleState::ALL {
                let drawn =
                    round.windows(2).any(|w| w == [from, to]) || (from, to) == (HandedOut, Idle);
                assert_eq!(from.may_become(to), drawn, "{} -> {}", from.name(), to.name());
            }
        }
    }

    proptest! {
        /// Whoever asks for whatever move: the cell makes those that exist, from where it is; the
        /// generation counts the uses.
        #[test]
        fn no_other_move_is_made(moves in prop::collection::vec((0usize..8, 0usize..8), 1..40), lawful in 0usize..30) {
            let cell = StateCell::new();
            let (mut state, mut generation) = (HandleState::Idle, cell.load().generation());
            // Lawful moves first, so that every state is begun from.
            for _ in 0..lawful {
                let next = HandleState::ALL.into_iter().rev().find(|&to| state.may_become(to)).expect("no dead end");
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
                prop_assert_eq!((cell.load().state(), cell.load().generation()), (state, generation));
            }
        }
    }
}
