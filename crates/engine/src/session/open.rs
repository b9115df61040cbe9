//! A running transaction, as its session keeps it.

use std::collections::HashMap;
use std::sync::Arc;

use forebay_access::heap::RowSets;
use forebay_catalog::{SequenceInfo, Table};
use forebay_txn::{self as txn, LastRunning, Running, Snapshot};
use forebay_types::Oid;

use super::key_events::{EventMark, KeyEvents};
use super::marks::{Mark, Tokens};
use super::toast_tables::ToastTables;
use crate::core::InDatabase;
use crate::error::EngineError;
use crate::warning::Warning;

/// A running transaction with what the session adds to it.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) tx: txn::Transaction,
    /// Its use of MultiXacts. It ends when this is dropped, after the transaction has ended.
    pub(super) sets: RowSets,
    pub(super) snapshots: Snapshots,
    top: Level,
    /// The subtransactions that are open in the transaction, outermost first.
    subs: Vec<Level>,
    /// Whether it has changed the catalogs. If so it looks past the shared cache.
    pub(super) changed_catalogs: bool,
    /// Whether it runs for one ANALYZE, which changes no more than figures and statistics.
    pub(super) alone: bool,
    /// Tables that a transaction with changed catalogs has found since its last change or
    /// statement, by schema and name.
    pub(super) own_tables: HashMap<(String, String), Arc<Table>>,
    /// TOAST tables that it has found, likewise.
    pub(super) own_toast: ToastTables,
    /// Databases that it has made: their directories go if it aborts.
    pub(super) new_databases: Vec<Oid>,
    /// Tablespaces that it has made, likewise.
    pub(super) new_tablespaces: Vec<Oid>,
    /// Tablespaces that it drops: they go when it has committed.
    pub(super) dropped_tablespaces: Vec<Oid>,
    /// The checks of keys that are still to be made.
    pub(super) keys: KeyEvents,
    /// Whether its commit waits for the log, whatever synchronous_commit says.
    pub(super) forces_sync: bool,
    /// Sequences that it has found, likewise.
    pub(super) own_sequences: HashMap<Oid, Arc<SequenceInfo>>,
    /// The cache's version when they were found. Another transaction's change moves it.
    pub(super) found_at: u64,
}

/// The transaction itself, or a subtransaction that is open in it.
#[derive(Debug, Default)]
struct Level {
    /// Of a subtransaction: the events when it began.
    events: Option<EventMark>,
    tokens: Tokens,
    /// Whether the catalogs had been changed when it began.
    changed_catalogs: bool,
}

impl Open {
    /// A transaction of a session that begins.
    pub(super) fn begin(core: &InDatabase, session: u32) -> Open {
        Open {
            tx: core.database.transaction().with_role(core.role).of_backend(session),
            sets: core.heaps.outcomes.sets(),
            snapshots: Snapshots::default(),
            top: Level::default(),
            subs: Vec::new(),
            changed_catalogs: false,
            alone: false,
            own_tables: HashMap::new(),
            own_toast: ToastTables::default(),
            new_databases: Vec::new(),
            new_tablespaces: Vec::new(),
            dropped_tablespaces: Vec::new(),
            keys: KeyEvents::default(),
            forces_sync: false,
            own_sequences: HashMap::new(),
            found_at: 0,
        }
    }

    /// What it has found in the catalogs may have changed.
    pub(super) fn forget_tables(&mut self) {
        self.own_tables.clear();
        self.own_toast = ToastTables::default();
        self.own_sequences.clear();
    }

    /// Takes the warnings about ids that it was given.
    pub(super) fn take_warnings(&mut self) -> impl Iterator<Item = Warning> {
        let warnings = self.tx.take_warnings().into_iter().chain(self.sets.take_warnings());
        warnings.map(Warning::from)
    }

    /// The innermost open subtransaction, or the transaction itself.
    fn innermost(&mut self) -> &mut Level {
        self.subs.last_mut().unwrap_or(&mut self.top)
    }

    /// A mark of what the session makes now.
    pub(super) fn mark(&mut self, session: u32) -> Mark {
        Mark::new(session, &mut self.innermost().tokens)
    }

    pub(super) fn begin_sub(&mut self) {
        self.tx.begin_sub();
        let Open { changed_catalogs, .. } = *self;
        let level = Level { events: Some(self.keys.mark()), changed_catalogs, ..Level::default() };
        self.subs.push(level);
    }

    /// Fails (XX000) unless a subtransaction is open.
    pub(super) fn check_sub(&self) -> Result<(), EngineError> {
        debug_assert_eq!(self.subs.len(), self.tx.depth());
        match self.subs.is_empty() {
            true => Err(EngineError::internal("no subtransaction is open")),
            false => Ok(()),
        }
    }

    pub(super) fn release_sub(&mut self) {
        self.tx.release_sub();
        let released = self.pop();
        self.innermost().tokens.take_over(released.tokens);
    }

    /// The innermost subtransaction has aborted in `tx`.
    pub(super) fn sub_aborted(&mut self) {
        self.snapshots.next_statement();
        let aborted = self.pop();
        self.changed_catalogs = aborted.changed_catalogs;
        if let Some(events) = aborted.events {
            self.keys.go_back(events);
        }
    }

    fn pop(&mut self) -> Level {
        self.forget_tables();
        self.subs.pop().expect("a subtransaction is open")
    }
}

/// What a transaction sees of others that commit while it runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isolation {
    /// Each statement sees what was committed before it began.
    #[default]
    ReadCommitted,
    /// All statements see what was committed before the first of them began. A row that another
    /// transaction has changed since then cannot be changed or locked (40001).
    RepeatableRead,
}

/// The snapshots of a transaction.
#[derive(Debug, Default)]
pub(super) struct Snapshots {
    pub(super) isolation: Isolation,
    /// Whether it has taken one.
    pub(super) taken: bool,
    /// The running statement's, once it has asked for it.
    pub(super) statement: Option<Snapshot>,
    /// If that is an earlier statement's, the mark of the level which that ran in.
    pub(super) earlier: Option<Mark>,
    /// What all its snapshots count as running: in REPEATABLE READ, from the first one on.
    kept: Option<Arc<Running>>,
    /// In REPEATABLE READ: the running statement sees what has committed by now, and what it
    /// changes must be what the transaction sees (a foreign key's action).
    pub(super) newest: bool,
}

impl Snapshots {
    /// A statement begins or ends. The next one takes its own.
    pub(super) fn next_statement(&mut self) {
        (self.statement, self.earlier, self.newest) = (None, None, false);
    }

    /// What the transaction sees in REPEATABLE READ, if the running statement sees more.
    pub(super) fn crosscheck(&self, tx: &txn::Transaction) -> Option<Snapshot> {
        let kept = self.kept.as_ref().filter(|_| self.newest)?;
        Some(Snapshot::new(Arc::clone(kept), tx))
    }

    /// The running statement's.
    pub(super) fn get(
        &mut self,
        core: &InDatabase,
        tx: &txn::Transaction,
        last: &mut LastRunning,
    ) -> &Snapshot {
        let Snapshots { isolation, taken, statement, earlier: _, kept, newest } = self;
        statement.get_or_insert_with(|| {
            *taken = true;
            match isolation {
                Isolation::ReadCommitted => core.xacts.snapshot_since(tx, last),
                Isolation::RepeatableRead if *newest => core.xacts.snapshot_since(tx, last),
                Isolation::RepeatableRead => {
                    let now = || core.xacts.procs().running_since(last, tx.database());
                    Snapshot::new(Arc::clone(kept.get_or_insert_with(now)), tx)
                }
            }
        })
    }
}
