//! A client: its session, its transaction, and what the model knows of both.

use std::collections::{BTreeMap, BTreeSet};

use forebay_aio::sync::Arc;
use forebay_engine::{
    Datum, EngineError, Isolation, ItemPointer, LockStrength, RowView, Session, Table,
};
use forebay_testkit::Dice;

use super::committed::{Changes, Committed, Rows, apply};

/// The table whose rows change.
pub(super) const TABLE: &str = "rows";
/// Its third column.
pub(super) const TEXT: i16 = 3;

/// The transaction itself, or an open subtransaction.
#[derive(Debug, Default)]
pub(super) struct Level {
    pub(super) changes: Changes,
    /// The strength in which it holds rows. A change holds its row too.
    locks: BTreeMap<i64, LockStrength>,
}

impl Level {
    pub(super) fn hold(&mut self, id: i64, strength: LockStrength) {
        let held = self.locks.entry(id).or_insert(strength);
        *held = strength.max(*held);
    }

    /// What becomes of a subtransaction that is released into this level.
    pub(super) fn take_over(&mut self, released: Level) {
        self.changes.extend(released.changes);
        released.locks.into_iter().for_each(|(id, strength)| self.hold(id, strength));
    }
}

/// A version of a row as a statement has seen it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub(super) id: i64,
    pub(super) version: i64,
    pub(super) place: ItemPointer,
}

/// A statement that has read the table and goes on to change some of the rows.
#[derive(Debug)]
pub(super) struct Statement {
    pub(super) table: Arc<Table>,
    pub(super) seen: Vec<Seen>,
    /// Rows that it has changed.
    pub(super) changed: BTreeSet<i64>,
}

/// An open transaction.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) isolation: Isolation,
    /// What REPEATABLE READ sees, from the first snapshot on.
    snapshot: Option<Rows>,
    /// The transaction, and the subtransactions within each other.
    pub(super) levels: Vec<Level>,
    pub(super) statement: Option<Statement>,
}

impl Open {
    pub(super) fn new(isolation: Isolation) -> Open {
        Open { isolation, snapshot: None, levels: vec![Level::default()], statement: None }
    }

    pub(super) fn innermost(&mut self) -> &mut Level {
        self.levels.last_mut().expect("a transaction has a level")
    }

    /// What a statement that begins now sees.
    pub(super) fn view(&self, committed: &Committed) -> Rows {
        let mut rows = self.snapshot.as_ref().unwrap_or(committed.now()).clone();
        self.levels.iter().for_each(|level| apply(&mut rows, &level.changes));
        rows
    }

    /// The newest version of a row for this transaction; None if the row is gone.
    pub(super) fn newest(&self, committed: &Committed, id: i64) -> Option<i64> {
        let own = self.levels.iter().rev().find_map(|level| level.changes.get(&id));
        own.copied().unwrap_or_else(|| committed.now().get(&id).copied())
    }

    /// Whether it holds a row in a strength that conflicts with another.
    pub(super) fn conflicts(&self, id: i64, strength: LockStrength) -> bool {
        let held = self.levels.iter().filter_map(|level| level.locks.get(&id));
        held.copied().any(|held| held.conflicts_with(strength))
    }

    /// All changes of the transaction.
    pub(super) fn changes(self) -> Changes {
        self.levels.into_iter().flat_map(|level| level.changes).collect()
    }
}

/// A session with its transaction.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) session: Session,
    pub(super) open: Option<Open>,
}

impl Client {
    /// Notes the transaction's snapshot, if it has just taken it and keeps it.
    pub(super) fn note_snapshot(&mut self, committed: &Committed) {
        let taken = self.session.has_snapshot();
        if let Some(open) = &mut self.open
            && open.isolation == Isolation::RepeatableRead
            && taken
        {
            open.snapshot.get_or_insert_with(|| committed.now().clone());
        }
    }
}

/// Versions from here on have long texts, of which few fill a page of an index, and which just stay
/// in their rows.
pub(super) const LONG: i64 = 1 << 32;

/// The text of a version. Those of some versions that follow each other are equal.
pub(super) fn text_of(version: i64) -> String {
    let letter = |byte: u64| char::from(b'a' + (byte % 26) as u8);
    let group = if version < LONG { version / 8 } else { version / 4 };
    let mut dice = Dice::new(group.unsigned_abs());
    if version >= LONG {
        let len = 700 + dice.below(1200);
        return dice.bytes(len as usize).into_iter().map(|byte| letter(byte.into())).collect();
    }
    let len = if dice.chance(50) { 1000 + dice.below(1500) } else { 10 + dice.below(250) };
    format!("{group}:{}", letter(dice.any()).to_string().repeat(len as usize))
}

/// Calls `put` with the values of a row's version.
pub(super) fn with_values<T>(id: i64, version: i64, put: impl FnOnce(&[Datum<'_>]) -> T) -> T {
    put(&[Datum::Int8(id), Datum::Int8(version), Datum::text(&text_of(version))])
}

/// The id and the version of a row.
pub(super) fn decoded(row: RowView<'_>) -> Result<Result<(i64, i64), String>, EngineError> {
    Ok(match row.decode()?[..] {
        [Datum::Int8(id), Datum::Int8(version), Datum::Text(ref text)]
            if *text == text_of(version) =>
        {
            Ok((id, version))
        }
        ref other => Err(format!("a row that was never written: {other:?}")),
    })
}
