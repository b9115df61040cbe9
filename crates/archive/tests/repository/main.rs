//! An archive, on real files.
//!
//! - `bed`: a data directory with segments, an archive
//! - `put`: the same again, something else, whose, half done
//! - `races`: many at once
//! - `fetch`: absent or not to be told, damaged
//! - `verify`: what a verification finds
//! - `expire`: what goes and what stays
//! - `resident`: archiverd

mod bed;
mod expire;
mod fetch;
mod put;
mod races;
mod resident;
mod verify;
