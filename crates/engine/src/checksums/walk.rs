//! Finds files with pages: all below global, base and the tablespaces, except a few names.

use std::path::{Path, PathBuf};

use forebay_aio::{FileKind, Namespace, OpenOptions};
use forebay_format::control::Outline;
use forebay_format::ids::BLOCK_SIZE;

use crate::disk::TABLESPACES;
use crate::error::EngineError;

/// Where relation files are.
const ROOTS: [&str; 3] = ["global", "base", TABLESPACES];
/// Files there without pages: the name, and whether it is a prefix.
const WITHOUT_PAGES: [(&str, bool); 5] = [
    ("pg_control", false),
    ("pg_filenode.map", false),
    ("pg_internal.init", true),
    ("PG_VERSION", false),
    ("pgsql_tmp", true),
];

/// A file of pages.
#[derive(Debug)]
pub(super) struct PageFile {
    pub path: PathBuf,
    /// Number of its first block in the relation.
    pub first_block: u32,
    pub blocks: u32,
}

/// All files of pages.
#[derive(Debug, Default)]
pub(super) struct Tree {
    pub files: Vec<PageFile>,
}

impl Tree {
    /// Finds them, in the order of their names.
    pub(super) fn find(
        namespace: &dyn Namespace,
        dir: &Path,
        outline: &Outline,
        filenode: Option<&str>,
    ) -> Result<Tree, EngineError> {
        let mut tree = Tree::default();
        let walk = Walk { namespace, outline, filenode };
        for root in ROOTS {
            walk.directory(&mut tree, &dir.join(root), root == TABLESPACES)?;
        }
        Ok(tree)
    }

    /// Bytes of all files.
    pub(super) fn bytes(&self) -> u64 {
        self.files.iter().map(|file| u64::from(file.blocks) * BLOCK_SIZE as u64).sum()
    }

    /// Opens every file for writing, so that none fails after others were written.
    pub(super) fn check_writable(
        &self,
        namespace: &dyn Namespace,
        direct: bool,
    ) -> Result<(), EngineError> {
        for file in &self.files {
            namespace.open(&file.path, &OpenOptions::READ_WRITE.direct(direct))?;
        }
        Ok(())
    }
}

struct Walk<'a> {
    namespace: &'a dyn Namespace,
    outline: &'a Outline,
    filenode: Option<&'a str>,
}

impl Walk<'_> {
    fn directory(
        &self,
        tree: &mut Tree,
        dir: &Path,
        of_tablespaces: bool,
    ) -> Result<(), EngineError> {
        let mut entries = self.namespace.list(dir)?;
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        for entry in entries {
            let (path, name) = (dir.join(&entry.name), entry.name.to_string_lossy());
            if has_no_pages(&name) {
                continue;
            }
            match entry.kind {
                FileKind::File => self.file(tree, path, &name)?,
                FileKind::Directory | FileKind::Symlink if of_tablespaces => {
                    // Directories of other versions are skipped.
                    let own = path.join(self.outline.tablespace_directory());
                    if !self.namespace.exists(&own)? {
                        return Err(no_such_file(&own));
                    }
                    self.directory(tree, &own, false)?;
                }
                FileKind::Directory | FileKind::Symlink => self.directory(tree, &path, false)?,
                FileKind::Other => {}
            }
        }
        Ok(())
    }

    fn file(&self, tree: &mut Tree, path: PathBuf, name: &str) -> Result<(), EngineError> {
        let (number, segment) = split_name(name).ok_or_else(|| bad_segment(name, &path))?;
        if self.filenode.is_some_and(|wanted| wanted != number) {
            return Ok(());
        }
        let stat = self.namespace.stat(&path)?;
        let len = stat.map(|stat| stat.len).ok_or_else(|| no_such_file(&path))?;
        let (blocks, rest) = (len / BLOCK_SIZE as u64, len % BLOCK_SIZE as u64);
        if rest != 0 {
            return Err(EngineError::corrupt(format!(
                "could not read block {blocks} in file \"{}\": read {rest} of {BLOCK_SIZE}",
                path.display()
            )));
        }
        let first_block = segment
            .checked_mul(self.outline.segment_blocks)
            .ok_or_else(|| bad_segment(name, &path))?;
        let blocks =
            u32::try_from(blocks).ok().filter(|blocks| first_block.checked_add(*blocks).is_some());
        let blocks = blocks.ok_or_else(|| {
            EngineError::corrupt(format!(
                "file \"{}\" has {len} bytes: more than a relation",
                path.display()
            ))
        })?;
        tree.files.push(PageFile { path, first_block, blocks });
        Ok(())
    }
}

fn no_such_file(path: &Path) -> EngineError {
    let message = format!("could not stat file \"{}\": No such file or directory", path.display());
    EngineError::statement("58P01", message)
}

fn bad_segment(name: &str, path: &Path) -> EngineError {
    let segment = name.split_once('.').map_or("", |(_, segment)| segment);
    EngineError::corrupt(format!(
        "invalid segment number {segment} in file name \"{}\"",
        path.display()
    ))
}

fn has_no_pages(name: &str) -> bool {
    WITHOUT_PAGES
        .iter()
        .any(|(known, prefix)| if *prefix { name.starts_with(known) } else { name == *known })
}

/// "1259_fsm.2" is the second segment after the first of a fork of 1259.
fn split_name(name: &str) -> Option<(&str, u32)> {
    let (stem, segment) = match name.split_once('.') {
        Some((stem, digits)) => (stem, digits.parse().ok().filter(|segment| *segment > 0)?),
        None => (name, 0),
    };
    Some((stem.split_once('_').map_or(stem, |(number, _)| number), segment))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_split_as_pg_checksums_does() {
        assert_eq!(split_name("1259"), Some(("1259", 0)));
        assert_eq!(split_name("1259.3"), Some(("1259", 3)));
        assert_eq!(split_name("1259_vm.3"), Some(("1259", 3)));
        assert_eq!(split_name("t3_16384_fsm"), Some(("t3", 0)));
        for bad in ["1259.", "1259.x", "1259.0", "1259.-1", "1259.99999999999999999999"] {
            assert_eq!(split_name(bad), None, "{bad}");
        }
    }

    #[test]
    fn some_names_have_no_pages() {
        for name in
            ["pg_control", "pg_internal.init.77", "pgsql_tmp", "pgsql_tmp123.0", "PG_VERSION"]
        {
            assert!(has_no_pages(name), "{name}");
        }
        for name in ["1259", "pg_control2", "PG_VERSION.1"] {
            assert!(!has_no_pages(name), "{name}");
        }
    }
}
