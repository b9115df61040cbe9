//! A session's state: its transaction, locks, settings and resources.

use std::sync::Arc;

use forebay_access::heap::{Heap, ReadAhead};
use forebay_aio::sync::Instant;
use forebay_aio::{self as aio, IoObject, Leftovers, Usage};
use forebay_catalog::KnownTables;
use forebay_catalog::Table;
use forebay_catalog::syscache::KnownRows;
use forebay_format::backup_label::BackupLabel;
use forebay_format::ids::BLOCK_SIZE;
use forebay_storage::{Backend, TempSpace};
use forebay_txn::locks::{Interrupt, LockError, LockOwner, OwnerId};
use forebay_txn::{self as txn, LastRunning};
use forebay_types::Oid;

use super::known_path::{KnownPath, PathEntry};
use super::known_sequences::SessionSequences;
use super::marks::Mark;
use super::open::Open;
use super::roles::Acting;
use super::temp_tables::TempTables;
use super::toast_tables::ToastTables;
use crate::autovacuum::balance::WorkerCosts;
use crate::checkpoint;
use crate::checkpointer::Causes;
use crate::config::{Background, SessionSettings};
use crate::core::{Core, InDatabase};
use crate::engine::Engine;
use crate::error::EngineError;
use crate::registry::{Entry, ShownTransaction};
use crate::relation_stats::SessionCounts;
use crate::warning::Warning;

/// A connection's session. Dropping it aborts its transaction.
#[derive(Debug)]
pub struct Session {
    /// The engine, which it keeps open. None: it is the engine's own.
    engine: Option<Arc<Engine>>,
    /// The engine, and the database in it.
    pub(super) core: Arc<InDatabase>,
    pub(super) backend: Backend,
    pub(super) id: u32,
    pub(super) interrupt: Interrupt,
    pub(super) settings: SessionSettings,
    /// The role as which its statements run.
    pub(super) acting: Acting,
    pub(super) open: Option<Open>,
    /// Where others see which transaction it runs.
    pub(super) shown: Arc<ShownTransaction>,
    pub(super) locks: LockOwner,
    /// What its transactions counted, for statistics.
    pub(super) counted: SessionCounts,
    pub(super) known: KnownTables,
    pub(super) known_rows: KnownRows,
    /// The search path by which the known tables were found.
    pub(super) known_in: Arc<[PathEntry]>,
    pub(super) known_path: KnownPath,
    pub(super) last_running: LastRunning,
    pub(super) temp: TempTables,
    pub(super) temp_space: Arc<TempSpace>,
    pub(super) toast_tables: ToastTables,
    /// Values that it got of sequences, and those that it has taken.
    pub(super) sequences: SessionSequences,
    /// Warnings of transactions that have ended, and of vacuums.
    pub(super) warnings: Vec<Warning>,
    /// Collations of whose versions the client was warned.
    pub(super) warned_collations: Vec<Oid>,
    /// Warnings of I/O that statements left open.
    pub(super) leftovers: Leftovers,
    /// What pages cost, if it is a worker of autovacuum.
    pub(super) costs: Option<WorkerCosts>,
    /// The label of a base backup that it has begun.
    pub(super) backup: Option<BackupLabel>,
}

impl Session {
    /// A session that has entered a database: a client's, or one of autovacuum.
    pub(super) fn new(
        place: InDatabase,
        engine: Option<Arc<Engine>>,
        (entry, interrupt): (Entry, Interrupt),
        backend: Backend,
    ) -> Session {
        let Entry { id, slot, shown, progress: _ } = entry;
        let core = Arc::new(place);
        let (locks, counted) = (core.locks.enter(OwnerId(id)), core.statistics.enter(id));
        Session {
            engine,
            backend,
            id,
            interrupt,
            settings: core.config.session.clone(),
            acting: Acting::logged_in(&core),
            open: None,
            shown,
            locks,
            counted,
            known: KnownTables::default(),
            known_rows: KnownRows::default(),
            known_in: Arc::default(),
            known_path: KnownPath::default(),
            last_running: LastRunning::default(),
            warnings: Vec::new(),
            warned_collations: Vec::new(),
            leftovers: Leftovers::default(),
            temp: TempTables::new(slot),
            temp_space: TempSpace::new(),
            toast_tables: ToastTables::default(),
            sequences: SessionSequences::default(),
            costs: None,
            backup: None,
            core,
        }
    }

    /// The engine it belongs to.
    pub fn engine(&self) -> &Arc<Engine> {
        self.engine.as_ref().expect("clients never get a session of autovacuum")
    }

    /// Whether it is a worker of autovacuum.
    pub(super) fn is_autovacuum(&self) -> bool {
        self.engine.is_none()
    }

    /// Its number, which pg_backend_pid() shows. Unique while it lives.
    pub fn id(&self) -> i32 {
        i32::try_from(self.id).unwrap_or(i32::MAX)
    }

    /// The settings that it has now.
    pub fn settings(&self) -> &SessionSettings {
        &self.settings
    }

    /// The settings that it may change for itself. They apply from the next statement on.
    pub fn settings_mut(&mut self) -> &mut SessionSettings {
        &mut self.settings
    }

    /// Its I/O handles, for a caller that does I/O of its own within its statements. What a
    /// statement leaves open is closed at its end, with a warning.
    pub fn io(&mut self) -> &mut aio::IoBackend {
        &mut self.backend.io
    }

    /// What this session has done to pages of its own so far: of permanent relations, and of
    /// temporary ones.
    pub fn page_usage(&self) -> [Usage; 2] {
        [IoObject::Relation, IoObject::TempRelation].map(|object| self.backend.io.usage(object))
    }

    /// Its interrupt, through which another thread asks it to stop. `Cancel` makes the running
    /// statement fail with 57014; the caller clears it with `clear_cancel` between statements.
    /// `Terminate` makes everything fail with 57P01.
    pub fn interrupt(&self) -> &Interrupt {
        &self.interrupt
    }

    /// Fails with 57014 after a cancel, with 57P01 if the engine is stopping, or with 57P02 if it
    /// has stopped after a failure.
    pub fn check_cancel(&self) -> Result<(), EngineError> {
        check_interrupt(&self.core, &self.interrupt)
    }

    /// Sleeps until `end`. Fails early as soon as `check_cancel` would fail.
    pub fn sleep_until(&self, end: Instant) -> Result<(), EngineError> {
        self.core.check_running()?;
        self.interrupt.sleep_until(end).map_err(|kind| LockError::Interrupted(kind).into())
    }

    /// Starts a transaction, in READ COMMITTED. An error if one is running.
    pub fn begin(&mut self) -> Result<(), EngineError> {
        self.core.check_running()?;
        if self.open.is_some() {
            return Err(EngineError::statement(
                "25001",
                "there is already a transaction in progress",
            ));
        }
        self.shown.begin();
        let mut open = Open::begin(&self.core, self.id);
        open.tx.set_role(self.acting.role);
        if !self.settings.track_counts {
            open.tx.counts().disable();
        }
        self.open = Some(open);
        Ok(())
    }

    /// Starts a statement of the transaction, which sees what earlier ones wrote. Its snapshot is
    /// taken when it first reads rows, so it sees what was committed while it waited for its locks.
    pub fn start_command(&mut self) -> Result<(), EngineError> {
        self.check_cancel()?;
        self.backend.policy = self.settings.read_policy();
        self.locks.timeout = self.settings.lock_timeout();
        self.locks.deadlock_timeout = self.settings.deadlock_timeout;
        let open = self.running()?;
        open.tx.next_command()?;
        open.snapshots.next_statement();
        open.forget_tables();
        Ok(())
    }

    /// The mark of the innermost open level.
    pub(super) fn mark(&mut self) -> Result<Mark, EngineError> {
        let session = self.id;
        Ok(self.running()?.mark(session))
    }

    /// Fails (24000) unless the mark is one of the running transaction, and was not rolled back.
    pub(super) fn check_mark(
        &self,
        mark: &Mark,
        what: impl FnOnce() -> String,
    ) -> Result<(), EngineError> {
        if self.open.is_some() && mark.is_of(self.id) {
            return Ok(());
        }
        let message = format!("{} cannot be used after its transaction has ended", what());
        Err(EngineError::statement("24000", message))
    }

    /// Runs a call into the engine. Checks for a stop or a cancel first, and counts the call as in
    /// progress, so that a stop waits for it. A fatal error stops the engine.
    pub(super) fn call<T>(
        &mut self,
        body: impl FnOnce(&mut Session, &InDatabase) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        self.check_cancel()?;
        self.call_to_the_end(body)
    }

    /// The same for a call that neither a cancel nor the end of the session may prevent.
    pub(super) fn call_to_the_end<T>(
        &mut self,
        body: impl FnOnce(&mut Session, &InDatabase) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        let core = Arc::clone(&self.core);
        let _activity = core.activity.enter()?;
        body(self, &core).map_err(|error| core.fatal.check(error))
    }

    /// Ends a statement that succeeded: gives up its snapshot, returns I/O handles that it leaked,
    /// and submits what it staged. Open scans keep their snapshots, and their I/O stays in flight.
    pub fn end_command(&mut self) {
        if let Some(open) = &mut self.open {
            open.snapshots.next_statement();
        }
        let left = self.backend.io.end_of_statement();
        self.leftovers = self.leftovers.and(left);
    }

    /// Takes its warnings: of damaged pages that its reads accepted, of ids that run short, of what
    /// statements and commits left open.
    pub fn take_warnings(&mut self) -> Vec<Warning> {
        let mut warnings: Vec<Warning> =
            self.backend.take_read_warnings().into_iter().map(Warning::from).collect();
        warnings.append(&mut self.warnings);
        if let Some(open) = &mut self.open {
            warnings.extend(open.take_warnings());
        }
        let leftovers = std::mem::take(&mut self.leftovers);
        warnings.extend(leftovers.warnings().map(Warning::new));
        warnings
    }

    /// Whether its reads accept damaged pages, so that there may be warnings.
    pub fn accepts_damage(&self) -> bool {
        self.settings.zero_damaged_pages || self.settings.ignore_checksum_failure
    }

    /// Whether a transaction is running.
    pub fn in_transaction(&self) -> bool {
        self.open.is_some()
    }

    /// Whether the running transaction has changed the catalogs. If not, a table that it has locked
    /// is as it was when it was locked.
    pub fn has_changed_catalogs(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.changed_catalogs)
    }

    /// The transaction's id, if it has written.
    pub fn transaction_id(&self) -> Option<u32> {
        self.open.as_ref().and_then(|open| open.tx.xid())
    }

    /// The heap of a table, in the shared pool or in the session's own. Another session's temporary
    /// table is refused.
    pub(super) fn heap(&mut self, core: &InDatabase, table: &Table) -> Result<Heap, EngineError> {
        let pool = self.pool_of(core, table)?;
        Ok(Heap { pool, ..core.database.heap(table) })
    }

    /// Whether it is not another session's temporary table.
    pub fn owns(&self, table: &Table) -> bool {
        self.check_own(table).is_ok()
    }

    /// Refuses another session's temporary table.
    pub(super) fn check_own(&self, table: &Table) -> Result<(), EngineError> {
        self.check_own_to("access", table)
    }

    /// The same, with what is to be done to the table.
    pub(super) fn check_own_to(&self, verb: &str, table: &Table) -> Result<(), EngineError> {
        match table.temp {
            Some(slot) if !self.temp.owns(slot) => {
                let message = format!("cannot {verb} temporary tables of other sessions");
                Err(EngineError::statement("0A000", message))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn running(&mut self) -> Result<&mut Open, EngineError> {
        self.open.as_mut().ok_or_else(no_transaction)
    }

    /// The running transaction, for a change of the catalogs. It looks past the shared cache from
    /// now on.
    pub(super) fn changing(
        &mut self,
    ) -> Result<(&mut txn::Transaction, &mut Backend), EngineError> {
        let Session { open: Some(open), backend, .. } = self else { return Err(no_transaction()) };
        open.changed_catalogs = true;
        open.forget_tables();
        Ok((&mut open.tx, backend))
    }

    /// The same, for a change of a table's figures and statistics alone, which a lone ANALYZE does
    /// not read. Later statements of a transaction block look past the shared cache, to find the
    /// statistics that are not committed yet.
    pub(super) fn changing_figures(
        &mut self,
    ) -> Result<(&mut txn::Transaction, &mut Backend), EngineError> {
        let Session { open: Some(open), backend, .. } = self else { return Err(no_transaction()) };
        if !open.alone {
            open.changed_catalogs = true;
            open.forget_tables();
        }
        Ok((&mut open.tx, backend))
    }

    /// How the session's scans read ahead. The I/O layer gets the same limit for merging.
    pub(super) fn read_ahead(&mut self) -> ReadAhead {
        let combine =
            self.settings.io_combine_limit.min(self.core.config.io_max_combine_limit).max(1);
        self.backend.io.set_combine_limit(combine.saturating_mul(BLOCK_SIZE));
        ReadAhead {
            io_concurrency: u32::try_from(self.settings.effective_io_concurrency)
                .unwrap_or(u32::MAX),
            combine_limit: u32::try_from(combine).unwrap_or(1),
        }
    }

    /// Requests a checkpoint and waits for it.
    pub fn checkpoint(&mut self) -> Result<(), EngineError> {
        self.checkpoint_for(Causes::DEMAND)
    }

    pub(super) fn checkpoint_for(&mut self, causes: Causes) -> Result<(), EngineError> {
        self.check_cancel()?;
        let requests = &self.core.checkpointer.requests;
        let number = requests.ask(causes);
        if self.core.config.background == Background::Stepped {
            checkpoint::step(&self.core.core, &mut self.backend);
        }
        match requests.wait_for(number, || self.check_cancel())? {
            Ok(()) => Ok(()),
            Err(reason) => Err(EngineError::statement("XX000", "checkpoint request failed")
                .with_detail(reason)
                .with_hint("Consult recent messages in the server log for details.")),
        }
    }
}

/// Fails if the engine is stopping or has stopped, or if a session is to give up.
pub(super) fn check_interrupt(core: &Core, interrupt: &Interrupt) -> Result<(), EngineError> {
    core.check_running()?;
    match interrupt.pending() {
        Some(kind) => Err(LockError::Interrupted(kind).into()),
        None => Ok(()),
    }
}

pub(super) fn no_transaction() -> EngineError {
    EngineError::statement("25P01", "there is no transaction in progress")
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Err(error) = self.abort() {
            tracing::warn!("{error}");
        }
        self.leave_temp();
        self.leave_backup();
        self.core.locks.leave(&self.locks);
        self.core.statistics.leave(self.id);
        self.core.sessions.leave(self.id);
    }
}
