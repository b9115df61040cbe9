//! WAL archiving, archives, base backups and restore, for Forebay and for PostgreSQL 15 to 18.
//!
//! What is archived is durable there before the server removes it. Nothing in an archive is ever
//! replaced, and it comes back byte by byte.
//!
//! | Module | What |
//! |---|---|
//! | `digest` | checksums of files |
//! | [`shell`] | runs the administrator's commands |
//! | `error` | [`ArchiveError`] |
//! | `names` | names of archived files, and the order in which they are archived |
//! | [`pipe`] | whole files read or written with several transfers in flight |
//! | `source` | a file of the log that is archived: read once, hashed, checked |
//! | `module` | the trait [`ArchiveModule`]: stores files |
//! | [`durable_dir`] | a directory in which files are stored durably and never replaced |
//! | `status` | `archive_status`: which files are to be archived, and which are |
//! | [`archiver`] | gives files to a module, and marks them as archived |
//! | [`store`] | an archive with manifests, in a directory or an object store |
//! | [`backup`] | base backups: made, listed, restored |
//! | [`push`](mod@push), [`get`](mod@get) | the commands archive-push and archive-get |
//! | `prefetch`, `restorer` | segments fetched ahead; an archive as the source of a recovery |
//! | [`resident`] | archiverd, a process that does the commands' work ahead of them |
//! | [`modules`] | the archive modules of this crate |
//!
//! The crate knows WAL segments, but not pages of relations beyond their checksums.

#![forbid(unsafe_code)]

pub mod archiver;
pub mod backup;
mod digest;
pub mod durable_dir;
mod error;
pub mod get;
mod module;
pub mod modules;
mod names;
pub mod pipe;
mod prefetch;
pub mod push;
pub mod resident;
mod restorer;
pub mod shell;
mod source;
mod status;
pub mod store;

pub use archiver::{Archiver, ArchiverConfig, ArchiverStats, Backlog, Next, StopMode};
pub use digest::Digest;
pub use durable_dir::{DurableDir, NewFile, StoreOutcome};
pub use error::{ArchiveError, ManifestError, Result};
pub use module::{ArchiveModule, Archived};
pub use names::{Kind, Mark, WalName};
pub use restorer::{Restorer, RestorerOptions};
pub use source::{Expected, MAGICS, SegmentFacts, Source, SourceOptions};

/// The example of the README is compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct ReadmeExample;
