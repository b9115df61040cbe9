#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod activity;
mod archiver;
mod at_rest;
mod autovacuum;
mod background;
pub mod backup;
pub mod check;
mod checkpoint;
mod checkpointer;
pub mod checksums;
mod clock;
mod config;
mod control;
mod core;
mod counters;
mod directory;
mod disk;
mod engine;
mod error;
mod failure;
mod fatal;
mod id_limits;
mod init;
mod io;
mod locale;
mod lockfile;
mod memory;
mod new_database;
mod open;
mod orphans;
mod pool_size;
mod recovery;
mod registry;
mod relation_files;
mod relation_stats;
mod running_backups;
mod session;
mod stats;
mod sums;
mod sync_tree;
mod system_collations;
pub mod views;
mod walsync;
mod walwriter;
mod warm;
mod warning;
mod workers;

pub use at_rest::ClusterAtRest;
pub use autovacuum::AutovacuumRound;
pub use clock::parse_timestamp;
pub use config::{
    ArchiveMode, ArchiveModules, ArchiveSettings, ArchiveStore, AutovacuumSettings, Background,
    BadIoDirect, CheckpointStep, CheckpointWatch, CleanerOptions, EngineConfig, ExtendMethod,
    FatalAction, FirstIds, HugePages, ImageCompression, InitOptions, IoDirect, IoDirectSetting,
    IoMethod, LocaleOptions, ParallelSettings, PoolSize, PoolUse, PrefetchStats, RecoveryProgress,
    RecoveryReport, RecoverySettings, RecoveryStop, RecoveryTarget, RestoreFrom, RestoreSettings,
    RestoreSource, SessionSettings, SizeChooser, TargetAction, TargetTimeline, ToastCompression,
    VacuumSettings, WalSyncMethod, WorkerLimits, WritingSettings, identifier_list,
};
pub use engine::{Engine, ShutdownMode};
pub use error::EngineError;
pub use failure::Failure;
pub use forebay_access::SkipPages;
pub use forebay_access::heap::IndexCleanup;
pub use forebay_access::index_scan::ScanStats;
pub use forebay_access::nbtree::{Condition, Direction, KeyOrder, Operator};
pub use forebay_access::redo::ResourceManagers;
pub use forebay_access::sequence::SequenceRules;
pub use forebay_access::{
    AccessError, EntrySource, ExpressionError, IndexExpressions, StoredValues,
};
pub use forebay_aio::Usage;
pub use forebay_aio::limits::{Limits, descriptors_in_use, raise_descriptor_limit};
pub use forebay_archive as archive;
pub use forebay_catalog::{CatalogError, RowSource, nodes, syscache};
pub use forebay_catalog::{
    ChangedParameters, Check, CheckDef, Column, ColumnDef, ColumnStatistics, ColumnStorage,
    CommentedPart, ConstraintDefinition, ConstraintKind, DatabaseRow, Figures, ForeignKey,
    ForeignKeyDef, IndexCompiler, IndexDef, IndexDefinition, IndexExpression, IndexKey, IndexTrees,
    KeyAction, KeyTrigger, KeyWork, MemberOptions, Named, NewType, NotNull, ObjectName, OldestIds,
    ReplicaIdentity, RoleChange, RoleRow, SequenceDef, SequenceInfo, SequenceOptions,
    SettingChange, StorageParameter, StoredExpr, Table, TableIndex, TableStatistics, catalog_named,
    compression_code, index_parameters, quoted, storage_code, storage_texts, tree_in_memory,
    wrong_kind,
};
pub use forebay_format::lsn::ParseLsnError;
pub use forebay_format::tuple::LockStrength;
pub use forebay_format::{CommandId, Fork, FullXid, ItemPointer, Lsn, Xid};
pub use forebay_storage::{
    Merge, PageTrace, ReadPolicy, RunHost, RunItems, Runs, StorageError, StreamStats, TempFile,
    TempOptions, TempReader, TempWriter,
};
pub use forebay_txn::locks::{Interrupt, InterruptKind, LockMode};
pub use forebay_txn::redo::{RedoContext, RedoError, RedoRecord, ResourceManager};
pub use forebay_types as types;
pub use forebay_types::{Datum, Encoding, Oid, TypeInfo, time};
pub use io::IoSettings;
pub use new_database::{CopyStrategy, NewDatabase};
pub use session::{
    ALL_FORKS, AdvisoryKey, AdvisoryScope, AnalyzeOptions, BackupEnd, BitmapRows, BlockRange,
    CollationDef, CollationName, CommentOn, Due, Handoff, HeapScan, IndexBitmap, IndexCheckOptions,
    IndexEntry, IndexRows, IndexScanOptions, Inserted, Isolation, KeyEvent, NamedRelation,
    OnCommit, Part, PathEntry, PrewarmMode, RowBatch, RowOutcome, RowView, RowWait, Savepoint,
    Scan, ScanPart, Sender, SequenceAccess, SequenceData, SequencePersistence, Session, SettingOf,
    SharedScan, SharedValues, Statement, StatementSnapshot, StoredRow, StoredSetting,
    TableCheckOptions, TableFiles, Told, Transaction, VacuumOptions, compressed_value,
    toasted_size,
};
pub use warning::Warning;

/// The program of the project's README, compiled and run as a doctest.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct ProjectReadme;
