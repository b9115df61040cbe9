//! Running statements about roles: their attributes, memberships, and settings of sessions.

use super::objects::{cascades, skipping, tag};
use super::passwords;
use super::sink::{CommandTag, RowSink};
use super::state::Connection;
use crate::error::{Result, SqlError, state};
use crate::parse::{GrantedRoles, ObjectStatement, RoleName, RoleOption};
use forebay_engine::{MemberOptions, Named, RoleChange, SettingChange};
use forebay_types::{Datum, SqlType, text_in_as};

impl Connection {
    /// Runs a statement about roles.
    pub(super) fn role_statement(
        &mut self,
        statement: &ObjectStatement,
        sink: &mut dyn RowSink,
    ) -> Result<CommandTag> {
        match statement {
            ObjectStatement::CreateRole { name, options } => {
                self.check_writable("CREATE ROLE")?;
                let changes = self.role_changes(name, options, sink)?;
                self.host.call(|session| session.create_role(name, &changes))?;
                self.add_members(name, options)?;
                tag("CREATE ROLE")
            }
            ObjectStatement::AlterRole(role, options) => {
                self.check_writable("ALTER ROLE")?;
                let name = self.named(role);
                let changes = self.role_changes(&name, options, sink)?;
                self.host.call(|session| session.alter_role(&name, &changes))?;
                self.add_members(&name, options)?;
                tag("ALTER ROLE")
            }
            ObjectStatement::RenameRole(name, to) => {
                self.check_writable("ALTER ROLE")?;
                if self.host.call(|session| session.rename_role(name, to))? {
                    let message = "MD5 password cleared because of role rename";
                    sink.notice(&SqlError::notice(state::SUCCESSFUL_COMPLETION, message))?;
                }
                tag("ALTER ROLE")
            }
            ObjectStatement::DropRoles { names, if_exists } => {
                self.drop_roles(names, *if_exists, sink)
            }
            ObjectStatement::ReassignOwned(from, to) => {
                self.check_writable("REASSIGN OWNED")?;
                let from: Vec<String> = from.iter().map(|role| self.named(role)).collect();
                let to = self.named(to);
                self.host.call(|session| session.reassign_owned(&from, &to))?;
                tag("REASSIGN OWNED")
            }
            ObjectStatement::DropOwned(roles, cascade) => {
                self.check_writable("DROP OWNED")?;
                let roles: Vec<String> = roles.iter().map(|role| self.named(role)).collect();
                let told = self.host.call(|session| session.drop_owned(&roles, *cascade))?;
                cascades(sink, &told)?;
                tag("DROP OWNED")
            }
            ObjectStatement::StoredSetting(database, role, change) => {
                self.store_setting(database.as_deref(), role.as_ref(), change)
            }
            ObjectStatement::GrantRoles(granted, None) => self.grant_roles(granted, sink),
            ObjectStatement::GrantRoles(granted, Some(cascade)) => {
                self.revoke_roles(granted, *cascade, sink)
            }
            _ => Err(SqlError::new(state::INTERNAL_ERROR, "this is no statement of a role")),
        }
    }

    fn drop_roles(
        &mut self,
        names: &[RoleName],
        if_exists: bool,
        sink: &mut dyn RowSink,
    ) -> Result<CommandTag> {
        self.check_writable("DROP ROLE")?;
        let mut dropped = Vec::with_capacity(names.len());
        for role in names {
            let name = match role {
                RoleName::Name(name) if name != "public" => name,
                _ => {
                    let message = "cannot use special role specifier in DROP ROLE";
                    return Err(SqlError::new(state::INVALID_PARAMETER_VALUE, message));
                }
            };
            if if_exists
                && self.host.call(|session| session.find_role(Named::Name(name)))?.is_none()
            {
                skipping(sink, &format!("role \"{name}\" does not exist"))?;
                continue;
            }
            dropped.push(name.clone());
        }
        self.host.call(|session| session.drop_roles(&dropped))?;
        tag("DROP ROLE")
    }

    fn grant_roles(
        &mut self,
        granted: &GrantedRoles,
        sink: &mut dyn RowSink,
    ) -> Result<CommandTag> {
        self.check_writable("GRANT ROLE")?;
        let (members, grantor) = self.members_and_grantor(granted);
        for role in &granted.roles {
            let (grantor, options) = (grantor.as_deref(), granted.options);
            let (same, grantor) =
                self.host.call(|session| session.grant_role((role, &members), grantor, options))?;
            for member in same {
                let message = format!(
                    "role \"{member}\" has already been granted membership in role \"{role}\" by \
                     role \"{grantor}\""
                );
                sink.notice(&SqlError::notice(state::SUCCESSFUL_COMPLETION, message))?;
            }
        }
        tag("GRANT ROLE")
    }

    fn revoke_roles(
        &mut self,
        granted: &GrantedRoles,
        cascade: bool,
        sink: &mut dyn RowSink,
    ) -> Result<CommandTag> {
        self.check_writable("REVOKE ROLE")?;
        let (members, grantor) = self.members_and_grantor(granted);
        for role in &granted.roles {
            let (grantor, how) = (grantor.as_deref(), (granted.options, cascade));
            let (missing, grantor) =
                self.host.call(|session| session.revoke_role((role, &members), grantor, how))?;
            for member in missing {
                let message = format!(
                    "role \"{member}\" has not been granted membership in role \"{role}\" by role \
                     \"{grantor}\""
                );
                sink.notice(&SqlError::warning(state::WARNING, message))?;
            }
        }
        tag("REVOKE ROLE")
    }

    fn members_and_grantor(&self, granted: &GrantedRoles) -> (Vec<String>, Option<String>) {
        let members = granted.members.iter().map(|member| self.named(member)).collect();
        (members, granted.grantor.as_ref().map(|grantor| self.named(grantor)))
    }

    /// Stores a setting with which sessions begin. It must be one.
    fn store_setting(
        &mut self,
        database: Option<&str>,
        role: Option<&RoleName>,
        change: &SettingChange,
    ) -> Result<CommandTag> {
        let statement =
            if role.is_none() && database.is_some() { "ALTER DATABASE" } else { "ALTER ROLE" };
        self.check_writable(statement)?;
        let change = match change {
            SettingChange::Set(name, value) => {
                self.host.settings.check(name, value)?;
                SettingChange::Set(self.host.show(name)?.name, value.clone())
            }
            SettingChange::Reset(name) => SettingChange::Reset(name.clone()),
            SettingChange::ResetAll => SettingChange::ResetAll,
        };
        let role = role.map(|role| self.named(role));
        let of = (database, role.as_deref());
        let had = self.host.call(|session| session.change_stored_settings(of, &change))?;
        if let (SettingChange::Reset(name), true) = (&change, had) {
            // As in PostgreSQL, it must be a setting only where there are some.
            self.host.show(name)?;
        }
        tag(statement)
    }

    /// The values in pg_authid that options of a role set.
    fn role_changes(
        &mut self,
        role: &str,
        options: &[RoleOption],
        sink: &mut dyn RowSink,
    ) -> Result<Vec<RoleChange>> {
        let mut changes: Vec<RoleChange> = Vec::new();
        for option in options {
            match option {
                RoleOption::Flag(column, on) => changes.push((column, Datum::Bool(*on))),
                RoleOption::ConnectionLimit(limit) if *limit < -1 => {
                    let message = format!("invalid connection limit: {limit}");
                    return Err(SqlError::new(state::INVALID_PARAMETER_VALUE, message));
                }
                RoleOption::ConnectionLimit(limit) => {
                    changes.push(("rolconnlimit", Datum::Int4(*limit)));
                }
                RoleOption::Password(None) => changes.push(("rolpassword", Datum::Null)),
                RoleOption::Password(Some(password)) => {
                    changes.push(("rolpassword", self.stored_password(role, password, sink)?));
                }
                RoleOption::ValidUntil(text) => {
                    let moment = text_in_as(text, SqlType::Timestamptz, -1, &self.host.style)?;
                    changes.push(("rolvaliduntil", moment.into_owned()));
                }
                RoleOption::SysId => {
                    let message = "SYSID can no longer be specified";
                    sink.notice(&SqlError::notice(state::SUCCESSFUL_COMPLETION, message))?;
                }
                RoleOption::InRole(_) | RoleOption::Members(_) | RoleOption::Admins(_) => {}
            }
        }
        Ok(changes)
    }

    /// What pg_authid stores of a role's password.
    fn stored_password(
        &mut self,
        role: &str,
        password: &str,
        sink: &mut dyn RowSink,
    ) -> Result<Datum<'static>> {
        let iterations = self.host.show("scram_iterations")?.value.parse().unwrap_or(4096);
        let method = self.host.show("password_encryption")?.value;
        let Some(stored) = passwords::stored((role, password), iterations, &method)? else {
            let message = "empty string is not a valid password, clearing password";
            sink.notice(&SqlError::notice(state::SUCCESSFUL_COMPLETION, message))?;
            return Ok(Datum::Null);
        };
        if passwords::is_md5(&stored) && self.host.show("md5_password_warnings")?.value == "on" {
            let warning = SqlError::warning("01P01", "setting an MD5-encrypted password");
            let detail = "MD5 password support is deprecated and will be removed in a future \
                          release of PostgreSQL.";
            let hint = "Refer to the PostgreSQL documentation for details about migrating to \
                        another password type.";
            sink.notice(&warning.detail(detail).hint(hint))?;
        }
        Ok(Datum::string(stored))
    }

    /// Grants the memberships that the options of a role name.
    fn add_members(&mut self, name: &str, options: &[RoleOption]) -> Result<()> {
        let none = MemberOptions::default();
        let admin = MemberOptions { admin: Some(true), ..none };
        let this = [name.to_owned()];
        for option in options {
            if let RoleOption::InRole(roles) = option {
                for role in roles {
                    let role = self.named(role);
                    self.host.call(|session| session.grant_role((&role, &this), None, none))?;
                }
            }
        }
        for option in options {
            let (members, options) = match option {
                RoleOption::Members(members) => (members, none),
                RoleOption::Admins(members) => (members, admin),
                _ => continue,
            };
            let members: Vec<String> = members.iter().map(|role| self.named(role)).collect();
            self.host.call(|session| session.grant_role((name, &members), None, options))?;
        }
        Ok(())
    }
}
