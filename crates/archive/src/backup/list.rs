//! Which base backups an archive has, and which WAL they need.
//!
//! ```text
//!   ARCHIVE/backups/NAME/backup.json      describes the backup
//!                       /data/...         the data directory, with backup_manifest
//!   ARCHIVE/backups/NAME.partial/...      being made, or left by a process that died
//! ```
//!
//! The process that makes a backup holds a lock on its directory. An incomplete backup without a
//! lock was abandoned.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use forebay_aio::{Errno, File, FileKind, IfFound, IoBackend, Namespace, OpenOptions};

use super::about::{self, About};
use crate::error::{ArchiveError, Result};
use crate::store::expire::NeededFrom;

/// The directory of an archive that holds its base backups. Nothing else is kept there.
pub const DIRECTORY: &str = "backups";
/// Ending of the name of an incomplete backup.
pub(super) const PARTIAL: &str = ".partial";
/// The data directory in a backup.
pub(super) const DATA: &str = "data";

/// The state of a backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackupState {
    /// It can be restored.
    Complete,
    /// A process is making it.
    InProgress,
    /// The process that made or removed it has died.
    Abandoned,
}

/// A backup in an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backup {
    /// Its directory.
    pub path: PathBuf,
    /// Its state.
    pub state: BackupState,
    /// Its description. None: it has just been begun, and needs no WAL yet.
    pub about: Option<About>,
}

impl Backup {
    /// The data directory in it.
    pub fn data(&self) -> PathBuf {
        self.path.join(DATA)
    }
}

/// All backups, the oldest first.
pub fn list(io: &mut IoBackend, archive: &Path) -> Result<Vec<Backup>> {
    let names = Arc::clone(io.aio().namespace());
    let dir = archive.join(DIRECTORY);
    let entries = names.list(&dir).if_found()?.unwrap_or_default();
    let mut all = Vec::new();
    for entry in entries.iter().filter(|entry| entry.kind == FileKind::Directory) {
        let path = dir.join(&entry.name);
        let name = entry.name.to_string_lossy();
        let partial = name.ends_with(PARTIAL);
        if name.starts_with('.') {
            // It is being created.
            continue;
        }
        let Some(about) = read_about(io, &path, partial)? else {
            // It was completed or removed after the listing.
            continue;
        };
        let state = match partial {
            false => BackupState::Complete,
            true if lock(&*names, &path)?.is_some() => BackupState::Abandoned,
            true => BackupState::InProgress,
        };
        all.push(Backup { path, state, about });
    }
    let began = |backup: &Backup| backup.about.as_ref().map_or(i64::MAX, |about| about.began);
    all.sort_by(|a, b| began(a).cmp(&began(b)).then_with(|| a.path.cmp(&b.path)));
    Ok(all)
}

/// Reads the description of a backup. The outer None: its directory is gone.
fn read_about(io: &mut IoBackend, path: &Path, partial: bool) -> Result<Option<Option<About>>> {
    let file = path.join(about::FILE_NAME);
    let text = match io.read_file(&file) {
        Ok(text) => text,
        Err(error) if error.is_not_found() => {
            if !io.aio().namespace().exists(path)? {
                return Ok(None);
            }
            if partial {
                return Ok(Some(None));
            }
            return Err(ArchiveError::damaged(
                path.display(),
                format!("it has no file \"{}\"", about::FILE_NAME),
            ));
        }
        Err(error) => return Err(error.into()),
    };
    match About::parse(&text) {
        Ok(about) => Ok(Some(Some(about))),
        // It may be incomplete, as it is being written.
        Err(_) if partial => Ok(Some(None)),
        Err(why) => Err(ArchiveError::damaged(file.display(), why)),
    }
}

/// Creates the directory of a new backup. It is locked before it becomes visible.
pub(super) fn begin(names: &dyn Namespace, dir: &Path, name: &str) -> Result<(PathBuf, File)> {
    check_name(name)?;
    let partial = dir.join(format!("{name}{PARTIAL}"));
    let taken = || ArchiveError::refused(format!("there is a backup \"{name}\" already"));
    if names.exists(&dir.join(name))? || names.exists(&partial)? {
        return Err(taken());
    }
    let hidden = dir.join(format!(".{name}.{}", std::process::id()));
    names.mkdir(&hidden)?;
    let begun = lock(names, &hidden).and_then(|lock| match lock {
        Some(lock) => match names.rename_noreplace(&hidden, &partial) {
            Ok(()) => Ok(lock),
            Err(error) if error.errno() == Some(Errno::EXIST) => Err(taken()),
            Err(error) => Err(error.into()),
        },
        None => Err(taken()),
    });
    if begun.is_err() {
        // A hidden directory is ignored, so it does no harm if this fails.
        let _ = names.rmdir(&hidden);
    }
    begun.map(|lock| (partial, lock))
}

/// Locks a directory. None: another process has the lock, or there is no such directory.
fn lock(names: &dyn Namespace, path: &Path) -> Result<Option<File>> {
    let Some(directory) = names.open(path, &OpenOptions::READ).if_found()? else {
        return Ok(None);
    };
    Ok(names.try_lock(&directory)?.then_some(directory))
}

/// The WAL that the backups of an archive need, including those that are being made. A backup that
/// can't be read is an error, so that nobody removes what it needs.
pub fn needed(io: &mut IoBackend, archive: &Path) -> Result<Vec<NeededFrom>> {
    let backups =
        list(io, archive)?.into_iter().filter(|backup| backup.state != BackupState::Abandoned);
    let from = |about: About| NeededFrom { first: about.first_segment(), backup: about.name };
    Ok(backups.filter_map(|backup| backup.about).map(from).collect())
}

/// Removes abandoned backups. Returns how many.
pub fn remove_abandoned(io: &mut IoBackend, archive: &Path) -> Result<usize> {
    let names = Arc::clone(io.aio().namespace());
    let mut removed = 0;
    for backup in list(io, archive)?.iter().filter(|backup| backup.state == BackupState::Abandoned)
    {
        // If it is locked now, another process is removing it.
        if let Some(_lock) = lock(&*names, &backup.path)? {
            remove_tree(&*names, &backup.path)?;
            removed += 1;
        }
    }
    Ok(removed)
}

/// Checks that a name is neither a path nor the name of an incomplete backup.
fn check_name(name: &str) -> Result<()> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty()
        || name.starts_with('.')
        || name.ends_with(PARTIAL)
        || !name.chars().all(plain)
    {
        return Err(ArchiveError::refused(format!("\"{name}\" can't be the name of a backup")));
    }
    Ok(())
}

/// Removes a directory and its contents. Links are removed, not followed.
pub(super) fn remove_tree(names: &dyn Namespace, path: &Path) -> Result<()> {
    for entry in names.list(path)? {
        let inner = path.join(&entry.name);
        match entry.kind {
            FileKind::Directory => remove_tree(names, &inner)?,
            _ => names.unlink(&inner)?,
        }
    }
    Ok(names.rmdir(path)?)
}

#[cfg(test)]
mod tests {
    use super::super::about::tests::sample;
    use super::*;
    use forebay_aio::{Aio, AioConfig, BackendType, MethodKind, PosixNamespace};

    fn backend() -> IoBackend {
        let sizes = AioConfig { max_backends: 2, ..AioConfig::default() };
        let aio =
            Aio::new(Arc::new(PosixNamespace::new()), MethodKind::Sync, sizes).expect("an Aio");
        aio.backend(BackendType::Standalone).expect("a backend")
    }

    fn put(archive: &Path, name: &str, about: Option<&About>) -> PathBuf {
        let path = archive.join(DIRECTORY).join(name);
        std::fs::create_dir_all(path.join(DATA)).expect("directories");
        std::fs::write(path.join(DATA).join("PG_VERSION"), "18\n").expect("a file");
        if let Some(about) = about {
            std::fs::write(path.join(about::FILE_NAME), about.to_text()).expect("a file");
        }
        path
    }

    #[test]
    fn name_and_lock_tell_the_state_of_a_backup() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut io = backend();
        assert_eq!(list(&mut io, dir.path()).expect("none"), []);
        let named = |name: &str, began| About { name: name.to_owned(), began, ..sample() };
        let unfinished = |name: &str| About { stop: None, ..named(name, 30) };
        put(dir.path(), "b", Some(&named("b", 20)));
        put(dir.path(), "a", Some(&named("a", 10)));
        put(dir.path(), "c.partial", Some(&unfinished("c")));
        let making = put(dir.path(), "d.partial", Some(&unfinished("d")));
        put(dir.path(), "e.partial", None);
        let names = PosixNamespace::new();
        let held = lock(&names, &making).expect("no error").expect("a lock");
        let states: Vec<_> =
            list(&mut io, dir.path()).expect("all").iter().map(|b| b.state).collect();
        use BackupState::{Abandoned, Complete, InProgress};
        assert_eq!(states, [Complete, Complete, Abandoned, InProgress, Abandoned]);
        let all = needed(&mut io, dir.path()).expect("all");
        let shown: Vec<_> = all.iter().map(|n| n.backup.as_str()).collect();
        assert_eq!(shown, ["a", "b", "d"]);
        assert_eq!(all.first().map(|n| n.first.as_str()), Some("000000030000000000000002"));

        assert_eq!(remove_abandoned(&mut io, dir.path()).expect("removed"), 2);
        assert!(making.exists());
        drop(held);
        assert_eq!(remove_abandoned(&mut io, dir.path()).expect("removed"), 1);
        let left: Vec<_> =
            list(&mut io, dir.path()).expect("all").into_iter().map(|b| b.path).collect();
        assert_eq!(left, ["a", "b"].map(|name| dir.path().join(DIRECTORY).join(name)));
    }

    #[test]
    fn a_backup_that_cannot_be_read_is_an_error() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut io = backend();
        let path = put(dir.path(), "a", None);
        assert!(matches!(needed(&mut io, dir.path()), Err(ArchiveError::Damaged { .. })));
        std::fs::write(path.join(about::FILE_NAME), "{}").expect("a file");
        assert!(matches!(needed(&mut io, dir.path()), Err(ArchiveError::Damaged { .. })));
    }

    #[test]
    fn names_that_are_paths_are_refused() {
        for name in ["", ".", "..", "a/b", "../a", "a.partial", ".hidden", "a b"] {
            assert!(matches!(check_name(name), Err(ArchiveError::Refused(_))), "{name}");
        }
        check_name("20261121T012139Z").expect("a name");
    }
}
