//! Statements and their answers, many of them against what PostgreSQL 18 said. One program of many
//! files.
//!
//! - [`adopted`]: Relations of PostgreSQL's directories of kinds that are not made here, changed by
//!   both servers
//! - [`analyze`]: ANALYZE, and that PostgreSQL 18 finds the same statistics
//! - [`bitmaps`]: Bitmap scans against answers recorded from PostgreSQL 18; lossy ones; and what
//!   other sessions' changes and vacuums make of them
//! - [`buffers`]: pg_prewarm and pg_buffercache, against answers recorded from PostgreSQL 18 with
//!   both extensions; and what Forebay adds
//! - [`changes`]: UPDATE, DELETE, RETURNING, row locks and system columns, against answers recorded
//!   from PostgreSQL 18; and what portals and other sessions make of them
//! - [`collated_clusters`]: Clusters of PostgreSQL 18 by libc, ICU and the builtin provider, in
//!   turns with PostgreSQL
//! - [`collations`]: Collations in statements, blanks of character(n) and OIDs of rows out of
//!   subqueries, against answers recorded from PostgreSQL 18
//! - [`computed_indexes`]: Indexes on expressions and partial ones, against answers recorded from
//!   PostgreSQL 18; and that their entries follow all changes of rows
//! - [`conflicts`]: INSERT ... ON CONFLICT, against answers recorded from PostgreSQL 18; and what
//!   several sessions make of it
//! - [`counters`]: What transactions count of tables and indexes, against PostgreSQL 18's answers
//! - [`cursors`]: Cursors, against answers recorded from PostgreSQL 18; what they share with the
//!   protocol's portals; rows that are held over the end of a transaction
//! - [`dangling`]: No row of the catalogs refers to what is gone, whoever drops it meanwhile
//! - [`descriptions`]: Definitions of foreign keys, comments and names of roles, against answers
//!   recorded from PostgreSQL 18
//! - [`expressions`]: Expressions, series, VALUES, names, syntax errors and transactions, against
//!   answers recorded from PostgreSQL 18
//! - [`extended`]: The extended protocol: parameter types against answers recorded from PostgreSQL
//!   18; portals; formats; errors
//! - [`files`]: Unlogged tables, and tables in tablespaces, against answers recorded from
//!   PostgreSQL 18; and what crashes make of them
//! - [`foreign_keys`]: Foreign keys and deferrable keys, against answers recorded from PostgreSQL
//!   18; and what several sessions make of them
//! - [`fuzz`]: The entry points of the fuzz targets, over generated statements
//! - [`garbage`]: Whatever the text, the answer is a result or an error, and the next statement
//!   works
//! - [`heap_checks`]: verify_heapam: its arguments and refusals
//! - [`ids`]: Warnings of transaction ids that run short, and their refusal, as a client gets them
//! - [`index_checks`]: bt_index_check and bt_index_parent_check, on sound and damaged indexes
//! - [`indexes`]: Indexes in statements, against answers recorded from PostgreSQL 18; and that rows
//!   are the same through them and without them
//! - [`lists`]: IN, ANY, ALL and comparisons of rows, by indexes and without them, against answers
//!   recorded from PostgreSQL 18
//! - [`limits`]: What a client can make long, deep or wide has a limit
//! - [`locked`]: Statements that wait for a table's lock see what is there once they have it
//! - [`overloads`]: Operators, functions and casts over all types, against answers recorded from
//!   PostgreSQL 18
//! - [`parallel`]: Aggregates with worker threads
//! - [`parameters`]: ALTER TABLE and ALTER INDEX of storage parameters, and a table's own number of
//!   parallel workers
//! - [`portals`]: Portals and cursors across failures, savepoints and each other, message by
//!   message, against answers recorded from PostgreSQL 18
//! - [`refused`]: What PostgreSQL can and this server cannot is refused by name, with SQLSTATE
//!   0A000
//! - [`reg_types`]: Types whose values are OIDs of rows, against answers recorded from PostgreSQL
//!   18
//! - [`roles`]: SET ROLE, REASSIGN OWNED, DROP OWNED, against answers recorded from PostgreSQL 18
//! - [`shared_cache`]: What all sessions know of tables and sequences is what the catalogs say
//! - [`spill`]: Sorts and groups beyond work_mem: the same rows as in memory, within
//!   temp_file_limit, and no file afterwards
//! - [`statistics`]: The statistics views, against answers recorded from PostgreSQL 18
//! - [`tables`]: Tables, transactions over them and COPY in all formats, against answers recorded
//!   from PostgreSQL 18
//! - [`temporary`]: Temporary tables, against answers recorded from PostgreSQL 18; and what other
//!   sessions and stops make of them
//! - [`transactions`]: Savepoints, modes, LOCK TABLE and advisory locks, against answers recorded
//!   from PostgreSQL 18; and what several sessions make of them
//! - [`truncate`]: TRUNCATE, against answers recorded from PostgreSQL 18; and what plans and
//!   portals make of it
//! - [`vacuum`]: VACUUM and COPY FREEZE, with PostgreSQL 18's answers

#[path = "../support/fixture.rs"]
mod fixture;
#[path = "../support/mod.rs"]
mod support;

mod adopted;
mod analyze;
mod bitmaps;
mod buffers;
mod changes;
mod collated_clusters;
mod collations;
mod computed_indexes;
mod conflicts;
mod counters;
mod cursors;
mod dangling;
mod descriptions;
mod expressions;
mod extended;
mod files;
mod foreign_keys;
mod fuzz;
mod garbage;
mod heap_checks;
mod ids;
mod index_checks;
mod indexes;
mod limits;
mod lists;
mod locked;
mod made_relations;
mod overloads;
mod parallel;
mod parameters;
mod portals;
mod refused;
mod reg_types;
mod roles;
mod sequences;
mod shared_cache;
mod spill;
mod statistics;
mod tables;
mod temporary;
mod transactions;
mod truncate;
mod vacuum;
