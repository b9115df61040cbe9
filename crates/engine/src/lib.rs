//! The embeddable engine: catalog, heap, transactions, recovery and checkpoints over PostgreSQL
//! 18's bytes.
//!
//! A map of the crate:
//!
//! - `bench`: measurements on the machine at hand.
//! - `checkpoint`: making everything durable, so that old WAL can go.
//! - `checksums`: checking, enabling and disabling the page checksums of a cluster at rest.
//! - `config`: what an engine is opened with.
//! - `control`: pg_control.
//! - `init`: making a data directory.
//! - `recovery`: from a data directory to a log that goes on.
//! - `core`: what sessions and background threads share; `registry`: the sessions.
//! - `archiver`: what becomes of completed segments of the log.
//! - `activity`: calls under way; `counters`: what pg_stat_database counts.
//! - `background`: the engine's threads.
//! - `backup`: base backups: of a cluster at rest or a running one, and back.
//! - `directory`: what a data directory must be before it is opened.
//! - `disk`: small files, read and written whole; `io`: the I/O method an engine is opened with.
//! - `lockfile`: postmaster.pid.
//! - `error`: the one error type, with SQLSTATE, detail and hint.
//! - `fatal`: the one way to give up at once.
//! - `views`: rows of the statistics views.
//! - `walsync`: how the log is made durable, where that is to be found out.
//! - `engine`: making, opening and stopping a data directory.
//! - `session`: a connection's context; transactions, statements, rows in and out.
#![forbid(unsafe_code)]

mod activity;
mod archiver;
mod background;
pub mod backup;
pub mod bench;
mod checkpoint;
pub mod checksums;
pub mod config;
mod control;
mod core;
mod counters;
mod clock;
mod directory;
mod disk;
mod io;
pub mod engine;
pub mod error;
mod failure;
mod fatal;
mod init;
mod lockfile;
pub mod recovery;
mod registry;
mod running_backups;
pub mod session;
mod stats;
mod sums;
pub mod views;
mod walsync;
mod walwriter;

pub use config::{
    ArchiveMode, ArchiveModules, ArchiveSettings, ArchiveStore, Background, BadIoDirect,
    CheckpointStep, CheckpointWatch, CleanerOptions, EngineConfig, ExtendMethod, FatalAction,
    HugePages, ImageCompression, InitOptions, IoDirect, IoMethod, RecoveryReport, RecoverySettings,
    RecoveryStop, RecoveryTarget, RestoreFrom, RestoreSettings, RestoreSource, SessionSettings,
    TargetAction, TargetTimeline, WalSyncMethod, WorkerLimits, WritingSettings,
};
pub use io::IoSettings;
pub use engine::{Engine, ShutdownMode};
pub use error::EngineError;
pub use failure::Failure;
pub use forebay_aio::limits::{Limits, descriptors_in_use, raise_descriptor_limit};
pub use forebay_archive as archive;
pub use forebay_access::redo::ResourceManagers;
pub use forebay_catalog::{Column, ColumnDef, Table};
pub use forebay_format::lsn::ParseLsnError;
pub use forebay_format::{Fork, Lsn};
pub use forebay_storage::{ReadPolicy, ReadWarning, TempFile, TempOptions, TempReader, TempWriter};
pub use forebay_txn::redo::{RedoContext, RedoError, RedoRecord, ResourceManager};
pub use forebay_types as types;
pub use forebay_types::{Datum, Oid, TypeInfo, time};
pub use forebay_wal::SegmentStats;
pub use forebay_txn::locks::{Interrupt, InterruptKind, LockMode};
pub use clock::parse_timestamp;
pub use session::{
    BackupEnd, BlockRange, HeapScan, OnCommit, PrewarmMode, RowBatch, RowView, Scan, Session,
    Statement, StatementSnapshot, Transaction,
};
