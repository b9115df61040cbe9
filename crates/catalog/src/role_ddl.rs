//! Roles: pg_authid, pg_db_role_setting.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use forebay_storage::Backend;
use forebay_txn::Transaction;
use forebay_types::{Datum, Oid, oids};

use crate::arrays::{array_of, stored_text};
use crate::catalog_oids::{ROLES, SETTINGS};
use crate::cluster_rows::{Named, RoleRow};
use crate::database::Database;
use crate::describe::describe_dependents;
use crate::error::CatalogError;
use crate::membership::drop_grants;
use crate::objects::Object;
use crate::options::settings_of;
use crate::reader::Reader;
use crate::row::Row;
use crate::schema::{PG_AUTHID, PG_AUTHID_OID_INDEX, PG_DB_ROLE_SETTING_DATABASEID_ROL_INDEX};
use crate::writer::Writer;

/// A column of pg_authid with a new value.
pub type RoleChange = (&'static str, Datum<'static>);

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

/// Gives a role another name, which is free and locked. Whether it has lost its password, an MD5
/// hash of which the name was a part.
pub fn rename_role(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    oid: Oid,
    name: &str,
) -> Result<bool, CatalogError> {
    let mut writer = Writer::begin(database, backend, tx)?;
    let mut found = writer.row(&PG_AUTHID_OID_INDEX, oid)?;
    let password = Row(&found.values, PG_AUTHID.name).text(PG_AUTHID.place("rolpassword"))?;
    let is_md5 = password.is_some_and(|password| password.starts_with("md5"));
    let mut changes = vec![("rolname", Datum::string(name.to_owned()))];
    changes.extend(is_md5.then_some(("rolpassword", Datum::Null)));
    change(&mut found.values, &changes);
    writer.update(ROLES, found.tid, &found.values)?;
    writer.next_command()?;
    Ok(is_md5)
}

/// Drops roles, with their memberships and settings. 2BP01 if something depends on one of them;
/// messages name what is in a namespace of `path` without it.
pub fn drop_roles(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    roles: &[RoleRow],
    path: Vec<Oid>,
) -> Result<(), CatalogError> {
    let mut writer = Writer::begin(database, backend, tx)?;
    writer.path = path;
    // First those of all of them: one may have granted what another one has.
    roles.iter().try_for_each(|role| drop_grants(&mut writer, role.oid))?;
    for role in roles {
        refuse_dependents(&mut writer, role)?;
        writer.delete_settings(0, role.oid)?;
        writer.delete_shared_notes(Object::new(ROLES, role.oid))?;
        let found = writer.row(&PG_AUTHID_OID_INDEX, role.oid)?;
        writer.delete(ROLES, &found)?;
        writer.next_command()?;
    }
    Ok(())
}

/// Refuses to drop a role on which something depends.
fn refuse_dependents(writer: &mut Writer<'_>, role: &RoleRow) -> Result<(), CatalogError> {
    let found = writer.shared_dependents((ROLES, role.oid))?;
    if found.is_empty() {
        return Ok(());
    }
    let detail = describe_dependents(writer, found)?;
    let message =
        format!("role \"{}\" cannot be dropped because some objects depend on it", role.name);
    Err(CatalogError::refused("2BP01", message).with_detail(detail))
}

/// Changes the settings of a role in a database; 0 stands for any. Whether there were some.
pub fn change_settings(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    (of, role): (Oid, Oid),
    change: &SettingChange,
) -> Result<bool, CatalogError> {
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
    let had = found.is_some();
    match found {
        Some(found) if texts.is_empty() => writer.delete(SETTINGS, &found)?,
        Some(found) => writer.update(SETTINGS, found.tid, &row)?,
        None if texts.is_empty() => {}
        None => writer.insert(SETTINGS, &row)?,
    }
    writer.next_command()?;
    Ok(had)
}
