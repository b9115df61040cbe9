//! Temporary relations that a crash left behind. Their files are named for the backend that owned
//! them (`base/5/t3_16384`), and are removed at the next start.

use crate::error::{StorageError, file_error};
use forebay_aio::{FileKind, IfFound, Namespace};
use forebay_format::{Fork, ids::TABLESPACE_VERSION_DIR};
use std::path::{Path, PathBuf};

/// Removes the files of temporary relations that a crash left in a data directory, and returns
/// their number. Only for the start, before there are backends.
pub fn remove_temp_relations(names: &dyn Namespace, data_dir: &Path) -> Result<u64, StorageError> {
    let mut removed = 0;
    for dir in database_dirs(names, data_dir)? {
        for entry in names.list(&dir).map_err(|e| file_error("list", &dir, &e))? {
            if entry.kind == FileKind::File
                && entry.name.to_str().is_some_and(is_temp_relation_name)
            {
                let path = dir.join(&entry.name);
                names.unlink(&path).map_err(|e| file_error("remove", &path, &e))?;
                removed += 1;
            }
        }
    }
    Ok(removed)
}

/// Returns the directories of all databases in all tablespaces.
pub fn database_dirs(names: &dyn Namespace, data_dir: &Path) -> Result<Vec<PathBuf>, StorageError> {
    let mut parents = vec![data_dir.join("base")];
    let spaces = data_dir.join("pg_tblspc");
    for entry in list_if_there(names, &spaces)? {
        // Whatever else somebody has put there is no tablespace.
        if entry.kind == FileKind::File || !entry.name.to_str().is_some_and(is_number) {
            continue;
        }
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
    let listed = names.list(dir).if_found().map_err(|e| file_error("list", dir, &e))?;
    Ok(listed.unwrap_or_default())
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

/// Whether a file is named like `t3_16384`, with a fork's suffix and a segment's number allowed.
fn is_temp_relation_name(name: &str) -> bool {
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
    use super::is_temp_relation_name;

    #[test]
    fn names_of_temporary_relations_are_recognized() {
        for name in ["t3_16384", "t12_9_fsm", "t0_16384.1", "t3_16384_vm.12", "t3_1_init"] {
            assert!(is_temp_relation_name(name), "{name}");
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
            assert!(!is_temp_relation_name(name), "{name}");
        }
    }
}
