//! A client's connection: what the server drives.
//!
//! - `state.rs`: Connection: its state, and what every operation goes through
//! - `script.rs`: the simple protocol
//! - `extended.rs`: the extended protocol: prepared statements and portals
//! - `statement.rs`, `block.rs`: what a connection keeps: planned statements, portals,
//!   its transaction block
//! - `explain.rs`: EXPLAIN
//! - `indexes.rs`: CREATE INDEX, DROP INDEX, REINDEX, and the keys of tables
//! - `foreign_keys.rs`: adding foreign keys; `key_events.rs`: enforcing them, SET CONSTRAINTS
//! - `parameters.rs`: SET and RESET of storage parameters
//! - `held.rs`: statements and portals by name, within a session's memory; `portals.rs`: portals
//!   and when they end
//! - `query_rows.rs`: the rows of a query's portal, forward and backward
//! - `declare.rs`, `fetch.rs`: DECLARE and CLOSE, FETCH and MOVE
//! - `alter.rs`: ALTER TABLE; `alter_columns.rs`: its actions on columns, defaults, checks, names;
//!   `alter_type.rs`: types; `alter_identity.rs`: identity, generation; `alter_relation.rs`:
//!   owners, schemas, constraints' names; `alter_files.rs`: new files; `rewrite.rs`: rows written
//!   anew
//! - `table_columns.rs`: columns, defaults and checks of new tables; `table_as.rs`: CREATE TABLE
//!   AS; `like.rs`: LIKE
//! - `truncate.rs`: TRUNCATE; `sequences.rs`: CREATE, ALTER and DROP SEQUENCE
//! - `transaction.rs`: transaction blocks and implicit transactions; `savepoints.rs`: their
//!   savepoints
//! - `prepared.rs`: statements planned, and kept up to date
//! - `run.rs`: running them
//! - `utility.rs`: running those that are no query; `lock.rs`: LOCK TABLE; `vacuum.rs`: VACUUM,
//!   ANALYZE
//! - `objects.rs`: databases, schemas, tablespaces, comments; `collations.rs`: collations;
//!   `roles.rs`: roles, stored settings; `passwords.rs`: their verifiers
//! - `copy.rs`: COPY; `copy_in.rs`: COPY FROM STDIN, waiting for data
//! - `outcome.rs`: what a statement came to
//! - `sink.rs`: RowSink and what passes through it
//!
//! Simple protocol: `start_script`, then `step` until `Step::Finished`; every statement of the
//! string runs in one implicit transaction. Extended protocol: `parse`, `bind`, `describe_*`,
//! `execute`, `close_*`, `sync`. When an operation returns an error, the connection has already
//! aborted its implicit transaction or marked the explicit one as failed; the server sends the
//! error and (extended) skips to Sync.

mod alter;
mod alter_columns;
mod alter_files;
mod alter_identity;
mod alter_relation;
mod alter_type;
mod block;
mod collations;
mod copy;
mod copy_in;
mod declare;
mod explain;
mod extended;
mod fetch;
mod foreign_keys;
mod held;
mod index_keys;
mod indexes;
mod key_events;
mod key_plans;
mod like;
mod lock;
mod objects;
mod outcome;
mod parameters;
mod passwords;
mod portals;
mod prepared;
mod query_rows;
mod rewrite;
mod roles;
mod run;
mod savepoints;
mod script;
mod sequences;
mod sink;
mod state;
mod statement;
mod table_as;
mod table_columns;
mod transaction;
mod truncate;
mod utility;
mod vacuum;

pub use crate::column::ColumnDesc;
pub use crate::exec::Identity;
pub use block::TransactionStatus;
pub use copy_in::CopyIn;
pub use outcome::{Executed, Step};
pub use script::Script;
pub use sink::{CommandTag, Format, RowRef, RowSink};
pub use state::Connection;
