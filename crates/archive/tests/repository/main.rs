//! An archive in a directory, on real files.
//!
//! - `put`: stored again, with other contents, of another cluster, after an interruption
//! - `races`: many writers at once
//! - `fetch`: absent files, unusable archives, damage
//! - `outages`: a disk that fails during a request
//! - `verify`: the problems that a verification finds
//! - `expire`: which files are removed, and which stay
//! - `resident`: archiverd
//! - `restorer`: the source of a recovery, which fetches ahead
//! - `sealed`: with a key, files that others may have stored are refused
//! - `killed`: SIGKILL at every call of a push
//! - `sizes`: segments from a megabyte to a gigabyte

#[path = "../common/mod.rs"]
mod common;
mod expire;
mod fetch;
mod killed;
mod outages;
mod put;
mod races;
mod resident;
mod restorer;
mod sealed;
mod sizes;
mod verify;
