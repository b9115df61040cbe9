//! What to check of a cluster, and what was found.

use std::collections::BTreeMap;
use std::path::Path;

use forebay_access::check::Finding;
use forebay_types::Oid;

use crate::config::{EngineConfig, IoMethod};

/// How to check a cluster.
#[derive(Clone, Debug)]
pub struct CheckOptions {
    /// Only relations with one of these names, and their TOAST tables; empty: all. A name may have
    /// its schema, and its database, before it.
    pub relations: Vec<String>,
    /// Threads that check.
    pub jobs: usize,
    /// How I/O is executed.
    pub io_method: IoMethod,
    /// Bypass the kernel's page cache. None: if the file system can.
    pub direct: Option<bool>,
    /// Blocks in one read, 1 to [`CheckOptions::MAX_COMBINE`].
    pub io_combine_limit: u32,
    /// Check a cluster that was not shut down as well as that is possible, without transactions.
    pub crashed: bool,
    /// Bytes of memory for the entries of a table's indexes, and for its values out of line. With
    /// less than they need the indexes, or the tables, are read several times.
    pub memory: u64,
}

impl CheckOptions {
    /// Most blocks in one read.
    pub const MAX_COMBINE: u32 = 128;
    /// Most threads.
    pub const MAX_JOBS: usize = 64;
}

impl Default for CheckOptions {
    fn default() -> CheckOptions {
        CheckOptions {
            relations: Vec::new(),
            jobs: 1,
            io_method: EngineConfig::default().io_method,
            direct: None,
            io_combine_limit: 16,
            crashed: false,
            memory: 512 << 20,
        }
    }
}

/// What a relation is, as far as it is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelationKind {
    /// A table, a TOAST table or a materialized view.
    Heap,
    /// A sequence.
    Sequence,
    /// An index.
    Index,
    /// A table of another access method.
    Other,
}

/// A relation, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckedRelation {
    /// The database; empty for a relation that all share.
    pub database: String,
    /// The schema.
    pub schema: String,
    /// The name.
    pub name: String,
    /// pg_class.oid
    pub oid: Oid,
    /// What it is.
    pub kind: RelationKind,
}

/// What is not checked, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NotChecked {
    /// Indexes that are no B-trees, or those of a crashed cluster, beyond checksums and headers.
    Indexes,
    /// B-trees that PostgreSQL made before version 12, likewise.
    OldIndexes,
    /// B-trees whose build has not ended, likewise.
    UnfinishedIndexes,
    /// B-trees with keys whose order is not known: their structure was checked.
    IndexOrder,
    /// B-trees that are not valid: they need not have all rows.
    InvalidIndexes,
    /// B-trees with expressions: only whether rows have entries.
    IndexExpressions,
    /// Partial B-trees: only whether their entries lead to rows.
    PartialIndexes,
    /// TOAST tables whose table is not checked, or without transactions.
    ToastValues,
    /// Tables of another access method, beyond checksums and headers of their pages.
    OtherAccessMethods,
    /// Temporary relations.
    Temporary,
    /// Unlogged relations of a cluster that was not shut down as a primary.
    Unlogged,
    /// Transactions, chains of versions and maps of a cluster that was not shut down as a primary.
    Transactions,
    /// Attributes of tables whose columns can't be told from the catalogs.
    Attributes,
    /// Databases whose catalogs can't be read.
    Databases,
    /// Databases that a DROP DATABASE has begun to remove.
    HalfDropped,
    /// Directories of `base` that belong to no database.
    StrayDirectories,
    /// Files that belong to no relation.
    StrayFiles,
}

impl NotChecked {
    /// What it is, and why it is not checked.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Indexes => "indexes: only checksums and headers of their pages were checked",
            Self::OldIndexes => {
                "indexes made before PostgreSQL 12: only checksums and headers were checked"
            }
            Self::UnfinishedIndexes => {
                "indexes whose build has not ended: only checksums and headers were checked"
            }
            Self::IndexOrder => {
                "B-trees: the order of their type or collation is not known, so only their \
                 structure was checked"
            }
            Self::InvalidIndexes => "B-trees not compared with their tables: they are not valid",
            Self::IndexExpressions => {
                "B-trees with expressions: their values were not compared with the tables"
            }
            Self::PartialIndexes => "partial B-trees: rows without entries are not told",
            Self::ToastValues => "TOAST tables: not compared with the values that point to them",
            Self::OtherAccessMethods => {
                "tables of other access methods: only checksums and headers were checked"
            }
            Self::Temporary => "temporary relations: a start removes them",
            Self::Unlogged => "unlogged relations: recovery empties them",
            Self::Transactions => {
                "tables without transactions, chains of versions and maps: the cluster was not \
                 shut down as a primary, so pages may be newer than its counters"
            }
            Self::Attributes => "tables without attributes: the catalogs do not tell their columns",
            Self::Databases => "databases: their catalogs could not be read",
            Self::HalfDropped => "databases: a DROP DATABASE of them was interrupted",
            Self::StrayDirectories => "directories: no database refers to them",
            Self::StrayFiles => "files: no relation refers to them",
        }
    }
}

/// Follows the check. Calls come from several threads, one at a time.
pub trait CheckObserver: Send {
    /// Something is wrong with a relation.
    fn found(&mut self, relation: &CheckedRelation, finding: &Finding);
    /// Something is wrong with a file, or it can't be read.
    fn file(&mut self, path: &Path, message: &str);
    /// Values in a TOAST table belong to no row. Nothing is wrong with the data.
    fn orphans(&mut self, _toast: &CheckedRelation, _values: u64, _bytes: u64) {}
    /// Bytes that were read, of all bytes.
    fn progress(&mut self, _done: u64, _total: u64) {}
}

/// What was checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckCounts {
    /// Relations whose pages were checked.
    pub relations: u64,
    /// Pages of all forks.
    pub pages: u64,
    /// Values out of line that were compared with their TOAST tables.
    pub toast_values: u64,
    /// Findings, about relations and files.
    pub findings: u64,
    /// How much was not checked.
    pub not_checked: BTreeMap<NotChecked, u64>,
}

impl CheckCounts {
    pub(super) fn skip(&mut self, what: NotChecked) {
        *self.not_checked.entry(what).or_default() += 1;
    }
}
