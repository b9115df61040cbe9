//! CREATE, DROP and ALTER DATABASE.
//!
//! ```text
//! WAL_LOG    row ─ directory, record ─ map, record ─ each page copied and logged ─ commit
//! FILE_COPY  row ─ checkpoint ─ files copied and synced ─ record ─ checkpoint ─ commit
//! DROP       row is marked invalid, durable ─ row deleted ─ pages forgotten ─ checkpoint
//!            ─ directories removed, record ─ commit
//! ```
//!
//! If the copying fails, what was made is removed. A crash leaves a directory without a row, which
//! the end of a recovery removes. A DROP that was cut short leaves a row that says so: nobody can
//! enter the database, and it can be dropped again.

use std::sync::Arc;

use forebay_access::heap::{ForkCopier, Heaps};
use forebay_aio::sync::{Duration, Instant};
use forebay_catalog::{
    Database, DatabaseRow, Named, Reader, change_database, database_row_lock, ddl, delete_database,
    insert_database,
};
use forebay_collation::encoding_name;
use forebay_format::ids::{FIRST_NORMAL_OID, GLOBAL_TABLESPACE};
use forebay_format::wal::Rmgr;
use forebay_format::wal::database::{self, DatabaseDrop, DatabasePlace, FileCopy};
use forebay_format::wal::relation_map::{self, MapUpdate};
use forebay_format::wal::rmgr::INFO_SPECIAL_REL_UPDATE;
use forebay_format::{Fork, RelFileLocator, Xid};
use forebay_txn::locks::{InterruptKind, LockMode};
use forebay_types::{Datum, Oid};
use forebay_wal::Record;

use super::entering::database_lock;
use super::state::{Session, no_transaction};
use crate::checkpointer::Causes;
use crate::core::InDatabase;
use crate::error::EngineError;
use crate::locale::set_locale;
use crate::new_database::{CopyStrategy, NewDatabase};

/// How long a statement waits for other sessions to leave a database.
const LEAVING: Duration = Duration::from_secs(5);
/// How often it looks.
const LOOK: Duration = Duration::from_millis(100);

fn in_use(name: &str, source: bool, others: usize) -> EngineError {
    let source = if source { "source " } else { "" };
    let message = format!("{source}database \"{name}\" is being accessed by other users");
    let detail = match others {
        1 => "There is 1 other session using the database.".to_owned(),
        _ => format!("There are {others} other sessions using the database."),
    };
    EngineError::statement("55006", message).with_detail(detail)
}

fn invalid(message: impl Into<String>) -> EngineError {
    EngineError::statement("22023", message)
}

impl Session {
    /// Makes a database, as the only statement of the running transaction. Returns its OID.
    pub fn create_database(&mut self, new: &NewDatabase) -> Result<Oid, EngineError> {
        self.call(|session, core| {
            let source = session.lock_template(core, new)?;
            let row = session.new_database_row(core, new, &source)?;
            session.wait_until_left(core, &source, true)?;
            let place = DatabasePlace { db: row.oid, spc: row.tablespace };
            let (tx, backend) = session.changing()?;
            insert_database(&core.database, backend, tx, &row, source.oid)?;
            let copied = match new.strategy {
                CopyStrategy::WalLog => session.copy_by_pages(core, &source, place),
                CopyStrategy::FileCopy => session.copy_by_files(core, &source, place),
            };
            if let Err(error) = copied {
                session.remove_copy(core, row.oid);
                return Err(error);
            }
            let open = session.running()?;
            open.new_databases.push(row.oid);
            open.forces_sync = true;
            Ok(row.oid)
        })
    }

    /// Removes what was made of a database whose creation failed.
    pub(super) fn remove_copy(&mut self, core: &InDatabase, oid: Oid) {
        core.pool.drop_database(&mut self.backend, oid);
        core.databases.forget(oid);
        let smgr = core.pool.smgr();
        let removed = smgr.tablespaces_of(oid).and_then(|spaces| {
            for &spc in &spaces {
                smgr.remove_database(DatabasePlace { db: oid, spc })?;
            }
            Ok(spaces)
        });
        let logged = removed.map_err(EngineError::from).and_then(|tablespaces| {
            // Redo of the records before removes what it makes again.
            let drop = DatabaseDrop { db: oid, tablespaces };
            let info = database::DROP | INFO_SPECIAL_REL_UPDATE;
            log(self, core, (Rmgr::DBASE, info), 0, &drop.encode())
        });
        if let Err(error) = logged {
            tracing::warn!("could not remove the files of database {oid}: {error}");
        }
    }

    /// Locks the template against whoever would enter it.
    fn lock_template(
        &mut self,
        core: &InDatabase,
        new: &NewDatabase,
    ) -> Result<DatabaseRow, EngineError> {
        let name = new.template.as_deref().unwrap_or("template1");
        let absent = || {
            let message = format!("template database \"{name}\" does not exist");
            EngineError::statement("3D000", message)
        };
        let source = self.lock_database(core, name, LockMode::Share)?.ok_or_else(absent)?;
        if source.is_invalid() {
            let message = format!("cannot use invalid database \"{name}\" as template");
            let error = EngineError::statement("55000", message);
            return Err(error.with_hint("Use DROP DATABASE to drop invalid databases."));
        }
        Ok(source)
    }

    /// Finds a database by its name, and locks it. None: there is none.
    fn lock_database(
        &mut self,
        core: &InDatabase,
        name: &str,
        mode: LockMode,
    ) -> Result<Option<DatabaseRow>, EngineError> {
        loop {
            let Some(found) = self.find_database(core, name)? else { return Ok(None) };
            self.lock(core, database_lock(found.oid), mode)?;
            match self.find_database(core, name)? {
                Some(now) if now.oid == found.oid => return Ok(Some(now)),
                _ => {}
            }
        }
    }

    fn find_database(
        &mut self,
        core: &InDatabase,
        name: &str,
    ) -> Result<Option<DatabaseRow>, EngineError> {
        let snapshot = core.xacts.snapshot(&self.running()?.tx);
        let mut reader = Reader::new(&core.database, &mut self.backend, snapshot);
        Ok(reader.find_database(Named::Name(name))?)
    }

    /// Waits a while until no other session is in a database. Workers of autovacuum are told to go.
    fn wait_until_left(
        &mut self,
        core: &InDatabase,
        database: &DatabaseRow,
        source: bool,
    ) -> Result<(), EngineError> {
        let end = Instant::now() + LEAVING;
        loop {
            let mut others = core.sessions.in_database(database.oid);
            others.retain(|(id, _)| *id != self.id);
            if others.is_empty() {
                return Ok(());
            }
            for (id, _) in others.iter().filter(|(_, of_client)| !of_client) {
                core.sessions.interrupt(*id, InterruptKind::Terminate);
            }
            if Instant::now() >= end {
                return Err(in_use(&database.name, source, others.len()));
            }
            self.sleep_until(Instant::now() + LOOK)?;
        }
    }

    /// The row of a new database.
    fn new_database_row(
        &mut self,
        core: &InDatabase,
        new: &NewDatabase,
        source: &DatabaseRow,
    ) -> Result<DatabaseRow, EngineError> {
        let name = &new.name;
        let tag = ddl::name_lock(0, GLOBAL_TABLESPACE, name);
        self.lock(core, tag, LockMode::AccessExclusive)?;
        if self.find_database(core, name)?.is_some() {
            let message = format!("database \"{name}\" already exists");
            return Err(EngineError::statement("42P04", message));
        }
        let limit = new.connection_limit.unwrap_or(-1);
        if limit < -1 {
            return Err(invalid(format!("invalid connection limit: {limit}")));
        }
        let tablespace = new.tablespace.unwrap_or(source.tablespace);
        if tablespace == GLOBAL_TABLESPACE {
            return Err(invalid("pg_global cannot be used as default tablespace"));
        }
        let mut row = DatabaseRow {
            oid: self.new_database_oid(core, new.oid)?,
            name: name.clone(),
            owner: new.owner.unwrap_or(self.acting.role),
            is_template: new.is_template,
            allows_connections: new.allows_connections.unwrap_or(true),
            connection_limit: limit,
            tablespace,
            ..source.clone()
        };
        set_locale(&mut row, new, source)?;
        check_against(&row, source)?;
        if tablespace != source.tablespace {
            self.check_mixed(core, source, tablespace)?;
        }
        Ok(row)
    }

    /// Refuses a new default tablespace in which the template has relations already.
    fn check_mixed(
        &mut self,
        core: &InDatabase,
        source: &DatabaseRow,
        tablespace: Oid,
    ) -> Result<(), EngineError> {
        if !core.pool.smgr().tablespaces_used_by(source.oid)?.contains(&tablespace) {
            return Ok(());
        }
        let snapshot = core.xacts.snapshot(&self.running()?.tx);
        let mut reader = Reader::new(&core.database, &mut self.backend, snapshot);
        let (name, place) = (&source.name, reader.tablespace_name(tablespace)?);
        let place = place.unwrap_or_else(|| tablespace.to_string());
        let message = format!("cannot assign new default tablespace \"{place}\"");
        let detail = format!(
            "There is a conflict because database \"{name}\" already has some tables in this \
             tablespace."
        );
        Err(EngineError::statement("0A000", message).with_detail(detail))
    }

    /// A free OID, or the one that was asked for.
    fn new_database_oid(
        &mut self,
        core: &InDatabase,
        wanted: Option<Oid>,
    ) -> Result<Oid, EngineError> {
        if let Some(oid) = wanted {
            if oid < FIRST_NORMAL_OID {
                let message =
                    format!("OIDs less than {FIRST_NORMAL_OID} are reserved for system objects");
                return Err(invalid(message));
            }
            if let Some(row) = self.database_by_oid(core, oid)? {
                let name = row.name;
                return Err(invalid(format!(
                    "database OID {oid} is already in use by database \"{name}\""
                )));
            }
            if !core.pool.smgr().tablespaces_of(oid)?.is_empty() {
                let message = format!("data directory with the specified OID {oid} already exists");
                return Err(invalid(message));
            }
            return Ok(oid);
        }
        loop {
            let oid = core.database.next_oid(&mut self.backend)?;
            if self.database_by_oid(core, oid)?.is_none()
                && core.pool.smgr().tablespaces_of(oid)?.is_empty()
            {
                return Ok(oid);
            }
        }
    }

    pub(super) fn database_by_oid(
        &mut self,
        core: &InDatabase,
        oid: Oid,
    ) -> Result<Option<DatabaseRow>, EngineError> {
        let snapshot = core.xacts.snapshot(&self.running()?.tx);
        let mut reader = Reader::new(&core.database, &mut self.backend, snapshot);
        Ok(reader.find_database(Named::Oid(oid))?)
    }

    fn copy_by_pages(
        &mut self,
        core: &InDatabase,
        source: &DatabaseRow,
        place: DatabasePlace,
    ) -> Result<(), EngineError> {
        let from = core.databases.open(&mut self.backend, source)?;
        let xid = self.assigned(core)?;
        core.pool.smgr().make_database(&mut self.backend.io, place, false)?;
        let made = database::encode_wal_log(place);
        log(self, core, (Rmgr::DBASE, database::CREATE_WAL_LOG), xid, &made)?;
        let map = from.map().ok_or_else(|| EngineError::internal("a database without a map"))?;
        let update = MapUpdate { of: place, map: map.clone() };
        log(self, core, (Rmgr::RELMAP, relation_map::UPDATE), xid, &update.encode())?;
        core.pool.smgr().write_map(&mut self.backend.io, place, &update.map)?;
        self.copy_relations(core, &from, place)
    }

    fn copy_relations(
        &mut self,
        core: &InDatabase,
        from: &Arc<Database>,
        place: DatabasePlace,
    ) -> Result<(), EngineError> {
        let snapshot = core.xacts.snapshot(&from.transaction());
        let files = Reader::new(from, &mut self.backend, snapshot).relation_files()?;
        let xid = self.assigned(core)?;
        let Heaps { pool, wal, failure, .. } = &*core.heaps;
        let copier = ForkCopier { pool, wal, failure };
        for file in files {
            let old = file.locator;
            let spc = if old.spc == from.tablespace { place.spc } else { old.spc };
            let new = RelFileLocator { spc, db: place.db, rel: old.rel };
            for fork in Fork::ALL {
                if fork != Fork::Main && !core.pool.smgr().exists(old, fork)? {
                    continue;
                }
                let logged = file.logged || fork == Fork::Init;
                core.pool.smgr().create(new, fork, true)?;
                if logged {
                    ddl::log_file(&core.database, &mut self.backend, (new, fork), xid)?;
                }
                self.copy_fork(copier, (old, new), (fork, logged))?;
            }
        }
        Ok(())
    }

    /// The transaction's id.
    pub(super) fn assigned(&mut self, core: &InDatabase) -> Result<Xid, EngineError> {
        let Session { open: Some(open), backend, .. } = self else { return Err(no_transaction()) };
        Ok(core.xacts.assign(&mut backend.io, &mut open.tx)?)
    }

    fn copy_by_files(
        &mut self,
        core: &InDatabase,
        source: &DatabaseRow,
        place: DatabasePlace,
    ) -> Result<(), EngineError> {
        self.checkpoint_for(Causes::DEMAND)?;
        let xid = self.assigned(core)?;
        let smgr = core.pool.smgr();
        for spc in smgr.tablespaces_used_by(source.oid)? {
            let from = DatabasePlace { db: source.oid, spc };
            let spc = if spc == source.tablespace { place.spc } else { spc };
            let to = DatabasePlace { db: place.db, spc };
            smgr.copy_database(&mut self.backend.io, from, to)?;
            let main = FileCopy { to, from }.encode();
            let info = database::CREATE_FILE_COPY | INFO_SPECIAL_REL_UPDATE;
            log(self, core, (Rmgr::DBASE, info), xid, &main)?;
        }
        self.checkpoint_for(Causes::DEMAND)
    }

    /// Drops a database, as the only statement of the running transaction. With `force` the
    /// sessions in it are ended. False: there is none, and that is no error.
    pub fn drop_database(
        &mut self,
        name: &str,
        if_exists: bool,
        force: bool,
    ) -> Result<bool, EngineError> {
        self.call(|session, core| {
            let Some(row) = session.lock_database(core, name, LockMode::AccessExclusive)? else {
                let message = format!("database \"{name}\" does not exist");
                return if if_exists {
                    Ok(false)
                } else {
                    Err(EngineError::statement("3D000", message))
                };
            };
            if row.is_template {
                return Err(EngineError::statement("42809", "cannot drop a template database"));
            }
            if row.oid == core.database.oid {
                let message = "cannot drop the currently open database";
                return Err(EngineError::statement("55006", message));
            }
            if force {
                for (id, _) in core.sessions.in_database(row.oid) {
                    core.sessions.interrupt(id, InterruptKind::Terminate);
                }
            }
            session.wait_until_left(core, &row, false)?;
            session.drop_found(core, &row)?;
            Ok(true)
        })
    }

    fn drop_found(&mut self, core: &InDatabase, row: &DatabaseRow) -> Result<(), EngineError> {
        self.lock(core, database_row_lock(row.oid), LockMode::AccessExclusive)?;
        core.database.mark_invalid(&mut self.backend, row.oid)?;
        core.wal.flush_all(&mut self.backend.io)?;
        self.running()?.forces_sync = true;
        let (tx, backend) = self.changing()?;
        delete_database(&core.database, backend, tx, row.oid)?;
        let xid = self.assigned(core)?;
        core.pool.drop_database(&mut self.backend, row.oid);
        // No sync of the files may be under way, and no late write.
        self.checkpoint_for(Causes::DEMAND)?;
        core.databases.forget(row.oid);
        core.statistics.forget_database(row.oid);
        let smgr = core.pool.smgr();
        let tablespaces = smgr.tablespaces_of(row.oid)?;
        for &spc in &tablespaces {
            smgr.remove_database(DatabasePlace { db: row.oid, spc })?;
        }
        let main = DatabaseDrop { db: row.oid, tablespaces }.encode();
        let info = database::DROP | INFO_SPECIAL_REL_UPDATE;
        log(self, core, (Rmgr::DBASE, info), xid, &main)
    }

    /// Renames a database.
    pub fn rename_database(&mut self, name: &str, to: &str) -> Result<(), EngineError> {
        self.call(|session, core| {
            let row = session.database_to_change(core, name, LockMode::AccessExclusive)?;
            session.lock(
                core,
                ddl::name_lock(0, GLOBAL_TABLESPACE, to),
                LockMode::AccessExclusive,
            )?;
            if session.find_database(core, to)?.is_some() {
                let message = format!("database \"{to}\" already exists");
                return Err(EngineError::statement("42P04", message));
            }
            if row.oid == core.database.oid {
                let message = "current database cannot be renamed";
                return Err(EngineError::statement("0A000", message));
            }
            session.wait_until_left(core, &row, false)?;
            session.change_row(core, row.oid, &[("datname", Datum::string(to.to_owned()))])
        })
    }

    /// Changes values of a database's row: `datistemplate`, `datallowconn`, `datconnlimit`,
    /// `datdba`.
    pub fn alter_database(
        &mut self,
        name: &str,
        changes: &[(&'static str, Datum<'static>)],
    ) -> Result<(), EngineError> {
        self.call(|session, core| {
            let row = session.database_to_change(core, name, LockMode::RowExclusive)?;
            if row.is_invalid() {
                let message = format!("cannot alter invalid database \"{name}\"");
                let error = EngineError::statement("55000", message);
                return Err(error.with_hint("Use DROP DATABASE to drop invalid databases."));
            }
            for change in changes {
                match change {
                    ("datallowconn", Datum::Bool(false)) if row.oid == core.database.oid => {
                        let message = "cannot disallow connections for current database";
                        return Err(invalid(message));
                    }
                    ("datconnlimit", Datum::Int4(limit)) if *limit < -1 => {
                        return Err(invalid(format!("invalid connection limit: {limit}")));
                    }
                    _ => {}
                }
            }
            session.change_row(core, row.oid, changes)
        })
    }

    pub(super) fn database_to_change(
        &mut self,
        core: &InDatabase,
        name: &str,
        mode: LockMode,
    ) -> Result<DatabaseRow, EngineError> {
        self.lock_database(core, name, mode)?.ok_or_else(|| {
            EngineError::statement("3D000", format!("database \"{name}\" does not exist"))
        })
    }

    pub(super) fn change_row(
        &mut self,
        core: &InDatabase,
        oid: Oid,
        changes: &[(&'static str, Datum<'static>)],
    ) -> Result<(), EngineError> {
        self.lock(core, database_row_lock(oid), LockMode::AccessExclusive)?;
        let (tx, backend) = self.changing()?;
        Ok(change_database(&core.database, backend, tx, oid, changes)?)
    }
}

/// Refuses a new database whose texts would mean something else than in its template, unless that
/// is template0, which has none of its own.
fn check_against(row: &DatabaseRow, source: &DatabaseRow) -> Result<(), EngineError> {
    let same = (row.encoding, row.provider, &row.collate, &row.ctype, &row.locale)
        == (source.encoding, source.provider, &source.collate, &source.ctype, &source.locale);
    if same {
        return Ok(());
    }
    if source.name == "template0" {
        return Ok(());
    }
    let differ = |what: &str, new: &str, old: &str, of: &str| {
        let message = format!(
            "new {what} ({new}) is incompatible with the {what} of the template database ({old})"
        );
        let hint =
            format!("Use the same {of} as in the template database, or use template0 as template.");
        Err(invalid(message).with_hint(hint))
    };
    if row.encoding != source.encoding {
        let [new, old] = [row, source].map(|row| encoding_name(row.encoding).unwrap_or("unknown"));
        return differ("encoding", new, old, "encoding");
    }
    if row.collate != source.collate {
        return differ("collation", &row.collate, &source.collate, "collation");
    }
    if row.ctype != source.ctype {
        return differ("LC_CTYPE", &row.ctype, &source.ctype, "LC_CTYPE");
    }
    let provider = |code: u8| match code {
        b'b' => "builtin",
        b'i' => "icu",
        _ => "libc",
    };
    if row.provider != source.provider {
        let message = format!(
            "new locale provider ({}) does not match locale provider of the template database ({})",
            provider(row.provider),
            provider(source.provider)
        );
        let hint = "Use the same locale provider as in the template database, or use template0 as \
                    template.";
        return Err(invalid(message).with_hint(hint));
    }
    let [new, old] = [row, source].map(|row| row.locale.as_deref().unwrap_or_default());
    differ("locale", new, old, "locale")
}

/// Logs a record of the transaction that changes no page.
fn log(
    session: &mut Session,
    core: &InDatabase,
    (rmgr, info): (Rmgr, u8),
    xid: Xid,
    main: &[u8],
) -> Result<(), EngineError> {
    let record = Record { rmgr, info, xid, main, blocks: &[] };
    core.wal.insert(&mut session.backend.io, &record)?;
    Ok(())
}
