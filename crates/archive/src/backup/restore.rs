//! Makes a data directory from a backup.
//!
//! ```text
//!   manifest verified ──▶ directories ──▶ files, each compared with the manifest, and WAL
//!     ──▶ settings ──▶ directories synced ──▶ pg_control
//! ```
//!
//! pg_control is written last: no server starts on a directory without it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use forebay_aio::{Aio, BackendType, Errno, FileKind, IoBackend, Namespace};
use forebay_format::control;
use forebay_types::time;

use super::about::About;
use super::copy::{self, CopyOptions, Expected, Job};
use super::list::{self, Backup, BackupState};
use super::manifest::{self, Manifest, ManifestFile};
use super::observer::{BackupObserver, report};
use super::settings::{RecoveryTarget, Target};
use super::walk::{Contents, TABLESPACES, Tablespace, WAL};
use super::workers;
use crate::digest::{ChecksumKind, FileChecksum};
use crate::error::{ArchiveError, Result};

const AUTO_CONF: &str = "postgresql.auto.conf";
const RECOVERY_SIGNAL: &str = "recovery.signal";

/// How a backup is restored.
#[derive(Clone, Debug)]
pub struct RestoreOptions {
    /// The backup's name. None: the latest one from which the target can be reached.
    pub backup: Option<String>,
    /// How the cluster recovers. None: only with the WAL in the backup, on the same timeline.
    pub recovery: Option<RecoveryTarget>,
    /// Directories of tablespaces: each old one, and the one that replaces it.
    pub tablespaces: Vec<(PathBuf, PathBuf)>,
    /// Restore a backup with damaged pages.
    pub allow_damaged: bool,
    /// Threads that copy.
    pub jobs: usize,
    /// Use direct I/O, where the file systems have it.
    pub direct: bool,
}

/// The result of a restore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    /// The backup.
    pub about: About,
    /// Number of files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Restores a backup of `archive` into `to`, which must be empty or not exist. Everything is
/// durable when this returns; after an error nothing is left. `aio` must have one backend more than
/// there are threads.
pub fn restore(
    aio: &Arc<Aio>,
    archive: &Path,
    to: &Path,
    options: &RestoreOptions,
    observer: &mut dyn BackupObserver,
) -> Result<Restored> {
    let mut io = aio.backend(BackendType::Standalone)?;
    let names = Arc::clone(aio.namespace());
    let (from, about) = choose(list::list(&mut io, archive)?, options)?;
    let mut plan = Plan::read(&mut io, &from, to, &about, options)?;
    let targets = TargetDirs::create(&names, to, &plan.spaces)?;
    let mut restore = Restore { aio, io, names, options, observer };
    let (files, bytes) = restore.run(&mut plan)?;
    targets.keep();
    Ok(Restored { about, files, bytes })
}

/// Chooses the named backup, or the latest one from which the target can be reached. Returns its
/// data directory and its description.
fn choose(all: Vec<Backup>, options: &RestoreOptions) -> Result<(PathBuf, About)> {
    let complete = all.into_iter().filter(|backup| backup.state == BackupState::Complete);
    let mut found: Vec<(PathBuf, About)> =
        complete.filter_map(|backup| Some((backup.data(), backup.about?))).collect();
    let target = options.recovery.as_ref().map(|recovery| &recovery.target);
    if let Some(name) = &options.backup {
        found.retain(|(_, about)| about.name == *name);
        if found.is_empty() {
            return Err(ArchiveError::Refused(format!("the archive has no backup \"{name}\"")));
        }
    }
    match target {
        Some(Target::Lsn(lsn)) => {
            found.retain(|(_, about)| about.stop.is_some_and(|stop| stop <= *lsn))
        }
        Some(Target::Time(time)) if options.backup.is_none() => {
            let Some(time) = time::parse(time).filter(|time| time.has_zone) else {
                return Err(ArchiveError::Refused(format!(
                    "which backup comes before \"{time}\" is known only with a time zone, as in \
                     \"2026-11-21 01:21:39+00\": tell one, or name the backup"
                )));
            };
            // The end of a backup is known in whole seconds. It was before the next second.
            let time = time.micros.div_euclid(1_000_000) + time::POSTGRES_EPOCH;
            found.retain(|(_, about)| about.ended.is_some_and(|ended| ended < time));
        }
        // A backup that was named is used without a comparison of times.
        Some(Target::Time(_)) => {}
        None | Some(Target::Latest | Target::Immediate | Target::Name(_) | Target::Xid(_)) => {}
    }
    let clusters =
        found.iter().map(|(_, about)| about.system_id).collect::<std::collections::BTreeSet<_>>();
    if clusters.len() > 1 {
        let why = "the archive has backups of several clusters: name the one to restore";
        return Err(ArchiveError::refused(why));
    }
    let Some((from, about)) = found.into_iter().max_by_key(|(_, about)| (about.ended, about.stop))
    else {
        return Err(ArchiveError::refused(
            "the archive has no complete backup from which that can be restored",
        ));
    };
    if about.damaged > 0 && !options.allow_damaged {
        return Err(ArchiveError::Refused(format!(
            "backup \"{}\" has {} damaged pages",
            about.name, about.damaged
        )));
    }
    if options.recovery.is_none() && !about.has_wal {
        let why = format!(
            "backup \"{}\" has no WAL of its own: it needs that of the archive",
            about.name
        );
        return Err(ArchiveError::Refused(why));
    }
    Ok((from, about))
}

/// The directory of a tablespace outside the data directory.
#[derive(Debug)]
struct TablespaceDir {
    /// The link, relative to the data directory.
    link: PathBuf,
    location: PathBuf,
}

/// What a restore has to do.
struct Plan {
    from: PathBuf,
    to: PathBuf,
    spaces: Vec<TablespaceDir>,
    /// Directories relative to the data directory, each after its parent.
    directories: Vec<PathBuf>,
    jobs: Vec<Job>,
    /// Files that are not simply copied.
    special: Vec<ManifestFile>,
    total: u64,
}

impl Plan {
    fn read(
        io: &mut IoBackend,
        from: &Path,
        to: &Path,
        about: &About,
        options: &RestoreOptions,
    ) -> Result<Plan> {
        let path = from.join(manifest::FILE_NAME);
        let invalid = |source| ArchiveError::Manifest { file: path.display().to_string(), source };
        let manifest = Manifest::parse(&io.read_file(&path)?).map_err(invalid)?;
        let mut plan = Plan {
            from: from.to_path_buf(),
            to: to.to_path_buf(),
            spaces: spaces(about, options)?,
            directories: Vec::new(),
            jobs: Vec::new(),
            special: Vec::new(),
            total: manifest.files.iter().map(|file| file.size).sum(),
        };
        let mut listed: BTreeMap<PathBuf, ManifestFile> =
            manifest.files.into_iter().map(|file| (file.path.clone(), file)).collect();
        let names = Arc::clone(io.aio().namespace());
        plan.directory(&*names, Path::new(""), &mut listed)?;
        if let Some(missing) = listed.into_keys().next() {
            let reason = "it is in the manifest, but not in the backup";
            return Err(ArchiveError::damaged(from.join(missing).display(), reason));
        }
        if !plan.special.iter().any(|file| file.path == Path::new(control::PATH)) {
            return Err(ArchiveError::damaged(
                path.display(),
                format!("it does not list \"{}\"", control::PATH),
            ));
        }
        plan.jobs.sort_by_key(|job| {
            std::cmp::Reverse(job.expected.as_ref().map_or(u64::MAX, |e| e.size))
        });
        Ok(plan)
    }

    /// Adds a directory of the backup to the plan, and removes its files from `listed`.
    fn directory(
        &mut self,
        names: &dyn Namespace,
        dir: &Path,
        listed: &mut BTreeMap<PathBuf, ManifestFile>,
    ) -> Result<()> {
        if dir != Path::new("") {
            self.directories.push(dir.to_path_buf());
        }
        for entry in names.list(&self.from.join(dir))? {
            let path = dir.join(&entry.name);
            match entry.kind {
                FileKind::Directory => self.directory(names, &path, listed)?,
                FileKind::File => match listed.remove(&path) {
                    Some(file) if is_special(&path) => self.special.push(file),
                    Some(ManifestFile { size, kind, checksum, .. }) => {
                        self.add(path, Some(Expected { size, kind, checksum }));
                    }
                    None if dir.starts_with(WAL) || path == Path::new(manifest::FILE_NAME) => {
                        self.add(path, None);
                    }
                    None => {
                        let why = "it is in the backup, but not in its manifest";
                        return Err(ArchiveError::damaged(self.from.join(path).display(), why));
                    }
                },
                FileKind::Symlink | FileKind::Other => {
                    let why = "a backup has only files and directories";
                    return Err(ArchiveError::damaged(self.from.join(path).display(), why));
                }
            }
        }
        Ok(())
    }

    fn add(&mut self, name: PathBuf, expected: Option<Expected>) {
        let (from, to) = (self.from.join(&name), self.target(&name));
        self.jobs.push(Job { from, to, name, contents: Contents::Bytes, expected });
    }

    /// The path of a file or directory of the backup in the restored cluster.
    fn target(&self, name: &Path) -> PathBuf {
        let inside =
            |space: &TablespaceDir| Some(space.location.join(name.strip_prefix(&space.link).ok()?));
        self.spaces.iter().find_map(inside).unwrap_or_else(|| self.to.join(name))
    }
}

fn is_special(path: &Path) -> bool {
    path == Path::new(control::PATH) || path == Path::new(AUTO_CONF)
}

/// The directories of the tablespaces.
fn spaces(about: &About, options: &RestoreOptions) -> Result<Vec<TablespaceDir>> {
    let mut spaces = Vec::new();
    for Tablespace { oid, location } in &about.tablespaces {
        let Some(location) = location else { continue };
        let moved = options.tablespaces.iter().find(|(from, _)| from == location);
        let location = moved.map_or(location, |(_, to)| to).clone();
        if !location.is_absolute() {
            let why = format!(
                "the directory \"{}\" of a tablespace is not an absolute path",
                location.display()
            );
            return Err(ArchiveError::Refused(why));
        }
        spaces.push(TablespaceDir { link: Path::new(TABLESPACES).join(oid), location });
    }
    let known = |from: &PathBuf| {
        about.tablespaces.iter().any(|space| space.location.as_ref() == Some(from))
    };
    match options.tablespaces.iter().find(|(from, _)| !known(from)) {
        Some((from, _)) => Err(ArchiveError::Refused(format!(
            "the backup has no tablespace in \"{}\"",
            from.display()
        ))),
        None => Ok(spaces),
    }
}

/// The directories that are restored into. They are emptied again unless they are kept.
struct TargetDirs {
    names: Arc<dyn Namespace>,
    /// Each directory, and whether it was created.
    roots: Vec<(PathBuf, bool)>,
    keep: bool,
}

impl TargetDirs {
    /// Creates the directories; existing ones must be empty.
    fn create(
        names: &Arc<dyn Namespace>,
        to: &Path,
        spaces: &[TablespaceDir],
    ) -> Result<TargetDirs> {
        let mut targets = TargetDirs { names: Arc::clone(names), roots: Vec::new(), keep: false };
        for root in std::iter::once(to).chain(spaces.iter().map(|space| space.location.as_path())) {
            match names.mkdir(root) {
                Ok(()) => targets.roots.push((root.to_path_buf(), true)),
                Err(error) if error.errno() == Some(Errno::EXIST) => {
                    if !names.list(root)?.is_empty() {
                        let why =
                            format!("directory \"{}\" exists but is not empty", root.display());
                        return Err(ArchiveError::Refused(why));
                    }
                    targets.roots.push((root.to_path_buf(), false));
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(targets)
    }

    fn keep(mut self) {
        self.keep = true;
    }

    fn undo(&self) -> Result<()> {
        for (root, new) in &self.roots {
            for entry in self.names.list(root)? {
                let path = root.join(&entry.name);
                match entry.kind {
                    FileKind::Directory => list::remove_tree(&*self.names, &path)?,
                    _ => self.names.unlink(&path)?,
                }
            }
            if *new {
                self.names.rmdir(root)?;
            }
        }
        Ok(())
    }
}

impl Drop for TargetDirs {
    fn drop(&mut self) {
        if !self.keep
            && let Err(error) = self.undo()
        {
            tracing::warn!("could not remove what was restored so far: {error}");
        }
    }
}

/// A restore.
struct Restore<'a> {
    aio: &'a Arc<Aio>,
    io: IoBackend,
    names: Arc<dyn Namespace>,
    options: &'a RestoreOptions,
    observer: &'a mut dyn BackupObserver,
}

impl Restore<'_> {
    /// Returns the number of files and their bytes.
    fn run(&mut self, plan: &mut Plan) -> Result<(u64, u64)> {
        for dir in &plan.directories {
            match plan.spaces.iter().find(|space| space.link == *dir) {
                Some(space) => self.names.symlink(&space.location, &plan.to.join(dir))?,
                None => self.names.mkdir(&plan.target(dir))?,
            }
        }
        forebay_aio::planted_bug!(self.aio, RestoreControlNotLast, {
            let contents = self.io.read_file(&plan.from.join(control::PATH))?;
            self.io.write_new_file(&plan.to.join(control::PATH), &contents)?
        });
        self.observer.step("copying files");
        let mut bytes = self.copy(plan)?;
        let special = std::mem::take(&mut plan.special);
        let files = (plan.jobs.len() + special.len()) as u64;
        let mut control = None;
        let mut auto_conf = Vec::new();
        for file in &special {
            let contents = self.verified(&plan.from, file)?;
            bytes += file.size;
            if file.path == Path::new(AUTO_CONF) {
                auto_conf = contents
            } else {
                control = Some(contents)
            }
        }
        self.observer.step("syncing");
        if let Some(recovery) = &self.options.recovery {
            auto_conf = recovery.amend(&auto_conf);
            self.io.write_new_file(&plan.to.join(RECOVERY_SIGNAL), b"")?;
        }
        self.io.write_new_file(&plan.to.join(AUTO_CONF), &auto_conf)?;
        for dir in plan.directories.iter().map(PathBuf::as_path).chain([Path::new("")]) {
            self.names.sync_dir(&plan.target(dir))?;
        }
        for root in
            plan.spaces.iter().map(|space| space.location.as_path()).chain([plan.to.as_path()])
        {
            self.sync_parent(root)?;
        }
        let path = plan.to.join(control::PATH);
        forebay_aio::planted_bug!(self.aio, RestoreControlNotLast, self.names.unlink(&path)?);
        self.io.write_new_file(&path, &control.expect("the plan has a pg_control"))?;
        if let Some(dir) = path.parent() {
            self.names.sync_dir(dir)?;
        }
        Ok((files, bytes))
    }

    fn copy(&mut self, plan: &Plan) -> Result<u64> {
        let direct = |dir: &Path| self.options.direct && self.names.probe_direct(dir).is_ok();
        let mut options = CopyOptions {
            direct_read: direct(&plan.from),
            direct_write: direct(&plan.to),
            checksums: ChecksumKind::None,
            live: false,
            pages: None,
            sync: true,
        };
        forebay_aio::planted_bug!(self.aio, RestoreFilesNotSynced, options.sync = false);
        let mut watch = |done| report(self.observer, done, plan.total);
        let jobs = self.options.jobs;
        let copied = workers::copy_all(self.aio, &plan.jobs, jobs, options, &mut watch)?;
        Ok(copied.iter().flatten().map(|copied| copied.size).sum())
    }

    /// Reads a small file and compares it with the manifest.
    fn verified(&mut self, from: &Path, file: &ManifestFile) -> Result<Vec<u8>> {
        let bytes = self.io.read_file(&from.join(&file.path))?;
        let mut checksum = FileChecksum::new(file.kind);
        checksum.update(&bytes);
        let (size, checksum) = (bytes.len() as u64, checksum.finish());
        if (size, &checksum) != (file.size, &file.checksum) {
            let (found, expected) = ((size, &*checksum), (file.size, &*file.checksum));
            return Err(copy::mismatch(&file.path, found, expected));
        }
        Ok(bytes)
    }

    fn sync_parent(&self, path: &Path) -> Result<()> {
        match path.parent() {
            Some(parent) if parent != Path::new("") => Ok(self.names.sync_dir(parent)?),
            Some(_) => Ok(self.names.sync_dir(Path::new("."))?),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::about::tests::sample;
    use super::*;
    use forebay_format::Lsn;

    fn complete(name: &str, stop: u64, ended: i64) -> Backup {
        let about = About {
            name: name.to_owned(),
            stop: Some(Lsn(stop)),
            ended: Some(ended),
            damaged: 0,
            ..sample()
        };
        Backup { path: PathBuf::from(name), state: BackupState::Complete, about: Some(about) }
    }

    fn options(target: Target) -> RestoreOptions {
        let recovery = RecoveryTarget {
            restore_command: "true".to_owned(),
            target,
            inclusive: None,
            timeline: None,
            action: None,
        };
        RestoreOptions {
            backup: None,
            recovery: Some(recovery),
            tablespaces: Vec::new(),
            allow_damaged: false,
            jobs: 1,
            direct: false,
        }
    }

    fn chosen(all: Vec<Backup>, options: &RestoreOptions) -> Result<String> {
        choose(all, options).map(|(_, about)| about.name)
    }

    #[test]
    fn the_latest_backup_before_the_target_is_chosen() {
        let all =
            || vec![complete("a", 100, 1000), complete("b", 200, 2000), complete("c", 300, 3000)];
        let of = |target| chosen(all(), &options(target)).ok();
        assert_eq!(of(Target::Latest).as_deref(), Some("c"));
        assert_eq!(of(Target::Lsn(Lsn(299))).as_deref(), Some("b"));
        assert_eq!(of(Target::Lsn(Lsn(99))), None);
        let at = |time: &str| of(Target::Time(time.to_owned()));
        assert_eq!(at("1970-01-01 00:16:41Z").as_deref(), Some("a"));
        // The backup may have ended later in that second.
        assert_eq!(at("1970-01-01 00:16:40.9Z"), None);
        // The time zone is unknown.
        assert_eq!(at("1970-01-01 00:16:41"), None);
        let named = RestoreOptions {
            backup: Some("a".to_owned()),
            ..options(Target::Time("?".to_owned()))
        };
        assert_eq!(chosen(all(), &named).ok().as_deref(), Some("a"));
        let partial = Backup { state: BackupState::InProgress, ..complete("d", 400, 4000) };
        let and_partial = all().into_iter().chain([partial]).collect();
        assert_eq!(chosen(and_partial, &options(Target::Latest)).ok().as_deref(), Some("c"));
    }

    #[test]
    fn backups_that_cannot_be_restored_are_refused() {
        let change = |change: fn(&mut About)| {
            let mut backup = complete("a", 100, 1000);
            backup.about.iter_mut().for_each(change);
            backup
        };
        let damaged = || vec![change(|about| about.damaged = 1)];
        assert!(chosen(damaged(), &options(Target::Latest)).is_err());
        let allowed = RestoreOptions { allow_damaged: true, ..options(Target::Latest) };
        assert!(chosen(damaged(), &allowed).is_ok());
        let alone = RestoreOptions { recovery: None, ..options(Target::Latest) };
        assert!(chosen(vec![change(|about| about.has_wal = false)], &alone).is_err());
        assert!(chosen(vec![change(|about| about.has_wal = true)], &alone).is_ok());
        let two = vec![complete("b", 200, 2000), change(|about| about.system_id = 1)];
        assert!(chosen(two, &options(Target::Latest)).is_err());
    }

    #[test]
    fn tablespaces_are_mapped_to_other_directories() {
        let about = About {
            tablespaces: vec![Tablespace {
                oid: "16390".to_owned(),
                location: Some(PathBuf::from("/srv/a")),
            }],
            ..sample()
        };
        let pair = |a: &str, b: &str| (PathBuf::from(a), PathBuf::from(b));
        let with = |tablespaces| RestoreOptions { tablespaces, ..options(Target::Latest) };
        let location = |options: &RestoreOptions| {
            spaces(&about, options).ok().and_then(|all| Some(all.into_iter().next()?.location))
        };
        assert_eq!(location(&with(Vec::new())), Some(PathBuf::from("/srv/a")));
        assert_eq!(location(&with(vec![pair("/srv/a", "/srv/b")])), Some(PathBuf::from("/srv/b")));
        assert_eq!(location(&with(vec![pair("/srv/a", "b")])), None);
        assert_eq!(location(&with(vec![pair("/srv/x", "/srv/b")])), None);
    }
}
