//! Types whose values are OIDs of rows: their names, and the rows that names mean.

use super::Area;
use super::arguments::{oid, text};
use crate::analyze::{Names, type_name};
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
    (45, |_, args, host| shown(args, |oid| function(oid, host))),
    (2213, |_, args, host| shown(args, |oid| procedure(oid, host))),
    (2215, |_, args, host| shown(args, |oid| operator(oid, host))),
    (2217, |_, args, host| shown(args, |oid| typed_operator(oid, host))),
    (4085, |_, args, host| {
        shown(args, |oid| Ok(host.look_up(NamespaceByOid(oid))?.map(|row| in_quotes(&row.name))))
    }),
    (4194, |_, args, host| shown(args, |oid| collation(oid, host))),
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

fn in_quotes(name: &str) -> String {
    forebay_engine::quoted(name).into_owned()
}

/// A name after that of its namespace, unless it alone leads to the row.
fn qualified(host: &mut Host, alone: bool, namespace: u32, name: String) -> Result<String> {
    if alone {
        return Ok(name);
    }
    let namespace = host.look_up(NamespaceByOid(namespace))?;
    Ok(namespace.map_or_else(|| name.clone(), |of| format!("{}.{name}", in_quotes(&of.name))))
}

/// The name of a relation of any kind, by its OID.
fn regclass_name<'a>(args: &[Datum<'a>], host: &mut Host) -> Result<Datum<'a>> {
    shown(args, |oid| {
        // Tables are known to the session, so that rows of a query look nothing up.
        if let Some(table) = host.table_by_oid(oid)? {
            let found = host.table(None, &table.name);
            let alone = matches!(found, Ok(Some(found)) if found.oid == oid);
            return qualified(host, alone, table.namespace, in_quotes(&table.name)).map(Some);
        }
        let found = host.call(|session| session.relation_name(oid))?;
        let Some((namespace, name)) = found else { return Ok(None) };
        let first = host.call(|session| session.relation_named(None, &name))?;
        let alone = first.is_some_and(|first| first.oid == oid);
        qualified(host, alone, namespace, in_quotes(&name)).map(Some)
    })
}

/// The name of a function, alone if no other one has it.
fn function(oid: u32, host: &mut Host) -> Result<Option<String>> {
    let Some(row) = host.look_up(ProcByOid(oid))? else { return Ok(None) };
    let path = host.search_path()?;
    let named = host.procs_named(&row.name)?;
    let mut found = named.iter().filter(|proc| path.contains(&proc.namespace));
    let alone = found.next().is_some_and(|proc| proc.oid == oid) && found.next().is_none();
    qualified(host, alone, row.namespace, in_quotes(&row.name)).map(Some)
}

/// A function with the types of its arguments.
fn procedure(oid: u32, host: &mut Host) -> Result<Option<String>> {
    let Some(row) = host.look_up(ProcByOid(oid))? else { return Ok(None) };
    let named = host.procs_named(&row.name)?;
    let same =
        |namespace| named.iter().find(|proc| proc.namespace == namespace && proc.args == row.args);
    let first = host.search_path()?.into_iter().find_map(same);
    let alone = first.is_some_and(|proc| proc.oid == oid);
    let mut types = Vec::with_capacity(row.args.len());
    for ty in &row.args {
        types.push(type_name(host.names(), *ty)?);
    }
    let name = format!("{}({})", in_quotes(&row.name), types.join(","));
    qualified(host, alone, row.namespace, name).map(Some)
}

/// The name of an operator, alone if no other one has it.
fn operator(oid: u32, host: &mut Host) -> Result<Option<String>> {
    let Some(row) = host.look_up(OperatorByOid(oid))? else { return Ok(None) };
    let path = host.search_path()?;
    let named = host.operators_named(&row.name)?;
    let mut found = named.iter().filter(|operator| path.contains(&operator.namespace));
    let alone = found.next().is_some_and(|found| found.oid == oid) && found.next().is_none();
    qualified(host, alone, row.namespace, row.name.to_string()).map(Some)
}

/// An operator with the types of its operands.
fn typed_operator(oid: u32, host: &mut Host) -> Result<Option<String>> {
    let Some(row) = host.look_up(OperatorByOid(oid))? else { return Ok(None) };
    let named = host.operators_named(&row.name)?;
    let same = |namespace| {
        let of = (row.left, row.right);
        named.iter().find(|found| found.namespace == namespace && (found.left, found.right) == of)
    };
    let first = host.search_path()?.into_iter().find_map(same);
    let alone = first.is_some_and(|found| found.oid == oid);
    let mut shown = |ty| match ty {
        0 => Ok("NONE".to_owned()),
        ty => type_name(host.names(), ty),
    };
    let (left, right) = (shown(row.left)?, shown(row.right)?);
    qualified(host, alone, row.namespace, format!("{}({left},{right})", row.name)).map(Some)
}

/// The name of a collation.
fn collation(oid: u32, host: &mut Host) -> Result<Option<String>> {
    let Some(row) = host.look_up(CollationByOid(oid))? else { return Ok(None) };
    let named = host.collations_named(&row.name)?;
    let same = |namespace| named.iter().find(|found| found.namespace == namespace);
    let first = host.search_path()?.into_iter().find_map(same);
    let alone = first.is_some_and(|found| found.oid == oid);
    qualified(host, alone, row.namespace, in_quotes(&row.name)).map(Some)
}
