//! Types whose values are OIDs of rows: their names, and the rows that names mean.

use super::Area;
use super::arguments::{oid, text};
use crate::analyze::type_name;
use crate::error::Result;
use crate::exec::host::Host;
use crate::plan::Catalog;
use forebay_engine::syscache::{CollationByOid, NamespaceByOid, OperatorByOid, ProcByOid};
use forebay_types::Datum;

pub(super) const TABLE: Area = &[
    (2219, |_, args, host| regclass_name(args, host)),
    (2221, |_, args, host| {
        shown(args, |oid| match host.names().type_by_oid(oid)? {
            Some(_) => Ok(Some(type_name(host.names(), oid)?)),
            None => Ok(None),
        })
    }),
    (45, |_, args, host| {
        shown(args, |oid| Ok(host.look_up(ProcByOid(oid))?.map(|row| row.name.to_string())))
    }),
    (2213, |_, args, host| shown(args, |oid| procedure(oid, host))),
    (2215, |_, args, host| {
        shown(args, |oid| Ok(host.look_up(OperatorByOid(oid))?.map(|row| row.name.to_string())))
    }),
    (2217, |_, args, host| shown(args, |oid| operator(oid, host))),
    (4085, |_, args, host| {
        shown(args, |oid| Ok(host.look_up(NamespaceByOid(oid))?.map(|row| row.name.to_string())))
    }),
    (4194, |_, args, host| {
        shown(args, |oid| {
            let row = host.look_up(CollationByOid(oid))?;
            Ok(row.map(|row| forebay_engine::quoted(&row.name).into_owned()))
        })
    }),
    (2218, |_, args, host| regclass_of_text(text(args, 0)?, host)),
    (1079, |_, args, host| regclass_of_text(text(args, 0)?, host)),
];

/// The OID of the table or index that a text means.
fn regclass_of_text<'a>(text: &str, host: &mut Host) -> Result<Datum<'a>> {
    Ok(Datum::Oid(host.regclass(text)?))
}

/// The name of a row, or its OID as a number if there is no such row.
fn shown<'a>(
    args: &[Datum<'a>],
    name: impl FnOnce(u32) -> Result<Option<String>>,
) -> Result<Datum<'a>> {
    let oid = oid(args, 0)?;
    if oid == 0 {
        return Ok(Datum::text("-"));
    }
    Ok(Datum::string(name(oid)?.unwrap_or_else(|| oid.to_string())))
}

/// The name of a relation, by its OID.
fn regclass_name<'a>(args: &[Datum<'a>], host: &mut Host) -> Result<Datum<'a>> {
    shown(args, |oid| Ok(host.table_by_oid(oid)?.map(|table| table.name.clone())))
}

/// A function with the types of its arguments.
fn procedure(oid: u32, host: &mut Host) -> Result<Option<String>> {
    let Some(row) = host.look_up(ProcByOid(oid))? else { return Ok(None) };
    let mut types = Vec::with_capacity(row.args.len());
    for ty in &row.args {
        types.push(type_name(host.names(), *ty)?);
    }
    Ok(Some(format!("{}({})", row.name, types.join(","))))
}

/// An operator with the types of its operands.
fn operator(oid: u32, host: &mut Host) -> Result<Option<String>> {
    let Some(row) = host.look_up(OperatorByOid(oid))? else { return Ok(None) };
    let mut shown = |ty| match ty {
        0 => Ok("NONE".to_owned()),
        ty => type_name(host.names(), ty),
    };
    let (left, right) = (shown(row.left)?, shown(row.right)?);
    Ok(Some(format!("{}({left},{right})", row.name)))
}
