//! Comments, and names of roles.

use super::Area;
use super::arguments::{int, oid, text};
use crate::error::Result;
use crate::exec::host::Host;
use forebay_engine::{Named, Oid, catalog_named};
use forebay_types::Datum;

/// pg_class.oid of pg_class itself.
const RELATIONS: Oid = 1259;

pub(super) const TABLE: Area = &[
    (1215, |_, args, host| of_catalog(args, host)),
    (1216, |_, args, host| {
        let (relation, column) = (oid(args, 0)?, int(args, 1)?);
        described(host, (Some(RELATIONS), relation, column))
    }),
    (1348, |_, args, host| described(host, (None, oid(args, 0)?, 0))),
    (1642, |_, args, host| role_name(oid(args, 0)?, host)),
    (1993, |_, args, host| of_catalog(args, host)),
];

/// obj_description(object, catalog), shobj_description(object, catalog)
fn of_catalog<'a>(args: &[Datum<'_>], host: &mut Host) -> Result<Datum<'a>> {
    match catalog_named(text(args, 1)?) {
        Some(catalog) => described(host, (Some(catalog), oid(args, 0)?, 0)),
        None => Ok(Datum::Null),
    }
}

fn described<'a>(host: &mut Host, of: (Option<Oid>, Oid, i32)) -> Result<Datum<'a>> {
    let text = host.call(|session| session.description(of))?;
    Ok(text.map_or(Datum::Null, Datum::string))
}

/// pg_get_userbyid(role)
fn role_name<'a>(oid: Oid, host: &mut Host) -> Result<Datum<'a>> {
    let role = host.call(|session| session.find_role(Named::Oid(oid)))?;
    Ok(Datum::string(role.map_or_else(|| format!("unknown (OID={oid})"), |role| role.name)))
}
