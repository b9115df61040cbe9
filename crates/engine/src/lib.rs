//! The embeddable engine: catalog, heap, transactions, recovery and checkpoints over PostgreSQL
//! 18's bytes.
//!
//! A map of the crate:
//!
//! - `at_rest`: locking a cluster that is shut down.
//! - `catalog`: PostgreSQL's catalogs: their layouts, their first rows, finding and changing
//!   tables.
//! - `checkpoint`: making everything durable, so that old WAL can go.
//! - `checksums`: checking, enabling and disabling the page checksums of a cluster at rest.
//! - `config`: what an engine is opened with.
//! - `control`: pg_control.
//! - `init`: making a data directory.
//! - `recovery`: from a data directory to a log that goes on.
//! - `core`: what sessions and background threads share; `registry`: the sessions; `oids`: object
//!   identifiers.
//! - `archiver`: what becomes of completed segments of the log.
//! - `activity`: calls under way; `counters`: what pg_stat_database counts.
//! - `background`: the engine's threads.
//! - `backup`: base backups: of a cluster at rest or a running one, and back.
//! - `directory`: what a data directory must be before it is opened.
//! - `disk`: small files, read and written whole; `door`: the I/O method an engine is opened with.
//! - `readback`: whether such files are on the disk as they were written.
//! - `lockfile`: postmaster.pid.
//! - `error`: the one error type, with SQLSTATE, detail and hint.
//! - `fatal`: the one way to give up at once.
//! - `types`: values, and the facts about the types they have.
//! - `table`: what the catalog knows of a table.
//! - `locks`: relation locks, deadlock detection.
//! - `views`: rows of the statistics views.
//! - `walsync`: how the log is made durable, where that is to be found out.
//! - `engine`: making, opening and stopping a data directory.
//! - `session`: a connection's context; transactions, statements, rows in and out.
#![forbid(unsafe_code)]

mod activity;
mod archiver;
mod at_rest;
mod background;
pub mod backup;
mod catalog;
mod checkpoint;
pub mod checksums;
pub mod config;
mod control;
mod core;
mod counters;
mod directory;
mod disk;
mod door;
pub mod engine;
pub mod error;
mod fatal;
pub mod heap;
mod init;
mod lockfile;
pub mod locks;
mod oids;
mod readback;
pub mod recovery;
pub mod redo;
mod registry;
pub mod session;
mod sums;
pub mod table;
#[cfg(test)]
mod tests;
pub mod types;
pub mod views;
mod walsync;
pub mod xact;

pub use at_rest::ClusterAtRest;
pub use config::{
    ArchiveMode, ArchiveModules, ArchiveSettings, ArchiveStore, Background, BadIoDirect,
    CheckpointStep, CheckpointWatch, CleanerOptions, EngineConfig, ExtendMethod, FatalAction,
    HugePages, ImageCompression, InitOptions, IoDirect, IoMethod, RecoveryReport, RecoverySettings,
    RecoveryStop, RecoveryTarget, RestoreFrom, RestoreSettings, RestoreSource, SessionSettings,
    TargetAction, TargetTimeline, WalSyncMethod, WorkerLimits, WritingSettings,
};
pub use door::IoSettings;
pub use engine::{Engine, ShutdownMode};
pub use error::EngineError;
pub use fatal::Failure;
pub use forebay_aio::limits::{Limits, descriptors_in_use, raise_descriptor_limit};
pub use forebay_archive as archive;
pub use forebay_format::lsn::ParseLsnError;
pub use forebay_format::{Fork, Lsn, time};
pub use forebay_storage::{ReadPolicy, ReadWarning, TempFile, TempOptions, TempReader, TempWriter};
pub use forebay_wal::SegmentStats;
pub use locks::{Interrupt, InterruptKind, LockMode};
pub use recovery::parse_timestamp;
pub use session::{
    BackupEnd, BlockRange, HeapScan, OnCommit, PrewarmMode, RowBatch, RowView, Scan, Session,
    Statement, StatementSnapshot, Transaction,
};
pub use table::{Column, ColumnDef, Table};
pub use types::{Datum, Oid, TypeInfo, Value};
