//! Transaction blocks and implicit transactions.
//!
//! Outside a block, the statements of a query string (or those up to a Sync) run in one implicit
//! transaction. BEGIN makes it a block. A failed statement in a block aborts the engine's
//! transaction at once; the block remains, as failed, until the client ends it.

use super::block::TransactionStatus;
use super::sink::{CommandTag, RowSink};
use super::state::Connection;
use crate::error::{Result, SqlError, state};
use crate::parse::{Modes, TransactionStatement};
use forebay_engine::Session;

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

    /// Makes sure that a transaction is running.
    pub(super) fn ensure_transaction(&mut self) -> Result<()> {
        if !self.transaction.running {
            self.host.call_if_any(Session::begin)?;
            self.transaction.running = true;
            self.transaction.read_only = self.transaction.default_read_only;
        }
        Ok(())
    }

    /// A statement begins: a transaction, and a new snapshot in it.
    pub(super) fn start_statement(&mut self) -> Result<()> {
        self.ensure_transaction()?;
        let count = self.host.settings.change_count();
        let changed = self.settings_told.replace(count) != Some(count);
        let told = changed.then(|| self.host.settings.engine());
        self.host.call_if_any(|session| {
            if let Some(settings) = told {
                *session.settings_mut() = settings;
            }
            session.start_command()
        })?;
        Ok(())
    }

    /// Refuses a statement that writes in a read-only transaction.
    pub(super) fn check_writable(&self, command: &str) -> Result<()> {
        if !self.transaction.read_only {
            return Ok(());
        }
        let message = format!("cannot execute {command} in a read-only transaction");
        Err(SqlError::new(state::READ_ONLY_SQL_TRANSACTION, message))
    }

    fn end(&mut self, commit: bool) -> Result<()> {
        // Scans must end before their transaction.
        self.portals.clear();
        self.transaction.block = TransactionStatus::Idle;
        self.transaction.read_only = false;
        let running = std::mem::take(&mut self.transaction.running);
        let ended =
            self.host.call_if_any(if running && commit { Session::commit } else { Session::abort });
        self.host.settings.end_transaction(commit && ended.is_ok());
        ended.map(drop)
    }

    /// Commits the implicit transaction, if one is running outside a block.
    pub(super) fn end_implicit(&mut self) -> Result<()> {
        if self.transaction.block == TransactionStatus::Idle && self.transaction.running {
            return self.end(true);
        }
        Ok(())
    }

    /// The server failed outside any call (a protocol error in mid-statement), or an operation did:
    /// aborts the implicit transaction, or marks the block as failed.
    pub fn fail(&mut self) {
        let in_block = self.in_block();
        if self.transaction.running {
            // If the abort fails too, nothing more can be done here.
            if let Err(e) = self.end(false) {
                tracing::error!("abort failed: {e}");
            }
        } else {
            self.portals.clear();
        }
        if in_block {
            self.transaction.block = TransactionStatus::Failed;
        }
    }

    /// BEGIN, COMMIT, ROLLBACK.
    pub(super) fn transaction_statement(
        &mut self,
        statement: &TransactionStatement,
        sink: &mut dyn RowSink,
    ) -> Result<CommandTag> {
        match statement {
            TransactionStatement::Begin { start, modes } => {
                self.check_not_failed()?;
                if self.in_block() {
                    let message = "there is already a transaction in progress";
                    sink.notice(&SqlError::warning(state::ACTIVE_SQL_TRANSACTION, message))?;
                }
                self.ensure_transaction()?;
                self.transaction.block = TransactionStatus::InBlock;
                self.set_modes(*modes);
                Ok(CommandTag(if *start { "START TRANSACTION" } else { "BEGIN" }.into()))
            }
            TransactionStatement::Commit { chain } => {
                let block = self.check_block(*chain, "COMMIT", sink)?;
                let commit = block != TransactionStatus::Failed;
                self.finish_block(commit, *chain)?;
                Ok(CommandTag(if commit { "COMMIT" } else { "ROLLBACK" }.into()))
            }
            TransactionStatement::Rollback { chain } => {
                self.check_block(*chain, "ROLLBACK", sink)?;
                self.finish_block(false, *chain)?;
                Ok(CommandTag("ROLLBACK".into()))
            }
        }
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
                let message = format!("{verb} AND CHAIN can only be used in transaction blocks");
                return Err(SqlError::new(state::NO_ACTIVE_SQL_TRANSACTION, message));
            }
            let message = "there is no transaction in progress";
            sink.notice(&SqlError::warning(state::NO_ACTIVE_SQL_TRANSACTION, message))?;
        }
        Ok(self.transaction.block)
    }

    fn finish_block(&mut self, commit: bool, chain: bool) -> Result<()> {
        let read_only = self.transaction.read_only;
        if self.transaction.block == TransactionStatus::InBlock
            && let Some(session) = self.host.session_if_any()
        {
            // A rollback need not follow an error, so the command may still be open.
            session.end_command();
        }
        self.end(commit)?;
        if chain {
            self.ensure_transaction()?;
            self.transaction.block = TransactionStatus::InBlock;
            self.transaction.read_only = read_only;
        }
        Ok(())
    }

    fn set_modes(&mut self, modes: Modes) {
        if let Some(read_only) = modes.read_only {
            self.transaction.read_only = read_only;
        }
    }

    /// SET TRANSACTION and SET SESSION CHARACTERISTICS.
    pub(super) fn set_transaction(
        &mut self,
        modes: Modes,
        session: bool,
        sink: &mut dyn RowSink,
    ) -> Result<()> {
        if session {
            if let Some(read_only) = modes.read_only {
                self.transaction.default_read_only = read_only;
            }
            return Ok(());
        }
        if !self.in_block() {
            let message = "SET TRANSACTION can only be used in transaction blocks";
            sink.notice(&SqlError::warning(state::NO_ACTIVE_SQL_TRANSACTION, message))?;
        }
        self.set_modes(modes);
        Ok(())
    }
}
