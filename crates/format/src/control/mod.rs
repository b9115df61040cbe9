//! `global/pg_control`: the state of the cluster and its last checkpoint.
//!
//! - `file`: the whole file, of PostgreSQL 18
//! - `outline`: the fields that page checksums and base backups need, of PostgreSQL 15 to 18

mod file;
mod outline;

pub use file::{
    CATALOG_VERSION, CONTROL_VERSION, ControlError, ControlFile, DbState, FILE_SIZE, PATH,
    STRUCT_SIZE,
};
pub use outline::{Outline, is_known_version};
