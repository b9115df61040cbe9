//! Settings: PostgreSQL's names, units, ranges, contexts and messages, over what this server really
//! does.
//!
//! - `table`:   which settings exist
//! - `checks`:  what PostgreSQL's check hooks do, and which values this server can honour
//! - `value`:   reading and showing values with units
//! - `file`:    postgresql.conf
//! - `server`:  the values of the whole server: defaults, file, command line, reload
//! - `session`: one session's values: SET, SET LOCAL, RESET, undone with the transaction
//! - `engine`:  handing them down
//!
//! A value that this server can't honour is refused, and the message says why: `fsync = off` is not
//! accepted and then ignored. Where PostgreSQL's value asks for less than is done here
//! (`synchronous_commit = local`), it is accepted.

mod checks;
mod engine;
pub mod file;
mod server;
mod session;
mod table;
pub mod value;

pub use engine::{archive_settings, engine_config, io_settings, writing_settings};
pub use server::{ConfigError, ServerSettings, Source};
pub use session::SessionSettings;
pub use table::{Context, Kind, Setting, TABLE, Unit, find};
pub use value::Value;

use forebay_sql::SqlError;

/// 42704
pub fn unrecognized(name: &str) -> SqlError {
    SqlError::new("42704", format!("unrecognized configuration parameter \"{name}\""))
}
