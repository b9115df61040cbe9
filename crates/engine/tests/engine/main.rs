//! The engine as its users have it, on real directories. One program of many files, as each program
//! links the whole engine; `checkpoints`, which looks at the clock, is another.
//!
//! - [`archive_library`]: `forebay_archive` as archive_library and restore_library: what an engine
//!   archives can be verified and comes back, without a command
//! - [`archive_recovery`]: Recovery from an archive: to its end, to targets, along timelines; what
//!   an archive that fails does not do; crashes at the end
//! - [`archiving`]: An engine's archiver: what it stores before segments may go, whose module it
//!   takes, what a stop leaves
//! - [`autovacuum`]: Which tables autovacuum takes, what it counts, who may cancel it
//! - [`backup`]: Base backups: of a cluster at rest and of a running one, and back
//! - [`catalog_values`]: Long values in rows of the catalogs: what is changed keeps them, and takes
//!   their chunks along
//! - [`check`]: Damage of every kind in files at rest, and healthy clusters of PostgreSQL 15 and 18
//! - [`check_btree`]: Damage of B-trees at rest, and rows that they lack or have too many of
//! - [`check_toast`]: Damage of values out of line at rest
//! - [`checksums`]: Checking, enabling and disabling the checksums of a directory at rest
//! - [`concurrent_indexes`]: Indexes that are created and dropped beside writers
//! - [`crashed_peer`]: What a crash of PostgreSQL's can leave in a directory: damaged visibility
//!   maps, prepared transactions, unlogged tables
//! - [`crashed_rows`]: Rows that PostgreSQL changed before a crash: both recoveries give the same
//!   pages
//! - [`damaged_rows`]: Pages with damaged rows: errors name the place, and all else goes on
//! - [`databases`]: Several databases: entering, making, changing and dropping them
//! - [`end_records`]: What the log says of a transaction's end
//! - [`end_of_wal`]: Recovery of a log behind whose end something stands that is none: the defects
//!   of crates/wal's tests, through the whole engine
//! - [`examples`]: The programs of `examples/`
//! - [`faults`]: A disk that fails: which failures stop the engine, and that none of them loses
//!   what was acknowledged
//! - [`full_disk`]: A disk that is full while a map, a status file, the log or a table grows
//! - [`heap_checks`]: `verify_heapam` on damaged tables, beside PostgreSQL's
//! - [`ids`]: Transaction ids and MultiXacts near their limits and past the ends of the circle:
//!   warnings, refusals, vacuum, pg_resetwal
//! - [`initial_catalogs`]: The catalogs of a new cluster beside those that initdb makes, and in
//!   PostgreSQL's hands
//! - [`index_scans`]: Tables read through indexes that PostgreSQL made and aged: the answers are
//!   PostgreSQL's
//! - [`kept_indexes`]: Indexes that PostgreSQL made: what the catalogs say of them, and rows that
//!   come and go with their entries
//! - [`lifecycle`]: A data directory from its making to its stop, and to its recovery, with every
//!   way to do I/O
//! - [`long_values`]: Values that are compressed or stored out of line, in tables that PostgreSQL
//!   made or Forebay: read, written, replaced and deleted in turns with PostgreSQL
//! - [`lookups`]: Rows of the catalogs that are looked up through indexes: what was changed or
//!   rolled back, several versions
//! - [`made_indexes`]: Tables and indexes that are made in a cluster of PostgreSQL's
//! - [`new_indexes`]: Creating, dropping and rebuilding indexes: names, refusals, what is left
//! - [`orphans`]: What transactions have left that a crash cut off, and recovery removes
//! - [`parallel_vacuum`]: VACUUM of several indexes at once
//! - [`peer`]: PostgreSQL 18's own programs on directories that this engine made, and the engine on
//!   directories that PostgreSQL recovered or made
//! - [`peer_wal`]: WAL between PostgreSQL 18 and this engine: compressed images, timelines
//! - [`poison`]: An engine that had to stop: nothing of it becomes durable any more, and every call
//!   names the first failure
//! - [`pool_size`]: The size of the buffer pool as the embedding program says it
//! - [`recovery`]: Crash recovery: what it makes durable before it trusts it, what it refuses
//!   without changing anything, that it can be begun again, and what it reads ahead
//! - [`reindex_concurrently`]: Indexes that are built anew beside readers and writers
//! - [`rewritten_tables`]: Tables that VACUUM FULL rewrites, and what is left of it
//! - [`row_changes`]: Rows that sessions update, delete and lock beside each other
//! - [`row_fixture`]: A small table whose rows sessions change
//! - [`shortage`]: Room, descriptors or memory are short at any call of a commit or a checkpoint
//! - [`space`]: A file system that runs full (needs root)
//! - [`spill`]: Temporary files of an engine's sessions: limits and counts, their end with the
//!   session, the engine or a crash
//! - [`stops`]: Checkpoints, crashes, refusals and limits
//! - [`subtransactions`]: What the rollback of a subtransaction takes with it, and what outlives it
//! - [`tables`]: Creating, truncating and dropping tables, alone and beside others
//! - [`transactions`]: Transactions as types, and what the interface below them refuses when it
//!   runs
//! - [`unique_keys`]: Sessions that want the same key: who waits for whom, and what comes of it
//! - [`vacuum`]: VACUUM: what it frees and stores, crashes, what PostgreSQL says of its pages
//! - [`vacuum_costs`]: What VACUUM and ANALYZE show while they run, and what pages cost them
//! - [`views`]: Rows of the statistics views

#[path = "../common/mod.rs"]
mod common;
#[path = "../../../wal/tests/common/defects.rs"]
mod defects;

mod archive_fixture;
mod archive_library;
mod archive_recovery;
mod archiving;
mod autovacuum;
mod backup;
mod catalog_values;
mod check;
mod check_btree;
mod check_catalogs;
mod check_toast;
mod checksums;
mod concurrent_indexes;
mod crashed_peer;
mod crashed_rows;
mod damaged_rows;
mod databases;
mod end_of_wal;
mod end_records;
mod examples;
mod faults;
mod full_disk;
mod heap_checks;
mod ids;
mod index_scans;
mod initial_catalogs;
mod kept_indexes;
mod lifecycle;
mod long_values;
mod lookups;
mod made_indexes;
mod new_indexes;
mod orphans;
mod parallel_vacuum;
mod peer;
mod peer_wal;
mod poison;
mod pool_size;
mod recovery;
mod reindex_concurrently;
mod rewritten_tables;
mod row_changes;
mod row_fixture;
mod row_queue;
mod shortage;
mod space;
mod spill;
mod stops;
mod subtransactions;
mod tables;
mod transactions;
mod unique_keys;
mod vacuum;
mod vacuum_costs;
mod vacuumed_indexes;
mod views;
