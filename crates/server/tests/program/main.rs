//! The real program, through its sockets and its command line.
//!
//! - [`harness`]: starts and stops servers, waits for what their logs say
//! - [`startup`]: identities, protocol versions, pg_hba.conf
//! - [`simple`]: simple queries, transactions, settings
//! - [`spill`]: sorts beyond work_mem: settings, log, views
//! - [`extended`]: Parse, Bind, Describe, Execute, Sync
//! - [`copy`]: COPY both ways
//! - [`archive`]: archive-push, archive-get, archiverd, and an administrator's commands
//! - [`auto_io`]: io_method and io_direct at auto on machines that lack what they are for
//! - [`autovacuum`]: what autovacuum logs, its settings, who cancels it
//! - [`backup`]: base backups of a running server
//! - [`bench`]: measurements, small; [`bench_archive`], [`bench_wal`]: those of the archiver
//!   and of the log
//! - [`cancel`]: cancel requests and timeouts
//! - [`check`]: damage in the tables of a directory at rest
//! - [`connections`]: slow start-ups, descriptors that run out, timers
//! - [`checksums`]: page checksums of a directory at rest
//! - [`columns`]: how the values of columns are stored, and their statistics
//! - [`damage`]: damaged pages, and the settings that accept them
//! - [`demo`]: the demonstration, small
//! - [`disk`]: a disk with other bytes than were written, a full disk
//! - [`foreign`]: directories that PostgreSQL made, and what is refused of them
//! - [`hostile`]: garbage, absurd lengths, vanishing clients
//! - [`library`]: an archive with manifests as archive_library and restore_library; stops that
//!   don't wait
//! - [`io_method`]: the I/O method and its settings, descriptors, the views of I/O
//! - [`lifecycle`]: start, stop, kill, restart, reload
//! - [`log`]: the write-ahead log: sync methods, segments, functions, direct I/O
//! - [`long_memory`]: how much memory statements take for a long value
//! - [`long_values`]: values that are compressed or stored out of line, in statements
//! - [`pitr`]: archive_mode, and recovery from an archive to a point in time
//! - [`pool_size`]: the size of shared buffers changes
//! - [`sql_ascii`]: databases whose texts are bytes
//! - [`temporary`]: temporary tables: their buffers, their files
//! - [`objects`]: archives in an object store
//! - [`outstanding`]: tables that are dropped while reads of them are in flight

mod archive;
mod auto_io;
mod autovacuum;
mod backup;
mod bench;
mod bench_archive;
mod bench_wal;
mod cancel;
mod check;
mod checksums;
mod columns;
mod connections;
mod copy;
mod damage;
mod demo;
mod disk;
mod extended;
mod foreign;
mod harness;
mod hostile;
mod io_method;
mod library;
mod lifecycle;
mod log;
mod long_memory;
mod long_values;
mod objects;
mod outstanding;
mod pitr;
mod pool_size;
mod simple;
mod spill;
mod sql_ascii;
mod startup;
mod temporary;
