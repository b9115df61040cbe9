//! Roles: pg_authid, pg_auth_members, pg_db_role_setting.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use forebay_storage::Backend;
use forebay_txn::Transaction;
use forebay_types::{Datum, Oid, oids};

use crate::arrays::{array_of, stored_text};
use crate::catalog_oids::{DATABASES, MEMBERSHIPS, ROLES, SETTINGS};
use crate::cluster_rows::{Named, RoleRow};
use crate::database::Database;
use crate::describe::describe as describe_object;
use crate::error::CatalogError;
use crate::objects::Object;
use crate::options::settings_of;
use crate::reader::Reader;
use crate::row::Row;
use crate::schema::{
    PG_AUTH_MEMBERS, PG_AUTH_MEMBERS_MEMBER_ROLE_INDEX, PG_AUTH_MEMBERS_OID_INDEX,
    PG_AUTH_MEMBERS_ROLE_MEMBER_INDEX, PG_AUTHID, PG_AUTHID_OID_INDEX,
    PG_DB_ROLE_SETTING_DATABASEID_ROL_INDEX, POSTGRES_ROLE,
};
use crate::shared_objects::SharedDependency;
use crate::writer::{Found, Writer};

/// A column of pg_authid with a new value.
pub type RoleChange = (&'static str, Datum<'static>);

/// Options of a membership; None: as it is, or by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemberOptions {
    /// admin_option
    pub admin: Option<bool>,
    /// inherit_option
    pub inherit: Option<bool>,
    /// set_option
    pub set: Option<bool>,
}

/// Which settings of a database and a role are changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingChange {
    /// SET to a value.
    Set(String, String),
    /// RESET of one.
    Reset(String),
    /// RESET ALL.
    ResetAll,
}

/// A role by its name, as the transaction sees it. 42704 if there is none.
pub fn role_named(
    database: &Database,
    backend: &mut Backend,
    tx: &Transaction,
    name: &str,
) -> Result<RoleRow, CatalogError> {
    let snapshot = database.xacts.snapshot(tx);
    let found = Reader::new(database, backend, snapshot).find_role(Named::Name(name))?;
    found.ok_or_else(|| CatalogError::refused("42704", format!("role \"{name}\" does not exist")))
}

/// Creates a role, whose name is free and locked. Returns its OID.
pub fn create_role(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    name: &str,
    changes: &[RoleChange],
) -> Result<Oid, CatalogError> {
    let mut writer = Writer::begin(database, backend, tx)?;
    let oid = writer.free_oid(&PG_AUTHID_OID_INDEX)?;
    let mut row = vec![
        Datum::Oid(oid),
        Datum::string(name.to_owned()),
        Datum::Bool(false), // rolsuper
        Datum::Bool(true),  // rolinherit
        Datum::Bool(false), // rolcreaterole
        Datum::Bool(false), // rolcreatedb
        Datum::Bool(false), // rolcanlogin
        Datum::Bool(false), // rolreplication
        Datum::Bool(false), // rolbypassrls
        Datum::Int4(-1),    // rolconnlimit
        Datum::Null,        // rolpassword
        Datum::Null,        // rolvaliduntil
    ];
    change(&mut row, changes);
    writer.insert(ROLES, &row)?;
    writer.next_command()?;
    Ok(oid)
}

fn change(row: &mut [Datum<'static>], changes: &[RoleChange]) {
    for (name, value) in changes {
        if let Some(place) = row.get_mut(PG_AUTHID.place(name)) {
            *place = value.clone();
        }
    }
}

/// Changes values of a role.
pub fn alter_role(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    oid: Oid,
    changes: &[RoleChange],
) -> Result<(), CatalogError> {
    let mut writer = Writer::begin(database, backend, tx)?;
    let mut found = writer.row(&PG_AUTHID_OID_INDEX, oid)?;
    change(&mut found.values, changes);
    writer.update(ROLES, found.tid, &found.values)?;
    writer.next_command()
}

/// Drops a role, with its memberships and settings. 2BP01 if something depends on it.
pub fn drop_role(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    role: &RoleRow,
) -> Result<(), CatalogError> {
    let mut writer = Writer::begin(database, backend, tx)?;
    refuse_dependents(&mut writer, role)?;
    let key = [Datum::Oid(role.oid)];
    for index in [&PG_AUTH_MEMBERS_ROLE_MEMBER_INDEX, &PG_AUTH_MEMBERS_MEMBER_ROLE_INDEX] {
        for found in writer.rows((index, &key), usize::MAX)? {
            let oid = Row(&found.values, PG_AUTH_MEMBERS.name).oid(0)?;
            writer.delete_shared_notes(Object::new(MEMBERSHIPS, oid))?;
            writer.delete(MEMBERSHIPS, &found)?;
        }
        writer.next_command()?;
    }
    writer.delete_settings(0, role.oid)?;
    writer.delete_shared_notes(Object::new(ROLES, role.oid))?;
    let found = writer.row(&PG_AUTHID_OID_INDEX, role.oid)?;
    writer.delete(ROLES, &found)?;
    writer.next_command()
}

/// Refuses to drop a role on which something depends.
fn refuse_dependents(writer: &mut Writer<'_>, role: &RoleRow) -> Result<(), CatalogError> {
    let mut found = writer.shared_dependents((ROLES, role.oid))?;
    if found.is_empty() {
        return Ok(());
    }
    found.sort_by_key(|depends| (depends.object.oid, depends.database));
    let (mut lines, mut elsewhere) = (Vec::new(), Vec::<(Oid, usize)>::new());
    for SharedDependency { database, object, kind } in found {
        if database != 0 && database != writer.database.oid {
            match elsewhere.iter_mut().find(|(oid, _)| *oid == database) {
                Some((_, count)) => *count += 1,
                None => elsewhere.push((database, 1)),
            }
            continue;
        }
        let what = describe(writer, object)?;
        lines.push(match kind {
            b'o' => format!("owner of {what}"),
            b'a' => format!("privileges for {what}"),
            b'i' => format!("initial privileges for {what}"),
            b'r' => format!("target of {what}"),
            _ => format!("dependency of {what}"),
        });
    }
    for (database, count) in elsewhere {
        let row = writer.reader().find_database(Named::Oid(database))?;
        let name = row.map_or_else(|| database.to_string(), |row| row.name);
        let objects = if count == 1 { "object" } else { "objects" };
        lines.push(format!("{count} {objects} in database {name}"));
    }
    let message =
        format!("role \"{}\" cannot be dropped because some objects depend on it", role.name);
    Err(CatalogError::refused("2BP01", message).with_detail(lines.join("\n")))
}

/// An object in messages.
fn describe(writer: &mut Writer<'_>, object: Object) -> Result<String, CatalogError> {
    Ok(match object.class {
        DATABASES => {
            let row = writer.reader().find_database(Named::Oid(object.oid))?;
            row.map_or_else(
                || format!("database {}", object.oid),
                |r| format!("database {}", r.name),
            )
        }
        MEMBERSHIPS => format!("membership {}", object.oid),
        _ => describe_object(writer, object)?,
    })
}

/// The roles that a role is a member of, directly or through others; the role itself comes first.
fn all_roles_of(writer: &mut Writer<'_>, member: Oid) -> Result<Vec<Oid>, CatalogError> {
    let (mut found, mut at) = (vec![member], 0);
    while let Some(next) = found.get(at).copied() {
        at += 1;
        let key = [Datum::Oid(next)];
        for row in writer.rows((&PG_AUTH_MEMBERS_MEMBER_ROLE_INDEX, &key), 3)? {
            let role = Row(&row.values, PG_AUTH_MEMBERS.name).oid(1)?;
            if !found.contains(&role) {
                found.push(role);
            }
        }
    }
    Ok(found)
}

/// Makes a role a member of another, or changes the options of that. Superusers grant as the
/// bootstrap superuser. False: it is a member already, with these options.
pub fn grant_role(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    (role, member): (&RoleRow, &RoleRow),
    options: MemberOptions,
) -> Result<bool, CatalogError> {
    let mut writer = Writer::begin(database, backend, tx)?;
    if all_roles_of(&mut writer, role.oid)?.contains(&member.oid) {
        let message = format!("role \"{}\" is a member of role \"{}\"", role.name, member.name);
        return Err(CatalogError::refused("0LP01", message));
    }
    let key = [Datum::Oid(role.oid), Datum::Oid(member.oid), Datum::Oid(POSTGRES_ROLE)];
    let found = writer.rows((&PG_AUTH_MEMBERS_ROLE_MEMBER_INDEX, &key), usize::MAX)?.pop();
    let Some(mut found) = found else {
        let oid = writer.free_oid(&PG_AUTH_MEMBERS_OID_INDEX)?;
        let row = [
            Datum::Oid(oid),
            Datum::Oid(role.oid),
            Datum::Oid(member.oid),
            Datum::Oid(POSTGRES_ROLE),
            Datum::Bool(options.admin.unwrap_or(false)),
            Datum::Bool(options.inherit.unwrap_or(member.inherits)),
            Datum::Bool(options.set.unwrap_or(true)),
        ];
        writer.insert(MEMBERSHIPS, &row)?;
        writer.next_command()?;
        return Ok(true);
    };
    let before = found.values.clone();
    set_options(&mut found, options);
    if found.values == before {
        return Ok(false);
    }
    writer.update(MEMBERSHIPS, found.tid, &found.values)?;
    writer.next_command()?;
    Ok(true)
}

fn set_options(found: &mut Found, MemberOptions { admin, inherit, set }: MemberOptions) {
    for (at, value) in [(4, admin), (5, inherit), (6, set)] {
        if let (Some(place), Some(value)) = (found.values.get_mut(at), value) {
            *place = Datum::Bool(value);
        }
    }
}

/// Ends a membership, or takes options of it back (those that are Some). False: there is none.
pub fn revoke_role(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    (role, member): (&RoleRow, &RoleRow),
    options: MemberOptions,
) -> Result<bool, CatalogError> {
    let mut writer = Writer::begin(database, backend, tx)?;
    let key = [Datum::Oid(role.oid), Datum::Oid(member.oid), Datum::Oid(POSTGRES_ROLE)];
    let found = writer.rows((&PG_AUTH_MEMBERS_ROLE_MEMBER_INDEX, &key), usize::MAX)?.pop();
    let Some(mut found) = found else { return Ok(false) };
    if options == MemberOptions::default() {
        let oid = Row(&found.values, PG_AUTH_MEMBERS.name).oid(0)?;
        writer.delete_shared_notes(Object::new(MEMBERSHIPS, oid))?;
        writer.delete(MEMBERSHIPS, &found)?;
    } else {
        set_options(&mut found, options);
        writer.update(MEMBERSHIPS, found.tid, &found.values)?;
    }
    writer.next_command()?;
    Ok(true)
}

/// Changes the settings of a role in a database; 0 stands for any.
pub fn change_settings(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    (of, role): (Oid, Oid),
    change: &SettingChange,
) -> Result<(), CatalogError> {
    let mut writer = Writer::begin(database, backend, tx)?;
    let key = [Datum::Oid(of), Datum::Oid(role)];
    let settings = &PG_DB_ROLE_SETTING_DATABASEID_ROL_INDEX;
    let found = writer.rows((settings, &key), 3)?.pop();
    let known = found.as_ref().and_then(|found| found.values.get(2));
    let mut texts = known.map(settings_of).transpose()?.unwrap_or_default();
    let is = |text: &String, name: &str| {
        text.split_once('=').is_some_and(|(known, _)| known.eq_ignore_ascii_case(name))
    };
    match change {
        SettingChange::Set(name, value) => {
            let text = format!("{name}={value}");
            match texts.iter_mut().find(|text| is(text, name)) {
                Some(place) => *place = text,
                None => texts.push(text),
            }
        }
        SettingChange::Reset(name) => texts.retain(|text| !is(text, name)),
        SettingChange::ResetAll => texts.clear(),
    }
    let stored = texts.iter().map(|text| stored_text(text)).collect::<Vec<_>>();
    let array = array_of(oids::TEXT_ARRAY, oids::TEXT, stored.into_iter());
    let row = [Datum::Oid(of), Datum::Oid(role), array];
    match found {
        Some(found) if texts.is_empty() => writer.delete(SETTINGS, &found)?,
        Some(found) => writer.update(SETTINGS, found.tid, &row)?,
        None if texts.is_empty() => {}
        None => writer.insert(SETTINGS, &row)?,
    }
    writer.next_command()
}
