//! Parsed statements.

use super::alter::AlterTable;
use super::copy::CopyStatement;
use super::cursor::QualifiedName;
use super::drop::DropStatement;
use super::extras::Extras;
use super::index::{CreateIndex, Reindex};
use super::objects::ObjectStatement;
use super::portals::{Declare, Fetch};
use super::sequence::{AlterSequence, CreateSequence};
use super::source::Source;
use super::table::CreateTable;
use super::table_as::CreateTableAs;
use super::vacuum::Vacuum;
use crate::settings::{IsolationLevel, SetScope};
use forebay_engine::LockMode;
use sqlparser::ast;
use std::sync::Arc;

/// A parsed statement.
#[derive(Debug)]
pub enum Kind {
    /// SELECT or VALUES.
    Query(Box<ast::Query>),
    /// INSERT.
    Insert(Box<ast::Insert>, Extras),
    /// CREATE TABLE.
    CreateTable(Box<CreateTable>),
    /// CREATE TABLE AS, SELECT INTO.
    CreateTableAs(Box<CreateTableAs>),
    /// DROP TABLE.
    DropTable(DropStatement),
    /// CREATE INDEX.
    CreateIndex(Box<CreateIndex>),
    /// DROP INDEX.
    DropIndex(DropStatement),
    /// REINDEX.
    Reindex(Reindex),
    /// ALTER TABLE.
    AlterTable(AlterTable),
    /// A statement about a database, a schema, a role, a tablespace, or a comment.
    Object(Box<ObjectStatement>),
    /// COPY.
    Copy(Box<CopyStatement>),
    /// BEGIN, COMMIT and their kind.
    Transaction(TransactionStatement),
    /// CHECKPOINT.
    Checkpoint,
    /// SHOW.
    Show(ShowTarget),
    /// SET; None is DEFAULT.
    Set {
        /// The setting.
        name: String,
        /// The value.
        value: Option<String>,
        /// How far it reaches.
        scope: SetScope,
    },
    /// SET TRANSACTION, SET SESSION CHARACTERISTICS.
    SetTransaction {
        /// The modes.
        modes: Modes,
        /// For the session, not only this transaction.
        session: bool,
    },
    /// SET CONSTRAINTS.
    SetConstraints {
        /// The constraints. None: ALL.
        names: Option<Vec<QualifiedName>>,
        /// DEFERRED, not IMMEDIATE.
        deferred: bool,
    },
    /// RESET; None is ALL.
    Reset(Option<String>),
    /// DISCARD ALL, PLANS, SEQUENCES, TEMP.
    Discard(&'static str),
    /// DEALLOCATE; None is ALL.
    Deallocate(Option<String>),
    /// UPDATE.
    Update(Box<ast::Update>, Extras),
    /// DELETE.
    Delete(Box<ast::Delete>, Extras),
    /// LOCK TABLE.
    Lock(LockTables),
    /// VACUUM.
    Vacuum(Vacuum),
    /// DECLARE.
    Declare(Box<Declare>),
    /// FETCH or MOVE.
    Fetch(Fetch),
    /// CLOSE; None is ALL.
    Close(Option<String>),
    /// EXPLAIN.
    Explain(Box<Explain>),
    /// TRUNCATE.
    Truncate(Truncate),
    /// CREATE SEQUENCE.
    CreateSequence(Box<CreateSequence>),
    /// ALTER SEQUENCE.
    AlterSequence(Box<AlterSequence>),
    /// DROP SEQUENCE.
    DropSequence(DropStatement),
}

/// TRUNCATE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Truncate {
    /// The tables.
    pub names: Vec<QualifiedName>,
    /// RESTART IDENTITY.
    pub restart: bool,
    /// CASCADE.
    pub cascade: bool,
}

/// EXPLAIN.
#[derive(Clone, Debug)]
pub struct Explain {
    /// ANALYZE
    pub analyze: bool,
    /// COSTS
    pub costs: bool,
    /// TIMING
    pub timing: bool,
    /// SUMMARY
    pub summary: bool,
    /// BUFFERS: what was done to pages.
    pub buffers: bool,
    /// IO: what index scans have read ahead.
    pub io: bool,
    /// The statement.
    pub statement: Arc<Kind>,
}

/// A statement and the query string it came from.
#[derive(Clone, Debug)]
pub struct Statement {
    /// What it is.
    pub kind: Arc<Kind>,
    /// Where it came from.
    pub source: Arc<Source>,
}

/// Modes of a transaction, as far as they were written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Modes {
    /// ISOLATION LEVEL.
    pub isolation: Option<IsolationLevel>,
    /// [NOT] DEFERRABLE.
    pub deferrable: Option<bool>,
    /// READ ONLY or READ WRITE.
    pub read_only: Option<bool>,
}

/// LOCK TABLE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockTables {
    /// The tables, in the order in which they are locked.
    pub names: Vec<QualifiedName>,
    /// How.
    pub mode: LockMode,
    /// Fail rather than wait.
    pub nowait: bool,
}

/// Statements that begin, end or divide transactions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransactionStatement {
    /// BEGIN or START TRANSACTION.
    Begin {
        /// Was it START TRANSACTION (it shows in the tag)?
        start: bool,
        /// The modes.
        modes: Modes,
    },
    /// COMMIT or END.
    Commit {
        /// AND CHAIN.
        chain: bool,
    },
    /// ROLLBACK or ABORT.
    Rollback {
        /// AND CHAIN.
        chain: bool,
    },
    /// SAVEPOINT.
    Savepoint(String),
    /// RELEASE.
    Release(String),
    /// ROLLBACK TO.
    RollbackTo(String),
    /// PREPARE TRANSACTION.
    Prepare,
    /// COMMIT PREPARED or ROLLBACK PREPARED.
    FinishPrepared {
        /// The prepared transaction's name.
        name: String,
        /// COMMIT.
        commit: bool,
    },
}

impl TransactionStatement {
    /// Whether it runs in a failed transaction block.
    pub fn leaves_failed(&self) -> bool {
        match self {
            TransactionStatement::Commit { .. }
            | TransactionStatement::Rollback { .. }
            | TransactionStatement::RollbackTo(_)
            | TransactionStatement::Prepare => true,
            TransactionStatement::Begin { .. }
            | TransactionStatement::Savepoint(_)
            | TransactionStatement::Release(_)
            | TransactionStatement::FinishPrepared { .. } => false,
        }
    }
}

/// What SHOW shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShowTarget {
    /// SHOW ALL.
    All,
    /// One setting.
    One(String),
}
