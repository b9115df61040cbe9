//! The statements that foreign keys run, planned.

use super::statement::Prepared;
use forebay_engine::{Oid, Table};
use std::collections::HashMap;
use std::sync::Arc;

/// A statement that a foreign key runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum KeyQuery {
    /// Does the parent of a child exist? Its row is locked.
    Parent,
    /// The same for a constraint that is added, when nobody writes.
    Exists,
    /// Does another row have the key of a parent that is gone?
    Twin,
    /// Are there children?
    Children,
    /// ON DELETE CASCADE.
    Delete,
    /// ON UPDATE CASCADE.
    Update,
    /// SET NULL or SET DEFAULT, ON DELETE or (false) ON UPDATE.
    Set { default: bool, on_delete: bool },
}

/// A statement of a key, planned.
pub(super) struct KeyPlan {
    pub(super) prepared: Prepared,
    /// As PostgreSQL writes it, for CONTEXT.
    pub(super) shown: String,
    pub(super) child: Arc<Table>,
    pub(super) parent: Arc<Table>,
}

/// The planned statements of keys. A change of the catalogs makes them out of date.
#[derive(Default)]
pub(super) struct KeyPlans {
    pub(super) version: u64,
    pub(super) plans: HashMap<(Oid, KeyQuery), Arc<KeyPlan>>,
}

/// Most of them.
pub(super) const MOST_PLANS: usize = 512;
