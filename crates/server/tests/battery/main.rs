//! Batteries over the real program, beside PostgreSQL 18; run optimized, with assertions, by
//! `cargo xtask test`.
//!
//! - [`exchange`]: millions of rows in and out, byte for byte what PostgreSQL gives
//! - [`kill`]: `kill -9` under load; acknowledged COPYs are complete, others complete or absent
//! - [`powercut`]: power cuts under load, by a file system that loses what was not synced
//! - [`tools`]: PostgreSQL's own programs read the directory, and PostgreSQL recovers a crashed
//!   copy
//! - [`archive`]: PostgreSQL 15 and 18 archive and recover by archive-push and archive-get
//! - [`checksums`]: page checksums of PostgreSQL's clusters, as pg_checksums does them
//! - [`damage`]: damaged pages, reported as PostgreSQL does
//! - [`pgbench`]: pgbench in all its ways, with the balances compared
//! - [`scan`]: the pool on PostgreSQL's files, by `forebay bench scan`
//! - [`backup`]: base backups, verified and recovered by PostgreSQL
//! - [`hot`]: base backups under pgbench and COPY
//! - [`turns`]: Forebay and PostgreSQL 18 crash and recover one directory by turns, under load
//! - [`ddl_turns`]: the same by clients that change tables, with what PostgreSQL dumps compared
//! - [`crashes`]: what PostgreSQL's crashes have left, recovered page for page as it does; by two
//!   loads: [`trees`] for B-trees, [`kinds`] for all other kinds of indexes and records
//! - [`aged`]: large tables that one server has built and aged, read by the other
//! - [`scans`]: a table read by all kinds of scans, with the answers of both servers compared
//! - [`upserts`]: ON CONFLICT under load, in the crashes of both servers
//! - [`warm`]: what was in the pool is read again after a start, by either server
//! - [`clusters`]: databases, roles, schemas and comments as PostgreSQL makes them
//! - [`ddl`]: statements that define and change tables, as PostgreSQL runs them
//! - [`foreign_keys`]: foreign keys and deferrable keys, made by one server and enforced by the
//!   other
//! - [`concurrently`]: indexes that are made and dropped beside writers, in crashes
//! - [`isolation`]: PostgreSQL's isolation specifications, with the output of both servers compared
//! - [`regress`]: PostgreSQL's regression tests on directories of `forebay init`, and on Forebay
//! - [`sessions`]: random sessions, with the messages of both servers compared
//! - [`io`]: system calls and page cache: direct opens, combined reads, gathered log writes
//!
//! - [`forebay`]: starts, stops and kills the server
//! - [`moment`]: when a load is cut short
//!
//! They are `#[ignore]`d so that a plain `cargo test` stays quick.

mod aged;
mod archive;
mod backup;
mod checksums;
mod clusters;
mod concurrently;
mod crashes;
mod damage;
mod ddl;
mod ddl_turns;
mod exchange;
mod forebay;
mod foreign_keys;
mod hot;
mod io;
mod isolation;
mod kill;
mod kinds;
mod moment;
mod pgbench;
mod powercut;
mod regress;
mod scan;
mod scans;
mod sessions;
mod tools;
mod trees;
mod turns;
mod upserts;
mod warm;
