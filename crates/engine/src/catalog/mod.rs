//! PostgreSQL's catalogs as heap tables.
//!
//! - `schema`: layouts of the catalogs
//! - `rows`: what the engine knows, as rows
//! - `bootstrap`: the rows a new database has

mod bootstrap;
mod rows;
mod schema;
