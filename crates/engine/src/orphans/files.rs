//! Files of relations.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::PathBuf;

use forebay_aio::IfFound;
use forebay_catalog::{DatabaseRow, Owners};
use forebay_format::RelFileLocator;
use forebay_format::ids::{GLOBAL_TABLESPACE, INVALID_OID, database_path};
use forebay_storage::Backend;
use forebay_txn::TxnError;

use super::evidence::{MadeSince, Standing, standing};
use crate::core::Core;
use crate::error::EngineError;
use crate::relation_files::relation_files;

/// What is left, with the paths of its files.
type Left = BTreeMap<RelFileLocator, Vec<PathBuf>>;

/// Removes files of relations that are gone from the directories of all databases.
pub(super) fn remove(
    core: &Core,
    backend: &mut Backend,
    databases: &[DatabaseRow],
    since: &MadeSince,
) -> Result<(), EngineError> {
    let mut left = Left::new();
    let shared = Owners { owned: core.databases.shared_files(), left: HashSet::new() };
    look(core, (GLOBAL_TABLESPACE, INVALID_OID), &shared, since, &mut left)?;
    for database in databases.iter().filter(|database| !database.is_invalid()) {
        let place = (database.oid, database.tablespace);
        let owners = match core.databases.file_owners(backend, place) {
            Ok(mut owners) => {
                forebay_aio::planted_bug!(core.aio, OrphansIgnoreDeadRows, owners.left.clear());
                owners
            }
            Err(error) => {
                let name = &database.name;
                tracing::warn!("files of database \"{name}\" are not looked through: {error}");
                continue;
            }
        };
        for spc in core.pool.smgr().tablespaces_of(database.oid)? {
            look(core, (spc, database.oid), &owners, since, &mut left)?;
        }
    }
    if left.is_empty() { Ok(()) } else { remove_all(core, backend, &left) }
}

/// Looks through a directory.
fn look(
    core: &Core,
    (spc, db): (u32, u32),
    owners: &Owners<RelFileLocator>,
    since: &MadeSince,
    left: &mut Left,
) -> Result<(), EngineError> {
    let dir = core.dir.join(database_path(spc, db));
    let mut strays = BTreeSet::new();
    for file in relation_files(core.aio.namespace().as_ref(), &dir)? {
        let rel = RelFileLocator { spc, db, rel: file.relation };
        match standing(owners, (rel.rel, rel), since.has_file(rel)) {
            Standing::Kept => {}
            Standing::Left => left.entry(rel).or_default().push(dir.join(&file.name)),
            Standing::Stray => {
                strays.insert(rel.rel);
            }
        }
    }
    if let Some(first) = strays.first() {
        tracing::info!(
            "\"{}\" has files of {} relations that do not exist, the first is {first}",
            dir.display(),
            strays.len()
        );
    }
    Ok(())
}

fn remove_all(core: &Core, backend: &mut Backend, left: &Left) -> Result<(), EngineError> {
    if !log_removal(core, backend, left)? {
        return Ok(());
    }
    for rel in left.keys() {
        core.pool.drop_relation(backend, *rel)?;
    }
    let names = core.aio.namespace();
    for path in left.values().flatten() {
        // Segments behind a gap are still there.
        if names.unlink(path).if_found()?.is_some()
            && let Some(dir) = path.parent()
        {
            names.sync_dir(dir)?;
        }
        tracing::info!("removed \"{}\": its relation does not exist", path.display());
    }
    Ok(())
}

/// Logs that a transaction aborts which has made all the files. False: there are no ids for it.
fn log_removal(core: &Core, backend: &mut Backend, left: &Left) -> Result<bool, EngineError> {
    forebay_aio::planted_bug!(core.aio, OrphansRemovedUnlogged, return Ok(true));
    let mut tx = core.databases.none().transaction();
    match core.xacts.assign_top(&mut backend.io, &mut tx) {
        Err(error @ TxnError::OutOfIds { .. }) => {
            tracing::warn!("files of {} relations that are gone stay: {error}", left.len());
            return Ok(false);
        }
        assigned => assigned?,
    };
    left.keys().for_each(|rel| core.xacts.drop_at_abort(&mut tx, *rel));
    core.xacts.abort(&mut backend.io, &mut tx)?;
    Ok(true)
}
