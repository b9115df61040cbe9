//! Tablespaces: places outside of the data directory for databases and tables.

use forebay_catalog::schema::PG_TABLESPACE;
use forebay_catalog::{self as catalog, Reader, ddl};
use forebay_format::ids::{GLOBAL_TABLESPACE, TABLESPACE_VERSION_DIR};
use forebay_format::wal::Rmgr;
use forebay_format::wal::tablespace::{self, TablespaceCreate};
use forebay_txn::locks::LockMode;
use forebay_types::Oid;
use forebay_wal::Record;
use std::path::Path;
use std::sync::Arc;

use super::state::{Session, no_transaction};
use crate::checkpointer::Causes;
use crate::core::InDatabase;
use crate::error::EngineError;
use crate::warning::Warning;

impl Session {
    /// The OID of a tablespace, which is not dropped before the transaction ends. 42704 if there
    /// is none.
    pub fn tablespace_named(&mut self, name: &str) -> Result<Oid, EngineError> {
        self.call(|session, core| session.lock_tablespace(core, name, LockMode::AccessShare))
    }

    /// The tablespace of a new relation, by its name.
    pub fn tablespace_to_use(&mut self, name: &str) -> Result<Oid, EngineError> {
        let oid = self.tablespace_named(name).and_then(for_relations)?;
        self.check_owned(0, "use", || format!("tablespace \"{name}\""))?;
        Ok(oid)
    }

    /// The tablespace of a new relation that is not temporary: the one that is given, else
    /// `default_tablespace`, if there is one of that name. 0: the database's.
    pub(super) fn tablespace_for_new(
        &mut self,
        core: &InDatabase,
        given: Option<Oid>,
    ) -> Result<Oid, EngineError> {
        let name = Arc::clone(&self.settings.default_tablespace);
        match given {
            Some(oid) => Ok(oid),
            None if name.is_empty() => Ok(0),
            None => match self.lock_tablespace(core, &name, LockMode::AccessShare) {
                Err(error) if error.sqlstate() == "42704" => Ok(0),
                found => {
                    self.check_owned(0, "use", || format!("tablespace \"{name}\""))?;
                    found.and_then(for_relations)
                }
            },
        }
    }

    pub(super) fn tablespace_oid(
        &mut self,
        core: &InDatabase,
        name: &str,
    ) -> Result<Oid, EngineError> {
        let snapshot = core.xacts.snapshot(&self.running()?.tx);
        let found = Reader::new(&core.database, &mut self.backend, snapshot).tablespace(name)?;
        found.ok_or_else(|| {
            EngineError::statement("42704", format!("tablespace \"{name}\" does not exist"))
        })
    }

    /// Creates a tablespace, as the only statement of the running transaction. An empty location
    /// stands for one in the data directory, for tests.
    pub fn create_tablespace(
        &mut self,
        name: &str,
        owner: Option<&str>,
        location: &str,
    ) -> Result<Oid, EngineError> {
        self.call(|session, core| {
            let owner = match owner {
                Some(name) => session.owner_named(core, name)?,
                None => session.acting.role,
            };
            let location = &session.location(core, location)?;
            session.lock_tablespace_name(core, name)?;
            check_directory(core, location)?;
            let (tx, backend) = session.changing()?;
            let oid = catalog::create_tablespace(&core.database, backend, tx, name, owner)?;
            core.pool.smgr().make_tablespace(oid, Path::new(location), false)?;
            let main = TablespaceCreate { oid, location: location.clone() }.encode();
            session.log_creation(core, &main)?;
            let open = session.running()?;
            open.new_tablespaces.push(oid);
            open.forces_sync = true;
            Ok(oid)
        })
    }

    /// The location of a new tablespace as it is stored. Refuses what PostgreSQL refuses.
    fn location(&mut self, core: &InDatabase, given: &str) -> Result<String, EngineError> {
        let refuse = |state, message: &str| Err(EngineError::statement(state, message));
        if given.contains('\'') {
            return refuse("42602", "tablespace location cannot contain single quotes");
        }
        if given.is_empty() {
            return Ok(String::new());
        }
        if !given.starts_with('/') {
            return refuse("42P17", "tablespace location must be an absolute path");
        }
        let location = canonical(given);
        if location.len() + BEHIND_LOCATION > LONGEST_PATH {
            return refuse("42P17", &format!("tablespace location \"{location}\" is too long"));
        }
        if Path::new(&location).starts_with(&core.dir) {
            let message = "tablespace location should not be inside the data directory";
            self.warnings.push(Warning { sqlstate: "42P17", ..Warning::new(message) });
        }
        Ok(location)
    }

    /// Locks the name of a new tablespace. 42710 if there is one, 42939 if it is reserved.
    fn lock_tablespace_name(&mut self, core: &InDatabase, name: &str) -> Result<(), EngineError> {
        if name.starts_with("pg_") {
            let message = format!("unacceptable tablespace name \"{name}\"");
            let error = EngineError::statement("42939", message);
            return Err(error.with_detail("The prefix \"pg_\" is reserved for system tablespaces."));
        }
        let tag = ddl::name_lock(0, PG_TABLESPACE.oid, name);
        self.lock(core, tag, LockMode::AccessExclusive)?;
        match self.tablespace_oid(core, name) {
            Ok(_) => {
                let message = format!("tablespace \"{name}\" already exists");
                Err(EngineError::statement("42710", message))
            }
            Err(error) if error.sqlstate() == "42704" => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn log_creation(&mut self, core: &InDatabase, main: &[u8]) -> Result<(), EngineError> {
        let Session { open: Some(open), backend, .. } = self else { return Err(no_transaction()) };
        let xid = core.xacts.assign(&mut backend.io, &mut open.tx)?;
        let info = tablespace::CREATE;
        let record = Record { rmgr: Rmgr::TBLSPC, info, xid, main, blocks: &[] };
        core.wal.insert(&mut backend.io, &record)?;
        Ok(())
    }

    /// Drops a tablespace, as the only statement of the running transaction. 55000 if there is
    /// anything in it.
    pub fn drop_tablespace(&mut self, name: &str) -> Result<(), EngineError> {
        self.call(|session, core| {
            let oid = session.lock_tablespace(core, name, LockMode::AccessExclusive)?;
            if oid < forebay_format::ids::FIRST_UNPINNED_OID {
                let message = format!("permission denied for tablespace {name}");
                return Err(EngineError::statement("42501", message));
            }
            let path = session.visible_namespaces(core)?;
            let (tx, backend) = session.changing()?;
            catalog::drop_tablespace(&core.database, backend, tx, oid, path)?;
            let is_empty = |session: &mut Session| {
                let empty = core.pool.smgr().is_tablespace_empty(oid)?;
                if empty.is_none() {
                    session.warnings.push(directory_is_gone(oid));
                }
                Ok::<_, EngineError>(empty.unwrap_or(true))
            };
            if !is_empty(session)? {
                // Files of tables that were dropped since the last checkpoint.
                session.checkpoint_for(Causes::DEMAND)?;
                if !is_empty(session)? {
                    let message = format!("tablespace \"{name}\" is not empty");
                    return Err(EngineError::statement("55000", message));
                }
            }
            let open = session.running()?;
            open.dropped_tablespaces.push(oid);
            open.forces_sync = true;
            Ok(())
        })
    }

    /// Removes a tablespace that the transaction has dropped, which has committed and still holds
    /// its lock. PostgreSQL removes it before the commit: a crash in between leaves a row that
    /// leads to nothing. Here it leaves a directory without a row, which recovery removes.
    pub(super) fn remove_dropped_tablespace(&mut self, oid: Oid) {
        let (core, io) = (Arc::clone(&self.core), &mut self.backend.io);
        let main = tablespace::encode_drop(oid);
        let logged = core.log_as(io, Rmgr::TBLSPC, tablespace::DROP, &main);
        let removed = logged.and_then(|_| Ok(core.pool.smgr().remove_tablespace(oid)?));
        match removed {
            Ok(true) => {}
            Ok(false) => tracing::warn!("could not remove tablespace {oid}: it is not empty"),
            Err(error) => {
                tracing::warn!("could not remove tablespace {oid}: {}", core.fatal.check(error));
            }
        }
    }

    /// Renames a tablespace.
    pub fn rename_tablespace(&mut self, name: &str, to: &str) -> Result<(), EngineError> {
        self.call(|session, core| {
            let oid = session.lock_tablespace(core, name, LockMode::AccessExclusive)?;
            session.lock_tablespace_name(core, to)?;
            let (tx, backend) = session.changing()?;
            let changed = (Some(to), None);
            Ok(catalog::alter_tablespace(&core.database, backend, tx, oid, changed)?)
        })
    }

    /// Gives a tablespace another owner.
    pub fn set_tablespace_owner(&mut self, name: &str, owner: &str) -> Result<(), EngineError> {
        self.call(|session, core| {
            let oid = session.lock_tablespace(core, name, LockMode::AccessExclusive)?;
            let owner = session.owner_named(core, owner)?;
            let (tx, backend) = session.changing()?;
            let changed = (None, Some(owner));
            Ok(catalog::alter_tablespace(&core.database, backend, tx, oid, changed)?)
        })
    }
}

/// Such a tablespace can be dropped.
fn directory_is_gone(oid: Oid) -> Warning {
    let place = format!("pg_tblspc/{oid}/{TABLESPACE_VERSION_DIR}");
    let message = format!("could not open directory \"{place}\": No such file or directory");
    Warning { sqlstate: "58P01", ..Warning::new(message) }
}

/// Refuses the tablespace of what all databases share.
fn for_relations(tablespace: Oid) -> Result<Oid, EngineError> {
    match tablespace {
        GLOBAL_TABLESPACE => {
            let message = "only shared relations can be placed in pg_global tablespace";
            Err(EngineError::statement("22023", message))
        }
        oid => Ok(oid),
    }
}

/// The longest path of a file in PostgreSQL, with the byte behind it.
const LONGEST_PATH: usize = 1024;
/// What may follow a location: `/VERSION/DATABASE/RELATION_FORK.SEGMENT`. A number has ten digits.
const BEHIND_LOCATION: usize = 1 + TABLESPACE_VERSION_DIR.len() + 1 + 10 + 1 + 10 + 1 + 4 + 1 + 10;

/// An absolute path without empty parts, `.` and `..`, as PostgreSQL stores it.
fn canonical(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

/// Refuses a location that can't be one, or is one already.
fn check_directory(core: &InDatabase, location: &str) -> Result<(), EngineError> {
    if location.is_empty() {
        return Ok(());
    }
    let (names, path) = (core.aio.namespace(), Path::new(location));
    if !names.exists(path)? {
        let message = format!("directory \"{location}\" does not exist");
        return Err(EngineError::statement("58P01", message));
    }
    let within = path.join(TABLESPACE_VERSION_DIR);
    if names.exists(&within)? {
        let message = format!("directory \"{}\" already in use as a tablespace", within.display());
        return Err(EngineError::statement("55006", message));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::canonical;

    #[test]
    fn locations_are_stored_as_postgresql_stores_them() {
        for (given, stored) in [
            ("/a/b", "/a/b"),
            ("/a//b/", "/a/b"),
            ("/a/./b/.", "/a/b"),
            ("/a/c/../b", "/a/b"),
            ("/../a", "/a"),
            ("/", "/"),
        ] {
            assert_eq!(canonical(given), stored, "{given}");
        }
    }
}
