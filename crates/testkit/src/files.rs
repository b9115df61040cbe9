//! Directories that tests look at, copy and damage. A failure of the file system panics.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::{Path, PathBuf};

/// A server's lock file, which belongs to a running server and to no copy.
const LOCK_FILE: &str = "postmaster.pid";

/// The names in a directory, sorted.
pub fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = entries(dir)
        .iter()
        .map(|path| path.file_name().unwrap_or_default().to_str().expect("a name").to_owned())
        .collect();
    names.sort();
    names
}

/// The paths of the files below a directory, except for a server's lock file, sorted.
pub fn paths(dir: &Path) -> Vec<PathBuf> {
    let (mut files, mut left) = (Vec::new(), vec![dir.to_path_buf()]);
    while let Some(folder) = left.pop() {
        for path in entries(&folder) {
            if path.is_dir() {
                left.push(path);
            } else if !path.ends_with(LOCK_FILE) {
                files.push(path.strip_prefix(dir).expect("it is below").to_path_buf());
            }
        }
    }
    files.sort();
    files
}

/// The files of [`paths`] with their contents.
pub fn contents(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let read = |path: &PathBuf| fs::read(dir.join(path)).expect("it can be read");
    paths(dir).into_iter().map(|path| (path.clone(), read(&path))).collect()
}

/// Makes a directory that only its owner may enter, as servers want theirs.
pub fn private_dir(path: &Path) {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path).expect("it can be made");
}

/// Copies a data directory, except for its server's lock file.
pub fn copy_tree(from: &Path, to: &Path) {
    private_dir(to);
    for path in entries(from) {
        let target = to.join(path.file_name().unwrap_or_default());
        if path.is_dir() {
            copy_tree(&path, &target);
        } else if !path.ends_with(LOCK_FILE) {
            fs::copy(&path, &target).expect("it can be copied");
        }
    }
}

/// Changes a bit of a file.
pub fn flip(path: &Path, at: usize) {
    let file = fs::File::options().read(true).write(true).open(path).expect("it can be opened");
    let mut byte = [0];
    file.read_exact_at(&mut byte, at as u64).expect("the file is that long");
    file.write_all_at(&[byte[0] ^ 1], at as u64).expect("it can be written");
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
    entries.map(|entry| entry.expect("an entry").path()).collect()
}
