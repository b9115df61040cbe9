//! Which files of a data directory belong to a backup: all but those that each start rebuilds,
//! those of the running server, and temporary ones. PostgreSQL's pg_basebackup leaves out the same.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use forebay_aio::{AioError, Errno, FileKind, Namespace};
use forebay_format::control;
use serde::{Deserialize, Serialize};

use super::clock;
use super::json;
use super::manifest;
use crate::error::Result;

/// The directory of the log.
pub(super) const WAL: &str = "pg_wal";
/// The directory with links to tablespaces.
pub(super) const TABLESPACES: &str = "pg_tblspc";

/// Directories whose contents each start rebuilds.
const EMPTIED: [&str; 7] = [
    "pg_dynshmem",
    "pg_notify",
    "pg_replslot",
    "pg_serial",
    "pg_snapshots",
    "pg_stat_tmp",
    "pg_subtrans",
];
/// Files of the running server or of another backup. With true, it is only a prefix of the name.
const LEFT_OUT: [(&str, bool); 12] = [
    ("postgresql.auto.conf.tmp", false),
    ("current_logfiles.tmp", false),
    ("pg_internal.init", true),
    ("backup_label", false),
    ("backup_label.old", false),
    ("tablespace_map", false),
    ("tablespace_map.old", false),
    (manifest::FILE_NAME, false),
    ("postmaster.pid", true),
    ("postmaster.opts", false),
    ("recovery.signal", false),
    ("standby.signal", false),
];
/// Prefix of temporary files and of their directories.
const TEMPORARY: &str = "pgsql_tmp";
/// Created empty.
const ARCHIVE_STATUS: &str = "pg_wal/archive_status";

/// The contents of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Contents {
    /// Pages of this segment of a relation.
    Pages { segment: u32 },
    /// Anything else.
    Bytes,
}

/// A file to be copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TreeFile {
    /// Its path relative to the data directory.
    pub path: PathBuf,
    /// Its length in bytes when it was found.
    pub len: u64,
    /// Time of its last change in seconds since 1970.
    pub modified: i64,
    pub contents: Contents,
}

/// A tablespace: a link or a directory in pg_tblspc.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Tablespace {
    /// Its OID, which is the name of the link.
    #[serde(deserialize_with = "json::oid")]
    pub oid: String,
    /// The target of the link; none for a directory.
    #[serde(default, with = "json::path_bytes")]
    pub location: Option<PathBuf>,
}

/// All that is to be copied, except pg_control, which is copied last.
#[derive(Debug, Default)]
pub(super) struct Tree {
    pub files: Vec<TreeFile>,
    /// Directories, each after its parent.
    pub directories: Vec<PathBuf>,
    pub tablespaces: Vec<Tablespace>,
    /// Links and special files that are left out although their purpose is unknown.
    pub passed_over: Vec<PathBuf>,
}

impl Tree {
    /// Walks through a data directory. In a running cluster (`live`) only the initialization forks
    /// of unlogged relations are copied, since recovery empties them, and files may vanish. In a
    /// tablespace only the directory `in_tablespaces` is copied, as the others belong to other
    /// clusters.
    pub(super) fn find(
        names: &dyn Namespace,
        data: &Path,
        live: bool,
        in_tablespaces: &str,
    ) -> Result<Tree> {
        let mut tree = Tree::default();
        Walk { names, data, live, in_tablespaces }.directory(&mut tree, Path::new(""))?;
        tree.directories.extend([WAL, ARCHIVE_STATUS].map(PathBuf::from));
        tree.directories.sort();
        tree.directories.dedup();
        Ok(tree)
    }

    /// Bytes of all files.
    pub(super) fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.len).sum()
    }
}

struct Walk<'a> {
    names: &'a dyn Namespace,
    data: &'a Path,
    live: bool,
    in_tablespaces: &'a str,
}

impl Walk<'_> {
    fn directory(&self, tree: &mut Tree, dir: &Path) -> Result<()> {
        let entries = match self.names.list(&self.data.join(dir)) {
            Ok(entries) => entries,
            Err(error) if self.live && error.is_not_found() => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        if dir != Path::new("") {
            tree.directories.push(dir.to_path_buf());
        }
        let in_relations = holds_relations(dir);
        let unlogged: BTreeSet<String> = match self.live && in_relations {
            true => entries.iter().filter_map(|entry| unlogged_number(&entry.name)).collect(),
            false => BTreeSet::new(),
        };
        let in_tablespace = dir.starts_with(TABLESPACES) && dir.iter().count() == 2;
        for entry in entries {
            if in_tablespace && entry.name != self.in_tablespaces {
                continue;
            }
            let path = dir.join(&entry.name);
            let name = entry.name.to_string_lossy();
            if is_left_out(&name) || path == Path::new(control::PATH) {
                continue;
            }
            match entry.kind {
                FileKind::Directory if path == Path::new(WAL) => {}
                FileKind::Directory => self.below(tree, &path, dir)?,
                FileKind::Symlink => self.link(tree, path, dir, &name)?,
                FileKind::File => {
                    let relation = if in_relations { RelationFile::parse(&name) } else { None };
                    let skip = relation.as_ref().is_some_and(|file| {
                        file.temporary || (!file.is_init && unlogged.contains(file.number))
                    });
                    if !skip {
                        let contents = match relation {
                            Some(file) => Contents::Pages { segment: file.segment },
                            None => Contents::Bytes,
                        };
                        self.file(tree, path, contents)?;
                    }
                }
                FileKind::Other => tree.passed_over.push(path),
            }
        }
        Ok(())
    }

    fn below(&self, tree: &mut Tree, path: &Path, parent: &Path) -> Result<()> {
        if parent == Path::new(TABLESPACES) {
            tree.tablespaces.push(Tablespace { oid: path_name(path), location: None });
        }
        if parent == Path::new("") && EMPTIED.iter().any(|name| path == Path::new(name)) {
            tree.directories.push(path.to_path_buf());
            return Ok(());
        }
        self.directory(tree, path)
    }

    /// Follows the link of a tablespace. The link of the log is ignored; others are passed over.
    fn link(&self, tree: &mut Tree, path: PathBuf, parent: &Path, name: &str) -> Result<()> {
        if path == Path::new(WAL) {
            return Ok(());
        }
        if parent == Path::new("") && EMPTIED.contains(&name) {
            tree.directories.push(path);
            return Ok(());
        }
        if parent != Path::new(TABLESPACES) {
            tree.passed_over.push(path);
            return Ok(());
        }
        let location = self.names.read_link(&self.data.join(&path))?;
        tree.tablespaces.push(Tablespace { oid: name.to_owned(), location: Some(location) });
        self.directory(tree, &path)
    }

    fn file(&self, tree: &mut Tree, path: PathBuf, contents: Contents) -> Result<()> {
        let whole = self.data.join(&path);
        match self.names.stat(&whole)? {
            Some(stat) => {
                let modified = clock::seconds(stat.modified);
                tree.files.push(TreeFile { path, len: stat.len, modified, contents });
                Ok(())
            }
            None if self.live => Ok(()),
            None => Err(AioError::os("stat file", &whole, Errno::NOENT).into()),
        }
    }
}

fn path_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn is_left_out(name: &str) -> bool {
    let listed = LEFT_OUT
        .iter()
        .any(|(known, prefix)| if *prefix { name.starts_with(known) } else { name == *known });
    listed || name.starts_with(TEMPORARY)
}

/// Whether relations are in this directory: global, a directory in base, or a database's directory
/// in a tablespace.
fn holds_relations(dir: &Path) -> bool {
    let parts: Vec<&OsStr> = dir.iter().collect();
    let is = |at: usize, name: &str| parts.get(at).is_some_and(|part| *part == name);
    match parts.len() {
        1 => is(0, "global"),
        2 => is(0, "base"),
        4 => is(0, TABLESPACES),
        _ => false,
    }
}

/// The parts of a relation file's name: "t3_16384_fsm.2".
#[derive(Debug, PartialEq, Eq)]
struct RelationFile<'a> {
    number: &'a str,
    is_init: bool,
    temporary: bool,
    segment: u32,
}

impl RelationFile<'_> {
    fn parse(name: &str) -> Option<RelationFile<'_>> {
        let digits =
            |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let (stem, segment) = match name.split_once('.') {
            Some((stem, segment)) if digits(segment) => (stem, segment.parse().ok()?),
            Some(_) => return None,
            None => (name, 0),
        };
        let (temporary, stem) = match stem.strip_prefix('t') {
            Some(rest) => {
                let (backend, rest) = rest.split_once('_')?;
                (digits(backend).then_some(true)?, rest)
            }
            None => (false, stem),
        };
        let (number, fork) = stem.split_once('_').unwrap_or((stem, ""));
        let known = ["", "fsm", "vm", "init"].contains(&fork) && digits(number);
        known.then_some(RelationFile { number, is_init: fork == "init", temporary, segment })
    }
}

/// The number of an unlogged relation, if this is its initialization fork.
fn unlogged_number(name: &OsStr) -> Option<String> {
    let file = RelationFile::parse(name.to_str()?)?;
    (file.is_init && !file.temporary).then(|| file.number.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_aio::PosixNamespace;

    const OURS: &str = "PG_18_202506291";

    #[test]
    fn names_of_relation_files() {
        let file = |number, is_init, temporary, segment| RelationFile {
            number,
            is_init,
            temporary,
            segment,
        };
        assert_eq!(RelationFile::parse("1259"), Some(file("1259", false, false, 0)));
        assert_eq!(RelationFile::parse("1259_vm.3"), Some(file("1259", false, false, 3)));
        assert_eq!(RelationFile::parse("16384_init"), Some(file("16384", true, false, 0)));
        assert_eq!(RelationFile::parse("t3_16384_fsm"), Some(file("16384", false, true, 0)));
        for other in
            ["PG_VERSION", "pg_filenode.map", "12x", "1259_x", "t_1", "1259.", "1259.x", ""]
        {
            assert_eq!(RelationFile::parse(other), None, "{other}");
        }
    }

    #[test]
    fn only_some_directories_hold_relations() {
        for dir in ["global", "base/5", "pg_tblspc/16390/PG_18_202506291/5"] {
            assert!(holds_relations(Path::new(dir)), "{dir}");
        }
        for dir in ["", "base", "pg_xact", "pg_tblspc/16390", "pg_tblspc/16390/PG_18_202506291"] {
            assert!(!holds_relations(Path::new(dir)), "{dir}");
        }
    }

    fn paths(tree: &Tree) -> Vec<&str> {
        let mut all: Vec<&str> = tree.files.iter().filter_map(|file| file.path.to_str()).collect();
        all.sort_unstable();
        all
    }

    #[test]
    fn files_that_belong_to_a_backup() {
        let dir = tempfile::tempdir().expect("a directory");
        let write = |path: &str| {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
            std::fs::write(path, b"x").expect("a file");
        };
        for path in [
            "PG_VERSION",
            "postmaster.pid",
            "backup_label.old",
            "global/pg_control",
            "global/pg_internal.init.12",
            "global/1262",
            "base/5/16384",
            "base/5/16384_init",
            "base/5/16384_fsm",
            "base/5/16385",
            "base/5/t1_16386",
            "base/pgsql_tmp/pgsql_tmp1.0",
            "pg_wal/000000010000000000000001",
            "pg_wal/archive_status/000000010000000000000001.done",
            "pg_notify/0000",
            "pg_xact/0000",
        ] {
            write(path);
        }
        let names = PosixNamespace::new();
        let live = Tree::find(&names, dir.path(), true, OURS).expect("a walk");
        let expected =
            ["PG_VERSION", "base/5/16384_init", "base/5/16385", "global/1262", "pg_xact/0000"];
        assert_eq!(paths(&live), expected);
        let still = Tree::find(&names, dir.path(), false, OURS).expect("a walk");
        assert!(paths(&still).contains(&"base/5/16384_fsm"), "{:?}", paths(&still));
        for wanted in ["pg_notify", "pg_wal", "pg_wal/archive_status", "base/5"] {
            assert!(live.directories.iter().any(|dir| dir == Path::new(wanted)), "{wanted}");
        }
    }

    #[test]
    fn tablespaces_are_followed_and_other_links_are_not() {
        let dir = tempfile::tempdir().expect("a directory");
        let (data, space) = (dir.path().join("data"), dir.path().join("space"));
        std::fs::create_dir_all(data.join("pg_tblspc")).expect("a directory");
        std::fs::create_dir_all(space.join("PG_18_202506291/5")).expect("a directory");
        std::fs::write(space.join("PG_18_202506291/5/16400.1"), b"x").expect("a file");
        std::fs::create_dir_all(space.join("PG_17_202406281/5")).expect("a directory");
        std::fs::write(space.join("PG_17_202406281/5/16400"), b"x").expect("a file");
        std::os::unix::fs::symlink(&space, data.join("pg_tblspc/16390")).expect("a link");
        std::os::unix::fs::symlink(&space, data.join("odd")).expect("a link");
        let tree = Tree::find(&PosixNamespace::new(), &data, true, OURS).expect("a walk");
        assert_eq!(
            tree.tablespaces,
            [Tablespace { oid: "16390".to_owned(), location: Some(space) }]
        );
        assert_eq!(tree.passed_over, [PathBuf::from("odd")]);
        let [file] = tree.files.as_slice() else { panic!("{:?}", tree.files) };
        assert_eq!(file.contents, Contents::Pages { segment: 1 });
        assert_eq!(file.path, Path::new("pg_tblspc/16390/PG_18_202506291/5/16400.1"));
    }
}
