//! Foreign keys, and the triggers by which foreign keys and deferrable keys are enforced.
//!
//! A foreign key has two triggers on the table that refers (the child: an inserted or updated row
//! needs a parent) and two on the one that is referred to (the parent: a deleted or updated row may
//! have children). A deferrable PRIMARY KEY or UNIQUE has one, which checks a key once more.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::sync::Arc;

use forebay_types::Oid;

/// What a foreign key does to children when their parent is deleted, or its key is updated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyAction {
    /// At the end of the statement or transaction there must be none without a parent.
    #[default]
    NoAction,
    /// There must be none.
    Restrict,
    /// They are deleted, or get the new key.
    Cascade,
    /// Their keys become NULL.
    SetNull,
    /// Their keys become what their columns have by default.
    SetDefault,
}

impl KeyAction {
    const ALL: [KeyAction; 5] = [
        KeyAction::NoAction,
        KeyAction::Restrict,
        KeyAction::Cascade,
        KeyAction::SetNull,
        KeyAction::SetDefault,
    ];

    /// As pg_constraint has it.
    pub fn code(self) -> u8 {
        match self {
            KeyAction::NoAction => b'a',
            KeyAction::Restrict => b'r',
            KeyAction::Cascade => b'c',
            KeyAction::SetNull => b'n',
            KeyAction::SetDefault => b'd',
        }
    }

    pub(crate) fn of_code(code: u8) -> Option<KeyAction> {
        KeyAction::ALL.into_iter().find(|action| action.code() == code)
    }

    /// The functions (pg_proc.oid) for a deletion and an update.
    fn functions(self) -> [Oid; 2] {
        match self {
            KeyAction::NoAction => [1654, 1655],
            KeyAction::Restrict => [1648, 1649],
            KeyAction::Cascade => [1646, 1647],
            KeyAction::SetNull => [1650, 1651],
            KeyAction::SetDefault => [1652, 1653],
        }
    }
}

/// What a trigger does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyWork {
    /// An inserted child needs a parent.
    CheckInserted,
    /// So does an updated one.
    CheckUpdated,
    /// A parent is deleted.
    Deleted(KeyAction),
    /// A parent's key is updated.
    Updated(KeyAction),
    /// A new row must be the only one of its key in a deferrable index.
    Recheck,
}

impl KeyWork {
    /// Its function: pg_proc.oid.
    pub(crate) fn function(self) -> Oid {
        match self {
            KeyWork::CheckInserted => 1644,
            KeyWork::CheckUpdated => 1645,
            KeyWork::Deleted(action) => action.functions()[0],
            KeyWork::Updated(action) => action.functions()[1],
            KeyWork::Recheck => 1250,
        }
    }

    pub(crate) fn of_function(function: Oid) -> Option<KeyWork> {
        let actions = KeyAction::ALL.into_iter();
        let of_actions = actions.flat_map(|a| [KeyWork::Deleted(a), KeyWork::Updated(a)]);
        [KeyWork::CheckInserted, KeyWork::CheckUpdated, KeyWork::Recheck]
            .into_iter()
            .chain(of_actions)
            .find(|work| work.function() == function)
    }

    /// pg_trigger.tgtype: for each row, after the events.
    pub(crate) fn events(self) -> i16 {
        const ROW: i16 = 1;
        const INSERT: i16 = 4;
        const DELETE: i16 = 8;
        const UPDATE: i16 = 16;
        match self {
            KeyWork::CheckInserted => ROW | INSERT,
            KeyWork::CheckUpdated | KeyWork::Updated(_) => ROW | UPDATE,
            KeyWork::Deleted(_) => ROW | DELETE,
            KeyWork::Recheck => ROW | INSERT | UPDATE,
        }
    }
}

/// A foreign key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignKey {
    /// pg_constraint.oid
    pub oid: Oid,
    /// Its name.
    pub name: String,
    /// The table that refers.
    pub child: Oid,
    /// The table that is referred to.
    pub parent: Oid,
    /// The child's columns, by number.
    pub columns: Vec<i16>,
    /// The parent's, in the same order.
    pub parent_columns: Vec<i16>,
    /// MATCH FULL.
    pub full: bool,
    /// ON DELETE.
    pub on_delete: KeyAction,
    /// ON UPDATE.
    pub on_update: KeyAction,
    /// The columns that ON DELETE SET NULL or SET DEFAULT sets. Empty: all.
    pub set_columns: Vec<i16>,
    /// It is not NOT ENFORCED.
    pub enforced: bool,
    /// All rows are known to satisfy it.
    pub validated: bool,
}

/// A trigger that enforces a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyTrigger {
    /// pg_trigger.oid
    pub oid: Oid,
    /// Its name, by which triggers of a table follow one another.
    pub name: String,
    /// What it does.
    pub work: KeyWork,
    /// Whether it can be deferred to the end of the transaction.
    pub deferrable: bool,
    /// Whether it is, if nobody says otherwise.
    pub deferred: bool,
    /// The constraint that it enforces: pg_constraint.oid.
    pub constraint: Oid,
    /// The index of that.
    pub index: Oid,
    /// The foreign key. None: it checks a key of its own table again.
    pub key: Option<Arc<ForeignKey>>,
}
