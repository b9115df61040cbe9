//! REASSIGN OWNED and DROP OWNED.

use forebay_catalog::{self as catalog, Going, Owned, RoleRow};
use forebay_format::ids::FIRST_UNPINNED_OID;
use forebay_txn::locks::{LockMode, LockTag};
use forebay_types::{Datum, Oid};

use super::referred::object_lock;
use super::state::Session;
use crate::core::InDatabase;
use crate::error::EngineError;

impl Session {
    /// Gives what roles own in this database, and of what all share, to another role.
    pub fn reassign_owned(&mut self, from: &[String], to: &str) -> Result<(), EngineError> {
        self.call(|session, core| {
            let verb = "reassign ownership of";
            let roles = session.roles_that_own(core, from, verb)?;
            let to = session.owner_named(core, to)?;
            for owned in session.lock_owned(core, &roles)? {
                if let Owned::Database(oid) = owned {
                    session.change_row(core, oid, &[("datdba", Datum::Oid(to))])?;
                    continue;
                }
                let (tx, backend) = session.changing()?;
                catalog::change_owner(&core.database, backend, tx, owned, to)?;
            }
            Ok(())
        })
    }

    /// Drops what roles own in this database; with `cascade` what depends on it. Returns what goes
    /// along, in words.
    pub fn drop_owned(
        &mut self,
        roles: &[String],
        cascade: bool,
    ) -> Result<Vec<String>, EngineError> {
        self.call(|session, core| {
            let roles = session.roles_that_own(core, roles, "drop")?;
            let owned = session.lock_owned(core, &roles)?;
            for owned in &owned {
                match owned {
                    Owned::Relation(oid) => {
                        session.lock_what_goes(core, Going::Relation(*oid))?;
                    }
                    Owned::Other(class, oid) if cascade => {
                        session.lock_what_goes(core, Going::Row(*class, *oid))?;
                    }
                    _ => {}
                }
            }
            let path = session.visible_namespaces(core)?;
            let (tx, backend) = session.changing()?;
            let what = (&roles[..], path);
            let dropped = catalog::drop_owned(&core.database, backend, tx, what, cascade)?;
            for owned in owned {
                if let Owned::Relation(oid) = owned {
                    session.note_temp_dropped(oid);
                }
            }
            Ok(dropped.0)
        })
    }

    /// The roles of these names. 2BP01 if one of them owns what every cluster has.
    fn roles_that_own(
        &mut self,
        core: &InDatabase,
        names: &[String],
        verb: &str,
    ) -> Result<Vec<Oid>, EngineError> {
        core.database.check_event_triggers()?;
        let mut roles = Vec::with_capacity(names.len());
        for name in names {
            let RoleRow { oid, .. } = self.lock_role(core, name, LockMode::AccessShare)?;
            roles.push(oid);
        }
        if let Some(place) = roles.iter().position(|oid| *oid < FIRST_UNPINNED_OID) {
            let name = names.get(place).map_or("", String::as_str);
            let message = format!(
                "cannot {verb} objects owned by role {name} because they are required by the \
                 database system"
            );
            return Err(EngineError::statement("2BP01", message));
        }
        Ok(roles)
    }

    /// What roles own, locked.
    fn lock_owned(&mut self, core: &InDatabase, roles: &[Oid]) -> Result<Vec<Owned>, EngineError> {
        let (tx, backend) = self.changing()?;
        let owned = catalog::owned_by(&core.database, backend, tx, roles)?;
        for owned in &owned {
            let tag = match *owned {
                Owned::Relation(relation) => {
                    LockTag::Relation { database: core.database.oid, relation }
                }
                Owned::Database(_) => continue,
                Owned::Other(class, oid) => object_lock(core.database.oid, class, oid),
            };
            self.lock(core, tag, LockMode::AccessExclusive)?;
        }
        Ok(owned)
    }
}
