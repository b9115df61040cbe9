//! Fetches files of the log from the archive: by restore_command, or by restore_library, which
//! fetches the next ones ahead.
//!
//! ```text
//!   the archive ─▶ pg_wal/RECOVERYXLOG ─(length, cluster)─▶ pg_wal/NAME ─(replayed)─▶ removed
//! ```
//!
//! | the command | means |
//! |---|---|
//! | exits 0, and the file is there | it is there |
//! | exits 1 to 125 | the archive does not have it: the directory may |
//! | else, or exits 0 without the file | unknown: recovery stops with an error |
//!
//! A library distinguishes these itself.
//!
//! A file of the wrong length, or of another cluster, is an error too: it does not mean that the
//! log ends. Segments are removed after redo, so that an archive of any length can be recovered
//! from. With `archive_mode = always` they stay until this server's own archive has them.

use std::path::{Path, PathBuf};

use forebay_aio::sync::{Arc, Mutex};
use forebay_aio::{AlignedBuf, IfFound, IoBackend, OpenOptions};
use forebay_archive::shell::{PlaceholderError, Shell, substitute};
use forebay_archive::{Restorer, WalName};
use forebay_format::timeline::{TimelineHistory, history_file_name};
use forebay_format::wal::PageHeader;
use forebay_format::{Lsn, SegmentSize};
use forebay_wal::{Fetch, FetchFailure, read_history};

use crate::config::{ArchiveMode, Interruptible, RecoveryStop, RestoreFrom};
use crate::error::EngineError;

/// PostgreSQL's name for a segment that was not checked yet.
const SEGMENT: &str = "RECOVERYXLOG";
/// The same for a history file.
const HISTORY: &str = "RECOVERYHISTORY";
/// Bytes of a segment's first page.
const PAGE: usize = 8192;

/// How files are fetched from the archive.
#[derive(Debug)]
pub(super) enum Way {
    /// Not at all: there are only the files in the directory.
    Nothing,
    /// By restore_command.
    Command(String, Shell),
    /// By restore_library.
    Archive(Restorer),
    /// By the embedding program.
    Other(RestoreFrom),
}

/// The archive, for recovery.
pub(super) struct Restore {
    /// The data directory.
    dir: PathBuf,
    way: Way,
    size: SegmentSize,
    system_id: u64,
    archive_mode: ArchiveMode,
    stop: RecoveryStop,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The oldest segment that a repeated recovery would need.
    oldest: String,
    /// The directory's own timeline, of which nothing is fetched.
    own_timeline: Option<u32>,
    /// Segments that were fetched and not removed yet, except those to be archived.
    brought: Vec<(u64, String)>,
}

impl Restore {
    /// Fetches nothing yet.
    pub(super) fn new(
        dir: &Path,
        way: Way,
        size: SegmentSize,
        system_id: u64,
        archive_mode: ArchiveMode,
        stop: RecoveryStop,
    ) -> Restore {
        let state = Mutex::new(State { oldest: size.file_name(0, 0), ..State::default() });
        Restore { dir: dir.to_owned(), way, size, system_id, archive_mode, stop, state }
    }

    /// Sets the first segment that a repeated recovery would need. Returns its name.
    pub(super) fn set_oldest(&self, timeline: u32, redo: Lsn) -> String {
        let oldest = self.size.file_name(timeline, self.size.number(redo));
        self.state.lock().oldest.clone_from(&oldest);
        oldest
    }

    /// Sets the timeline of which nothing is fetched.
    pub(super) fn set_own_timeline(&self, timeline: u32) {
        self.state.lock().own_timeline = Some(timeline);
    }

    /// Removes fetched segments below `number`.
    pub(super) fn remove_before(&self, io: &IoBackend, number: u64) {
        let mut gone = Vec::new();
        self.state.lock().brought.retain(|(n, name)| {
            let old = *n < number;
            if old {
                gone.push(name.clone());
            }
            !old
        });
        for name in gone {
            let mark = self.wal().join("archive_status").join(format!("{name}.done"));
            if let Err(error) = remove(io, &self.wal().join(&name)).and_then(|()| remove(io, &mark))
            {
                tracing::warn!(
                    "could not remove a segment that was restored from the archive: {error}"
                );
            }
        }
    }

    /// Removes files of an interrupted attempt.
    pub(super) fn clean(&self, io: &IoBackend) -> Result<(), EngineError> {
        for name in [SEGMENT, HISTORY] {
            remove(io, &self.wal().join(name))?;
        }
        Ok(())
    }

    /// Whether a timeline has a history file, in the archive or here. The first never has one.
    pub(super) fn has_history(
        &self,
        io: &mut IoBackend,
        timeline: u32,
    ) -> Result<bool, EngineError> {
        if timeline <= 1 {
            return Ok(false);
        }
        if self.fetch_history(io, timeline)? {
            return Ok(true);
        }
        Ok(io.aio().namespace().exists(&self.wal().join(history_file_name(timeline)))?)
    }

    /// The history of a timeline.
    pub(super) fn history(
        &self,
        io: &mut IoBackend,
        timeline: u32,
    ) -> Result<TimelineHistory, EngineError> {
        self.fetch_history(io, timeline)?;
        Ok(read_history(io, &self.wal(), timeline)?)
    }

    /// The newest timeline from `start` on. Numbers have no gaps.
    pub(super) fn newest(&self, io: &mut IoBackend, start: u32) -> Result<u32, EngineError> {
        let mut newest = start;
        while self.has_history(io, newest.saturating_add(1))? {
            newest += 1;
        }
        Ok(newest)
    }

    /// Fetches a timeline's history file, and makes it durable, since recovery depends on it. False
    /// if the archive does not have it.
    fn fetch_history(&self, io: &mut IoBackend, timeline: u32) -> Result<bool, EngineError> {
        if timeline <= 1 || self.state.lock().own_timeline == Some(timeline) {
            return Ok(false);
        }
        let name = history_file_name(timeline);
        let (temporary, path) = (self.wal().join(HISTORY), self.wal().join(&name));
        if !self.run(io, &name, &temporary)? {
            return Ok(false);
        }
        let text = io.read_file(&temporary)?;
        TimelineHistory::parse(timeline, &String::from_utf8_lossy(&text)).map_err(|error| {
            EngineError::corrupt(format!(
                "timeline history file \"{name}\" from the archive: {error}"
            ))
        })?;
        let namespace = Arc::clone(io.aio().namespace());
        let file = namespace.open(&temporary, &OpenOptions::READ_WRITE)?;
        io.fsync(&file)?;
        namespace.rename(&temporary, &path)?;
        namespace.sync_dir(&self.wal())?;
        self.mark(io, &name)?;
        Ok(true)
    }

    /// Fetches a segment. False if the archive does not have it.
    fn fetch_segment(&self, io: &mut IoBackend, name: &str) -> Result<bool, EngineError> {
        let parsed = self.size.parse_file_name(name);
        let (timeline, number) =
            parsed.ok_or_else(|| EngineError::internal(format!("no segment: {name}")))?;
        if self.state.lock().own_timeline == Some(timeline) {
            return Ok(false);
        }
        let (temporary, path) = (self.wal().join(SEGMENT), self.wal().join(name));
        forebay_aio::planted_bug!(io.aio(), RecoveryKeepsExistingSegment, {
            if io.aio().namespace().exists(&path)? {
                return Ok(true);
            }
        });
        if !self.run(io, name, &temporary)? {
            return Ok(false);
        }
        self.examine(io, name, &temporary)?;
        let names = Arc::clone(io.aio().namespace());
        sync_restored(io, &temporary)?;
        names.rename(&temporary, &path)?;
        if self.archive_mode == ArchiveMode::Always {
            // Before its mark may be durable.
            names.sync_dir(&self.wal())?;
        }
        self.mark(io, name)?;
        if self.archive_mode != ArchiveMode::Always {
            self.state.lock().brought.push((number, name.to_owned()));
        }
        Ok(true)
    }

    /// Fails if the file is not a segment of this cluster.
    fn examine(&self, io: &mut IoBackend, name: &str, path: &Path) -> Result<(), EngineError> {
        let namespace = Arc::clone(io.aio().namespace());
        let file = namespace.open(path, &OpenOptions::READ)?;
        let (found, expected) = (namespace.file_len(&file)?, self.size.bytes());
        if found != expected {
            let message =
                format!("archive file \"{name}\" has wrong size: {found} instead of {expected}");
            return Err(EngineError::corrupt(message));
        }
        let mut page = AlignedBuf::zeroed(PAGE)?;
        io.read_exact_at(&file, 0, &mut page)?;
        // An unused segment may have been archived with others. The reader judges its contents.
        let stated = PageHeader::decode(&page)
            .ok()
            .and_then(|header| header.long)
            .map(|long| long.system_id);
        if let Some(stated) = stated.filter(|&id| id != self.system_id) {
            let ours = self.system_id;
            return Err(EngineError::corrupt(format!(
                "archive file \"{name}\" is from a different database system: its identifier is \
                 {stated}, not {ours}"
            )));
        }
        Ok(())
    }

    /// Marks a fetched file as archived. With `always` marks it as ready for this server's own
    /// archive, unless that has it.
    fn mark(&self, io: &mut IoBackend, name: &str) -> Result<(), EngineError> {
        if self.archive_mode == ArchiveMode::Off {
            return Ok(());
        }
        let dir = self.wal().join("archive_status");
        let namespace = io.aio().namespace();
        if !namespace.exists(&dir)? {
            namespace.mkdir(&dir)?;
        }
        let (ready, done) = (dir.join(format!("{name}.ready")), dir.join(format!("{name}.done")));
        if self.archive_mode == ArchiveMode::On {
            namespace.open(&done, &OpenOptions::READ_WRITE.create())?;
            return remove(io, &ready);
        }
        if !namespace.exists(&done)? {
            namespace.open(&ready, &OpenOptions::READ_WRITE.create())?;
        }
        Ok(())
    }

    /// Fetches a file. False if the archive does not have it.
    fn run(&self, io: &mut IoBackend, name: &str, to: &Path) -> Result<bool, EngineError> {
        let come = self.run_way(io, name, to).inspect_err(|_| self.stop.note_failure())?;
        if come {
            tracing::info!("restored log file \"{name}\" from archive");
        }
        Ok(come)
    }

    fn run_way(&self, io: &mut IoBackend, name: &str, to: &Path) -> Result<bool, EngineError> {
        match &self.way {
            Way::Nothing => Ok(false),
            Way::Command(command, shell) => {
                self.run_command(io, name, to, (command.as_str(), shell))
            }
            Way::Archive(restorer) => {
                remove(io, to)?;
                io.submit();
                let name: WalName = name.parse()?;
                restorer
                    .get(io, &name, to)
                    .map_err(|error| failed(name.as_str(), &error.to_string()))
            }
            Way::Other(RestoreFrom(source)) => {
                remove(io, to)?;
                source.bring(io, name, to).map_err(|why| failed(name, &why))
            }
        }
    }

    fn run_command(
        &self,
        io: &mut IoBackend,
        name: &str,
        to: &Path,
        (template, shell): (&str, &Shell),
    ) -> Result<bool, EngineError> {
        remove(io, to)?;
        let target = format!("pg_wal/{}", to.file_name().unwrap_or_default().to_string_lossy());
        let oldest = self.state.lock().oldest.clone();
        let values = [('f', name), ('p', target.as_str()), ('r', oldest.as_str())];
        let command = substitute(template, "restore_command", &values).map_err(placeholder)?;
        let failed = |why: &str| {
            failed(name, &format!("the restore command {why}"))
                .with_detail(format!("The failed restore command was: {command}"))
        };
        // While the command runs, this thread cannot complete its reads ahead of redo.
        io.quiesce();
        let ended =
            shell.run(&command).map_err(|error| failed(&format!("could not be run: {error}")))?;
        if ended.is_fatal() {
            return Err(failed(&ended.to_string()));
        }
        if !ended.is_success() {
            tracing::debug!(
                "could not restore file \"{name}\" from archive: the restore command {ended}"
            );
            return Ok(false);
        }
        if !io.aio().namespace().exists(to)? {
            return Err(failed("exited with 0, but there is no file"));
        }
        Ok(true)
    }

    /// The directory of the log.
    fn wal(&self) -> PathBuf {
        self.dir.join("pg_wal")
    }
}

impl Interruptible for Restore {
    fn interrupt(&self) {
        match &self.way {
            Way::Nothing | Way::Other(_) => {}
            Way::Command(_, shell) => shell.stop(),
            Way::Archive(restorer) => restorer.stop(),
        }
    }
}

impl Fetch for Restore {
    fn fetch(&self, io: &mut IoBackend, name: &str) -> Result<bool, FetchFailure> {
        self.fetch_segment(io, name).map_err(|error| {
            let rest = [error.detail(), error.hint()].into_iter().flatten();
            let text = rest.fold(error.to_string(), |text, more| format!("{text}\n{more}"));
            FetchFailure::from(text)
        })
    }
}

/// Syncs a restored segment. It may be kept, archived or recycled under its final name, so a crash
/// must not leave only a part of it there.
fn sync_restored(io: &mut IoBackend, path: &Path) -> Result<(), EngineError> {
    forebay_aio::planted_bug!(io.aio(), RecoveryRestoredSegmentNotSynced, return Ok(()));
    let file = io.aio().namespace().open(path, &OpenOptions::READ_WRITE)?;
    Ok(io.fsync(&file)?)
}

/// It is unknown whether the archive has a file.
fn failed(name: &str, why: &str) -> EngineError {
    EngineError::statement(
        "58030",
        format!("could not restore file \"{name}\" from archive: {why}"),
    )
    .with_hint(
        "Nothing says that the archive does not have the file. Recovery goes on with the next \
             start.",
    )
}

/// A command with a wrong placeholder.
pub(super) fn placeholder(error: PlaceholderError) -> EngineError {
    let detail = error.detail.clone();
    EngineError::statement("22023", error.to_string()).with_detail(detail)
}

/// Removes a file if it exists.
pub(super) fn remove(io: &IoBackend, path: &Path) -> Result<(), EngineError> {
    io.aio().namespace().unlink(path).if_found()?;
    Ok(())
}
