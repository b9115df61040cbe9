//! Which base backups an archive has, and which WAL they need.
//!
//! ```text
//!   ARCHIVE/backups/NAME/backup.json      what it is
//!                       /data/...         the data directory, with backup_manifest
//!   ARCHIVE/backups/NAME.partial/...      in the making, or left behind by one who was killed
//! ```
//!
//! Who makes a backup holds a lock on its directory, so that one that is left behind is told from
//! one that is being made.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use forebay_aio::{Backend, Errno, File, FileKind, Namespace, OpenOptions};
use forebay_format::ids::TimelineId;
use forebay_format::{Lsn, SegmentSize};

use super::about::{self, About};
use super::error::BackupError;

/// The directory of an archive that holds its base backups. Nothing else is kept there.
pub const DIRECTORY: &str = "backups";
/// What the name of a backup that is not complete ends with.
pub(super) const PARTIAL: &str = ".partial";
/// The data directory in a backup.
pub(super) const DATA: &str = "data";

/// How a backup stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackupState {
    /// It can be restored.
    Complete,
    /// Somebody is making it.
    InProgress,
    /// Whoever made it is gone, or it was about to be removed.
    Abandoned,
}

/// A backup in an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backup {
    /// Its directory.
    pub path: PathBuf,
    /// How it stands.
    pub state: BackupState,
    /// What it is. None: it is not complete, and has not come far enough to need any WAL.
    pub about: Option<About>,
}

impl Backup {
    /// The data directory in it.
    pub fn data(&self) -> PathBuf {
        self.path.join(DATA)
    }
}

/// All backups, the oldest first.
pub fn list(io: &mut Backend, archive: &Path) -> Result<Vec<Backup>, BackupError> {
    let names = Arc::clone(io.aio().namespace());
    let dir = archive.join(DIRECTORY);
    let entries = match names.list(&dir) {
        Ok(entries) => entries,
        Err(error) if error.is_not_found() => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    let mut all = Vec::new();
    for entry in entries.iter().filter(|entry| entry.kind == FileKind::Directory) {
        let path = dir.join(&entry.name);
        let name = entry.name.to_string_lossy();
        let partial = name.ends_with(PARTIAL);
        if name.starts_with('.') {
            // About to be begun.
            continue;
        }
        let Some(about) = read_about(io, &path, partial)? else {
            // It became complete, or was removed, between two looks.
            continue;
        };
        let state = match partial {
            false => BackupState::Complete,
            true if hold(&*names, &path)?.is_some() => BackupState::Abandoned,
            true => BackupState::InProgress,
        };
        all.push(Backup { path, state, about });
    }
    let began = |backup: &Backup| backup.about.as_ref().map_or(i64::MAX, |about| about.began);
    all.sort_by(|a, b| began(a).cmp(&began(b)).then_with(|| a.path.cmp(&b.path)));
    Ok(all)
}

/// What a backup is. The outer None: its directory is gone.
fn read_about(
    io: &mut Backend,
    path: &Path,
    partial: bool,
) -> Result<Option<Option<About>>, BackupError> {
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
            return Err(BackupError::damaged(
                path,
                format!("it has no file \"{}\"", about::FILE_NAME),
            ));
        }
        Err(error) => return Err(error.into()),
    };
    match About::parse(&text) {
        Ok(about) => Ok(Some(Some(about))),
        // It may be in the midst of being written.
        Err(_) if partial => Ok(Some(None)),
        Err(why) => Err(BackupError::damaged(&file, why)),
    }
}

/// Makes the directory of a new backup, with its lock: nobody sees it without.
pub(super) fn begin(
    names: &dyn Namespace,
    dir: &Path,
    name: &str,
) -> Result<(PathBuf, File), BackupError> {
    check_name(name)?;
    let partial = dir.join(format!("{name}{PARTIAL}"));
    let taken = || BackupError::refused(format!("there is a backup \"{name}\" already"));
    if names.exists(&dir.join(name))? || names.exists(&partial)? {
        return Err(taken());
    }
    let unseen = dir.join(format!(".{name}.{}", std::process::id()));
    names.mkdir(&unseen)?;
    let begun = hold(names, &unseen).and_then(|lock| match lock {
        Some(lock) => match names.rename_noreplace(&unseen, &partial) {
            Ok(()) => Ok(lock),
            Err(error) if error.errno() == Some(Errno::EXIST) => Err(taken()),
            Err(error) => Err(error.into()),
        },
        None => Err(taken()),
    });
    if begun.is_err() {
        // Nobody looks at it.
        let _ = names.rmdir(&unseen);
    }
    begun.map(|lock| (partial, lock))
}

/// Locks a directory; None if somebody has it.
pub(super) fn hold(names: &dyn Namespace, path: &Path) -> Result<Option<File>, BackupError> {
    let directory = match names.open(path, &OpenOptions::READ) {
        Ok(directory) => directory,
        Err(error) if error.is_not_found() => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    Ok(names.try_lock(&directory)?.then_some(directory))
}

/// WAL that a backup needs, complete or in the making: all from the segment of `start` on for
/// whoever wants to recover from it beyond its end; up to the segment of `stop` at least.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Needed {
    /// The backup.
    pub backup: String,
    /// The cluster.
    pub system_id: u64,
    /// The timeline that `start` is on.
    pub timeline: TimelineId,
    /// Recovery begins here.
    pub start: Lsn,
    /// It is consistent here. None while it is being made.
    pub stop: Option<Lsn>,
    /// Size of WAL segments.
    pub segment_size: SegmentSize,
}

impl Needed {
    /// Name of the first segment that is needed.
    pub fn first_segment(&self) -> String {
        self.segment_size.file_name(self.timeline, self.segment_size.number(self.start))
    }
}

/// What WAL the backups of an archive need, those in the making too. A backup that can't be
/// understood is an error, so that nobody takes what it needs.
pub fn needed(io: &mut Backend, archive: &Path) -> Result<Vec<Needed>, BackupError> {
    let backups =
        list(io, archive)?.into_iter().filter(|backup| backup.state != BackupState::Abandoned);
    let of = |about: About| Needed {
        backup: about.name,
        system_id: about.system_id,
        timeline: about.timeline,
        start: about.start,
        stop: about.stop,
        segment_size: about.segment_size,
    };
    Ok(backups.filter_map(|backup| backup.about).map(of).collect())
}

/// Removes a complete backup: first its name, so that what a crash leaves of it is no backup.
pub fn remove(io: &mut Backend, archive: &Path, name: &str) -> Result<(), BackupError> {
    let names = Arc::clone(io.aio().namespace());
    let dir = archive.join(DIRECTORY);
    check_name(name)?;
    let (whole, partial) = (dir.join(name), dir.join(format!("{name}{PARTIAL}")));
    names.rename_noreplace(&whole, &partial)?;
    names.sync_dir(&dir)?;
    remove_tree(&*names, &partial)?;
    Ok(names.sync_dir(&dir)?)
}

/// Removes what those left behind who were killed while they made a backup; how many there were.
pub fn remove_abandoned(io: &mut Backend, archive: &Path) -> Result<usize, BackupError> {
    let names = Arc::clone(io.aio().namespace());
    let mut removed = 0;
    for backup in list(io, archive)?.iter().filter(|backup| backup.state == BackupState::Abandoned)
    {
        // Whoever has it by now is removing it too.
        if let Some(_held) = hold(&*names, &backup.path)? {
            remove_tree(&*names, &backup.path)?;
            removed += 1;
        }
    }
    Ok(removed)
}

/// A name that is a name, and not a path or that of an incomplete backup.
pub(super) fn check_name(name: &str) -> Result<(), BackupError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty()
        || name.starts_with('.')
        || name.ends_with(PARTIAL)
        || !name.chars().all(plain)
    {
        return Err(BackupError::refused(format!("\"{name}\" can't be the name of a backup")));
    }
    Ok(())
}

/// Removes a directory with all that is in it. Links are removed, not followed.
pub(super) fn remove_tree(names: &dyn Namespace, path: &Path) -> Result<(), BackupError> {
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

    fn backend() -> Backend {
        let sizes = AioConfig { max_backends: 2, ..AioConfig::default() };
        let aio =
            Aio::new(Arc::new(PosixNamespace::new()), MethodKind::Sync, sizes).expect("a door");
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
    fn each_backup_stands_as_its_name_and_lock_say() {
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
        let lock = hold(&names, &making).expect("a look").expect("a lock");
        let states: Vec<_> =
            list(&mut io, dir.path()).expect("all").iter().map(|b| b.state).collect();
        use BackupState::{Abandoned, Complete, InProgress};
        assert_eq!(states, [Complete, Complete, Abandoned, InProgress, Abandoned]);
        let all = needed(&mut io, dir.path()).expect("all");
        let shown: Vec<_> = all.iter().map(|n| (n.backup.as_str(), n.stop.is_some())).collect();
        assert_eq!(shown, [("a", true), ("b", true), ("d", false)]);
        assert_eq!(
            all.first().map(Needed::first_segment).as_deref(),
            Some("000000030000000000000002")
        );

        assert_eq!(remove_abandoned(&mut io, dir.path()).expect("removed"), 2);
        remove(&mut io, dir.path(), "a").expect("removed");
        assert!(making.exists());
        drop(lock);
        assert_eq!(remove_abandoned(&mut io, dir.path()).expect("removed"), 1);
        let left: Vec<_> =
            list(&mut io, dir.path()).expect("all").into_iter().map(|b| b.path).collect();
        assert_eq!(left, [dir.path().join(DIRECTORY).join("b")]);
    }

    #[test]
    fn a_backup_that_nobody_understands_is_an_error() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut io = backend();
        let path = put(dir.path(), "a", None);
        assert!(matches!(needed(&mut io, dir.path()), Err(BackupError::Damaged { .. })));
        std::fs::write(path.join(about::FILE_NAME), "{}").expect("a file");
        assert!(matches!(needed(&mut io, dir.path()), Err(BackupError::Damaged { .. })));
    }

    #[test]
    fn names_that_are_paths_are_refused() {
        for name in ["", ".", "..", "a/b", "../a", "a.partial", ".hidden", "a b"] {
            assert!(matches!(check_name(name), Err(BackupError::Refused(_))), "{name}");
        }
        check_name("20261121T012139Z").expect("a name");
    }
}
