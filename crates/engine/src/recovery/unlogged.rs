//! Empties unlogged tables after a recovery. Their changes are not in the log, so their pages are
//! unknown. The log has their init fork, an empty table: it becomes the main fork, and the other
//! forks are removed.
//!
//! This is done after redo, and is durable before the checkpoint that ends recovery. Until then a
//! repeated recovery does it again. A clean stop keeps unlogged tables.

use std::collections::{BTreeSet, HashSet};
use std::path::Path;

use forebay_aio::{AlignedBuf, IoBackend, OpenOptions};
use forebay_format::Fork;
use forebay_storage::{Backend, WriteScope, database_dirs};

use super::startup::Startup;
use crate::error::EngineError;
use crate::relation_files::{RelationFile, relation_files};

impl Startup<'_> {
    /// Empties the unlogged tables of all databases, in all tablespaces.
    pub(super) fn empty_unlogged(&self, backend: &mut Backend) -> Result<(), EngineError> {
        let names = self.aio.namespace();
        let (mut tables, mut replaced) = (0, HashSet::new());
        for dir in database_dirs(names.as_ref(), self.dir)? {
            let files = relation_files(names.as_ref(), &dir)?;
            let unlogged: BTreeSet<u32> = files
                .iter()
                .filter(|file| file.fork == Fork::Init)
                .map(|file| file.relation)
                .collect();
            if unlogged.is_empty() {
                continue;
            }
            if tables == 0 {
                // The files are copied, and some of their pages may be in memory only.
                self.pool.write_dirty(backend, WriteScope::All)?;
            }
            tables += unlogged.len();
            replaced.extend(unlogged.iter().map(|number| dir.join(number.to_string())));
            for file in files.iter().filter(|file| unlogged.contains(&file.relation)) {
                if file.fork != Fork::Init {
                    names.unlink(&dir.join(&file.name))?;
                }
            }
            for file in files.iter().filter(|file| file.fork == Fork::Init) {
                copy(&mut backend.io, &dir, file)?;
            }
            forebay_aio::planted_bug!(self.aio, RecoveryEmptiedDirectoriesNotSynced, continue);
            names.sync_dir(&dir)?;
        }
        // Redo of a database's copy has made main forks, too.
        self.pool.smgr().forget_replaced(&replaced);
        if tables > 0 {
            tracing::info!("emptied {tables} unlogged relations");
        }
        Ok(())
    }
}

/// Copies a segment of the init fork to the main fork, which does not exist.
fn copy(io: &mut IoBackend, dir: &Path, init: &RelationFile) -> Result<(), EngineError> {
    let bytes = io.read_file(&dir.join(&init.name))?;
    let path = dir.join(format!("{}{}", init.relation, init.segment));
    let file = io.aio().namespace().open(&path, &OpenOptions::READ_WRITE.create_new())?;
    if !bytes.is_empty() {
        io.write_all_at(&file, 0, &AlignedBuf::copy_of(&bytes)?)?;
    }
    forebay_aio::planted_bug!(io.aio(), RecoveryEmptiedTablesNotSynced, return Ok(()));
    Ok(io.fsync(&file)?)
}
