//! Checks the data of a cluster at rest: `forebay check`.
//!
//! - `options`: what to check, what was found
//! - `cluster`: pg_control, the lock, and what is refused
//! - `status`: pages of `pg_xact` and `pg_multixact`, and which files of them there must be
//! - `catalogs`: the relations of all databases, from their catalogs
//! - `groups`: tables with their B-trees, and how their pages are compared
//! - `toast`: tables with their TOAST tables, likewise
//! - `files`: the files of a relation, cut into pieces of work
//! - `arrange`: the order of the pieces
//! - `reader`: reads pieces ahead
//! - `run`: threads that check pieces
//!
//! PostgreSQL 15 to 18 and Forebay have the same pages, so clusters of all of them can be checked.
//! Their catalogs differ, and are read by [`forebay_catalog::at_rest`]. Nothing is written.
//!
//! The checks themselves are [`forebay_access::check`].

mod arrange;
mod catalogs;
mod cluster;
mod files;
mod groups;
mod options;
mod reader;
mod run;
mod status;
mod toast;

pub use forebay_access::check::Finding;
pub use options::{
    CheckCounts, CheckObserver, CheckOptions, CheckedRelation, NotChecked, RelationKind,
};
pub use run::{check, check_on};
