//! The archiver: gives every file that is marked `.ready` to a module, and marks it durably as
//! archived.
//!
//! - `queue`: the files, and how far each has come
//! - `stats`: the counters of pg_stat_archiver
//! - `state`: everything that is shared by the threads, and the decision what to do next
//! - `control`: [`Archiver`]: start, module, stop, counters
//! - `transfer`: one file: examined, given to the module, and the outcome
//! - `step`: one thing done after another
//! - `threads`: threads that loop over it
//!
//! Any number of threads call [`Archiver::step`]. A thread that finds nothing to transfer, or many
//! transferred files, acknowledges them: it renames their status files in order, and syncs the
//! directory once. So the files that arrive during one sync share the next, and with a slow archive
//! each file is acknowledged at once.
//!
//! A failure concerns one file: it is retried after a pause, while the others go on. Only failures
//! that can't concern a single file pause all of them: a command that was killed or can't be run, a
//! module that is not configured. A failed sync of the status files is final, as any failed sync.

mod control;
mod queue;
mod state;
mod stats;
mod step;
mod threads;
mod transfer;

pub use control::{Archiver, ArchiverConfig};
pub use queue::Backlog;
pub use state::StopMode;
pub use stats::ArchiverStats;
pub use step::Next;
pub use threads::Threads;
