//! Types whose values are OIDs of rows: the names that they show. A name has its schema and its
//! arguments where it alone would lead elsewhere, or nowhere.

use super::Area;
use super::arguments::{oid, text};
use super::named::{leads_to, operators, procedures};
use super::reg_input::{oid_of, oid_or_null, typmod_or_null};
use crate::analyze::type_name;
use crate::error::Result;
use crate::exec::host::Host;
use crate::plan::Catalog;
use forebay_engine::syscache::{
    CollationByOid, CollationRow, NamespaceByOid, OperatorByOid, OperatorRow, ProcByOid, ProcRow,
};
use forebay_engine::{Named, quoted};
use forebay_types::{Datum, Oid, oids};

pub(super) const TABLE: Area = &[
    (2219, |_, args, host| shown(args, "-", |oid| relation(oid, host))),
    (2221, |_, args, host| shown(args, "-", |oid| ty(oid, host))),
    (45, |_, args, host| shown(args, "-", |oid| procedure_name(oid, host))),
    (2213, |_, args, host| shown(args, "-", |oid| procedure(oid, host))),
    (2215, |_, args, host| shown(args, "0", |oid| operator_name(oid, host))),
    (2217, |_, args, host| shown(args, "0", |oid| operator(oid, host))),
    (4085, |_, args, host| shown(args, "-", |oid| Ok(namespace(oid, host)?.map(as_written)))),
    (4092, |_, args, host| shown(args, "-", |oid| role(oid, host))),
    (4194, |_, args, host| shown(args, "-", |oid| collation(oid, host))),
    (44, |_, args, host| oid_of(text(args, 0)?, oids::REGPROC, host).map(Datum::Oid)),
    (2212, |_, args, host| oid_of(text(args, 0)?, oids::REGPROCEDURE, host).map(Datum::Oid)),
    (2214, |_, args, host| oid_of(text(args, 0)?, oids::REGOPER, host).map(Datum::Oid)),
    (2216, |_, args, host| oid_of(text(args, 0)?, oids::REGOPERATOR, host).map(Datum::Oid)),
    (2218, |_, args, host| oid_of(text(args, 0)?, oids::REGCLASS, host).map(Datum::Oid)),
    (1079, |_, args, host| oid_of(text(args, 0)?, oids::REGCLASS, host).map(Datum::Oid)),
    (2220, |_, args, host| oid_of(text(args, 0)?, oids::REGTYPE, host).map(Datum::Oid)),
    (4098, |_, args, host| oid_of(text(args, 0)?, oids::REGROLE, host).map(Datum::Oid)),
    (4084, |_, args, host| oid_of(text(args, 0)?, oids::REGNAMESPACE, host).map(Datum::Oid)),
    (4193, |_, args, host| oid_of(text(args, 0)?, oids::REGCOLLATION, host).map(Datum::Oid)),
    (3494, |_, args, host| oid_or_null(text(args, 0)?, oids::REGPROC, host)),
    (3479, |_, args, host| oid_or_null(text(args, 0)?, oids::REGPROCEDURE, host)),
    (3492, |_, args, host| oid_or_null(text(args, 0)?, oids::REGOPER, host)),
    (3476, |_, args, host| oid_or_null(text(args, 0)?, oids::REGOPERATOR, host)),
    (3495, |_, args, host| oid_or_null(text(args, 0)?, oids::REGCLASS, host)),
    (3493, |_, args, host| oid_or_null(text(args, 0)?, oids::REGTYPE, host)),
    (4093, |_, args, host| oid_or_null(text(args, 0)?, oids::REGROLE, host)),
    (4086, |_, args, host| oid_or_null(text(args, 0)?, oids::REGNAMESPACE, host)),
    (4195, |_, args, host| oid_or_null(text(args, 0)?, oids::REGCOLLATION, host)),
    (6317, |_, args, host| typmod_or_null(text(args, 0)?, host)),
    (2079, |_, args, host| told(relation_is_visible(oid(args, 0)?, host))),
    (2080, |_, args, host| told(type_is_visible(oid(args, 0)?, host))),
    (2081, |_, args, host| {
        let row = host.look_up(ProcByOid(oid(args, 0)?))?;
        told(row.map(|row| procedure_is_visible(&row, host)).transpose())
    }),
    (2082, |_, args, host| {
        let row = host.look_up(OperatorByOid(oid(args, 0)?))?;
        told(row.map(|row| operator_is_visible(&row, host)).transpose())
    }),
    (3815, |_, args, host| {
        let row = host.look_up(CollationByOid(oid(args, 0)?))?;
        told(row.map(|row| collation_is_visible(&row, host)).transpose())
    }),
];

/// The name of a row, or its OID as a number if there is no such row.
fn shown<'a>(
    args: &[Datum<'a>],
    of_zero: &'static str,
    name: impl FnOnce(Oid) -> Result<Option<String>>,
) -> Result<Datum<'a>> {
    let oid = oid(args, 0)?;
    if oid == 0 {
        return Ok(Datum::text(of_zero));
    }
    Ok(Datum::string(name(oid)?.unwrap_or_else(|| oid.to_string())))
}

/// Whether a name leads to a row; NULL: there is no such row.
fn told<'a>(visible: Result<Option<bool>>) -> Result<Datum<'a>> {
    Ok(visible?.map_or(Datum::Null, Datum::Bool))
}

fn as_written(name: String) -> String {
    quoted(&name).into_owned()
}

/// The name of a namespace.
fn namespace(oid: Oid, host: &mut Host) -> Result<Option<String>> {
    Ok(host.look_up(NamespaceByOid(oid))?.map(|row| row.name.to_string()))
}

/// The schema with a dot, or nothing if the name alone leads to the row.
fn prefix(visible: bool, schema: Oid, host: &mut Host) -> Result<String> {
    if visible {
        return Ok(String::new());
    }
    Ok(namespace(schema, host)?.map(|name| format!("{}.", quoted(&name))).unwrap_or_default())
}

fn relation(oid: Oid, host: &mut Host) -> Result<Option<String>> {
    // Tables are known to the session, so that rows of a query look nothing up.
    if let Some(table) = host.table_by_oid(oid)? {
        let found = host.table(None, &table.name);
        let visible = matches!(found, Ok(Some(found)) if found.oid == oid);
        let prefix = prefix(visible, table.namespace, host)?;
        return Ok(Some(format!("{prefix}{}", quoted(&table.name))));
    }
    let Some(found) = host.call(|session| session.relation_by_oid(oid))? else { return Ok(None) };
    let visible = leads_to(&found.name, oid, host)?;
    let prefix = prefix(visible, found.namespace, host)?;
    Ok(Some(format!("{prefix}{}", quoted(&found.name))))
}

/// Whether a relation's name alone leads to it. None: there is no such relation.
fn relation_is_visible(oid: Oid, host: &mut Host) -> Result<Option<bool>> {
    let Some(found) = host.call(|session| session.relation_by_oid(oid))? else { return Ok(None) };
    leads_to(&found.name, oid, host).map(Some)
}

fn ty(oid: Oid, host: &mut Host) -> Result<Option<String>> {
    match host.names().type_by_oid(oid)? {
        Some(_) => Ok(Some(type_name(host.names(), oid)?)),
        None => Ok(None),
    }
}

fn type_is_visible(oid: Oid, host: &mut Host) -> Result<Option<bool>> {
    match host.names().type_by_oid(oid)? {
        Some(row) => Ok(Some(host.names().sees_type(&row)?)),
        None => Ok(None),
    }
}

fn procedure_is_visible(row: &ProcRow, host: &mut Host) -> Result<bool> {
    Ok(procedures(&row.name, None, host)?.iter().any(|found| found.oid == row.oid))
}

fn operator_is_visible(row: &OperatorRow, host: &mut Host) -> Result<bool> {
    Ok(operators(&row.name, None, host)?.iter().any(|found| found.oid == row.oid))
}

/// A function's name, which has its schema unless it means this function alone.
fn procedure_name(oid: Oid, host: &mut Host) -> Result<Option<String>> {
    let Some(row) = host.look_up(ProcByOid(oid))? else { return Ok(None) };
    let found = procedures(&row.name, None, host)?;
    let alone = matches!(&found[..], [only] if only.oid == oid);
    Ok(Some(format!("{}{}", prefix(alone, row.namespace, host)?, quoted(&row.name))))
}

/// A function with the types of its arguments.
fn procedure(oid: Oid, host: &mut Host) -> Result<Option<String>> {
    let Some(row) = host.look_up(ProcByOid(oid))? else { return Ok(None) };
    let mut types = Vec::with_capacity(row.args.len());
    for ty in &row.args {
        types.push(type_name(host.names(), *ty)?);
    }
    let visible = procedure_is_visible(&row, host)?;
    let prefix = prefix(visible, row.namespace, host)?;
    Ok(Some(format!("{prefix}{}({})", quoted(&row.name), types.join(","))))
}

/// An operator's name, which has its schema unless it means this operator alone.
fn operator_name(oid: Oid, host: &mut Host) -> Result<Option<String>> {
    let Some(row) = host.look_up(OperatorByOid(oid))? else { return Ok(None) };
    let found = operators(&row.name, None, host)?;
    let alone = matches!(&found[..], [only] if only.oid == oid);
    Ok(Some(format!("{}{}", prefix(alone, row.namespace, host)?, row.name)))
}

/// An operator with the types of its operands.
fn operator(oid: Oid, host: &mut Host) -> Result<Option<String>> {
    let Some(row) = host.look_up(OperatorByOid(oid))? else { return Ok(None) };
    let mut shown = |ty| match ty {
        0 => Ok("NONE".to_owned()),
        ty => type_name(host.names(), ty),
    };
    let (left, right) = (shown(row.left)?, shown(row.right)?);
    let visible = operator_is_visible(&row, host)?;
    Ok(Some(format!("{}{}({left},{right})", prefix(visible, row.namespace, host)?, row.name)))
}

fn role(oid: Oid, host: &mut Host) -> Result<Option<String>> {
    let found = host.call(|session| session.find_role(Named::Oid(oid)))?;
    Ok(found.map(|row| as_written(row.name)))
}

fn collation(oid: Oid, host: &mut Host) -> Result<Option<String>> {
    let Some(row) = host.look_up(CollationByOid(oid))? else { return Ok(None) };
    let visible = collation_is_visible(&row, host)?;
    Ok(Some(format!("{}{}", prefix(visible, row.namespace, host)?, quoted(&row.name))))
}

fn collation_is_visible(row: &CollationRow, host: &mut Host) -> Result<bool> {
    let found = crate::analyze::collation_named(host.names(), (None, &row.name), 0);
    Ok(found.is_ok_and(|found| found.oid == row.oid))
}
