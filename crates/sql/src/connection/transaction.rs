//! Transaction blocks and implicit transactions.
//!
//! Outside a block, the statements of a query string (or those up to a Sync) run in one implicit
//! transaction. BEGIN makes it a block. A failed statement in a block aborts the engine's
//! transaction at once, or its innermost subtransaction if there is a savepoint. The block remains,
//! as failed, until the client ends it or goes back to a savepoint.

use super::block::TransactionStatus;
use super::sink::{CommandTag, RowSink};
use super::state::Connection;
use crate::error::{Result, SqlError, state};
use crate::parse::{AlterAction, Kind, Modes, TransactionStatement};
use crate::settings::{IsolationLevel, SetScope, TransactionModes};
use forebay_engine::Session;

/// Whether a statement needs no privileges, or only those of an owner, which are looked at where it
/// uses something.
fn is_for_all(kind: &Kind) -> bool {
    match kind {
        Kind::Vacuum(_) | Kind::Checkpoint | Kind::Reindex(_) | Kind::Object(_) => false,
        Kind::AlterTable(alter) => {
            !alter.actions.iter().any(|action| matches!(action, AlterAction::Owner(_)))
        }
        _ => true,
    }
}

/// Whether a statement needs a snapshot before it is planned, as most do: then the modes of its
/// transaction stand, and that of REPEATABLE READ sees what has committed by now.
fn needs_snapshot(kind: &Kind) -> bool {
    !matches!(
        kind,
        Kind::Transaction(_)
            | Kind::Checkpoint
            | Kind::Show(_)
            | Kind::Set { .. }
            | Kind::SetTransaction { .. }
            | Kind::SetConstraints { .. }
            | Kind::Reset(_)
            | Kind::Lock(_)
            | Kind::Vacuum(_)
            | Kind::Fetch(_)
    )
}

impl Connection {
    /// Refuses all but the end of a failed block.
    pub(super) fn check_not_failed(&self) -> Result<()> {
        if self.transaction.block != TransactionStatus::Failed {
            return Ok(());
        }
        let message =
            "current transaction is aborted, commands ignored until end of transaction block";
        Err(SqlError::new(state::IN_FAILED_SQL_TRANSACTION, message))
    }

    /// Is the connection in an explicit block?
    pub(super) fn in_block(&self) -> bool {
        self.transaction.block != TransactionStatus::Idle
    }

    /// Is it in a block, or in an implicit transaction of several statements?
    pub(super) fn in_any_block(&self) -> bool {
        self.in_block() || self.transaction.implicit_block
    }

    /// Refuses a statement that has an effect only in a block.
    pub(super) fn require_block(&self, what: &str) -> Result<()> {
        if self.in_any_block() { Ok(()) } else { Err(SqlError::new(NO_BLOCK, only_in_block(what))) }
    }

    /// Warns of such a statement, which is run nevertheless.
    pub(super) fn warn_outside_block(&self, what: &str, sink: &mut dyn RowSink) -> Result<()> {
        if self.in_any_block() {
            return Ok(());
        }
        sink.notice(&SqlError::warning(NO_BLOCK, only_in_block(what)))
    }

    /// Refuses a statement that commits by itself.
    pub(super) fn refuse_in_block(&self, what: &str) -> Result<()> {
        if !self.in_any_block() {
            return Ok(());
        }
        let message = format!("{what} cannot run inside a transaction block");
        Err(SqlError::new(state::ACTIVE_SQL_TRANSACTION, message))
    }

    /// Makes sure that a transaction is running.
    pub(super) fn ensure_transaction(&mut self) -> Result<()> {
        if self.transaction.running {
            return Ok(());
        }
        let count = self.host.settings.change_count();
        if self.transaction.defaults_at.replace(count) != Some(count) {
            self.transaction.defaults = self.host.settings.transaction_defaults();
        }
        let modes = self.transaction.defaults;
        self.start_transaction(modes)
    }

    fn start_transaction(&mut self, modes: TransactionModes) -> Result<()> {
        self.host.call_if_any(Session::begin)?;
        self.transaction.running = true;
        self.host.note_begin();
        self.host.modes.begin(modes);
        self.host.apply_isolation()
    }

    /// A statement begins: a transaction, and a new snapshot in it.
    pub(super) fn start_statement(&mut self, kind: &Kind) -> Result<()> {
        let running = self.transaction.running;
        self.ensure_transaction()?;
        if running {
            self.host.statement_time = self.host.clock();
        }
        let count = self.host.settings.change_count();
        let changed = self.settings_told.replace(count) != Some(count);
        if changed {
            self.host.restyle();
        }
        let told = changed.then(|| self.host.settings.engine());
        let first = needs_snapshot(kind) && self.host.modes.query();
        let repeatable = self.host.modes.now().isolation == IsolationLevel::RepeatableRead;
        self.host.call_if_any(|session| {
            if let Some(settings) = told {
                *session.settings_mut() = settings;
            }
            session.start_command()?;
            if first && repeatable {
                session.statement_snapshot()?;
            }
            Ok::<_, forebay_engine::EngineError>(())
        })?;
        self.host.take_roles()?;
        if self.host.is_superuser() || is_for_all(kind) {
            return Ok(());
        }
        self.host.check_superuser(|| "this statement".to_owned())
    }

    /// Refuses a statement that writes in a read-only transaction.
    pub(super) fn check_writable(&self, command: &str) -> Result<()> {
        if !self.host.modes.now().read_only {
            return Ok(());
        }
        let message = format!("cannot execute {command} in a read-only transaction");
        Err(SqlError::new(state::READ_ONLY_SQL_TRANSACTION, message))
    }

    /// Ends the transaction and the block, whatever subtransactions are open.
    pub(super) fn end(&mut self, commit: bool) -> Result<()> {
        if commit
            && self.transaction.running
            && let Err(error) = self.fire_deferred_events().and_then(|()| self.hold_cursors())
        {
            // The error is what is told.
            let _ = self.end(false);
            return Err(error);
        }
        self.portals.end_scans();
        let ended = self.end_transaction(commit);
        self.portals.transaction_ended(commit && ended.is_ok());
        ended
    }

    /// The same, but for portals. None of them may have a scan.
    fn end_transaction(&mut self, commit: bool) -> Result<()> {
        self.transaction.block = TransactionStatus::Idle;
        self.transaction.implicit_block = false;
        self.transaction.savepoints.clear();
        let running = std::mem::take(&mut self.transaction.running);
        let ended =
            self.host.call_if_any(if running && commit { Session::commit } else { Session::abort });
        self.host.settings.end_transaction(commit && ended.is_ok());
        ended.map(drop)
    }

    /// Aborts the transaction of a block, which stays as failed.
    pub(super) fn fail_block(&mut self) -> Result<()> {
        self.host.modes.fail();
        self.portals.failed(0);
        let ended = self.end_transaction(false);
        self.transaction.block = TransactionStatus::Failed;
        ended
    }

    /// Commits the implicit transaction, if one is running outside a block.
    pub(super) fn end_implicit(&mut self) -> Result<()> {
        if self.transaction.block == TransactionStatus::Idle && self.transaction.running {
            return self.end(true);
        }
        if self.transaction.block == TransactionStatus::Idle {
            // Portals of statements that end a transaction begin none.
            self.portals.transaction_ended(true);
        }
        self.transaction.implicit_block = false;
        Ok(())
    }

    /// The server failed outside any call (a protocol error in mid-statement), or an operation did:
    /// aborts the implicit transaction; or marks the block as failed, and aborts it or its
    /// innermost subtransaction.
    pub fn fail(&mut self) {
        let aborted = match self.transaction.block {
            // It, or its innermost subtransaction, has aborted already.
            TransactionStatus::Failed => Ok(()),
            TransactionStatus::InBlock if self.transaction.savepoints.is_empty() => {
                self.fail_block()
            }
            TransactionStatus::InBlock => {
                self.transaction.block = TransactionStatus::Failed;
                self.abort_innermost()
            }
            TransactionStatus::Idle if self.transaction.running => {
                self.host.modes.fail();
                self.end(false)
            }
            TransactionStatus::Idle => {
                self.transaction.implicit_block = false;
                self.portals.transaction_ended(false);
                Ok(())
            }
        };
        // If the abort fails too, nothing more can be done here.
        if let Err(e) = aborted {
            tracing::error!("abort failed: {e}");
        }
    }

    /// Statements that begin, end or divide transactions.
    pub(super) fn transaction_statement(
        &mut self,
        statement: &TransactionStatement,
        sink: &mut dyn RowSink,
    ) -> Result<CommandTag> {
        if !statement.leaves_failed() {
            self.check_not_failed()?;
        }
        let tag = match statement {
            TransactionStatement::Begin { start, modes } => {
                self.begin_block(*modes, sink)?;
                if *start { "START TRANSACTION" } else { "BEGIN" }
            }
            TransactionStatement::Commit { chain } => {
                let block = self.check_block(*chain, "COMMIT", sink)?;
                let commit = block != TransactionStatus::Failed;
                self.finish_block(commit, *chain)?;
                if commit { "COMMIT" } else { "ROLLBACK" }
            }
            TransactionStatement::Rollback { chain } => {
                self.check_block(*chain, "ROLLBACK", sink)?;
                self.finish_block(false, *chain)?;
                "ROLLBACK"
            }
            TransactionStatement::Savepoint(name) => {
                self.savepoint(name)?;
                "SAVEPOINT"
            }
            TransactionStatement::Release(name) => {
                self.release(name)?;
                "RELEASE"
            }
            TransactionStatement::RollbackTo(name) => {
                self.rollback_to(name)?;
                "ROLLBACK"
            }
            TransactionStatement::Prepare => {
                self.prepare_transaction(sink)?;
                "ROLLBACK"
            }
            TransactionStatement::FinishPrepared { name, commit } => {
                self.refuse_in_block(if *commit {
                    "COMMIT PREPARED"
                } else {
                    "ROLLBACK PREPARED"
                })?;
                let message =
                    format!("prepared transaction with identifier \"{name}\" does not exist");
                return Err(SqlError::new(state::UNDEFINED_OBJECT, message));
            }
        };
        Ok(CommandTag(tag.into()))
    }

    fn begin_block(&mut self, modes: Modes, sink: &mut dyn RowSink) -> Result<()> {
        if self.in_block() {
            let message = "there is already a transaction in progress";
            sink.notice(&SqlError::warning(state::ACTIVE_SQL_TRANSACTION, message))?;
        }
        self.ensure_transaction()?;
        // If they are refused there is no block.
        self.set_modes(modes)?;
        self.transaction.block = TransactionStatus::InBlock;
        Ok(())
    }

    /// PREPARE TRANSACTION: there are no prepared transactions, so the block ends as PostgreSQL
    /// ends it without max_prepared_transactions.
    fn prepare_transaction(&mut self, sink: &mut dyn RowSink) -> Result<()> {
        let block = self.check_block(false, "PREPARE TRANSACTION", sink)?;
        self.finish_block(block == TransactionStatus::Idle, false)?;
        if block != TransactionStatus::InBlock {
            return Ok(());
        }
        let message = "prepared transactions are disabled";
        let hint = "Set \"max_prepared_transactions\" to a nonzero value.";
        Err(SqlError::new(state::OBJECT_NOT_IN_PREREQUISITE_STATE, message).hint(hint))
    }

    /// Warns if there is no block to end.
    fn check_block(
        &mut self,
        chain: bool,
        verb: &str,
        sink: &mut dyn RowSink,
    ) -> Result<TransactionStatus> {
        if !self.in_block() {
            if chain {
                return Err(SqlError::new(NO_BLOCK, only_in_block(&format!("{verb} AND CHAIN"))));
            }
            let message = "there is no transaction in progress";
            sink.notice(&SqlError::warning(state::NO_ACTIVE_SQL_TRANSACTION, message))?;
        }
        Ok(self.transaction.block)
    }

    fn finish_block(&mut self, commit: bool, chain: bool) -> Result<()> {
        let modes = self.host.modes.now();
        if self.transaction.block == TransactionStatus::InBlock {
            self.end_open_command();
        }
        self.end(commit)?;
        if chain {
            self.start_transaction(modes)?;
            self.transaction.block = TransactionStatus::InBlock;
        }
        Ok(())
    }

    /// A rollback need not follow an error, so the command before it may still be open.
    pub(super) fn end_open_command(&mut self) {
        if let Some(session) = self.host.session_if_any() {
            session.end_command();
        }
    }

    fn set_modes(&mut self, modes: Modes) -> Result<()> {
        if let Some(level) = modes.isolation {
            self.host.set_isolation(level)?;
        }
        if let Some(read_only) = modes.read_only {
            self.host.modes.set_read_only(read_only)?;
        }
        modes.deferrable.map_or(Ok(()), |deferrable| self.host.modes.set_deferrable(deferrable))
    }

    /// SET TRANSACTION and SET SESSION CHARACTERISTICS.
    pub(super) fn set_transaction(
        &mut self,
        modes: Modes,
        session: bool,
        sink: &mut dyn RowSink,
    ) -> Result<()> {
        if !session {
            self.warn_outside_block("SET TRANSACTION", sink)?;
            return self.set_modes(modes);
        }
        let on = |on| if on { "on" } else { "off" };
        for (name, value) in [
            ("default_transaction_isolation", modes.isolation.map(IsolationLevel::name)),
            ("default_transaction_read_only", modes.read_only.map(on)),
            ("default_transaction_deferrable", modes.deferrable.map(on)),
        ] {
            if value.is_some() {
                self.host.set(name, value, SetScope::Session)?;
            }
        }
        Ok(())
    }
}

const NO_BLOCK: &str = state::NO_ACTIVE_SQL_TRANSACTION;

fn only_in_block(what: &str) -> String {
    format!("{what} can only be used in transaction blocks")
}
