//! Makes a base backup.
//!
//! ```text
//!   of a running cluster                    of a stopped cluster
//!   ---------------------------------       --------------------
//!   pg_backup_start
//!   copy files                              copy files
//!   examine suspect pages again
//!   copy pg_control                         copy pg_control
//!   pg_backup_stop, write backup_label
//!   copy WAL, if wanted or not archived     copy WAL
//!   write manifest                          write manifest
//!   rename the backup                       rename the backup
//! ```

use std::path::{Path, PathBuf};
use std::sync::Arc;

use forebay_aio::sync::SystemTime;
use forebay_aio::{Aio, BackendType, Errno, IoBackend, Namespace};
use forebay_format::Lsn;
use forebay_format::backup_label::{self, BackupLabel};
use forebay_format::control::{self, DbState, Outline};
use forebay_format::ids::BLOCK_SIZE;

use super::about::{self, About};
use super::clock;
use super::copy::{self, Copied, CopyOptions, Job};
use super::list::{self, DATA, DIRECTORY};
use super::manifest::{self, Manifest, ManifestFile, WalRange};
use super::observer::{BackupObserver, report};
use super::server::{BackupSource, Origin};
use super::wal;
use super::walk::{Tree, WAL};
use super::workers;
use crate::digest::{ChecksumKind, FileChecksum};
use crate::error::{ArchiveError, DamagedPage, Result};

/// How often pg_control is read until its checksum is right: a server may be writing it.
const CONTROL_ATTEMPTS: usize = 100;

/// How a backup is made.
#[derive(Clone, Debug)]
pub struct BackupOptions {
    /// The backup's name in the archive; None: the time.
    pub name: Option<String>,
    /// The backup's label, for people.
    pub label: String,
    /// Begin with a checkpoint that is as fast as the disk allows.
    pub fast: bool,
    /// Threads that copy.
    pub jobs: usize,
    /// Checksums in the manifest.
    pub checksums: ChecksumKind,
    /// Verify the checksums of pages, if the cluster has them.
    pub verify_pages: bool,
    /// Keep a backup with damaged pages, and mark it.
    pub allow_damaged: bool,
    /// Include the WAL that the backup needs, even if the server archives it.
    pub with_wal: bool,
    /// Wait until the server's archive has the WAL that the backup needs.
    pub wait_for_archive: bool,
    /// Use direct I/O, where the file systems have it.
    pub direct: bool,
}

impl Default for BackupOptions {
    fn default() -> BackupOptions {
        BackupOptions {
            name: None,
            label: "forebay backup".to_owned(),
            fast: true,
            jobs: 2,
            checksums: ChecksumKind::default(),
            verify_pages: true,
            allow_damaged: false,
            with_wal: false,
            wait_for_archive: true,
            direct: true,
        }
    }
}

/// Copies a data directory into an archive. `aio` must have one backend more than there are
/// threads. The backup is durable when this returns; after an error there is none.
pub fn backup(
    aio: &Arc<Aio>,
    data: &Path,
    archive: &Path,
    origin: Origin<'_>,
    options: &BackupOptions,
    observer: &mut dyn BackupObserver,
) -> Result<About> {
    let mut io = aio.backend(BackendType::Standalone)?;
    let names = Arc::clone(aio.namespace());
    if archive.starts_with(data) {
        let why = format!("the archive \"{}\" is within the data directory", archive.display());
        return Err(ArchiveError::Refused(why));
    }
    let dir = archive.join(DIRECTORY);
    prepare(&*names, archive, &dir)?;
    list::remove_abandoned(&mut io, archive)?;
    let began = clock::seconds(SystemTime::now());
    let name = options.name.clone().unwrap_or_else(|| clock::compact(began));
    let (path, _lock) = list::begin(&*names, &dir, &name)?;
    names.sync_dir(&dir)?;
    let mut take =
        Take { aio, io, names: Arc::clone(&names), data, path, options, observer, began, name };
    let about = match take.run(origin) {
        Ok(about) => about,
        Err(error) => {
            if let Err(left) = list::remove_tree(&*names, &take.path) {
                tracing::warn!("could not remove what there was of the backup: {left}");
            }
            return Err(error);
        }
    };
    names.rename_noreplace(&take.path, &dir.join(&about.name))?;
    names.sync_dir(&dir)?;
    Ok(about)
}

/// Creates the directory of backups. The archive itself must exist: a missing one may be a wrong
/// path or a file system that is not mounted.
fn prepare(names: &dyn Namespace, archive: &Path, dir: &Path) -> Result<()> {
    if !names.exists(archive)? {
        return Err(ArchiveError::Refused(format!(
            "the archive \"{}\" does not exist",
            archive.display()
        )));
    }
    match names.mkdir(dir) {
        Ok(()) => Ok(names.sync_dir(archive)?),
        Err(error) if error.errno() == Some(Errno::EXIST) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// A backup that is being made.
struct Take<'a> {
    aio: &'a Arc<Aio>,
    io: IoBackend,
    names: Arc<dyn Namespace>,
    data: &'a Path,
    /// Its directory.
    path: PathBuf,
    options: &'a BackupOptions,
    observer: &'a mut dyn BackupObserver,
    began: i64,
    name: String,
}

/// The files that were copied.
#[derive(Default)]
struct CopiedFiles {
    files: Vec<ManifestFile>,
    pages: u64,
    suspects: Vec<DamagedPage>,
}

impl Take<'_> {
    fn run(&mut self, origin: Origin<'_>) -> Result<About> {
        let (outline, _) = self.read_control()?;
        if outline.block_size as usize != BLOCK_SIZE {
            return Err(ArchiveError::Refused(format!(
                "the cluster has blocks of {} bytes; only those of {BLOCK_SIZE} are known",
                outline.block_size
            )));
        }
        match origin {
            Origin::Still => self.of_stopped(&outline),
            Origin::Live(source) => self.of_running(source, &outline),
        }
    }

    fn of_stopped(&mut self, outline: &Outline) -> Result<About> {
        if outline.state != DbState::ShutDown {
            return Err(ArchiveError::Refused(format!(
                "the cluster was not shut down cleanly (its state is \"{}\"): start and stop it \
                 once, or back it up while it runs",
                outline.state.name()
            )));
        }
        let end = wal::end_of_checkpoint(&mut self.io, self.data, outline)?;
        let mut about = self.begin(outline, outline.timeline, outline.redo, false)?;
        let tree = self.find(outline, false)?;
        let mut copy = self.copy(&tree, self.copy_options(outline, false))?;
        let damaged = std::mem::take(&mut copy.suspects);
        self.copy_control(&mut copy, outline)?;
        self.copy_wal(outline, (outline.redo, end), false)?;
        about.has_wal = true;
        self.end(about, tree, copy, damaged, end, outline)
    }

    fn of_running(&mut self, source: &mut dyn BackupSource, outline: &Outline) -> Result<About> {
        let server = |operation| move |message| ArchiveError::Server { operation, message };
        if let Some(id) = source.system_id().map_err(server("asking for the system identifier"))? {
            self.check_system(outline, id)?;
        }
        let archiving = source.is_archiving().map_err(server("asking for archive_mode"))?;
        self.observer.step("waiting for the checkpoint that the backup begins with");
        let started = source.start(&self.options.label, self.options.fast);
        let start = started.map_err(server("pg_backup_start"))?;
        let (now, _) = self.read_control()?;
        self.check_system(&now, outline.system_id)?;
        if now.redo < start {
            return Err(ArchiveError::Refused(format!(
                "the server began the backup at {start}, but the last checkpoint of \"{}\" begins \
                 at {}: it runs elsewhere",
                self.data.display(),
                now.redo
            )));
        }
        let mut about = self.begin(&now, now.timeline, start, true)?;
        let tree = self.find(&now, true)?;
        let mut copy = self.copy(&tree, self.copy_options(&now, true))?;
        let suspects = self.look_again(std::mem::take(&mut copy.suspects), &now, start)?;
        self.copy_control(&mut copy, outline)?;
        let wait = self.options.wait_for_archive && archiving;
        self.observer.step(match wait {
            true => "waiting until the WAL that the backup needs is archived",
            false => "ending the backup",
        });
        let stopped = source.stop(wait).map_err(server("pg_backup_stop"))?;
        let label = BackupLabel::parse(&stopped.label).map_err(|error| ArchiveError::Server {
            operation: "pg_backup_stop",
            message: format!("its label can't be understood: {error}"),
        })?;
        if label.start != start {
            let message =
                format!("its label says {}, but the backup began at {start}", label.start);
            return Err(ArchiveError::Server { operation: "pg_backup_stop", message });
        }
        about.timeline = label.timeline;
        self.put(&mut copy, Path::new(backup_label::FILE_NAME), stopped.label.as_bytes())?;
        // The WAL has the images of pages that were written since the start. An LSN that the WAL
        // has not reached was never written.
        let is_damage = |page: &DamagedPage| page.lsn < start || page.lsn > stopped.lsn;
        let damaged: Vec<DamagedPage> = suspects.into_iter().filter(is_damage).collect();
        if self.options.with_wal || !archiving {
            self.copy_wal(&now, (start, stopped.lsn), true)?;
            about.has_wal = true;
        }
        self.end(about, tree, copy, damaged, stopped.lsn, &now)
    }

    fn check_system(&self, outline: &Outline, id: u64) -> Result<()> {
        if outline.system_id == id {
            return Ok(());
        }
        Err(ArchiveError::Refused(format!(
            "the server's cluster is {id}, but that of \"{}\" is {}",
            self.data.display(),
            outline.system_id
        )))
    }

    /// Writes a first backup.json, so that nobody removes the WAL that the backup needs.
    fn begin(&mut self, outline: &Outline, timeline: u32, start: Lsn, live: bool) -> Result<About> {
        let about = About {
            name: self.name.clone(),
            label: self.options.label.clone(),
            system_id: outline.system_id,
            major: outline.major,
            timeline,
            start,
            stop: None,
            segment_size: outline.wal_segment_size,
            began: self.began,
            ended: None,
            files: 0,
            bytes: 0,
            checksums: self.options.checksums,
            pages: 0,
            damaged: 0,
            live,
            has_wal: false,
            tablespaces: Vec::new(),
        };
        self.io.write_file(&self.path.join(about::FILE_NAME), about.to_text().as_bytes())?;
        self.names.sync_dir(&self.path)?;
        Ok(about)
    }

    fn find(&mut self, outline: &Outline, live: bool) -> Result<Tree> {
        let tree = Tree::find(&*self.names, self.data, live, &outline.tablespace_directory())?;
        tree.passed_over.iter().for_each(|path| self.observer.passed_over(path));
        Ok(tree)
    }

    fn copy_options(&self, outline: &Outline, live: bool) -> CopyOptions {
        let direct = |dir: &Path| self.options.direct && self.names.probe_direct(dir).is_ok();
        let has_sums = outline.checksum_version == 1 && self.options.verify_pages;
        let mut options = CopyOptions {
            direct_read: direct(&self.data.join("base")),
            direct_write: direct(&self.path),
            checksums: self.options.checksums,
            live,
            pages: has_sums.then_some(outline.segment_blocks),
            sync: true,
        };
        forebay_aio::planted_bug!(self.aio, BackupFilesNotSynced, options.sync = false);
        options
    }

    fn copy(&mut self, tree: &Tree, options: CopyOptions) -> Result<CopiedFiles> {
        let to = self.path.join(DATA);
        self.names.mkdir(&to)?;
        for dir in &tree.directories {
            self.names.mkdir(&to.join(dir))?;
        }
        self.observer.step("copying files");
        let mut found: Vec<_> = tree.files.iter().collect();
        found.sort_by(|a, b| b.len.cmp(&a.len).then_with(|| a.path.cmp(&b.path)));
        let jobs: Vec<Job> = found
            .iter()
            .map(|file| Job {
                from: self.data.join(&file.path),
                to: to.join(&file.path),
                name: file.path.clone(),
                contents: file.contents,
                expected: None,
            })
            .collect();
        let results = self.copy_all(&jobs, options, tree.bytes())?;
        let mut copy = CopiedFiles::default();
        for (file, copied) in found.iter().zip(results) {
            // A file that the server removed is no part of the backup.
            let Some(Copied { size, checksum, pages, suspects }) = copied else { continue };
            copy.pages += pages;
            copy.suspects.extend(suspects);
            copy.files.push(ManifestFile {
                path: file.path.clone(),
                size,
                modified: file.modified,
                kind: self.options.checksums,
                checksum,
            });
        }
        Ok(copy)
    }

    fn copy_all(
        &mut self,
        jobs: &[Job],
        options: CopyOptions,
        total: u64,
    ) -> Result<Vec<Option<Copied>>> {
        let mut watch = |done| report(self.observer, done, total);
        workers::copy_all(self.aio, jobs, self.options.jobs, options, &mut watch)
    }

    fn look_again(
        &mut self,
        suspects: Vec<DamagedPage>,
        outline: &Outline,
        start: Lsn,
    ) -> Result<Vec<DamagedPage>> {
        let mut still = Vec::new();
        for suspect in suspects {
            let page =
                copy::look_again(&mut self.io, self.data, &suspect, outline.segment_blocks, start)?;
            still.extend(page);
        }
        Ok(still)
    }

    /// Reads a consistent control file: its contents, and its bytes.
    fn read_control(&mut self) -> Result<(Outline, Vec<u8>)> {
        let file = self.data.join(control::PATH);
        let mut attempt = 1;
        loop {
            let bytes = self.io.read_file(&file)?;
            match Outline::decode(&bytes) {
                Ok(outline) => return Ok((outline, bytes)),
                Err(_) if attempt < CONTROL_ATTEMPTS => attempt += 1,
                Err(source) => return Err(ArchiveError::Control { file, source }),
            }
        }
    }

    /// Copies pg_control, after all other files so that it is not older than any.
    fn copy_control(&mut self, copy: &mut CopiedFiles, of: &Outline) -> Result<()> {
        let (outline, bytes) = self.read_control()?;
        self.check_system(&outline, of.system_id)?;
        self.put(copy, Path::new(control::PATH), &bytes)
    }

    /// Writes a small file of the backup.
    fn put(&mut self, copy: &mut CopiedFiles, name: &Path, bytes: &[u8]) -> Result<()> {
        self.io.write_file(&self.path.join(DATA).join(name), bytes)?;
        let mut checksum = FileChecksum::new(self.options.checksums);
        checksum.update(bytes);
        copy.files.push(ManifestFile {
            path: name.to_path_buf(),
            size: bytes.len() as u64,
            modified: clock::seconds(SystemTime::now()),
            kind: self.options.checksums,
            checksum: checksum.finish(),
        });
        Ok(())
    }

    fn copy_wal(&mut self, outline: &Outline, range: (Lsn, Lsn), live: bool) -> Result<()> {
        self.observer.step("copying WAL");
        let to = self.path.join(DATA);
        let jobs = wal::jobs(&mut self.io, self.data, &to, outline, range)?;
        let direct_read =
            self.options.direct && self.names.probe_direct(&self.data.join(WAL)).is_ok();
        let options = CopyOptions { pages: None, direct_read, ..self.copy_options(outline, live) };
        let total = outline.wal_segment_size.bytes() * jobs.len() as u64;
        let copied = self.copy_all(&jobs, options, total)?;
        for (job, copied) in jobs.iter().zip(copied) {
            wal::check(job, copied.as_ref(), outline)?;
            wal::check_begin(&mut self.io, job, outline.wal_segment_size)?;
        }
        Ok(())
    }

    fn end(
        &mut self,
        mut about: About,
        tree: Tree,
        mut copy: CopiedFiles,
        damaged: Vec<DamagedPage>,
        stop: Lsn,
        outline: &Outline,
    ) -> Result<About> {
        damaged.iter().for_each(|page| self.observer.damaged(page));
        let count = damaged.len() as u64;
        if let (false, Some(first)) = (self.options.allow_damaged, damaged.into_iter().next()) {
            return Err(ArchiveError::DamagedPages { first: Box::new(first), count });
        }
        self.observer.step("syncing");
        copy.files.sort_by(|a, b| a.path.cmp(&b.path));
        about.stop = Some(stop);
        about.ended = Some(clock::seconds(SystemTime::now()));
        about.files = copy.files.len() as u64;
        about.bytes = copy.files.iter().map(|file| file.size).sum();
        about.pages = copy.pages;
        about.damaged = count;
        about.tablespaces = tree.tablespaces;
        let range = WalRange { timeline: about.timeline, start: about.start, end: stop };
        let system_id = (outline.major >= 17).then_some(outline.system_id);
        let manifest = Manifest { system_id, files: copy.files, wal: vec![range] };
        let data = self.path.join(DATA);
        self.io.write_file(&data.join(manifest::FILE_NAME), manifest.to_text().as_bytes())?;
        for dir in &tree.directories {
            forebay_aio::planted_bug!(self.aio, BackupNamesNotSynced, break);
            self.names.sync_dir(&data.join(dir))?;
        }
        self.names.sync_dir(&data)?;
        self.write_about(&about)?;
        Ok(about)
    }

    /// Replaces the first backup.json.
    fn write_about(&mut self, about: &About) -> Result<()> {
        let (path, new) =
            (self.path.join(about::FILE_NAME), self.path.join(format!("{}.new", about::FILE_NAME)));
        self.io.write_new_file(&new, about.to_text().as_bytes())?;
        self.names.rename(&new, &path)?;
        Ok(self.names.sync_dir(&self.path)?)
    }
}
