//! Functions whose result is a row or several rows: those of pg_buffercache 1.6 and of PostgreSQL
//! 19's, Forebay's own, pg_backup_stop and pg_control_system.

use crate::views::{Columns, described, timestamp};
use forebay_engine::backup::ControlSystem;
use forebay_engine::check::Finding;
use forebay_engine::views::{
    Dirtied, DirtyReport, EvictReport, Evicted, KernelCached, MemoryChecksums, PoolSummary,
    UsageCount,
};
use forebay_engine::{BackupEnd, SequenceData, SequenceDef};
use forebay_types::Datum;
use forebay_types::SqlType::{self, Bool, Float8, Int4, Int8, PgLsn, Text, Timestamptz};

/// A function of rows. As PostgreSQL's are, each is NULL, or empty, if an argument is NULL, unless
/// it [`RowFunction::takes_null`].
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
    /// What is wrong with a table.
    VerifyHeap,
    /// Where a sequence stands.
    SequenceData,
    /// What the catalogs say of a sequence.
    SequenceParameters,
}

impl RowFunction {
    /// Names and types of the columns of its rows.
    pub fn columns(self) -> Vec<(&'static str, SqlType)> {
        match self {
            RowFunction::Evict => described(EVICT),
            RowFunction::EvictRelation | RowFunction::EvictAll => described(EVICT_ALL),
            RowFunction::MarkDirty => described(MARK_DIRTY),
            RowFunction::MarkDirtyRelation | RowFunction::MarkDirtyAll => described(MARK_DIRTY_ALL),
            RowFunction::Summary => described(SUMMARY),
            RowFunction::UsageCounts => described(USAGE_COUNTS),
            RowFunction::Checksums => described(CHECKSUMS),
            RowFunction::BackupStop => described(BACKUP_STOP),
            RowFunction::ControlSystem => described(CONTROL_SYSTEM),
            RowFunction::KernelCache => described(KERNEL_CACHE),
            RowFunction::VerifyHeap => described(VERIFY_HEAP),
            RowFunction::SequenceData => described(SEQUENCE_DATA),
            RowFunction::SequenceParameters => described(SEQUENCE_PARAMETERS),
        }
    }

    /// Does it return any number of rows, rather than one?
    pub fn is_set(self) -> bool {
        let sets = [RowFunction::UsageCounts, RowFunction::KernelCache, RowFunction::VerifyHeap];
        sets.contains(&self)
    }

    /// Is it called with NULL?
    pub fn takes_null(self) -> bool {
        self == RowFunction::VerifyHeap
    }
}

fn int4(n: u32) -> Datum<'static> {
    Datum::Int4(i32::try_from(n).unwrap_or(i32::MAX))
}

fn int8(n: u64) -> Datum<'static> {
    Datum::Int8(i64::try_from(n).unwrap_or(i64::MAX))
}

/// pg_buffercache_evict.
pub const EVICT: Columns<Evicted> = &[
    ("buffer_evicted", Bool, |r| Datum::Bool(r.evicted)),
    ("buffer_flushed", Bool, |r| Datum::Bool(r.flushed)),
];

/// pg_buffercache_evict_relation, pg_buffercache_evict_all.
pub const EVICT_ALL: Columns<EvictReport> = &[
    ("buffers_evicted", Int4, |r| int4(r.evicted)),
    ("buffers_flushed", Int4, |r| int4(r.flushed)),
    ("buffers_skipped", Int4, |r| int4(r.skipped)),
];

/// pg_buffercache_mark_dirty.
pub const MARK_DIRTY: Columns<Dirtied> = &[
    ("buffer_dirtied", Bool, |r| Datum::Bool(r.dirtied)),
    ("buffer_already_dirty", Bool, |r| Datum::Bool(r.already)),
];

/// pg_buffercache_mark_dirty_relation, pg_buffercache_mark_dirty_all.
pub const MARK_DIRTY_ALL: Columns<DirtyReport> = &[
    ("buffers_dirtied", Int4, |r| int4(r.dirtied)),
    ("buffers_already_dirty", Int4, |r| int4(r.already)),
    ("buffers_skipped", Int4, |r| int4(r.skipped)),
];

/// pg_buffercache_summary.
pub const SUMMARY: Columns<PoolSummary> = &[
    ("buffers_used", Int4, |r| int4(r.used)),
    ("buffers_unused", Int4, |r| int4(r.unused)),
    ("buffers_dirty", Int4, |r| int4(r.dirty)),
    ("buffers_pinned", Int4, |r| int4(r.pinned)),
    ("usagecount_avg", Float8, |r| r.usage.map_or(Datum::Null, Datum::Float8)),
];

/// pg_buffercache_usage_counts: a usage count and its buffers.
pub const USAGE_COUNTS: Columns<(u32, UsageCount)> = &[
    ("usage_count", Int4, |(count, _)| int4(*count)),
    ("buffers", Int4, |(_, r)| int4(r.buffers)),
    ("dirty", Int4, |(_, r)| int4(r.dirty)),
    ("pinned", Int4, |(_, r)| int4(r.pinned)),
];

/// pg_buffercache_checksums.
pub const CHECKSUMS: Columns<MemoryChecksums> = &[
    ("buffers_computed", Int8, |r| int8(r.computed)),
    ("buffers_compared", Int8, |r| int8(r.compared)),
    ("failures", Int8, |r| int8(r.failures)),
    ("total_time", Float8, |r| Datum::Float8(r.time.as_secs_f64() * 1e3)),
];

/// pg_backup_stop.
pub const BACKUP_STOP: Columns<BackupEnd> = &[
    ("lsn", PgLsn, |r| Datum::Lsn(r.lsn.0)),
    ("labelfile", Text, |r| Datum::string(r.label.clone())),
    ("spcmapfile", Text, |_| Datum::text("")),
];

/// pg_control_system.
pub const CONTROL_SYSTEM: Columns<ControlSystem> = &[
    ("pg_control_version", Int4, |r| int4(r.version)),
    ("catalog_version_no", Int4, |r| int4(r.catalog_version)),
    ("system_identifier", Int8, |r| Datum::Int8(r.system_id as i64)),
    ("pg_control_last_modified", Timestamptz, |r| timestamp(r.modified)),
];

/// verify_heapam.
pub const VERIFY_HEAP: Columns<Finding> = &[
    ("blkno", Int8, |r| int8(r.block.into())),
    ("offnum", Int4, |r| r.offset.map_or(Datum::Null, |n| int4(n.into()))),
    ("attnum", Int4, |r| r.attribute.map_or(Datum::Null, |n| int4(n.into()))),
    ("msg", Text, |r| Datum::string(r.message.clone())),
];

/// pg_get_sequence_data. None: it is no sequence.
pub const SEQUENCE_DATA: Columns<Option<SequenceData>> = &[
    ("last_value", Int8, |r| r.map_or(Datum::Null, |r| Datum::Int8(r.last_value))),
    ("is_called", Bool, |r| r.map_or(Datum::Null, |r| Datum::Bool(r.is_called))),
];

/// pg_sequence_parameters.
pub const SEQUENCE_PARAMETERS: Columns<SequenceDef> = &[
    ("start_value", Int8, |r| Datum::Int8(r.start)),
    ("minimum_value", Int8, |r| Datum::Int8(r.rules.min)),
    ("maximum_value", Int8, |r| Datum::Int8(r.rules.max)),
    ("increment", Int8, |r| Datum::Int8(r.rules.increment)),
    ("cycle_option", Bool, |r| Datum::Bool(r.rules.cycle)),
    ("cache_size", Int8, |r| Datum::Int8(r.rules.cache)),
    ("data_type", SqlType::Oid, |r| Datum::Oid(r.type_oid)),
];

/// pg_relation_kernel_cache.
pub const KERNEL_CACHE: Columns<KernelCached> = &[
    ("fork", Text, |r| Datum::text(r.fork.name())),
    ("segment", Int4, |r| int4(r.segment)),
    ("os_pages", Int8, |r| int8(r.pages)),
    ("os_pages_cached", Int8, |r| int8(r.cached)),
];
