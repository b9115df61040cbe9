//! Memberships in roles: pg_auth_members.
//!
//! A role that has the ADMIN option on another one can grant it. So grants of a role depend on each
//! other: if a grantor loses the option, its grants have to go, too. They form no circle.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use forebay_storage::Backend;
use forebay_txn::Transaction;
use forebay_types::{Datum, Oid};

use crate::catalog_oids::MEMBERSHIPS;
use crate::cluster_rows::{Named, RoleRow};
use crate::database::Database;
use crate::error::CatalogError;
use crate::objects::Object;
use crate::row::Row;
use crate::schema::{
    PG_AUTH_MEMBERS, PG_AUTH_MEMBERS_MEMBER_ROLE_INDEX, PG_AUTH_MEMBERS_OID_INDEX,
    PG_AUTH_MEMBERS_ROLE_MEMBER_INDEX, POSTGRES_ROLE,
};
use crate::writer::{Found, Writer};

/// pg_database_owner: its one member is the owner of the database.
const DATABASE_OWNER: Oid = 6171;
/// Columns of pg_auth_members.
const ADMIN: usize = PG_AUTH_MEMBERS.place("admin_option");
const INHERIT: usize = PG_AUTH_MEMBERS.place("inherit_option");
const SET: usize = PG_AUTH_MEMBERS.place("set_option");

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

/// A role, the members that it gains or loses, and the grantor. The caller has locked all of them.
#[derive(Clone, Copy, Debug)]
pub struct Membership<'a> {
    /// The role.
    pub role: &'a RoleRow,
    /// Its members.
    pub members: &'a [RoleRow],
    /// The grantor. For a superuser this is the bootstrap superuser.
    pub grantor: &'a RoleRow,
}

/// What becomes of a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Stays,
    /// It loses the option in this column.
    Loses(usize),
    Goes,
}

/// A row of pg_auth_members.
struct Grant {
    found: Found,
    oid: Oid,
    member: Oid,
    grantor: Oid,
    admin: bool,
    fate: Fate,
}

/// All grants of a role.
struct Grants(Vec<Grant>);

impl Grants {
    fn of(writer: &mut Writer<'_>, role: Oid) -> Result<Grants, CatalogError> {
        let found = writer
            .rows((&PG_AUTH_MEMBERS_ROLE_MEMBER_INDEX, &[Datum::Oid(role)]), usize::MAX)?
            .into_iter();
        let read = |found: Found| {
            let row = Row(&found.values, PG_AUTH_MEMBERS.name);
            let (oid, member, grantor) = (row.oid(0)?, row.oid(2)?, row.oid(3)?);
            let admin = row.bool(ADMIN)?;
            Ok(Grant { found, oid, member, grantor, admin, fate: Fate::Stays })
        };
        Ok(Grants(found.map(read).collect::<Result<_, CatalogError>>()?))
    }

    /// Whether a role has the ADMIN option, and keeps it.
    fn has_admin(&self, member: Oid) -> bool {
        let keeps = |grant: &Grant| grant.admin && grant.fate == Fate::Stays;
        self.0.iter().any(|grant| grant.member == member && keeps(grant))
    }

    /// Takes a grant back, or only its ADMIN option; with `cascade` also what was granted by it,
    /// else that is an error (2BP01).
    fn revoke(&mut self, at: usize, admin_only: bool, cascade: bool) -> Result<(), CatalogError> {
        let mut todo = vec![(at, admin_only)];
        while let Some((at, admin_only)) = todo.pop() {
            let Some(grant) = self.0.get_mut(at) else { continue };
            let fate = if admin_only { Fate::Loses(ADMIN) } else { Fate::Goes };
            if grant.fate == Fate::Goes || grant.fate == fate || (admin_only && !grant.admin) {
                continue;
            }
            grant.fate = fate;
            let member = grant.member;
            if !grant.admin || self.has_admin(member) {
                continue;
            }
            let depends = |grant: &Grant| grant.grantor == member && grant.fate != Fate::Goes;
            let before = todo.len();
            let grants = self.0.iter().enumerate();
            todo.extend(grants.filter(|(_, grant)| depends(grant)).map(|(at, _)| (at, false)));
            if todo.len() > before && !cascade {
                let error = CatalogError::refused("2BP01", "dependent privileges exist");
                return Err(error.with_hint("Use CASCADE to revoke them too."));
            }
        }
        Ok(())
    }

    /// Takes all grants to a role back.
    fn revoke_from(&mut self, member: Oid) -> Result<(), CatalogError> {
        for at in 0..self.0.len() {
            if self.0.get(at).is_some_and(|grant| grant.member == member) {
                self.revoke(at, false, true)?;
            }
        }
        Ok(())
    }

    /// Writes what has become of them.
    fn store(self, writer: &mut Writer<'_>) -> Result<(), CatalogError> {
        for mut grant in self.0 {
            match grant.fate {
                Fate::Stays => {}
                Fate::Goes => delete_grant(writer, grant.oid, &grant.found)?,
                Fate::Loses(option) => {
                    if let Some(place) = grant.found.values.get_mut(option) {
                        *place = Datum::Bool(false);
                    }
                    writer.update(MEMBERSHIPS, grant.found.tid, &grant.found.values)?;
                }
            }
        }
        writer.next_command()
    }
}

fn delete_grant(writer: &mut Writer<'_>, oid: Oid, found: &Found) -> Result<(), CatalogError> {
    writer.delete_shared_notes(Object::new(MEMBERSHIPS, oid))?;
    writer.delete(MEMBERSHIPS, found)
}

/// Deletes a grant that is known by its OID.
pub(crate) fn drop_grant(writer: &mut Writer<'_>, oid: Oid) -> Result<(), CatalogError> {
    let key = [Datum::Oid(oid)];
    for found in writer.rows((&PG_AUTH_MEMBERS_OID_INDEX, &key), usize::MAX)? {
        delete_grant(writer, oid, &found)?;
    }
    Ok(())
}

/// Deletes all grants of a role, and to it.
pub(crate) fn drop_grants(writer: &mut Writer<'_>, role: Oid) -> Result<(), CatalogError> {
    for index in [&PG_AUTH_MEMBERS_ROLE_MEMBER_INDEX, &PG_AUTH_MEMBERS_MEMBER_ROLE_INDEX] {
        for found in writer.rows((index, &[Datum::Oid(role)]), usize::MAX)? {
            let oid = Row(&found.values, PG_AUTH_MEMBERS.name).oid(0)?;
            delete_grant(writer, oid, &found)?;
        }
        writer.next_command()?;
    }
    Ok(())
}

/// A grant in messages.
pub(crate) fn describe_grant(writer: &mut Writer<'_>, oid: Oid) -> Result<String, CatalogError> {
    let found = writer.rows((&PG_AUTH_MEMBERS_OID_INDEX, &[Datum::Oid(oid)]), 3)?.pop();
    let Some(found) = found else { return Ok(format!("role membership {oid}")) };
    let row = Row(&found.values, PG_AUTH_MEMBERS.name);
    let mut name = |at: usize| {
        let oid = row.oid(at)?;
        let role = writer.reader().find_role(Named::Oid(oid))?;
        Ok::<_, CatalogError>(role.map_or_else(|| oid.to_string(), |role| role.name))
    };
    Ok(format!("membership of role {} in role {}", name(2)?, name(1)?))
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

/// Makes roles members of another, or changes the options of that. Returns the names of those for
/// whom nothing changes.
pub fn grant_role(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    membership: Membership<'_>,
    options: MemberOptions,
) -> Result<Vec<String>, CatalogError> {
    let Membership { role, members, grantor } = membership;
    let mut writer = Writer::begin(database, backend, tx)?;
    check_members(&mut writer, membership)?;
    check_grantor(&mut writer, membership, options.admin == Some(true))?;
    let mut unchanged = Vec::new();
    for member in members {
        let key = [role.oid, member.oid, grantor.oid].map(Datum::Oid);
        let found = writer.rows((&PG_AUTH_MEMBERS_ROLE_MEMBER_INDEX, &key), usize::MAX)?.pop();
        match found {
            None => insert_grant(&mut writer, (role, member, grantor), options)?,
            Some(mut found) => {
                let before = found.values.clone();
                let wanted =
                    [(ADMIN, options.admin), (INHERIT, options.inherit), (SET, options.set)];
                for (at, value) in wanted {
                    if let (Some(place), Some(value)) = (found.values.get_mut(at), value) {
                        *place = Datum::Bool(value);
                    }
                }
                if found.values == before {
                    unchanged.push(member.name.clone());
                    continue;
                }
                writer.update(MEMBERSHIPS, found.tid, &found.values)?;
            }
        }
        writer.next_command()?;
    }
    Ok(unchanged)
}

fn insert_grant(
    writer: &mut Writer<'_>,
    (role, member, grantor): (&RoleRow, &RoleRow, &RoleRow),
    options: MemberOptions,
) -> Result<(), CatalogError> {
    let oid = writer.free_oid(&PG_AUTH_MEMBERS_OID_INDEX)?;
    let row = [
        Datum::Oid(oid),
        Datum::Oid(role.oid),
        Datum::Oid(member.oid),
        Datum::Oid(grantor.oid),
        Datum::Bool(options.admin.unwrap_or(false)),
        Datum::Bool(options.inherit.unwrap_or(member.inherits)),
        Datum::Bool(options.set.unwrap_or(true)),
    ];
    writer.insert(MEMBERSHIPS, &row)?;
    writer.note_privilege(Object::new(MEMBERSHIPS, oid), grantor.oid)
}

/// Refuses circles of members, and members that a role can't have.
fn check_members(
    writer: &mut Writer<'_>,
    Membership { role, members, .. }: Membership<'_>,
) -> Result<(), CatalogError> {
    if role.oid == DATABASE_OWNER {
        let message = format!("role \"{}\" cannot have explicit members", role.name);
        return Err(CatalogError::refused("XX000", message));
    }
    let is_member_of = all_roles_of(writer, role.oid)?;
    for member in members {
        if member.oid == DATABASE_OWNER {
            let message = format!("role \"{}\" cannot be a member of any role", member.name);
            return Err(CatalogError::refused("XX000", message));
        }
        if is_member_of.contains(&member.oid) {
            let message = format!("role \"{}\" is a member of role \"{}\"", role.name, member.name);
            return Err(CatalogError::refused("0LP01", message));
        }
    }
    Ok(())
}

/// Refuses a grantor who can't grant the role, or who would give the ADMIN option back to whom it
/// came from.
fn check_grantor(
    writer: &mut Writer<'_>,
    Membership { role, members, grantor }: Membership<'_>,
    admin: bool,
) -> Result<(), CatalogError> {
    if grantor.oid == POSTGRES_ROLE {
        return Ok(());
    }
    let mut grants = Grants::of(writer, role.oid)?;
    if !grants.has_admin(grantor.oid) {
        let name = &grantor.name;
        let message = format!("permission denied to grant privileges as role \"{name}\"");
        let detail = format!("The grantor must have the ADMIN option on role \"{}\".", role.name);
        return Err(CatalogError::refused("42501", message).with_detail(detail));
    }
    if !admin {
        return Ok(());
    }
    let mut circle = false;
    for member in members {
        circle |= member.oid == POSTGRES_ROLE;
        grants.revoke_from(member.oid)?;
    }
    if circle || !grants.has_admin(grantor.oid) {
        let message = "ADMIN option cannot be granted back to your own grantor";
        return Err(CatalogError::refused("0LP01", message));
    }
    Ok(())
}

/// Ends memberships, or takes options of them back (those that are Some); with `cascade` also what
/// was granted by means of them. Returns the names of those who are no members by that grantor.
pub fn revoke_role(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    Membership { role, members, grantor }: Membership<'_>,
    (options, cascade): (MemberOptions, bool),
) -> Result<Vec<String>, CatalogError> {
    let mut writer = Writer::begin(database, backend, tx)?;
    let mut grants = Grants::of(&mut writer, role.oid)?;
    let mut missing = Vec::new();
    for member in members {
        let is = |grant: &Grant| grant.member == member.oid && grant.grantor == grantor.oid;
        let Some(at) = grants.0.iter().position(is) else {
            missing.push(member.name.clone());
            continue;
        };
        let option = match options {
            MemberOptions { inherit: Some(_), .. } => INHERIT,
            MemberOptions { set: Some(_), .. } => SET,
            MemberOptions { admin, .. } => {
                grants.revoke(at, admin.is_some(), cascade)?;
                continue;
            }
        };
        // Nothing depends on these.
        if let Some(grant) = grants.0.get_mut(at).filter(|grant| grant.fate == Fate::Stays) {
            grant.fate = Fate::Loses(option);
        }
    }
    grants.store(&mut writer)?;
    Ok(missing)
}
