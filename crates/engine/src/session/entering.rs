//! How a session begins: it enters a database as a role.

use std::sync::Arc;

use forebay_aio::BackendType;
use forebay_catalog::schema::{PG_DATABASE, POSTGRES_DB, POSTGRES_ROLE};
use forebay_catalog::{DatabaseRow, Named, RoleRow, check_locale};
use forebay_storage::Backend;
use forebay_txn::locks::{Interrupt, LockMode, LockTag};
use forebay_types::{Encoding, Oid};

use super::roles::Acting;
use super::state::Session;
use crate::core::{Core, InDatabase};
use crate::engine::Engine;
use crate::error::EngineError;

/// Where the values of a stored setting come from (pg_db_role_setting), the strongest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SettingOf {
    /// ALTER ROLE ... IN DATABASE ... SET
    RoleInDatabase,
    /// ALTER ROLE ... SET
    Role,
    /// ALTER DATABASE ... SET
    Database,
    /// ALTER ROLE ALL SET
    All,
}

/// A setting that a database or a role brings along.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredSetting {
    /// What has it.
    pub of: SettingOf,
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// A name by its bytes: as the reader of the shared catalogs has it.
enum ByBytes {
    Name(String),
    Oid(Oid),
}

impl ByBytes {
    fn of(named: Named<'_>) -> Result<ByBytes, EngineError> {
        Ok(match named {
            Named::Oid(oid) => ByBytes::Oid(oid),
            Named::Name(name) => {
                ByBytes::Name(Encoding::SqlAscii.adopted(Encoding::Utf8, name.to_owned())?)
            }
        })
    }

    fn named(&self) -> Named<'_> {
        match self {
            ByBytes::Name(name) => Named::Name(name),
            ByBytes::Oid(oid) => Named::Oid(*oid),
        }
    }
}

/// The lock of a database: whoever enters it shares it for a moment, and DROP DATABASE excludes
/// them.
pub(super) fn database_lock(database: Oid) -> LockTag {
    LockTag::Object { database: 0, class: PG_DATABASE.oid, object: database }
}

impl Engine {
    /// Starts a client session in the database `postgres`, as the superuser with which the cluster
    /// was made. Settings that are stored for them are left to the caller
    /// ([`Session::stored_settings`]).
    pub fn session(self: &Arc<Self>) -> Result<Session, EngineError> {
        self.session_in(Named::Oid(POSTGRES_DB), Named::Oid(POSTGRES_ROLE))
    }

    /// Starts a client session in a database as a role, by their names. 28000 or 3D000 if there is
    /// none, 55000 if the database accepts no connections. Only superusers get in.
    pub fn session_as(
        self: &Arc<Self>,
        database: &str,
        role: &str,
    ) -> Result<Session, EngineError> {
        self.session_in(Named::Name(database), Named::Name(role))
    }

    fn session_in(
        self: &Arc<Self>,
        database: Named<'_>,
        role: Named<'_>,
    ) -> Result<Session, EngineError> {
        let mut session = Session::outside(self.core(), Some(Arc::clone(self)))?;
        let (database, role) = (ByBytes::of(database)?, ByBytes::of(role)?);
        session.enter(database.named(), role.named())?;
        session.core.counters.sessions.count();
        Ok(session)
    }
}

impl Session {
    /// A session of a client, or of autovacuum, that is in no database yet.
    pub(super) fn outside(
        core: &Arc<Core>,
        engine: Option<Arc<Engine>>,
    ) -> Result<Session, EngineError> {
        core.check_running()?;
        let kind = match engine {
            Some(_) => BackendType::Client,
            None => BackendType::AutovacuumWorker,
        };
        let interrupt = Interrupt::new();
        let entry = core.sessions.enter(&interrupt, engine.is_some())?;
        let io = core.aio.backend_with_id(kind, i32::try_from(entry.id).unwrap_or(i32::MAX));
        let mut backend = match io {
            Ok(io) => Backend::new(io),
            Err(error) => {
                core.sessions.leave(entry.id);
                return Err(error.into());
            }
        };
        backend.progress = Arc::clone(&entry.progress);
        let nowhere = InDatabase {
            core: Arc::clone(core),
            database: Arc::clone(core.databases.none()),
            database_name: String::new(),
            role: POSTGRES_ROLE,
            role_name: String::new(),
            counters: Arc::default(),
        };
        Ok(Session::new(nowhere, engine, (entry, interrupt), backend))
    }

    /// A session of a worker of autovacuum, which does not keep the engine open. It may enter
    /// databases that accept no connections.
    pub(super) fn in_database(core: &Arc<Core>, database: Oid) -> Result<Session, EngineError> {
        let mut session = Session::outside(core, None)?;
        session.enter_found(|session, core| {
            let mut reader = core.databases.shared_reader(&mut session.backend);
            let found = reader.find_database(Named::Oid(database))?;
            let row = found.filter(|row| !row.is_invalid()).ok_or_else(|| {
                let message = format!("database {database} does not exist");
                EngineError::statement("3D000", message)
            })?;
            check_locale(&row)?;
            let role = reader.find_role(Named::Oid(POSTGRES_ROLE))?;
            let lost = || EngineError::corrupt(format!("pg_authid has no role {POSTGRES_ROLE}"));
            Ok((row, role.ok_or_else(lost)?))
        })?;
        Ok(session)
    }

    fn enter(&mut self, database: Named<'_>, role: Named<'_>) -> Result<(), EngineError> {
        self.enter_found(|session, core| {
            let mut reader = core.databases.shared_reader(&mut session.backend);
            let role = reader.role_to_log_in(role)?;
            Ok((reader.database_to_enter(database)?, role))
        })
    }

    /// Enters the database that is found, as the role that is found.
    fn enter_found(
        &mut self,
        find: impl Fn(&mut Session, &InDatabase) -> Result<(DatabaseRow, RoleRow), EngineError>,
    ) -> Result<(), EngineError> {
        let place = self.call(|session, core| {
            let mut found = find(session, core)?;
            // Nobody drops it until others can count on this session.
            loop {
                let (tag, oid) = (database_lock(found.0.oid), found.0.oid);
                let Session { locks, interrupt, .. } = session;
                core.locks.lock(locks, tag, LockMode::RowExclusive, interrupt)?;
                found = find(session, core)?;
                if found.0.oid == oid {
                    break;
                }
                core.locks.unlock_all(&mut session.locks);
            }
            let (row, role) = found;
            core.sessions.entered(session.id, row.oid, role.oid);
            core.locks.unlock_all(&mut session.locks);
            let database = core.databases.open(&mut session.backend, &row)?;
            session.warn_of_version(&row, database.default_collation());
            let encoding = database.encoding;
            let named = |name: String| {
                let shown = Encoding::SqlAscii.shown(&name);
                encoding.adopted(Encoding::SqlAscii, name).unwrap_or(shown)
            };
            Ok(InDatabase {
                core: Arc::clone(&core.core),
                database,
                database_name: named(row.name),
                role: role.oid,
                role_name: named(role.name),
                counters: core.counters_of(row.oid),
            })
        })?;
        self.core = Arc::new(place);
        self.acting = Acting::logged_in(&self.core);
        Ok(())
    }

    /// The name of its database, as it was when the session began.
    pub fn database_name(&self) -> &str {
        &self.core.database_name
    }

    /// The encoding of its database.
    pub fn encoding(&self) -> Encoding {
        self.core.database.encoding
    }

    /// The OID of its database.
    pub fn database(&self) -> Oid {
        self.core.database.oid
    }

    /// The name of its role, as it was when the session began.
    pub fn role_name(&self) -> &str {
        &self.core.role_name
    }

    /// The OID of its role.
    pub fn role(&self) -> Oid {
        self.core.role
    }

    /// The settings that its database and its role bring along, the strongest first. They are as
    /// stored: the caller applies them, or not.
    pub fn stored_settings(&mut self) -> Result<Vec<StoredSetting>, EngineError> {
        self.call(|session, core| {
            let (database, role, encoding) = (core.database.oid, core.role, core.database.encoding);
            let mut reader = core.databases.shared_reader(&mut session.backend);
            let mut found = Vec::new();
            for (of, database, role) in [
                (SettingOf::RoleInDatabase, database, role),
                (SettingOf::Role, 0, role),
                (SettingOf::Database, database, 0),
                (SettingOf::All, 0, 0),
            ] {
                for text in reader.stored_settings(database, role)? {
                    let text = encoding.adopted(Encoding::SqlAscii, text)?;
                    let Some((name, value)) = text.split_once('=') else {
                        return Err(EngineError::corrupt("pg_db_role_setting has a bad setting"));
                    };
                    let (name, value) = (name.to_owned(), value.to_owned());
                    found.push(StoredSetting { of, name, value });
                }
            }
            Ok(found)
        })
    }
}
