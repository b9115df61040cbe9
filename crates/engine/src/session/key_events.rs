//! The queue of checks that foreign keys and deferrable keys bring: row changes whose triggers have
//! not fired yet.
//!
//! ```text
//! row changed ─ trigger immediate ─▶ statement's events ─▶ fired at the end of the statement
//!             ─ trigger deferred  ─▶ transaction's events ─▶ SET CONSTRAINTS, or before the commit
//! ```
//!
//! What an event's trigger does changes rows in turn, whose events are added behind it. So a chain
//! of cascades takes no stack. A subtransaction that aborts takes back its events, and those that
//! fired in it are open again. Beyond [`MOST`] events a statement fails.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use forebay_catalog::{KeyTrigger, Table};
use forebay_format::{ItemPointer, RelFileLocator};
use forebay_types::Oid;

use crate::error::EngineError;

/// Most events that wait at a time, of a statement and of a transaction: they take 24 bytes each.
const MOST: usize = 1 << 24;

/// A trigger that has to fire for a row.
#[derive(Clone, Copy, Debug)]
struct Event {
    /// Its place in `KeyEvents::triggers`.
    trigger: u32,
    /// The number of the round in which it fired; 0: it has not.
    fired: u32,
    /// The versions before and after the change.
    old: Option<ItemPointer>,
    new: Option<ItemPointer>,
}

/// When constraints are checked, as SET CONSTRAINTS says.
#[derive(Clone, Debug, Default)]
struct Modes {
    /// ALL: whether deferred.
    all: Option<bool>,
    /// Single constraints, by their OIDs.
    single: HashMap<Oid, bool>,
}

/// What a subtransaction that aborts goes back to.
#[derive(Debug)]
pub(super) struct EventMark {
    deferred: usize,
    round: u32,
    modes: Arc<Modes>,
}

/// The events of a transaction.
#[derive(Debug, Default)]
pub(super) struct KeyEvents {
    triggers: Vec<(Arc<Table>, Arc<KeyTrigger>)>,
    /// Those of the running statement.
    statement: VecDeque<Event>,
    /// Those that wait for the end of the transaction, in order.
    deferred: Vec<Event>,
    /// How far the current round of deferred events has come.
    next: usize,
    round: u32,
    modes: Arc<Modes>,
}

/// The versions of a changed row, with the trigger that has to fire for them.
pub(super) struct FoundEvent {
    pub(super) table: Arc<Table>,
    pub(super) trigger: Arc<KeyTrigger>,
    pub(super) old: Option<ItemPointer>,
    pub(super) new: Option<ItemPointer>,
}

impl Modes {
    fn defers(&self, trigger: &KeyTrigger) -> bool {
        if !trigger.deferrable {
            return false;
        }
        let single = self.single.get(&trigger.constraint).copied();
        single.or(self.all).unwrap_or(trigger.deferred)
    }
}

impl KeyEvents {
    /// Adds an event of a table.
    pub(super) fn add(
        &mut self,
        table: &Arc<Table>,
        trigger: &Arc<KeyTrigger>,
        (old, new): (Option<ItemPointer>, Option<ItemPointer>),
    ) -> Result<(), EngineError> {
        if self.statement.len() >= MOST || self.deferred.len() >= MOST {
            return Err(too_many());
        }
        let number = self.number_of(table, trigger)?;
        let event = Event { trigger: number, fired: 0, old, new };
        match self.modes.defers(trigger) {
            true => self.deferred.push(event),
            false => self.statement.push_back(event),
        }
        Ok(())
    }

    fn number_of(
        &mut self,
        table: &Arc<Table>,
        trigger: &Arc<KeyTrigger>,
    ) -> Result<u32, EngineError> {
        let key = |table: &Table| -> (Oid, RelFileLocator, usize) {
            (table.oid, table.locator, table.columns.len())
        };
        let same = |(known, of): &(Arc<Table>, Arc<KeyTrigger>)| {
            of.oid == trigger.oid && key(known) == key(table)
        };
        let number = match self.triggers.iter().rposition(same) {
            Some(number) => number,
            None => {
                self.triggers.push((Arc::clone(table), Arc::clone(trigger)));
                self.triggers.len() - 1
            }
        };
        u32::try_from(number).map_err(|_| too_many())
    }

    /// A new round of deferred events begins: SET CONSTRAINTS, or the end of the transaction.
    pub(super) fn begin_round(&mut self) {
        (self.next, self.round) = (0, self.round.wrapping_add(1).max(1));
    }

    /// Takes the next event that is due: of the statement, and with `deferred` of the transaction,
    /// all of them (`ends`) or those that SET CONSTRAINTS has made immediate.
    pub(super) fn take(&mut self, deferred: bool, ends: bool) -> Option<FoundEvent> {
        let event = match self.statement.pop_front() {
            Some(event) => event,
            None if deferred => self.take_deferred(ends)?,
            None => return None,
        };
        let (table, trigger) = self.triggers.get(usize::try_from(event.trigger).ok()?)?;
        let (table, trigger) = (Arc::clone(table), Arc::clone(trigger));
        Some(FoundEvent { table, trigger, old: event.old, new: event.new })
    }

    fn take_deferred(&mut self, ends: bool) -> Option<Event> {
        let KeyEvents { triggers, deferred, next, round, modes, .. } = self;
        while let Some(event) = deferred.get_mut(*next) {
            *next += 1;
            let trigger = triggers.get(usize::try_from(event.trigger).ok()?);
            if event.fired == 0 && (ends || trigger.is_some_and(|(_, of)| !modes.defers(of))) {
                event.fired = *round;
                return Some(*event);
            }
        }
        None
    }

    /// Whether events of the statement wait.
    pub(super) fn has_statement(&self) -> bool {
        !self.statement.is_empty()
    }

    /// Whether events wait, of any table or of this one.
    pub(super) fn has_pending(&self, table: Option<Oid>) -> bool {
        let deferred = self.deferred.iter().filter(|event| event.fired == 0);
        self.statement.iter().chain(deferred).any(|event| {
            let of = usize::try_from(event.trigger).ok().and_then(|n| self.triggers.get(n));
            table.is_none_or(|table| of.is_some_and(|(of, _)| of.oid == table))
        })
    }

    /// SET CONSTRAINTS: of these constraints, or None of all.
    pub(super) fn set_modes(&mut self, constraints: Option<&[Oid]>, deferred: bool) {
        let modes = Arc::make_mut(&mut self.modes);
        match constraints {
            None => *modes = Modes { all: Some(deferred), single: HashMap::new() },
            Some(oids) => modes.single.extend(oids.iter().map(|oid| (*oid, deferred))),
        }
    }

    /// A subtransaction begins.
    pub(super) fn mark(&self) -> EventMark {
        let (deferred, modes) = (self.deferred.len(), Arc::clone(&self.modes));
        EventMark { deferred, round: self.round, modes }
    }

    /// A subtransaction has aborted.
    pub(super) fn go_back(&mut self, mark: EventMark) {
        self.statement.clear();
        self.deferred.truncate(mark.deferred);
        self.modes = mark.modes;
        for event in &mut self.deferred {
            if event.fired > mark.round {
                event.fired = 0;
            }
        }
        self.next = 0;
    }
}

#[cold]
fn too_many() -> EngineError {
    EngineError::statement("54000", "too many pending trigger events")
        .with_detail(format!(
            "At most {MOST} checks of keys can wait for the end of a statement or transaction."
        ))
        .with_hint("Change fewer rows at a time.")
}
