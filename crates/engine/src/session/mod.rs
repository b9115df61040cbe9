//! A session: a connection's transaction, statements and rows.
//!
//! Programs that embed the engine use [`Session::transaction`]: its types enforce the order of
//! calls, and nothing outlives the transaction. The lower interface is for callers that keep scans
//! open between calls (portals of the wire protocol). It is checked at run time:
//!
//! ```text
//! session.begin()?;                 // explicit or implicit: the caller decides
//! session.start_command()?;         // each statement: sees the statements before it
//! let t = session.open_table(None, "t", LockMode::AccessShare)?;
//! let mut scan = session.scan(&t)?; // takes the statement's snapshot, after its locks
//! while let Some(row) = scan.next(&mut session)? { ... }
//! session.commit()?;                // from here on the scan returns an error
//! ```
//!
//! - `state`: the session itself: begin, calls into the engine; `open`: its running transaction;
//!   `entering`: how it enters a database
//! - `ending`: commit and abort; `subtransactions`: those within a transaction
//! - `acting`, `roles`: the role as which statements run
//! - `isolation`: isolation levels and snapshots; `marks`: what ends with a subtransaction
//! - `transaction`: transactions and statements as types
//! - `tables`: finding, creating and dropping tables; `locks`: locking them; `explicit`: LOCK TABLE
//!   with NOWAIT, advisory locks
//! - `catalog_rows`: rows of the catalogs that statements are analyzed by; `collations`: how texts
//!   compare; `collation_ddl`: CREATE, ALTER and DROP COLLATION
//! - `truncate`: emptying tables; `table_files`: moving them; `alter_table`: changing them;
//!   `column_ddl`: their columns' types, identity and expressions; `relation_ddl`: owners, schemas,
//!   names of constraints and indexes
//! - `like`: what CREATE TABLE (LIKE ...) takes of a table
//! - `sequences`: values of sequences; `known_sequences`: those that a session has taken;
//!   `sequence_ddl`: creating and changing them; `relation_kinds`: what a name means, of any kind
//! - `indexes`: creating, dropping and rebuilding indexes; `concurrent_indexes`: beside writers;
//!   `reindex_concurrently`: rebuilding them beside writers
//! - `waiting`: waiting for other sessions' transactions
//! - `column_stats`: rows of pg_stats; `column_storage`: how long values will be stored
//! - `definitions`: what indexes and constraints are, to be shown
//! - `index_checks`, `heap_checks`: amcheck's functions
//! - `index_constraints`: constraints of indexes that are there
//! - `index_entries`: entries in indexes, for
//! - `toast`: long values; `toast_tables`: the tables that they are in
//! - `rows`: inserting rows; `changes`: updating, deleting and locking rows
//! - `conflicts`: INSERT ... ON CONFLICT
//! - `index_scan`: reading rows through indexes, and by bitmaps
//! - `counting`: what statements do, for statistics
//! - `scan`: reading rows; `stored`: a row as it is stored
//! - `parameters`: ALTER TABLE and ALTER INDEX, SET and RESET of storage parameters
//! - `parallel`: a scan by several threads; `handoff`: what its workers hand over
//! - `referred`: locks of what new rows of the catalogs refer to
//! - `databases`: CREATE, DROP and ALTER DATABASE; `database_locale`: versions of their
//!   locales; `schemas`: schemas, roles, comments; `owned`: what roles
//!   own;
//!   `tablespaces`: CREATE and DROP TABLESPACE; `path`, `known_path`: the search path
//! - `temp`: temporary tables; `temp_tables`: which there are
//! - `vacuum`: VACUUM; `analyze`: ANALYZE; `automatic`: sessions of autovacuum
//! - `oldest_ids`: how far new ids may go, after a vacuum
//! - `pool`: sizes, prewarming, evicting buffers; `warm`: pages that were in the pool before
//! - `spill`: temporary files
//! - `backup`: beginning and ending a base backup
//! - `wal`: positions of the log, segment switches
//!
//! Every call is counted as in progress, so that a stop of the engine can wait for it. After an
//! error of a statement the transaction still runs: its owner aborts it.

mod acting;
mod alter_table;
mod analyze;
mod automatic;
mod backup;
mod catalog_rows;
mod changes;
mod collation_ddl;
mod collations;
mod column_ddl;
mod column_stats;
mod column_storage;
mod concurrent_indexes;
mod conflicts;
mod counting;
mod database_locale;
mod databases;
mod definitions;
mod ending;
mod entering;
mod explicit;
mod handoff;
mod heap_checks;
mod index_checks;
mod index_constraints;
mod index_entries;
mod index_scan;
mod indexes;
mod isolation;
mod key_changes;
mod key_events;
mod key_tables;
mod known_path;
mod known_sequences;
mod like;
mod locks;
mod marks;
mod oldest_ids;
mod open;
mod owned;
mod parallel;
mod parameters;
mod parts;
mod path;
mod pool;
mod referred;
mod reindex_concurrently;
mod relation_ddl;
mod relation_kinds;
mod roles;
mod rows;
mod scan;
mod schemas;
mod sequence_ddl;
mod sequences;
mod spill;
mod state;
mod stored;
mod subtransactions;
mod table_files;
mod tables;
mod tablespaces;
mod temp;
mod temp_tables;
mod toast;
mod toast_tables;
mod transaction;
mod truncate;
mod vacuum;
mod waiting;
mod wal;
mod warm;

pub use analyze::AnalyzeOptions;
pub use backup::BackupEnd;
pub use changes::{RowOutcome, RowWait};
pub use collation_ddl::{CollationDef, CollationName};
pub use conflicts::Inserted;
pub use entering::{SettingOf, StoredSetting};
pub use explicit::{AdvisoryKey, AdvisoryScope};
pub use forebay_storage::PrewarmMode;
pub use handoff::{Handoff, Sender};
pub use heap_checks::TableCheckOptions;
pub use index_checks::IndexCheckOptions;
pub use index_scan::{BitmapRows, IndexBitmap, IndexEntry, IndexRows, IndexScanOptions};
pub use isolation::StatementSnapshot;
pub use key_changes::{Due, KeyEvent};
pub use known_path::PathEntry;
pub use open::Isolation;
pub use parallel::{ScanPart, SharedScan, SharedValues};
pub use parts::Part;
pub use pool::{ALL_FORKS, BlockRange};
pub use relation_kinds::NamedRelation;
pub use rows::RowBatch;
pub use scan::HeapScan;
pub use schemas::CommentOn;
pub use sequence_ddl::SequencePersistence;
pub use sequences::{SequenceAccess, SequenceData};
pub use state::Session;
pub use stored::{RowView, StoredRow};
pub use tables::TableFiles;
pub use temp_tables::OnCommit;
pub use toast::{compressed_value, toasted_size};
pub use transaction::{Savepoint, Scan, Statement, Transaction};
pub use vacuum::{Told, VacuumOptions};
