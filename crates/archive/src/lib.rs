//! WAL archiving and restore: what leaves a server for an archive is durable there before the
//! server lets go of it, never replaces anything, and comes back byte by byte.
//!
//! | Module | What it holds |
//! |---|---|
//! | [`names`] | which files are archived, and in which order |
//! | [`source`] | a file of the log on its way: read once, hashed, checked |
//! | [`pipe`] | a file read with several large reads in flight; buffers |
//! | [`place`] | a directory that files are stored in, durably, and never replaced |
//! | [`module`](mod@module) | the trait [`ArchiveModule`]: whoever stores files |
//! | [`status`] | `archive_status`: marks of what is to be archived, and of what is archived |
//! | [`archiver`] | takes what is marked, has a module store it, takes note of it durably |
//! | [`modules`] | a directory (`basic`), a command (`command`), nothing at all (`null`) |
//! | [`shell`] | commands of the administrator's: placeholders, ends |
//! | [`backup`] | base backups: a data directory copied into an archive, and restored from it |
//! | [`digest`] | SHA-256 |
//! | [`store`] | an archive: WAL files with their manifests, compressed and encrypted as wished, in a directory or an object store |
//! | [`push`](mod@push), [`get`](mod@get) | the commands archive-push and archive-get, for a server's archive_command and restore_command |
//! | `ahead`, [`restorer`] | files fetched before they are asked for; an archive as the source of a recovery |
//! | [`resident`] | archiverd, a process that stays, so that these find their work done |
//! | `random` | bytes nobody can guess |
//! | [`error`] | [`ArchiveError`] |
//!
//! The crate knows WAL segments and not pages, and works for a real PostgreSQL as well.

#![forbid(unsafe_code)]

mod ahead;
pub mod archiver;
pub mod backup;
pub mod digest;
pub mod error;
pub mod get;
pub mod module;
pub mod modules;
pub mod names;
pub mod pipe;
pub mod place;
pub mod push;
mod random;
pub mod resident;
pub mod restorer;
pub mod shell;
pub mod source;
pub mod status;
pub mod store;

pub use archiver::{Archiver, ArchiverConfig, ArchiverStats, Backlog, Next, StopMode};
pub use digest::{Digest, Hasher};
pub use error::ArchiveError;
pub use module::{ArchiveModule, Archived};
pub use names::{Kind, Mark, WalName};
pub use place::{Incoming, Place, Placed};
pub use restorer::{Restorer, RestorerOptions};
pub use source::{Expected, SegmentFacts, Source, SourceOptions};

/// The example of the README is compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct ReadmeExample;
