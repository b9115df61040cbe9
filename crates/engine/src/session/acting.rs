//! The role as which a session's statements run: SET ROLE and SET SESSION AUTHORIZATION.
//!
//! Privileges are not enforced, so a role that is no superuser uses only what it owns: nothing that
//! PostgreSQL would have to look up in an access list is passed over.

use std::sync::Arc;

use forebay_catalog::Table;
use forebay_catalog::syscache::NamespaceByOid;
use forebay_types::Oid;

use super::roles::Acting;
use super::state::Session;
use crate::config::SessionSettings;
use crate::core::InDatabase;
use crate::error::EngineError;

/// pg_database_owner: its one member is the database's owner.
const DATABASE_OWNER: Oid = 6171;

impl Session {
    /// Lets statements run as the roles that the settings name. Whether they are others than
    /// before. 22023 if there is none of a name.
    pub fn take_roles(&mut self) -> Result<bool, EngineError> {
        let SessionSettings { role, session_authorization: user, .. } = &self.settings;
        let own = |name: &str| name.is_empty() || name == self.core.role_name;
        if self.acting.own && own(user) && &**role == "none" {
            return Ok(false);
        }
        let (role, session_user) =
            (Arc::clone(&self.settings.role), Arc::clone(&self.settings.session_authorization));
        let acting = if own(&session_user) && &*role == "none" {
            Acting::logged_in(&self.core)
        } else {
            let session_role = if session_user.is_empty() {
                self.core.role_name.as_str().into()
            } else {
                session_user
            };
            self.call(|session, core| session.acting_as(core, &role, session_role))?
        };
        if acting.name != self.acting.name {
            self.known_path = super::known_path::KnownPath::default();
        }
        if let Some(open) = &mut self.open {
            open.tx.set_role(acting.role);
        }
        self.acting = acting;
        Ok(true)
    }

    fn acting_as(
        &mut self,
        core: &InDatabase,
        role: &str,
        session_user: Arc<str>,
    ) -> Result<Acting, EngineError> {
        let mut find = |name: &str| match self.role_by_name(core, name) {
            Err(error) if error.sqlstate() == "42704" => {
                Err(EngineError::statement("22023", error.to_string()))
            }
            found => found,
        };
        let session_role = find(&session_user)?;
        if role == "none" || role == &*session_user {
            return Ok(Acting {
                role: session_role.oid,
                name: Arc::clone(&session_user),
                superuser: session_role.superuser,
                session_user,
                own: false,
            });
        }
        if !session_role.superuser {
            let message = "SET ROLE of a session user that is no superuser is not supported";
            return Err(EngineError::statement("0A000", message));
        }
        let found = find(role)?;
        let (name, superuser) = (role.into(), found.superuser);
        Ok(Acting { role: found.oid, name, superuser, session_user, own: false })
    }

    /// The name of the role as which statements run.
    pub fn current_user(&self) -> &Arc<str> {
        &self.acting.name
    }

    /// The name of the role that the session acts for.
    pub fn session_user(&self) -> &Arc<str> {
        &self.acting.session_user
    }

    /// Whether statements run as a superuser.
    pub fn is_superuser(&self) -> bool {
        self.acting.superuser
    }

    /// Fails (0A000) if statements run as a role that is no superuser and does not own this.
    pub(super) fn check_owned(
        &self,
        owner: Oid,
        verb: &str,
        what: impl FnOnce() -> String,
    ) -> Result<(), EngineError> {
        if self.acting.superuser || owner == self.acting.role {
            return Ok(());
        }
        let (what, role) = (what(), &self.acting.name);
        let message = format!("cannot {verb} {what} as role \"{role}\"");
        let detail = "Privileges are not enforced yet, so a role that is no superuser uses only \
                      what it owns.";
        Err(EngineError::statement("0A000", message).with_detail(detail))
    }

    /// The same for a table.
    pub(super) fn check_table_owned(&self, table: &Table) -> Result<(), EngineError> {
        self.check_owned(table.owner, "use", || format!("relation \"{}\"", table.name))
    }

    /// The same for a schema in which something is to be created.
    pub(super) fn check_schema_owned(
        &mut self,
        core: &InDatabase,
        schema: Oid,
    ) -> Result<(), EngineError> {
        if self.acting.superuser {
            return Ok(());
        }
        let row = self.look_up(NamespaceByOid(schema))?;
        let lost = || EngineError::internal("a schema that was found is none");
        let row = row.ok_or_else(lost)?;
        let mut owner = row.owner;
        if owner == DATABASE_OWNER {
            let database = self.database_by_oid(core, core.database.oid)?;
            owner = database.map_or(owner, |database| database.owner);
        }
        self.check_owned(owner, "create anything in", || format!("schema \"{}\"", row.name))
    }
}
