//! Settings: PostgreSQL's names, units, ranges, contexts and messages.
//!
//! - `table`:   which settings exist
//! - `value`:   what their values are; `text`: reading and showing them with units
//! - `checks`:  what PostgreSQL's check hooks do, and which values this server can honour
//! - `key`:     reading settings by names that are looked up when the program is compiled
//! - `file`:    postgresql.conf
//! - `server`:  the values of the whole server: defaults, file, command line, reload
//! - `engine`:  handing values to the engine
//! - `session`: one session's values: SET, SET LOCAL, RESET, undone with the transaction
//!
//! A value that this server can't honour is refused, with the reason: `fsync = off` is not accepted
//! and then ignored. A value for which PostgreSQL promises less than this server does
//! (`synchronous_commit = local`) is accepted.

mod checks;
mod engine;
mod file;
mod key;
mod server;
mod session;
mod table;
mod text;
mod value;

pub use engine::{
    archive_settings, autovacuum_settings, engine_config, io_settings, pool_size, session_settings,
    writing_settings,
};
pub(crate) use key::key;
pub use key::{Key, Lookup, Text};
pub use server::{ConfigError, ServerSettings};
pub use session::{SessionValues, client_encoding};
