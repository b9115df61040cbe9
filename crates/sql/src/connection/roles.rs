//! Running statements about roles: their attributes, memberships, and settings of sessions.

use super::objects::{cascades, skipping, tag};
use super::passwords;
use super::sink::{CommandTag, RowSink};
use super::state::Connection;
use crate::error::{Result, SqlError, state};
use crate::parse::{ObjectStatement, RoleName, RoleOption};
use forebay_engine::{MemberOptions, RoleChange, Session, SettingChange, parse_timestamp};
use forebay_types::Datum;

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
                let changes = self.role_changes(options, sink)?;
                self.host.call(|session| session.create_role(name, &changes))?;
                self.add_members(name, options)?;
                tag("CREATE ROLE")
            }
            ObjectStatement::AlterRole(role, options) => {
                self.check_writable("ALTER ROLE")?;
                let name = self.named(role);
                let changes = self.role_changes(options, sink)?;
                self.host.call(|session| session.alter_role(&name, &changes))?;
                self.add_members(&name, options)?;
                tag("ALTER ROLE")
            }
            ObjectStatement::RenameRole(name, to) => {
                self.check_writable("ALTER ROLE")?;
                self.host.call(|session| session.rename_role(name, to))?;
                tag("ALTER ROLE")
            }
            ObjectStatement::DropRoles { names, if_exists } => {
                self.check_writable("DROP ROLE")?;
                for role in names {
                    let name = self.named(role);
                    match self.host.call(|session| session.drop_role(&name)) {
                        Err(error) if *if_exists && error.sqlstate == "42704" => {
                            skipping(sink, &format!("role \"{name}\" does not exist"))?;
                        }
                        dropped => dropped?,
                    }
                }
                tag("DROP ROLE")
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
            ObjectStatement::GrantRoles { roles, members, options } => {
                self.grant_roles((roles, members), *options, sink)
            }
            ObjectStatement::RevokeRoles { roles, members, options } => {
                self.revoke_roles((roles, members), *options, sink)
            }
            _ => Err(SqlError::new(state::INTERNAL_ERROR, "this is no statement of a role")),
        }
    }

    fn grant_roles(
        &mut self,
        (roles, members): (&[String], &[RoleName]),
        options: MemberOptions,
        sink: &mut dyn RowSink,
    ) -> Result<CommandTag> {
        self.check_writable("GRANT ROLE")?;
        for (role, member) in pairs(roles, members) {
            let member = self.named(member);
            if !self.host.call(|session| session.grant_role(role, &member, options))? {
                let grantor = self.host.call(Session::bootstrap_role_name)?;
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
        (roles, members): (&[String], &[RoleName]),
        options: MemberOptions,
        sink: &mut dyn RowSink,
    ) -> Result<CommandTag> {
        self.check_writable("REVOKE ROLE")?;
        for (role, member) in pairs(roles, members) {
            let member = self.named(member);
            if !self.host.call(|session| session.revoke_role(role, &member, options))? {
                let grantor = self.host.call(Session::bootstrap_role_name)?;
                let message = format!(
                    "role \"{member}\" has not been granted membership in role \"{role}\" by role \
                     \"{grantor}\""
                );
                sink.notice(&SqlError::warning(state::WARNING, message))?;
            }
        }
        tag("REVOKE ROLE")
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
        self.host
            .call(|session| session.change_stored_settings((database, role.as_deref()), &change))?;
        tag(statement)
    }

    /// The values in pg_authid that options of a role set.
    fn role_changes(
        &mut self,
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
                    let iterations = self.host.show("scram_iterations")?.value;
                    let method = self.host.show("password_encryption")?.value;
                    let iterations = iterations.parse().unwrap_or(4096);
                    let stored = passwords::stored(password, iterations, &method)?;
                    if stored.is_none() {
                        let message = "empty string is not a valid password, clearing password";
                        sink.notice(&SqlError::notice(state::SUCCESSFUL_COMPLETION, message))?;
                    }
                    let stored = stored.map_or(Datum::Null, Datum::string);
                    changes.push(("rolpassword", stored));
                }
                RoleOption::ValidUntil(text) => {
                    changes.push(("rolvaliduntil", Datum::Timestamptz(moment(text)?)));
                }
                RoleOption::InRole(_) | RoleOption::Members(_) | RoleOption::Admins(_) => {}
            }
        }
        Ok(changes)
    }

    /// Grants the memberships that the options of a role name.
    fn add_members(&mut self, name: &str, options: &[RoleOption]) -> Result<()> {
        let none = MemberOptions::default();
        let admin = MemberOptions { admin: Some(true), ..none };
        for option in options {
            match option {
                RoleOption::InRole(roles) => {
                    for role in roles {
                        self.host.call(|session| session.grant_role(role, name, none))?;
                    }
                }
                RoleOption::Members(members) => {
                    for member in members {
                        self.host.call(|session| session.grant_role(name, member, none))?;
                    }
                }
                RoleOption::Admins(members) => {
                    for member in members {
                        self.host.call(|session| session.grant_role(name, member, admin))?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// A time for VALID UNTIL, in microseconds since 2000. Without a zone it is in UTC.
fn moment(text: &str) -> Result<i64> {
    match text.trim() {
        "infinity" => return Ok(i64::MAX),
        "-infinity" => return Ok(i64::MIN),
        _ => {}
    }
    parse_timestamp(text.trim()).ok_or_else(|| {
        let message = format!("invalid input syntax for type timestamp with time zone: \"{text}\"");
        SqlError::new("22007", message)
    })
}

fn pairs<'a>(
    roles: &'a [String],
    members: &'a [RoleName],
) -> impl Iterator<Item = (&'a String, &'a RoleName)> {
    roles.iter().flat_map(move |role| members.iter().map(move |member| (role, member)))
}
