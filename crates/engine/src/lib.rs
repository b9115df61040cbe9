//! The embeddable engine: data directories, sessions, recovery and checkpoints.
//!
//! A program opens an [`Engine`], starts [`Session`]s in it, and works in [`Transaction`]s. Rows,
//! transactions and catalogs are crates below.
//!
//! A map of the crate, from the bottom up; a module uses only those before it:
//!
//! - `clock`: the time in the units of the log; `counters`: what pg_stat_database counts
//! - `error`: [`EngineError`], with SQLSTATE, detail and hint; `failure`: why an engine stopped
//! - `config`: what an engine is made and opened with
//! - `fatal`: stops the engine after a failure like a lost sync
//! - `activity`: calls in progress, for which a stop waits; `walwriter`: waking the WAL writer
//! - `disk`: small files; `io`: opening the I/O layer; `walsync`: choosing how WAL is synced
//! - `directory`: what a data directory must be; `lockfile`: postmaster.pid
//! - `control`: pg_control; `init`: making a data directory
//! - `archiver`: archiving completed WAL segments; `running_backups`: base backups in progress
//! - `checkpointer`: requests for checkpoints; `registry`: the sessions; `sums`: statistics
//!   that can be reset
//! - `core`: what sessions and background threads share
//! - `checkpoint`: checkpoints; `background`: the engine's threads
//! - `recovery`: from a data directory to a log that goes on
//! - `views`: rows of statistics views
//! - `open`: opening all parts; `engine`: opening and stopping; `stats`: its statistics
//! - `session`: a connection's transactions, statements and rows
//! - `backup`, `checksums`, `at_rest`: work on clusters that no engine has open
#![forbid(unsafe_code)]

mod activity;
mod archiver;
mod at_rest;
mod background;
pub mod backup;
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
mod init;
mod io;
mod lockfile;
mod open;
mod recovery;
mod registry;
mod running_backups;
mod session;
mod stats;
mod sums;
pub mod views;
mod walsync;
mod walwriter;

pub use at_rest::ClusterAtRest;
pub use clock::parse_timestamp;
pub use config::{
    ArchiveMode, ArchiveModules, ArchiveSettings, ArchiveStore, Background, BadIoDirect,
    CheckpointStep, CheckpointWatch, CleanerOptions, EngineConfig, ExtendMethod, FatalAction,
    HugePages, ImageCompression, InitOptions, IoDirect, IoMethod, PrefetchStats, RecoveryProgress,
    RecoveryReport, RecoverySettings, RecoveryStop, RecoveryTarget, RestoreFrom, RestoreSettings,
    RestoreSource, SessionSettings, TargetAction, TargetTimeline, WalSyncMethod, WorkerLimits,
    WritingSettings,
};
pub use engine::{Engine, ShutdownMode};
pub use error::EngineError;
pub use failure::Failure;
pub use forebay_access::redo::ResourceManagers;
pub use forebay_aio::limits::{Limits, descriptors_in_use, raise_descriptor_limit};
pub use forebay_archive as archive;
pub use forebay_catalog::{Column, ColumnDef, Table};
pub use forebay_format::lsn::ParseLsnError;
pub use forebay_format::{Fork, Lsn};
pub use forebay_storage::{ReadPolicy, ReadWarning, TempFile, TempOptions, TempReader, TempWriter};
pub use forebay_txn::locks::{Interrupt, InterruptKind, LockMode};
pub use forebay_txn::redo::{RedoContext, RedoError, RedoRecord, ResourceManager};
pub use forebay_types as types;
pub use forebay_types::{Datum, Oid, TypeInfo, time};
pub use forebay_wal::SegmentStats;
pub use io::IoSettings;
pub use session::{
    BackupEnd, BlockRange, HeapScan, OnCommit, PrewarmMode, RowBatch, RowView, Scan, Session,
    Statement, StatementSnapshot, Transaction,
};
