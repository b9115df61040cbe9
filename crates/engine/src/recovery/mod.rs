//! Startup: from a data directory to a log that goes on.
//!
//! | pg_control says | what happens |
//! |---|---|
//! | shut down | the checkpoint's record is read; the log goes on behind it |
//! | in production, shutting down, in crash recovery, starting up | crash recovery, as below |
//! | in archive recovery | it goes on, as in `archive` |
//!
//! Where a file asks for it (`request`), or one such recovery was begun before, a directory is
//! recovered from an archive, or as a base backup, whatever pg_control says: `archive`. Its parts
//! are `label` (backup_label), `restore` (restore_command),
//! `replay`, `target` (recovery_target settings), `floor` (how far recovery must
//! get) and `branch` (the new timeline). `config::RecoveryStop` ends any
//! recovery between two records.
//!
//! Crash recovery:
//!
//! 1. every file that may have been written without a sync is synced, so that what redo finds on
//!    the pages stays there (`sync_tree`);
//! 2. the log is read, past the kernel's cache where that can be done, from the checkpoint's redo
//!    pointer to its end: one that is damaged in the middle, or that redo can't do all of, is
//!    refused, and nothing has changed (`scan`, `timeline`);
//! 3. pg_control says "in crash recovery", and the log is replayed, its pages read ahead (`ahead`);
//! 4. unlogged tables are emptied (`unlogged`), pg_xact is cleared of what never reached the log,
//!    and positions of replication origins are written (`origins`);
//! 5. the caller writes everything and makes an end-of-recovery checkpoint.
//!
//! Until then the next start begins at the same redo pointer, so a recovery that crashes is begun
//! again: a page that has been brought further than a record is left alone by it.
//!
//! `run` decides which of these it is, `crash` is crash recovery, `startup` has what all share.

mod ahead;
mod archive;
mod branch;
mod crash;
mod floor;
mod label;
mod origins;
mod replay;
mod request;
mod restore;
mod run;
mod scan;
mod startup;
mod target;
mod timeline;
mod unlogged;

pub(crate) use branch::finish;
pub(crate) use startup::{Started, Startup};
