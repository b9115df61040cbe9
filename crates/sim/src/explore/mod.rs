//! What the battery runs: random lives, and each fault at each place of short workloads.
//!
//! - `random`: lives of an engine, ended by crashes, kills and faults
//! - `rows`: lives in which rows change
//! - `crashes`: a crash at every call, with every subset of what was in doubt
//! - `again`: crashes during recovery, and what recoveries that were cut short come to
//! - `failures`: the i-th call fails
//! - `damage`: bytes that rot, writes that are lost or go astray
//! - `archive`: lives of an archiver
//! - `archived`: lives of an engine that archives its log
//! - `pitr`: recovery from an archive
//! - `retarget`: recovery from an archive whose target moves back
//! - `backups`: base backups and restores, cut short
//! - `old_ids`: crashes while a vacuum removes old ids
//! - `vacuums`: crashes while a table is vacuumed
//! - `trees`: crashes while pages of indexes are split, deleted and used again
//! - `databases`: crashes while databases are made and dropped
//! - `ddl`: crashes within DDL in SQL
//! - `concurrent`: crashes while indexes are created and dropped concurrently
//! - `cut_short`: what the crashes of `concurrent`, `long_values`, `maintained`, `old_ids`,
//!   `sequences`, `trees` and `vacuums` have in common
//! - `long_values`: crashes while values are stored out of line, and deleted
//! - `maintained`: crashes while autovacuum looks after tables, or VACUUM FULL rewrites one
//! - `sequences`: crashes while sequences hand out values
//! - `at_rest`: the check of a cluster at rest
//! - `interrupted`: what the recoveries of `again`, `pitr` and `retarget` have in common
//! - `many`: many seeds, by several threads
//! - `tally`: the outcome of runs

mod again;
mod archive;
mod archived;
mod at_rest;
mod backups;
mod concurrent;
mod crashes;
mod cut_short;
mod damage;
mod databases;
mod ddl;
mod failures;
mod interrupted;
mod long_values;
mod maintained;
mod many;
mod old_ids;
mod pitr;
mod random;
mod retarget;
mod rows;
mod sequences;
mod tally;
mod trees;
mod vacuums;

pub use again::recovery_again;
pub use archive::{archive_life, every_archive_crash};
pub use archived::archived_lives;
pub use backups::{backups_cut_short, restores_cut_short};
pub use concurrent::concurrent_indexes_cut_short;
pub use crashes::{Depth, every_crash};
pub use damage::{Damage, control_rot, lying_writes, wal_rot};
pub use databases::{databases_cut_short, databases_disk};
pub use ddl::{GROUPS, ddl_cut_short, ddl_disk, ddl_recovery_cut_short};
pub use failures::every_failure;
pub use long_values::long_values_cut_short;
pub use maintained::{Care, care_cut_short};
pub use many::{Failed, many};
pub use old_ids::{old_ids_disks, old_ids_removed};
pub use pitr::archive_recovery;
pub use random::{Flaw, random_run, run_with};
pub use retarget::recovery_moved_back;
pub use rows::{LIVES, row_lives};
pub use sequences::{sequences_cut_short, sequences_disk};
pub use tally::{Detection, Tally};
pub use trees::trees_cut_short;
pub use vacuums::vacuums_cut_short;
