//! What names can mean: functions, operators, relations.

use crate::analyze::{Names, SearchPath};
use crate::error::Result;
use crate::exec::host::Host;
use forebay_engine::syscache::{OperatorRow, ProcRow};
use forebay_types::Oid;
use std::sync::Arc;

/// The functions that a name without a schema can mean: of those with the same arguments the first
/// along the search path.
pub fn procedures(name: &str, schema: Option<&str>, host: &mut Host) -> Result<Vec<Arc<ProcRow>>> {
    let all = host.procs_named(name)?;
    let mut found: Vec<Arc<ProcRow>> = Vec::new();
    for namespace in namespaces(schema, host)? {
        for row in all.iter().filter(|row| row.namespace == namespace) {
            if !found.iter().any(|other| other.args == row.args) {
                found.push(row.clone());
            }
        }
    }
    Ok(found)
}

/// The operators that a name can mean, likewise.
pub fn operators(
    name: &str,
    schema: Option<&str>,
    host: &mut Host,
) -> Result<Vec<Arc<OperatorRow>>> {
    let all = host.operators_named(name)?;
    let mut found: Vec<Arc<OperatorRow>> = Vec::new();
    for namespace in namespaces(schema, host)? {
        for row in all.iter().filter(|row| row.namespace == namespace) {
            if !found.iter().any(|other| (other.left, other.right) == (row.left, row.right)) {
                found.push(row.clone());
            }
        }
    }
    Ok(found)
}

/// The namespaces to look in; none if there is no such schema.
fn namespaces(schema: Option<&str>, host: &mut Host) -> Result<SearchPath> {
    match schema {
        None => host.search_path(),
        Some(schema) => Ok(host.namespace(schema)?.into_iter().collect()),
    }
}

/// Whether a relation's name alone leads to it.
pub fn leads_to(name: &str, oid: Oid, host: &mut Host) -> Result<bool> {
    let found = host.call(|session| session.relation_named(None, name))?;
    Ok(found.is_some_and(|found| found.oid == oid))
}
