//! Schemas, roles, their settings, and comments.

use forebay_catalog::schema::{
    PG_AUTHID, PG_CLASS, PG_DATABASE, PG_DB_ROLE_SETTING, PG_NAMESPACE, PG_TABLESPACE,
    POSTGRES_ROLE,
};
use forebay_catalog::{
    self as catalog, Commented, Going, MemberOptions, Membership, Named, Reader, RoleChange,
    RoleRow, SettingChange, ddl,
};
use forebay_txn::locks::{LockMode, LockTag};
use forebay_types::Oid;

use super::path::no_schema;
use super::referred::object_lock;
use super::state::Session;
use crate::core::InDatabase;
use crate::error::EngineError;

/// An object that COMMENT ON names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommentOn {
    /// A relation: its schema, its name, and its kind (r: table, i: index, S: sequence).
    Relation(Option<String>, String, u8),
    /// A column of a relation: the relation's schema and name, and its own.
    Column(Option<String>, String, String),
    /// A schema.
    Schema(String),
    /// A database.
    Database(String),
    /// A role.
    Role(String),
    /// A tablespace.
    Tablespace(String),
}

impl Session {
    /// Creates a schema. False: there is one of that name, and that is no error.
    pub fn create_schema(
        &mut self,
        name: &str,
        owner: Option<&str>,
        if_not_exists: bool,
    ) -> Result<bool, EngineError> {
        self.call(|session, core| {
            let owner = match owner {
                Some(name) => session.owner_named(core, name)?,
                None => session.acting.role,
            };
            core.database.check_event_triggers()?;
            check_schema_name(name)?;
            if !session.free_schema(core, name)? {
                if if_not_exists {
                    return Ok(false);
                }
                let message = format!("schema \"{name}\" already exists");
                return Err(EngineError::statement("42P06", message));
            }
            let (tx, backend) = session.changing()?;
            catalog::create_schema(&core.database, backend, tx, name, owner)?;
            Ok(true)
        })
    }

    /// Locks the name of a schema. Whether it is free.
    fn free_schema(&mut self, core: &InDatabase, name: &str) -> Result<bool, EngineError> {
        let tag = ddl::name_lock(core.database.oid, PG_NAMESPACE.oid, name);
        self.lock(core, tag, LockMode::AccessExclusive)?;
        let snapshot = core.xacts.snapshot(&self.running()?.tx);
        Ok(Reader::new(&core.database, &mut self.backend, snapshot).namespace(name)?.is_none())
    }

    /// A schema that is to be changed or dropped.
    fn schema_to_change(&mut self, core: &InDatabase, name: &str) -> Result<Oid, EngineError> {
        core.database.check_event_triggers()?;
        loop {
            let oid = self.namespace(core, name)?.ok_or_else(|| no_schema(name))?;
            let tag = object_lock(core.database.oid, PG_NAMESPACE.oid, oid);
            self.lock(core, tag, LockMode::AccessExclusive)?;
            let snapshot = core.xacts.snapshot(&self.running()?.tx);
            let now = Reader::new(&core.database, &mut self.backend, snapshot).namespace(name)?;
            if now == Some(oid) {
                return Ok(oid);
            }
        }
    }

    /// Renames a schema.
    pub fn rename_schema(&mut self, name: &str, to: &str) -> Result<(), EngineError> {
        self.call(|session, core| {
            let oid = session.schema_to_change(core, name)?;
            check_schema_name(to)?;
            if !session.free_schema(core, to)? {
                let message = format!("schema \"{to}\" already exists");
                return Err(EngineError::statement("42P06", message));
            }
            let (tx, backend) = session.changing()?;
            let changed = (Some(to), None);
            Ok(catalog::alter_schema(&core.database, backend, tx, oid, changed)?)
        })
    }

    /// Gives a schema another owner.
    pub fn set_schema_owner(&mut self, name: &str, owner: &str) -> Result<(), EngineError> {
        self.call(|session, core| {
            let oid = session.schema_to_change(core, name)?;
            let owner = session.owner_named(core, owner)?;
            let (tx, backend) = session.changing()?;
            let changed = (None, Some(owner));
            Ok(catalog::alter_schema(&core.database, backend, tx, oid, changed)?)
        })
    }

    /// Drops schemas together; with `cascade` all that is in them. Returns what goes along, in
    /// words.
    pub fn drop_schemas(
        &mut self,
        names: &[String],
        cascade: bool,
    ) -> Result<Vec<String>, EngineError> {
        self.call(|session, core| {
            let mut oids: Vec<Oid> = Vec::with_capacity(names.len());
            for name in names {
                let oid = session.schema_to_change(core, name)?;
                if oid < forebay_format::ids::FIRST_UNPINNED_OID && name != "public" {
                    let message = format!(
                        "cannot drop schema {name} because it is required by the database system"
                    );
                    return Err(EngineError::statement("2BP01", message));
                }
                session.lock_what_goes(core, Going::Schema(oid))?;
                if !oids.contains(&oid) {
                    oids.push(oid);
                }
            }
            let path = session.visible_namespaces(core)?;
            let (tx, backend) = session.changing()?;
            Ok(catalog::drop_schemas(&core.database, backend, tx, (&oids, path), cascade)?.0)
        })
    }

    /// A role by its name. 42704 if there is none.
    pub(super) fn role_by_name(
        &mut self,
        core: &InDatabase,
        name: &str,
    ) -> Result<RoleRow, EngineError> {
        let Session { open: Some(open), backend, .. } = self else {
            return Err(super::state::no_transaction());
        };
        Ok(catalog::role_named(&core.database, backend, &open.tx, name)?)
    }

    /// A role by its name. 42704 if there is none.
    pub fn role_named(&mut self, name: &str) -> Result<RoleRow, EngineError> {
        self.call(|session, core| session.role_by_name(core, name))
    }

    /// A role by its name or its OID, if there is one.
    pub fn find_role(&mut self, role: Named<'_>) -> Result<Option<RoleRow>, EngineError> {
        self.call(|session, core| {
            let snapshot = core.xacts.snapshot(&session.running()?.tx);
            let mut reader = Reader::new(&core.database, &mut session.backend, snapshot);
            Ok(reader.find_role(role)?)
        })
    }

    /// The superuser with which the cluster was made. Superusers grant roles as it.
    fn bootstrap_role(&mut self, core: &InDatabase) -> Result<RoleRow, EngineError> {
        let snapshot = core.xacts.snapshot(&self.running()?.tx);
        let mut reader = Reader::new(&core.database, &mut self.backend, snapshot);
        let found = reader.find_role(Named::Oid(POSTGRES_ROLE))?;
        let lost = || EngineError::corrupt(format!("pg_authid has no role {POSTGRES_ROLE}"));
        found.ok_or_else(lost)
    }

    /// Creates a role with these values in pg_authid.
    pub fn create_role(&mut self, name: &str, with: &[RoleChange]) -> Result<Oid, EngineError> {
        self.call(|session, core| {
            check_role_name(name)?;
            session.lock_role_name(core, name)?;
            let (tx, backend) = session.changing()?;
            Ok(catalog::create_role(&core.database, backend, tx, name, with)?)
        })
    }

    /// Locks the name of a new role. 42710 if there is one.
    fn lock_role_name(&mut self, core: &InDatabase, name: &str) -> Result<(), EngineError> {
        let tag = ddl::name_lock(0, PG_AUTHID.oid, name);
        self.lock(core, tag, LockMode::AccessExclusive)?;
        match self.role_by_name(core, name) {
            Ok(_) => {
                let message = format!("role \"{name}\" already exists");
                Err(EngineError::statement("42710", message))
            }
            Err(error) if error.sqlstate() == "42704" => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Locks a role that is to be changed against other changes. It may come to own things.
    fn role_to_change(&mut self, core: &InDatabase, name: &str) -> Result<RoleRow, EngineError> {
        self.lock_role(core, name, LockMode::ShareUpdateExclusive)
    }

    /// Changes values of a role in pg_authid.
    pub fn alter_role(&mut self, name: &str, with: &[RoleChange]) -> Result<(), EngineError> {
        self.call(|session, core| {
            refuse_system_role(name)?;
            let role = session.role_to_change(core, name)?;
            let loses = with.iter().any(|(column, value)| {
                *column == "rolsuper" && *value == forebay_types::Datum::Bool(false)
            });
            if loses && role.oid == forebay_catalog::schema::POSTGRES_ROLE {
                let error = EngineError::statement("0A000", "permission denied to alter role");
                return Err(
                    error.with_detail("The bootstrap superuser must have the SUPERUSER attribute.")
                );
            }
            let (tx, backend) = session.changing()?;
            Ok(catalog::alter_role(&core.database, backend, tx, role.oid, with)?)
        })
    }

    /// Renames a role. Whether it has lost its password, an MD5 hash of which the name was a part.
    pub fn rename_role(&mut self, name: &str, to: &str) -> Result<bool, EngineError> {
        self.call(|session, core| {
            let role = session.role_to_change(core, name)?;
            if role.oid == session.acting.role || role.name == **session.session_user() {
                let session_user = role.name == **session.session_user();
                let which = if session_user { "session" } else { "current" };
                let message = format!("{which} user cannot be renamed");
                return Err(EngineError::statement("0A000", message));
            }
            check_role_name(name)?;
            check_role_name(to)?;
            session.lock_role_name(core, to)?;
            let (tx, backend) = session.changing()?;
            Ok(catalog::rename_role(&core.database, backend, tx, role.oid, to)?)
        })
    }

    /// Drops roles together.
    pub fn drop_roles(&mut self, names: &[String]) -> Result<(), EngineError> {
        self.call(|session, core| {
            let mut roles: Vec<RoleRow> = Vec::with_capacity(names.len());
            for name in names {
                let role = session.role_to_drop(core, name)?;
                if roles.iter().all(|known| known.oid != role.oid) {
                    roles.push(role);
                }
            }
            let path = session.visible_namespaces(core)?;
            let (tx, backend) = session.changing()?;
            Ok(catalog::drop_roles(&core.database, backend, tx, &roles, path)?)
        })
    }

    fn role_to_drop(&mut self, core: &InDatabase, name: &str) -> Result<RoleRow, EngineError> {
        let role = self.lock_role(core, name, LockMode::AccessExclusive)?;
        if role.oid == self.acting.role {
            return Err(EngineError::statement("55006", "current user cannot be dropped"));
        }
        if role.oid == core.role || role.name == **self.session_user() {
            return Err(EngineError::statement("55006", "session user cannot be dropped"));
        }
        if role.oid < forebay_format::ids::FIRST_UNPINNED_OID {
            let message = format!(
                "cannot drop role {} because it is required by the database system",
                role.name
            );
            return Err(EngineError::statement("2BP01", message));
        }
        if core.sessions.has_role(role.oid) {
            let message = format!("role \"{name}\" is used by a session");
            return Err(EngineError::statement("55006", message));
        }
        Ok(role)
    }

    /// Makes roles members of another, as a grantor or as superusers do. Returns the names of those
    /// who are members already, and the grantor's.
    pub fn grant_role(
        &mut self,
        (role, members): (&str, &[String]),
        grantor: Option<&str>,
        options: MemberOptions,
    ) -> Result<(Vec<String>, String), EngineError> {
        self.call(|session, core| {
            let found = session.lock_membership(core, (role, members), grantor)?;
            let (tx, backend) = session.changing()?;
            let (role, members, grantor) = &found;
            let membership = Membership { role, members, grantor };
            let same = catalog::grant_role(&core.database, backend, tx, membership, options)?;
            Ok((same, grantor.name.clone()))
        })
    }

    /// Ends memberships, or takes options of them back. Returns the names of those who are no
    /// members by that grantor, and the grantor's.
    pub fn revoke_role(
        &mut self,
        (role, members): (&str, &[String]),
        grantor: Option<&str>,
        how: (MemberOptions, bool),
    ) -> Result<(Vec<String>, String), EngineError> {
        self.call(|session, core| {
            let found = session.lock_membership(core, (role, members), grantor)?;
            let (tx, backend) = session.changing()?;
            let (role, members, grantor) = &found;
            let membership = Membership { role, members, grantor };
            let missing = catalog::revoke_role(&core.database, backend, tx, membership, how)?;
            Ok((missing, grantor.name.clone()))
        })
    }

    /// A role whose members are to change, those members, and who grants that.
    fn lock_membership(
        &mut self,
        core: &InDatabase,
        (role, members): (&str, &[String]),
        grantor: Option<&str>,
    ) -> Result<(RoleRow, Vec<RoleRow>, RoleRow), EngineError> {
        let mode = LockMode::AccessShare;
        let grantor = match grantor {
            Some(name) => self.lock_role(core, name, mode)?,
            None => self.bootstrap_role(core)?,
        };
        let members = members.iter().map(|name| self.lock_role(core, name, mode));
        let members = members.collect::<Result<_, _>>()?;
        Ok((self.role_to_change(core, role)?, members, grantor))
    }

    /// Changes the settings that sessions begin with: of a database, of a role, or of a role in a
    /// database. Whether there were some.
    pub fn change_stored_settings(
        &mut self,
        (database, role): (Option<&str>, Option<&str>),
        change: &SettingChange,
    ) -> Result<bool, EngineError> {
        self.call(|session, core| {
            let role = match role {
                Some(name) => {
                    refuse_system_role(name)?;
                    session.role_to_change(core, name)?.oid
                }
                None => 0,
            };
            let database = match database {
                Some(name) => session.database_to_change(core, name, LockMode::AccessShare)?.oid,
                None => 0,
            };
            let tag = object_lock(database, PG_DB_ROLE_SETTING.oid, role);
            session.lock(core, tag, LockMode::AccessExclusive)?;
            let (tx, backend) = session.changing()?;
            let of = (database, role);
            Ok(catalog::change_settings(&core.database, backend, tx, of, change)?)
        })
    }

    fn database_oid(&mut self, core: &InDatabase, name: &str) -> Result<Oid, EngineError> {
        let snapshot = core.xacts.snapshot(&self.running()?.tx);
        let mut reader = Reader::new(&core.database, &mut self.backend, snapshot);
        let found = reader.find_database(Named::Name(name))?;
        found.map(|row| row.oid).ok_or_else(|| {
            EngineError::statement("3D000", format!("database \"{name}\" does not exist"))
        })
    }

    /// The comment on a row of a catalog, or (without a catalog) on one with that OID, and on a
    /// column of a relation.
    pub fn description(
        &mut self,
        of: (Option<Oid>, Oid, i32),
    ) -> Result<Option<String>, EngineError> {
        self.call(|session, core| {
            let snapshot = core.xacts.snapshot(&session.running()?.tx);
            let mut reader = Reader::new(&core.database, &mut session.backend, snapshot);
            Ok(reader.description(of)?)
        })
    }

    /// Writes a comment, or removes it.
    pub fn comment(&mut self, on: &CommentOn, text: Option<&str>) -> Result<(), EngineError> {
        self.call(|session, core| {
            let on = session.lock_commented(core, on)?;
            if on.class == PG_CLASS.oid || on.class == PG_NAMESPACE.oid {
                core.database.check_event_triggers()?;
            }
            let (tx, backend) = session.changing()?;
            Ok(catalog::comment(&core.database, backend, tx, on, text)?)
        })
    }

    /// Finds what a comment is about, and locks it: nobody drops it, and nobody else comments it.
    fn lock_commented(
        &mut self,
        core: &InDatabase,
        on: &CommentOn,
    ) -> Result<Commented, EngineError> {
        let database = core.database.oid;
        if let CommentOn::Relation(_, _, b'i') = on {
            // Its table, with which it may be dropped.
            let index = self.commented(core, on)?.oid;
            let snapshot = core.xacts.snapshot(&self.running()?.tx);
            let mut reader = Reader::new(&core.database, &mut self.backend, snapshot);
            let class = reader.class(index)?;
            let table = class.map(|class| reader.table_of_index(&class)).transpose()?.flatten();
            if let Some(relation) = table {
                let tag = LockTag::Relation { database, relation };
                self.lock(core, tag, LockMode::AccessShare)?;
            }
        }
        let find = |session: &mut Session| session.commented(core, on).map(Some);
        let mode = LockMode::ShareUpdateExclusive;
        let found = self.lock_found(core, mode, find, |&Commented { class, oid, .. }| {
            Some(match class {
                _ if class == PG_CLASS.oid => LockTag::Relation { database, relation: oid },
                _ if class == PG_NAMESPACE.oid => object_lock(database, class, oid),
                _ => object_lock(0, class, oid),
            })
        })?;
        found.ok_or_else(|| EngineError::internal("an object that was found is none"))
    }

    fn commented(&mut self, core: &InDatabase, on: &CommentOn) -> Result<Commented, EngineError> {
        let object = |class, oid| Commented { class, oid, column: 0 };
        Ok(match on {
            CommentOn::Schema(name) => {
                let oid = self.namespace(core, name)?.ok_or_else(|| no_schema(name))?;
                object(PG_NAMESPACE.oid, oid)
            }
            CommentOn::Database(name) => object(PG_DATABASE.oid, self.database_oid(core, name)?),
            CommentOn::Role(name) => object(PG_AUTHID.oid, self.role_by_name(core, name)?.oid),
            CommentOn::Tablespace(name) => {
                let oid = self.tablespace_oid(core, name)?;
                object(PG_TABLESPACE.oid, oid)
            }
            CommentOn::Relation(schema, name, kind) => {
                let of = (schema.as_deref(), &**name);
                let (oid, _) = self.relation_column(core, of, (Some(*kind), None))?;
                object(PG_CLASS.oid, oid)
            }
            CommentOn::Column(schema, name, column) => {
                let of = (schema.as_deref(), &**name);
                let (oid, number) = self.relation_column(core, of, (None, Some(column)))?;
                Commented { class: PG_CLASS.oid, oid, column: number }
            }
        })
    }

    /// A relation by its name, of that kind or any, and the number of a column of it, or 0.
    fn relation_column(
        &mut self,
        core: &InDatabase,
        (schema, name): (Option<&str>, &str),
        (kind, column): (Option<u8>, Option<&str>),
    ) -> Result<(Oid, i16), EngineError> {
        let namespaces = match schema {
            Some(schema) => {
                vec![self.namespace(core, schema)?.ok_or_else(|| no_schema(schema))?]
            }
            None => self.visible_namespaces(core)?,
        };
        let snapshot = core.xacts.snapshot(&self.running()?.tx);
        let mut reader = Reader::new(&core.database, &mut self.backend, snapshot);
        for namespace in namespaces {
            let Some(class) = reader.class_named(namespace, name)? else { continue };
            let partitioned = class.kind.to_ascii_uppercase();
            let (is, what) = match kind {
                Some(b'r') => (matches!(class.kind, b'r' | b'p'), "a table"),
                Some(b'i') => (partitioned == b'I', "an index"),
                Some(_) => (class.kind == b'S', "a sequence"),
                None => (true, ""),
            };
            if !is {
                let message = format!("\"{name}\" is not {what}");
                return Err(EngineError::statement("42809", message));
            }
            let Some(column) = column else { return Ok((class.oid, 0)) };
            let unsupported = match class.kind {
                b'i' => "indexes",
                b'I' => "partitioned indexes",
                b'S' => "sequences",
                b't' => "TOAST tables",
                _ => "",
            };
            if !unsupported.is_empty() {
                let message = format!("cannot set comment on relation \"{name}\"");
                let detail = format!("This operation is not supported for {unsupported}.");
                return Err(EngineError::statement("42809", message).with_detail(detail));
            }
            let number = reader.column_number(&class, column)?;
            let missing = || {
                let schema = schema.map_or_else(String::new, |schema| format!("{schema}."));
                let message =
                    format!("column \"{column}\" of relation \"{schema}{name}\" does not exist");
                EngineError::statement("42703", message)
            };
            return Ok((class.oid, number.ok_or_else(missing)?));
        }
        let schema = schema.map_or_else(String::new, |schema| format!("{schema}."));
        let message = format!("relation \"{schema}{name}\" does not exist");
        Err(EngineError::statement("42P01", message))
    }
}

/// Refuses names of schemas that the system keeps for itself.
fn check_schema_name(name: &str) -> Result<(), EngineError> {
    if !name.starts_with("pg_") {
        return Ok(());
    }
    let error = EngineError::statement("42939", format!("unacceptable schema name \"{name}\""));
    Err(error.with_detail("The prefix \"pg_\" is reserved for system schemas."))
}

/// Refuses changes of roles that the system keeps for itself.
fn refuse_system_role(name: &str) -> Result<(), EngineError> {
    if !name.starts_with("pg_") {
        return Ok(());
    }
    let error = EngineError::statement("42939", format!("role name \"{name}\" is reserved"));
    Err(error.with_detail("Cannot alter reserved roles."))
}

/// Refuses names of roles that the system keeps for itself.
fn check_role_name(name: &str) -> Result<(), EngineError> {
    let reserved = || EngineError::statement("42939", format!("role name \"{name}\" is reserved"));
    match name {
        "public" | "none" => Err(reserved()),
        _ if name.starts_with("pg_") => {
            Err(reserved().with_detail("Role names starting with \"pg_\" are reserved."))
        }
        _ => Ok(()),
    }
}
