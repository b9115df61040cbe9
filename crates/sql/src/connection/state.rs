//! A connection's state, and what all operations on it share.

use super::block::{Transaction, TransactionStatus};
use super::held::{self, Held};
use super::key_plans::KeyPlans;
use super::portals::Portals;
use super::sink::RowSink;
use super::statement::Prepared;
use crate::error::{Result, SqlError};
use crate::exec::{Host, Identity};
use crate::settings::Settings;
use forebay_engine::{Session, Warning};
use std::sync::Arc;

/// A session of SQL over the engine.
pub struct Connection {
    // Portals hold scans, which must be dropped before the session.
    pub(super) portals: Portals,
    pub(super) prepared: Held<Arc<Prepared>>,
    pub(super) transaction: Transaction,
    /// Statements that foreign keys run.
    pub(super) key_plans: KeyPlans,
    /// The settings' change count when they were last handed to the engine's session.
    pub(super) settings_told: Option<u64>,
    /// FETCHes that run in one another: the portal of a FETCH can be fetched from.
    pub(super) fetches: u32,
    /// Cancels are not forgotten between messages.
    keeps_cancels: bool,
    pub(super) host: Host,
}

impl Connection {
    /// A connection over an engine session.
    pub fn new(session: Session, settings: Box<dyn Settings>, identity: Identity) -> Connection {
        let host = Host::new(Some(session), settings, identity);
        Connection {
            portals: Portals::new(held::MOST),
            prepared: Held::new(held::MOST),
            transaction: Transaction::default(),
            key_plans: KeyPlans::default(),
            settings_told: None,
            fetches: 0,
            keeps_cancels: false,
            host,
        }
    }

    /// For ReadyForQuery.
    pub fn transaction_status(&self) -> TransactionStatus {
        self.transaction.block
    }

    /// The session's settings.
    pub fn settings(&mut self) -> &mut dyn Settings {
        &mut *self.host.settings
    }

    /// The name of the role that it is logged in as.
    pub fn user(&self) -> &str {
        &self.host.identity.user
    }

    /// The name of its database.
    pub fn database(&self) -> &str {
        &self.host.identity.database
    }

    /// The engine's session, if there is one.
    pub fn session(&mut self) -> Option<&mut Session> {
        self.host.session_if_any()
    }

    /// Ends a statement, and sends its warnings.
    pub(super) fn end_statement(&mut self, sink: &mut dyn RowSink) -> Result<()> {
        if let Some(session) = self.host.session_if_any() {
            session.end_command();
        }
        self.send_warnings(sink)
    }

    /// Sends warnings of the engine that arose outside of a statement, such as after `sync`.
    pub fn send_warnings(&mut self, sink: &mut dyn RowSink) -> Result<()> {
        tell(&mut self.host, sink)
    }

    /// Forgets a cancel that came before. With `keep`, none that comes later is forgotten until the
    /// next call: a statement timeout runs from Parse to Execute, and may end a statement between
    /// two messages.
    pub fn keep_cancels(&mut self, keep: bool) {
        self.keeps_cancels = false;
        self.clear_cancel();
        self.keeps_cancels = keep;
    }

    /// Forgets a cancel that came between statements.
    pub(super) fn clear_cancel(&mut self) {
        if self.keeps_cancels {
            return;
        }
        if let Some(session) = self.host.session_if_any() {
            session.interrupt().clear_cancel();
        }
    }

    /// Runs an operation; if it fails, so does the transaction.
    pub(super) fn guard<T>(
        &mut self,
        operation: impl FnOnce(&mut Connection) -> Result<T>,
    ) -> Result<T> {
        let result = operation(self);
        if result.is_err() {
            self.fail();
        }
        result
    }

    /// Like `guard`, for an operation that may have warned: warnings are sent before the error.
    pub(super) fn guard_told<T>(
        &mut self,
        sink: &mut dyn RowSink,
        operation: impl FnOnce(&mut Connection, &mut dyn RowSink) -> Result<T>,
    ) -> Result<T> {
        let result = self.guard(|conn| operation(conn, &mut *sink));
        if result.is_err() {
            // If it can't be sent, neither can the error.
            let _ = tell(&mut self.host, sink);
        }
        result
    }

    /// Aborts what is open; the client has gone.
    pub fn close(mut self) {
        self.portals.clear();
        // So that a failure ends everything.
        self.transaction.block = TransactionStatus::Idle;
        self.fail();
    }
}

/// Sends warnings of functions, and of damaged pages that were read nevertheless.
pub(super) fn tell(host: &mut Host, sink: &mut dyn RowSink) -> Result<()> {
    host.take_warnings().iter().try_for_each(|warning| sink.notice(warning))?;
    let Some(session) = host.session_if_any() else { return Ok(()) };
    for Warning { sqlstate, message, detail, hint } in session.take_warnings() {
        sink.notice(&SqlError::warning(sqlstate, message).explained(detail, hint))?;
    }
    Ok(())
}
