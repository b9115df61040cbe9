//! Locks of what new rows of the catalogs refer to: nobody drops it before the transaction ends.
//!
//! DROP takes the same locks in mode `AccessExclusive`. So one waits for the other, and then finds
//! that the object is gone, or that something depends on it.

use forebay_catalog::schema::{PG_AUTHID, PG_COLLATION, PG_TABLESPACE};
use forebay_catalog::syscache::CollationByOid;
use forebay_catalog::{Reader, RoleRow, StoredExpr};
use forebay_format::ids::FIRST_UNPINNED_OID;
use forebay_txn::locks::{LockMode, LockTag};
use forebay_types::Oid;

use super::relation_kinds::NamedRelation;
use super::state::Session;
use crate::core::InDatabase;
use crate::error::EngineError;

/// The lock of an object that is no relation. Database 0: all databases share it.
pub(super) fn object_lock(database: Oid, class: Oid, object: Oid) -> LockTag {
    LockTag::Object { database, class, object }
}

impl Session {
    /// Locks what `find` finds, until it finds the same with the lock held. None: it finds nothing
    /// any more. What has no tag needs no lock.
    pub(super) fn lock_found<T>(
        &mut self,
        core: &InDatabase,
        mode: LockMode,
        mut find: impl FnMut(&mut Session) -> Result<Option<T>, EngineError>,
        tag: impl Fn(&T) -> Option<LockTag>,
    ) -> Result<Option<T>, EngineError> {
        let mut locked = None;
        loop {
            let Some(found) = find(self)? else { return Ok(None) };
            let Some(tag) = tag(&found).filter(|tag| locked != Some(*tag)) else {
                return Ok(Some(found));
            };
            self.lock(core, tag, mode)?;
            locked = Some(tag);
        }
    }

    /// Finds a role and locks it. 42704 if there is none.
    pub(super) fn lock_role(
        &mut self,
        core: &InDatabase,
        name: &str,
        mode: LockMode,
    ) -> Result<RoleRow, EngineError> {
        let find = |session: &mut Session| session.role_by_name(core, name).map(Some);
        let found = self.lock_found(core, mode, find, |role| {
            // Nobody drops a role of initdb's.
            let stays = role.oid < FIRST_UNPINNED_OID && mode == LockMode::AccessShare;
            (!stays).then(|| object_lock(0, PG_AUTHID.oid, role.oid))
        })?;
        found.ok_or_else(|| EngineError::internal("a role that was found is none"))
    }

    /// The role that is to own something: it is not dropped meanwhile.
    pub(super) fn owner_named(
        &mut self,
        core: &InDatabase,
        name: &str,
    ) -> Result<Oid, EngineError> {
        Ok(self.lock_role(core, name, LockMode::AccessShare)?.oid)
    }

    /// The role of that name, which is not dropped before the transaction ends. 42704 if there is
    /// none.
    pub fn role_to_own(&mut self, name: &str) -> Result<Oid, EngineError> {
        self.call(|session, core| session.owner_named(core, name))
    }

    /// Finds a tablespace and locks it. 42704 if there is none.
    pub(super) fn lock_tablespace(
        &mut self,
        core: &InDatabase,
        name: &str,
        mode: LockMode,
    ) -> Result<Oid, EngineError> {
        let find = |session: &mut Session| session.tablespace_oid(core, name).map(Some);
        let tag = |oid: &Oid| Some(object_lock(0, PG_TABLESPACE.oid, *oid));
        let found = self.lock_found(core, mode, find, tag)?;
        found.ok_or_else(|| EngineError::internal("a tablespace that was found is none"))
    }

    /// Locks collations that something new refers to. 42704 if one is gone.
    pub(super) fn lock_collations(
        &mut self,
        core: &InDatabase,
        collations: impl Iterator<Item = Oid>,
    ) -> Result<(), EngineError> {
        for oid in collations.filter(|oid| *oid >= FIRST_UNPINNED_OID) {
            let tag = object_lock(core.database.oid, PG_COLLATION.oid, oid);
            self.lock(core, tag, LockMode::AccessShare)?;
            if self.look_up(CollationByOid(oid))?.is_none() {
                let message = format!("collation with OID {oid} does not exist");
                return Err(EngineError::statement("42704", message));
            }
        }
        Ok(())
    }

    /// The relation of a name, locked if it is a sequence.
    pub fn lock_sequence_named(
        &mut self,
        schema: Option<&str>,
        name: &str,
        mode: LockMode,
    ) -> Result<Option<NamedRelation>, EngineError> {
        self.call(|session, core| {
            let database = core.database.oid;
            let find = |session: &mut Session| session.find_relation(core, schema, name);
            session.lock_found(core, mode, find, |relation| {
                let tag = LockTag::Relation { database, relation: relation.oid };
                (relation.kind == b'S').then_some(tag)
            })
        })
    }

    /// Locks the sequences of expressions that are about to be stored. 42P01 if one is gone.
    pub(super) fn lock_sequences_of<'a>(
        &mut self,
        core: &InDatabase,
        expressions: impl Iterator<Item = &'a StoredExpr>,
    ) -> Result<(), EngineError> {
        let expressions: Vec<&StoredExpr> = expressions.collect();
        let collations = expressions.iter().flat_map(|expr| expr.collations());
        self.lock_collations(core, collations)?;
        for relation in expressions.iter().flat_map(|expr| expr.relations()) {
            let tag = LockTag::Relation { database: core.database.oid, relation };
            self.lock(core, tag, LockMode::AccessShare)?;
            let snapshot = core.xacts.snapshot(&self.running()?.tx);
            let mut reader = Reader::new(&core.database, &mut self.backend, snapshot);
            if reader.class(relation)?.is_none() {
                let message = format!("relation with OID {relation} does not exist");
                return Err(EngineError::statement("42P01", message));
            }
        }
        Ok(())
    }
}
