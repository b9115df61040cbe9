//! Temporary files, for sorts and other operations that need more than their memory:
//! `base/pgsql_tmp/pgsql_tmpOWNER.N`.
//!
//! | module | what it holds |
//! |---|---|
//! | `leftovers` | removing what a crash left behind, and all files at a stop |
//! | `writer` | [`TempWriter`]: takes bytes, and writes them in large pieces, several in flight |
//! | `file` | [`TempFile`]: a finished file; it is removed with its last user |
//! | `reader` | [`TempReader`]: returns bytes from any position, with look-ahead |
//! | `stored` | the file on disk, which its users share |
//! | `files` | [`TempFiles`]: the names and totals of all temporary files |
//! | `space` | [`TempSpace`]: what one session uses, and may use (temp_file_limit) |
//! | `options` | [`TempOptions`]: the sizes of writes and reads, and how many are in flight |
//!
//! ```text
//!   TempFiles::create() -> TempWriter -> finish() -> TempFile -> reader(), reader_of(range), ...
//! ```
//!
//! # Choices
//!
//! - OWNER is the session's number, as pg_backend_pid() shows it. N counts up for the whole data
//!   directory, so a reused session number meets no old file. If a name exists nevertheless, the
//!   next one is taken.
//! - A file is not split into pieces of 1 GB. PostgreSQL splits it because its C library may have
//!   had short offsets. Here that would only make pg_stat_database and log_temp_files count one
//!   file several times.
//! - Bytes count against temp_file_limit when their write starts, as in PostgreSQL. Files and bytes
//!   count for pg_stat_database when the file is removed.
//! - A file with direct I/O ends with a whole aligned piece, filled up with zeros. Truncating it to
//!   its size would pull that piece into the kernel's cache. The [`TempFile`] knows the size.
//! - pg_stat_io does not count temporary files: its "temp relation" means temporary tables, and
//!   PostgreSQL leaves temporary files out.
//! - Nothing is ever synced.

mod file;
mod files;
mod leftovers;
mod options;
mod reader;
mod space;
mod stored;
mod writer;

pub use file::TempFile;
pub use files::{TempFiles, TempStats};
pub use leftovers::LeftoverReport;
pub use options::TempOptions;
pub use reader::TempReader;
pub use space::TempSpace;
pub use writer::TempWriter;
