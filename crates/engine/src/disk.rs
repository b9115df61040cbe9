//! Tells which links belong to a data directory.

use std::path::Path;

use forebay_aio::DirEntry;

/// Where the links to tablespaces are.
pub(crate) const TABLESPACES: &str = "pg_tblspc";
/// Where the log is.
pub(crate) const WAL: &str = "pg_wal";

/// Whether a walk through the data directory `dir` follows a link in `directory`. PostgreSQL's own
/// links lead to tablespaces and to pg_wal.
pub(crate) fn follows(dir: &Path, directory: &Path, entry: &DirEntry) -> bool {
    directory == dir.join(TABLESPACES) || (directory == dir && entry.name == *WAL)
}
