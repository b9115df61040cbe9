//! The search path of a session, as it was last resolved.

use std::sync::Arc;

use forebay_types::Oid;

/// A namespace of the search path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathEntry {
    /// Its OID. None: that of the session's temporary tables, of which there may be none yet.
    pub namespace: Option<Oid>,
    /// Its name; `pg_temp` for that of the session's temporary tables.
    pub name: Arc<str>,
    /// Whether it is searched although it was not written.
    pub implicit: bool,
}

/// A search path as it was resolved.
#[derive(Clone, Debug, Default)]
pub(super) struct KnownPath {
    /// The cache's version then.
    pub(super) version: u64,
    /// The setting then.
    pub(super) of: Arc<[String]>,
    pub(super) entries: Arc<[PathEntry]>,
}
