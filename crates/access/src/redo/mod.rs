//! Redo of page changes, and the resource managers of an engine.
//!
//! | file | holds |
//! |---|---|
//! | `registry.rs` | [`Registry`]: all resource managers by number |
//! | `pages.rs` | bringing a record's page to its state after the record |
//! | `xlog.rs` | checkpoints, the OID counter, full-page images |
//! | `smgr.rs` | relation files created and cut |
//! | `database.rs` | databases and tablespaces made and removed, relation maps |
//! | `heap/` | the heap's two resource managers |
//! | `nbtree/` | B-trees |
//! | `hash.rs`, `gin.rs`, `gist.rs`, `spgist.rs`, `brin.rs` | indexes that only PostgreSQL writes |
//! | `generic.rs` | pages of extensions |
//! | `sequence.rs` | sequences |
//! | `logical.rs` | messages to logical decoding, which change nothing |
//! | `free_space.rs` | the free-space map, which has no records |
//!
//! Redo can be repeated from any point at or after the redo pointer: a page that is newer than a
//! record is left alone. [`Registry::check`] finds a record that cannot be redone before recovery
//! changes anything. The log of this engine has none; that of another server may.
//!
//! A page that a record changes and that does not exist is noted. A later record must
//! drop or cut its relation, or the log does not belong to these files.

mod brin;
mod database;
mod free_space;
mod generic;
mod gin;
mod gist;
mod hash;
mod heap;
mod logical;
mod nbtree;
mod pages;
mod registry;
mod sequence;
mod smgr;
mod spgist;
#[cfg(test)]
mod tests;
mod xlog;

pub use registry::{Registry, ResourceManagers};
