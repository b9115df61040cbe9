//! Directories of databases, and tablespaces.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use forebay_aio::IfFound;
use forebay_catalog::{DatabaseRow, Owners};
use forebay_format::wal::database::{self, DatabaseDrop, DatabasePlace};
use forebay_format::wal::rmgr::INFO_SPECIAL_REL_UPDATE;
use forebay_format::wal::{Rmgr, tablespace};
use forebay_storage::{Backend, database_dirs};
use forebay_types::Oid;

use super::evidence::{MadeSince, Standing, standing};
use crate::core::Core;
use crate::disk::TABLESPACES;
use crate::error::EngineError;

/// Removes the directories of databases whose creation was cut off. Returns the databases that
/// there are.
pub(super) fn remove_databases(
    core: &Core,
    backend: &mut Backend,
    since: &MadeSince,
) -> Result<Vec<DatabaseRow>, EngineError> {
    let known = core.databases.shared_reader(backend).all_databases()?;
    let dirs = database_dirs(core.aio.namespace().as_ref(), &core.dir)?;
    let found: BTreeSet<Oid> = dirs.iter().filter_map(|dir| number(dir)).collect();
    if found.iter().all(|oid| known.iter().any(|row| row.oid == *oid)) {
        return Ok(known);
    }
    let owners = core.databases.database_owners(backend)?;
    for &oid in &found {
        match standing(&owners, (oid, oid), since.has_database(oid)) {
            Standing::Kept => {}
            Standing::Left => remove_database(core, backend, oid)?,
            Standing::Stray => {
                tracing::info!("there is a directory of database {oid}, which does not exist");
            }
        }
    }
    Ok(known)
}

fn number(dir: &Path) -> Option<Oid> {
    dir.file_name()?.to_str()?.parse().ok()
}

fn remove_database(core: &Core, backend: &mut Backend, oid: Oid) -> Result<(), EngineError> {
    let smgr = core.pool.smgr();
    core.pool.drop_database(backend, oid);
    let tablespaces = smgr.tablespaces_of(oid)?;
    let main = DatabaseDrop { db: oid, tablespaces: tablespaces.clone() }.encode();
    let info = database::DROP | INFO_SPECIAL_REL_UPDATE;
    let logged = core.log_as(&mut backend.io, Rmgr::DBASE, info, &main)?;
    core.wal.flush(&mut backend.io, logged.end)?;
    for spc in tablespaces {
        let place = DatabasePlace { db: oid, spc };
        smgr.remove_database(place)?;
        let path = core.dir.join(place.path());
        tracing::info!("removed directory \"{}\": there is no such database", path.display());
    }
    Ok(())
}

/// Removes tablespaces whose creation was cut off, or whose removal was.
pub(super) fn remove_tablespaces(
    core: &Core,
    backend: &mut Backend,
    since: &MadeSince,
) -> Result<(), EngineError> {
    let parent = core.dir.join(TABLESPACES);
    let listed = core.aio.namespace().list(&parent).if_found()?.unwrap_or_default();
    let found: BTreeSet<Oid> =
        listed.iter().filter_map(|entry| number(&PathBuf::from(&entry.name))).collect();
    if found.is_empty() {
        return Ok(());
    }
    let owners: Owners<Oid> = core.databases.tablespace_owners(backend)?;
    for oid in found {
        let path = parent.join(oid.to_string());
        match standing(&owners, (oid, oid), since.has_tablespace(oid)) {
            Standing::Kept => {}
            // A record would have PostgreSQL remove the other one's directory.
            Standing::Left if core.pool.smgr().remove_second_link(oid)? => {
                let path = path.display();
                tracing::info!("removed \"{path}\": another tablespace has its location");
            }
            Standing::Left => {
                let (info, main) = (tablespace::DROP, tablespace::encode_drop(oid));
                let logged = core.log_as(&mut backend.io, Rmgr::TBLSPC, info, &main)?;
                core.wal.flush(&mut backend.io, logged.end)?;
                let what = match core.pool.smgr().remove_tablespace(oid)? {
                    true => "removed",
                    false => "could not remove, since it is not empty,",
                };
                tracing::info!("{what} \"{}\": there is no such tablespace", path.display());
            }
            Standing::Stray => {
                let path = path.display();
                tracing::info!("there is \"{path}\", and no such tablespace");
            }
        }
    }
    Ok(())
}
