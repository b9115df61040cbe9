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

/// The planned statements of keys, each with the version of the catalogs at which it was good.
/// After a change of the catalogs it still is, if its tables are the same.
#[derive(Default)]
pub(super) struct KeyPlans(HashMap<(Oid, KeyQuery), (u64, Arc<KeyPlan>)>);

/// Most of them.
const MOST_PLANS: usize = 512;

impl KeyPlans {
    /// A plan, and whether it was good at this version.
    pub(super) fn get(
        &self,
        key: Oid,
        query: KeyQuery,
        version: u64,
    ) -> Option<(Arc<KeyPlan>, bool)> {
        let (at, plan) = self.0.get(&(key, query))?;
        Some((Arc::clone(plan), *at == version))
    }

    /// A plan is good at this version.
    pub(super) fn put(&mut self, key: Oid, query: KeyQuery, (version, plan): (u64, &Arc<KeyPlan>)) {
        if self.0.len() >= MOST_PLANS {
            self.0.clear();
        }
        self.0.insert((key, query), (version, Arc::clone(plan)));
    }
}
