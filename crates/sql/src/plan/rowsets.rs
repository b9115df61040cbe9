//! Functions whose result is a row or several rows: those of pg_buffercache 1.6 and of PostgreSQL
//! 19's, Forebay's own, pg_backup_stop and pg_control_system.

use forebay_types::SqlType::{self, Bool, Float8, Int4, Int8, PgLsn, Text, Timestamptz};

/// A function of rows. As PostgreSQL's are, each is NULL, or empty, if an argument is NULL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RowFunction {
    /// Empties one buffer.
    Evict,
    /// Empties a relation's buffers.
    EvictRelation,
    /// Empties all buffers.
    EvictAll,
    /// Marks one buffer dirty.
    MarkDirty,
    /// Marks a relation's buffers dirty.
    MarkDirtyRelation,
    /// Marks all buffers dirty.
    MarkDirtyAll,
    /// The pool in a few numbers.
    Summary,
    /// Buffers of each usage count.
    UsageCounts,
    /// Checksums of the pages in memory; Forebay's own.
    Checksums,
    /// What the kernel caches of a relation; Forebay's own.
    KernelCache,
    /// The end of a base backup.
    BackupStop,
    /// Which cluster it is.
    ControlSystem,
}

impl RowFunction {
    /// The columns of its rows.
    pub fn columns(self) -> &'static [(&'static str, SqlType)] {
        match self {
            RowFunction::Evict => &[("buffer_evicted", Bool), ("buffer_flushed", Bool)],
            RowFunction::EvictRelation | RowFunction::EvictAll => {
                &[("buffers_evicted", Int4), ("buffers_flushed", Int4), ("buffers_skipped", Int4)]
            }
            RowFunction::MarkDirty => &[("buffer_dirtied", Bool), ("buffer_already_dirty", Bool)],
            RowFunction::MarkDirtyRelation | RowFunction::MarkDirtyAll => &[
                ("buffers_dirtied", Int4),
                ("buffers_already_dirty", Int4),
                ("buffers_skipped", Int4),
            ],
            RowFunction::Summary => &[
                ("buffers_used", Int4),
                ("buffers_unused", Int4),
                ("buffers_dirty", Int4),
                ("buffers_pinned", Int4),
                ("usagecount_avg", Float8),
            ],
            RowFunction::UsageCounts => {
                &[("usage_count", Int4), ("buffers", Int4), ("dirty", Int4), ("pinned", Int4)]
            }
            RowFunction::Checksums => &[
                ("buffers_computed", Int8),
                ("buffers_compared", Int8),
                ("failures", Int8),
                ("total_time", Float8),
            ],
            RowFunction::BackupStop => &[("lsn", PgLsn), ("labelfile", Text), ("spcmapfile", Text)],
            RowFunction::ControlSystem => &[
                ("pg_control_version", Int4),
                ("catalog_version_no", Int4),
                ("system_identifier", Int8),
                ("pg_control_last_modified", Timestamptz),
            ],
            RowFunction::KernelCache => {
                &[("fork", Text), ("segment", Int4), ("os_pages", Int8), ("os_pages_cached", Int8)]
            }
        }
    }

    /// Does it return any number of rows, rather than one?
    pub fn is_set(self) -> bool {
        matches!(self, RowFunction::UsageCounts | RowFunction::KernelCache)
    }
}
