//! Relation files of one backend alone: temporary relations. They are named for their owner
//! (`base/5/t3_16384`), are never synced, and go with the session; what a crash leaves is removed
//! at the next start.

use super::{SHARDS, Smgr, SyncQueue, WrittenPages, file_error};
use crate::error::{StorageError, relation_path};
use forebay_aio::sync::RwLock;
use forebay_aio::{FileKind, Namespace};
use forebay_format::{Fork, RelFileLocator, ids::TABLESPACE_VERSION_DIR};
use hashbrown::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

impl Smgr {
    /// The files of backend `owner` in the same directory, with open files out of the same budget.
    pub fn private(&self, owner: i32) -> Arc<Smgr> {
        Arc::new(Smgr {
            aio: Arc::clone(&self.aio),
            dir: self.dir.clone(),
            config: self.config.clone(),
            forks: (0..SHARDS).map(|_| RwLock::new(HashMap::new())).collect(),
            files: Arc::clone(&self.files),
            sync: Arc::new(SyncQueue::deaf(self.config.segment_blocks)),
            written: Arc::new(WrittenPages::new(false)),
            growing: Arc::clone(&self.growing),
            owner: Some(owner),
        })
    }

    /// Whom the files are named for, if they are one backend's own.
    pub(crate) fn owner(&self) -> Option<i32> {
        self.owner
    }

    /// Are the files one backend's own?
    pub fn is_private(&self) -> bool {
        self.owner.is_some()
    }

    /// The name of a segment's file, relative to the data directory.
    pub(super) fn segment_name(&self, rel: RelFileLocator, fork: Fork, segment: u32) -> String {
        if self.owner.is_none() {
            return rel.segment_path(fork, segment);
        }
        let path = relation_path(rel, fork, self.owner);
        if segment == 0 { path } else { format!("{path}.{segment}") }
    }
}

/// Removes the files of temporary relations that a crash has left in a data directory, and says how
/// many. To be called at the start, while there is no backend.
pub fn remove_private_files(names: &dyn Namespace, data_dir: &Path) -> Result<u64, StorageError> {
    let mut removed = 0;
    for dir in database_dirs(names, data_dir)? {
        for entry in names.list(&dir).map_err(|e| file_error("list", &dir, &e))? {
            if entry.kind == FileKind::File && entry.name.to_str().is_some_and(is_private_name) {
                let path = dir.join(&entry.name);
                names.unlink(&path).map_err(|e| file_error("remove", &path, &e))?;
                removed += 1;
            }
        }
    }
    Ok(removed)
}

/// The directories of all databases, in all tablespaces.
pub fn database_dirs(names: &dyn Namespace, data_dir: &Path) -> Result<Vec<PathBuf>, StorageError> {
    let mut parents = vec![data_dir.join("base")];
    let spaces = data_dir.join("pg_tblspc");
    for entry in list_if_there(names, &spaces)? {
        parents.push(spaces.join(entry.name).join(TABLESPACE_VERSION_DIR));
    }
    let mut dirs = Vec::new();
    for parent in parents {
        for entry in list_if_there(names, &parent)? {
            if entry.kind != FileKind::File && entry.name.to_str().is_some_and(is_number) {
                dirs.push(parent.join(entry.name));
            }
        }
    }
    Ok(dirs)
}

fn list_if_there(
    names: &dyn Namespace,
    dir: &Path,
) -> Result<Vec<forebay_aio::DirEntry>, StorageError> {
    match names.list(dir) {
        Err(e) if e.is_not_found() => Ok(Vec::new()),
        listed => listed.map_err(|e| file_error("list", dir, &e)),
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

/// `t3_16384`, with a fork's suffix and a segment's number.
fn is_private_name(name: &str) -> bool {
    let Some((owner, rest)) = name.strip_prefix('t').and_then(|rest| rest.split_once('_')) else {
        return false;
    };
    let (stem, segment) = rest.split_once('.').map_or((rest, None), |(stem, n)| (stem, Some(n)));
    let (number, fork) =
        stem.split_once('_').map_or((stem, None), |(number, fork)| (number, Some(fork)));
    is_number(owner)
        && is_number(number)
        && segment.is_none_or(is_number)
        && fork.is_none_or(|fork| Fork::from_name(fork).is_some())
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::is_private_name;

    #[test]
    fn only_names_of_temporary_relations_are_taken_for_such() {
        for name in ["t3_16384", "t12_9_fsm", "t0_16384.1", "t3_16384_vm.12", "t3_1_init"] {
            assert!(is_private_name(name), "{name}");
        }
        let others = [
            "16384",
            "t_16384",
            "t3_",
            "t3",
            "t3_16384.",
            "t3_16384_foo",
            "t3_x",
            "tx_1",
            "t3_1_",
            "t3_1.x",
        ];
        for name in others {
            assert!(!is_private_name(name), "{name}");
        }
    }
}
