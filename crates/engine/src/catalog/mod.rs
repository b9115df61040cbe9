//! PostgreSQL's catalogs as heap tables.
//!
//! - `schema`: layouts of the catalogs
//! - `rows`: what the engine knows, as rows
//! - `cache`: tables found, remembered for all sessions
//! - `bootstrap`: the rows a new database has

pub(crate) mod bootstrap;
pub(crate) mod cache;
pub(crate) mod rows;
pub(crate) mod schema;
