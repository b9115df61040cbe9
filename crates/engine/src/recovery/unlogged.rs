//! Empties unlogged tables after a recovery. Their changes are not in the log, so their pages are
//! unknown. The log has their init fork, an empty table: it becomes the main fork, and the other
//! forks are removed.
//!
//! This is done after redo, and is durable before the checkpoint that ends recovery. Until then a
//! repeated recovery does it again. A clean stop keeps unlogged tables.

use std::collections::BTreeSet;
use std::path::Path;

use forebay_aio::{AlignedBuf, FileKind, IoBackend, Namespace, OpenOptions};
use forebay_format::Fork;
use forebay_storage::{Backend, WriteScope, database_dirs};

use super::startup::Startup;
use crate::error::EngineError;

impl Startup<'_> {
    /// Empties the unlogged tables of all databases, in all tablespaces.
    pub(super) fn empty_unlogged(&self, backend: &mut Backend) -> Result<(), EngineError> {
        let names = self.aio.namespace();
        let mut tables = 0;
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
        if tables > 0 {
            tracing::info!("emptied {tables} unlogged relations");
        }
        Ok(())
    }
}

/// A segment file of a relation's fork.
#[derive(Debug, PartialEq, Eq)]
struct RelationFile {
    name: String,
    relation: u32,
    fork: Fork,
    /// `.3` of the fourth segment, nothing of the first.
    segment: String,
}

impl RelationFile {
    /// None if it is not a relation's file, or a temporary relation's.
    fn parse(name: &str) -> Option<RelationFile> {
        let is_number =
            |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let (stem, segment) = name.find('.').map_or((name, ""), |at| name.split_at(at));
        let (number, fork) = match stem.split_once('_') {
            Some((number, fork)) => {
                (number, Fork::from_name(fork).filter(|fork| *fork != Fork::Main)?)
            }
            None => (stem, Fork::Main),
        };
        if !is_number(number) || !(segment.is_empty() || is_number(segment.strip_prefix('.')?)) {
            return None;
        }
        let (name, segment) = (name.to_owned(), segment.to_owned());
        Some(RelationFile { name, relation: number.parse().ok()?, fork, segment })
    }
}

fn relation_files(names: &dyn Namespace, dir: &Path) -> Result<Vec<RelationFile>, EngineError> {
    let files = names.list(dir)?.into_iter().filter(|entry| entry.kind == FileKind::File);
    Ok(files.filter_map(|entry| RelationFile::parse(entry.name.to_str()?)).collect())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_relation_files_are_postgresql_s() {
        for (name, relation, fork, segment) in [
            ("16384", 16384, Fork::Main, ""),
            ("16384.12", 16384, Fork::Main, ".12"),
            ("16384_init", 16384, Fork::Init, ""),
            ("16384_fsm.1", 16384, Fork::Fsm, ".1"),
            ("16384_vm", 16384, Fork::Vm, ""),
        ] {
            let segment = segment.to_owned();
            let expected = RelationFile { name: name.to_owned(), relation, fork, segment };
            assert_eq!(RelationFile::parse(name), Some(expected), "{name}");
        }
        for name in [
            "",
            "16384.",
            "16384.x",
            "16384_main",
            "16384_",
            "t3_16384",
            "x",
            "+5",
            "5.1.2",
            "99999999999",
        ] {
            assert_eq!(RelationFile::parse(name), None, "{name}");
        }
    }
}
