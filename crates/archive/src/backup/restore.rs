//! Makes a data directory of a backup.
//!
//! ```text
//!   manifest verified ── directories ── files, each compared with the manifest ── WAL ── settings ── synced ── pg_control
//! ```
//!
//! pg_control comes last: no server starts on a directory without it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use forebay_aio::{Aio, AlignedBuf, Backend, BackendType, Errno, FileKind, Namespace, OpenOptions};
use forebay_format::{control, time};

use super::BackupObserver;
use super::about::About;
use super::copy::{Expected, How, Job};
use super::crew;
use super::digest::{ChecksumKind, FileDigest};
use super::error::BackupError;
use super::list::{self, Backup, BackupState};
use super::manifest::{self, Manifest, ManifestFile};
use super::settings::{RecoveryTarget, Target};
use super::walk::{Contents, TABLESPACES, Tablespace, WAL};

const AUTO_CONF: &str = "postgresql.auto.conf";
const RECOVERY_SIGNAL: &str = "recovery.signal";

/// How a backup is restored.
#[derive(Clone, Debug)]
pub struct RestoreOptions {
    /// Its name. None: the latest that the target can be reached from.
    pub backup: Option<String>,
    /// How the cluster recovers. None: no further than by the WAL in the backup, on the same
    /// timeline.
    pub recovery: Option<RecoveryTarget>,
    /// Where tablespaces go: the directory they had, and the one they get.
    pub tablespaces: Vec<(PathBuf, PathBuf)>,
    /// Restore a backup although pages in it are damaged.
    pub allow_damaged: bool,
    /// Threads that copy.
    pub jobs: usize,
    /// Past the kernel's cache, where the file systems can.
    pub direct: bool,
}

/// What was restored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    /// The backup.
    pub about: About,
    /// Files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Restores a backup of `archive` into `to`, which is empty or not there. All of it is durable when
/// this returns; if it fails, nothing is left of it. `aio` has room for one backend more than there
/// are threads.
pub fn restore(
    aio: &Arc<Aio>,
    archive: &Path,
    to: &Path,
    options: &RestoreOptions,
    observer: &mut dyn BackupObserver,
) -> Result<Restored, BackupError> {
    let mut io = aio.backend(BackendType::Standalone)?;
    let names = Arc::clone(aio.namespace());
    let (from, about) = choose(list::list(&mut io, archive)?, options)?;
    let mut plan = Plan::read(&mut io, &from, to, &about, options)?;
    let made = Made::begin(&names, to, &plan.spaces)?;
    let mut work = Work { aio, io, names, options, observer };
    match work.run(&mut plan) {
        Ok((files, bytes)) => {
            made.keep();
            Ok(Restored { about, files, bytes })
        }
        Err(error) => Err(error),
    }
}

/// The backup that is asked for, or that the target is reached from: its directory, and what it is.
fn choose(all: Vec<Backup>, options: &RestoreOptions) -> Result<(PathBuf, About), BackupError> {
    let complete = all.into_iter().filter(|backup| backup.state == BackupState::Complete);
    let mut found: Vec<(PathBuf, About)> =
        complete.filter_map(|backup| Some((backup.data(), backup.about?))).collect();
    let target = options.recovery.as_ref().map(|recovery| &recovery.target);
    if let Some(name) = &options.backup {
        found.retain(|(_, about)| about.name == *name);
        if found.is_empty() {
            return Err(BackupError::Refused(format!("the archive has no backup \"{name}\"")));
        }
    }
    match target {
        Some(Target::Lsn(lsn)) => {
            found.retain(|(_, about)| about.stop.is_some_and(|stop| stop <= *lsn))
        }
        Some(Target::Time(time)) if options.backup.is_none() => {
            let Some(time) = time::parse(time).filter(|time| time.has_zone) else {
                return Err(BackupError::Refused(format!(
                    "which backup comes before \"{time}\" is known only with a time zone, as in \"2026-11-21 01:21:39+00\": \
                     tell one, or name the backup"
                )));
            };
            // Whole seconds are known of when a backup ended: it was before the next one.
            let time = time.micros.div_euclid(1_000_000) + time::POSTGRES_EPOCH;
            found.retain(|(_, about)| about.ended.is_some_and(|ended| ended < time));
        }
        _ => {}
    }
    let clusters =
        found.iter().map(|(_, about)| about.system_id).collect::<std::collections::BTreeSet<_>>();
    if clusters.len() > 1 {
        let why = "the archive has backups of several clusters: name the one to restore";
        return Err(BackupError::refused(why));
    }
    let Some((from, about)) = found.into_iter().max_by_key(|(_, about)| (about.ended, about.stop))
    else {
        return Err(BackupError::refused(
            "the archive has no complete backup from which that can be restored",
        ));
    };
    if about.damaged > 0 && !options.allow_damaged {
        return Err(BackupError::Refused(format!(
            "backup \"{}\" has {} damaged pages",
            about.name, about.damaged
        )));
    }
    if options.recovery.is_none() && !about.has_wal {
        let why = format!(
            "backup \"{}\" has no WAL of its own: it needs that of the archive",
            about.name
        );
        return Err(BackupError::Refused(why));
    }
    Ok((from, about))
}

/// A tablespace that is kept elsewhere.
#[derive(Debug)]
struct Space {
    /// The link, relative to the data directory.
    link: PathBuf,
    location: PathBuf,
}

/// All that is to be done.
struct Plan {
    from: PathBuf,
    to: PathBuf,
    spaces: Vec<Space>,
    /// Relative to the data directory, each after its parent.
    directories: Vec<PathBuf>,
    jobs: Vec<Job>,
    /// Those that are not merely copied.
    special: Vec<ManifestFile>,
    total: u64,
}

impl Plan {
    fn read(
        io: &mut Backend,
        from: &Path,
        to: &Path,
        about: &About,
        options: &RestoreOptions,
    ) -> Result<Plan, BackupError> {
        let path = from.join(manifest::FILE_NAME);
        let manifest = Manifest::parse(&io.read_file(&path)?)
            .map_err(|error| BackupError::damaged(&path, error.to_string()))?;
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
            let path = from.join(missing);
            return Err(BackupError::damaged(&path, "the manifest has it, the backup has not"));
        }
        if !plan.special.iter().any(|file| file.path == Path::new(control::PATH)) {
            return Err(BackupError::damaged(
                &path,
                format!("it does not list \"{}\"", control::PATH),
            ));
        }
        plan.jobs.sort_by_key(|job| {
            std::cmp::Reverse(job.expected.as_ref().map_or(u64::MAX, |e| e.size))
        });
        Ok(plan)
    }

    /// Takes from `listed` what is there.
    fn directory(
        &mut self,
        names: &dyn Namespace,
        dir: &Path,
        listed: &mut BTreeMap<PathBuf, ManifestFile>,
    ) -> Result<(), BackupError> {
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
                        let why = "the backup has it, its manifest has not";
                        return Err(BackupError::damaged(&self.from.join(path), why));
                    }
                },
                FileKind::Symlink | FileKind::Other => {
                    let why = "a backup has files and directories only";
                    return Err(BackupError::damaged(&self.from.join(path), why));
                }
            }
        }
        Ok(())
    }

    fn add(&mut self, name: PathBuf, expected: Option<Expected>) {
        let (from, to) = (self.from.join(&name), self.place(&name));
        self.jobs.push(Job { from, to, name, contents: Contents::Bytes, expected });
    }

    /// Where a file or directory of the backup goes.
    fn place(&self, name: &Path) -> PathBuf {
        let inside =
            |space: &Space| Some(space.location.join(name.strip_prefix(&space.link).ok()?));
        self.spaces.iter().find_map(inside).unwrap_or_else(|| self.to.join(name))
    }
}

fn is_special(path: &Path) -> bool {
    path == Path::new(control::PATH) || path == Path::new(AUTO_CONF)
}

/// Where the tablespaces go.
fn spaces(about: &About, options: &RestoreOptions) -> Result<Vec<Space>, BackupError> {
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
            return Err(BackupError::Refused(why));
        }
        spaces.push(Space { link: Path::new(TABLESPACES).join(oid), location });
    }
    let known = |from: &PathBuf| {
        about.tablespaces.iter().any(|space| space.location.as_ref() == Some(from))
    };
    match options.tablespaces.iter().find(|(from, _)| !known(from)) {
        Some((from, _)) => Err(BackupError::Refused(format!(
            "the backup has no tablespace in \"{}\"",
            from.display()
        ))),
        None => Ok(spaces),
    }
}

/// The directories that are restored into; emptied again, unless they are kept.
struct Made {
    names: Arc<dyn Namespace>,
    /// With true it was not there before.
    roots: Vec<(PathBuf, bool)>,
    keep: bool,
}

impl Made {
    /// Makes them; those that are there must be empty.
    fn begin(names: &Arc<dyn Namespace>, to: &Path, spaces: &[Space]) -> Result<Made, BackupError> {
        let mut made = Made { names: Arc::clone(names), roots: Vec::new(), keep: false };
        for root in std::iter::once(to).chain(spaces.iter().map(|space| space.location.as_path())) {
            match names.mkdir(root) {
                Ok(()) => made.roots.push((root.to_path_buf(), true)),
                Err(error) if error.errno() == Some(Errno::EXIST) => {
                    if !names.list(root)?.is_empty() {
                        let why =
                            format!("directory \"{}\" exists but is not empty", root.display());
                        return Err(BackupError::Refused(why));
                    }
                    made.roots.push((root.to_path_buf(), false));
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(made)
    }

    fn keep(mut self) {
        self.keep = true;
    }

    fn undo(&self) -> Result<(), BackupError> {
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

impl Drop for Made {
    fn drop(&mut self) {
        if !self.keep
            && let Err(error) = self.undo()
        {
            tracing::warn!("could not remove what was restored so far: {error}");
        }
    }
}

/// What a restore works with.
struct Work<'a> {
    aio: &'a Arc<Aio>,
    io: Backend,
    names: Arc<dyn Namespace>,
    options: &'a RestoreOptions,
    observer: &'a mut dyn BackupObserver,
}

impl Work<'_> {
    /// Files and bytes.
    fn run(&mut self, plan: &mut Plan) -> Result<(u64, u64), BackupError> {
        for dir in &plan.directories {
            match plan.spaces.iter().find(|space| space.link == *dir) {
                Some(space) => self.names.symlink(&space.location, &plan.to.join(dir))?,
                None => self.names.mkdir(&plan.place(dir))?,
            }
        }
        forebay_aio::planted_bug!(self.aio, RestoreControlNotLast, {
            let contents = self.io.read_file(&plan.from.join(control::PATH))?;
            self.write(&plan.to.join(control::PATH), &contents)?
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
            self.write(&plan.to.join(RECOVERY_SIGNAL), b"")?;
        }
        self.write(&plan.to.join(AUTO_CONF), &auto_conf)?;
        for dir in plan.directories.iter().map(PathBuf::as_path).chain([Path::new("")]) {
            self.names.sync_dir(&plan.place(dir))?;
        }
        for root in
            plan.spaces.iter().map(|space| space.location.as_path()).chain([plan.to.as_path()])
        {
            self.sync_parent(root)?;
        }
        let path = plan.to.join(control::PATH);
        forebay_aio::planted_bug!(self.aio, RestoreControlNotLast, self.names.unlink(&path)?);
        self.write(&path, &control.unwrap_or_default())?;
        if let Some(dir) = path.parent() {
            self.names.sync_dir(dir)?;
        }
        Ok((files, bytes))
    }

    fn copy(&mut self, plan: &Plan) -> Result<u64, BackupError> {
        let direct = |dir: &Path| self.options.direct && self.names.probe_direct(dir).is_ok();
        let mut how = How {
            direct_read: direct(&plan.from),
            direct_write: direct(&plan.to),
            checksums: ChecksumKind::None,
            live: false,
            pages: None,
            sync: true,
        };
        forebay_aio::planted_bug!(self.aio, RestoreFilesNotSynced, how.sync = false);
        let (total, observer) = (plan.total, &mut *self.observer);
        let mut watch = |done: u64| {
            observer.progress(done.min(total), total);
            observer.check().map_err(BackupError::Refused)
        };
        let copied = crew::copy_all(self.aio, &plan.jobs, self.options.jobs, how, &mut watch)?;
        Ok(copied.iter().flatten().map(|copied| copied.size).sum())
    }

    /// A small file, compared with the manifest.
    fn verified(&mut self, from: &Path, file: &ManifestFile) -> Result<Vec<u8>, BackupError> {
        let bytes = self.io.read_file(&from.join(&file.path))?;
        let mut digest = FileDigest::new(file.kind);
        digest.update(&bytes);
        let found = digest.finish();
        if bytes.len() as u64 != file.size || found != file.checksum {
            return Err(BackupError::Mismatch {
                path: file.path.clone(),
                what: "checksum",
                found,
                expected: file.checksum.clone(),
            });
        }
        Ok(bytes)
    }

    /// Writes a small file, and syncs it.
    fn write(&mut self, path: &Path, bytes: &[u8]) -> Result<(), BackupError> {
        let file = self.names.open(path, &OpenOptions::READ_WRITE.create_new())?;
        self.io.write_all_at(&file, 0, &AlignedBuf::copy_of(bytes)?)?;
        Ok(self.io.fsync(&file)?)
    }

    fn sync_parent(&self, path: &Path) -> Result<(), BackupError> {
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

    fn chosen(all: Vec<Backup>, options: &RestoreOptions) -> Result<String, BackupError> {
        choose(all, options).map(|(_, about)| about.name)
    }

    #[test]
    fn the_latest_backup_that_leads_to_the_target() {
        let all =
            || vec![complete("a", 100, 1000), complete("b", 200, 2000), complete("c", 300, 3000)];
        let of = |target| chosen(all(), &options(target)).ok();
        assert_eq!(of(Target::Latest).as_deref(), Some("c"));
        assert_eq!(of(Target::Lsn(Lsn(299))).as_deref(), Some("b"));
        assert_eq!(of(Target::Lsn(Lsn(99))), None);
        let at = |time: &str| of(Target::Time(time.to_owned()));
        assert_eq!(at("1970-01-01 00:16:41Z").as_deref(), Some("a"));
        // It may have ended later in that second.
        assert_eq!(at("1970-01-01 00:16:40.9Z"), None);
        // Whose zone?
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
    fn what_can_not_be_restored_is_refused() {
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
    fn tablespaces_go_where_they_are_sent() {
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
