//! The end of recovery from an archive: a new timeline.
//!
//! ```text
//!   first segment ─▶ recovery.ending ─▶ history file ─▶ recovery.signal removed ─┐
//!                    ^ from here on, recovery after a crash leads to this timeline │
//!   ┌─────────────────────────────────────────────────────────────────────────────┘
//!   └─▶ log started ─▶ checkpoint ─▶ recovery.ending removed
//! ```
//!
//! Each step is durable before the next. A start before the checkpoint is complete replays the log
//! again up to where the new timeline began, whatever the targets say by then.

use std::path::Path;
use std::sync::Arc;

use forebay_aio::{Aio, IoBackend};
use forebay_archive::shell::{Shell, substitute};
use forebay_format::timeline::{TimelineHistory, history_file_name};
use forebay_format::{Lsn, SegmentSize};
use forebay_wal::begin_timeline;

use super::restore::{placeholder, remove};
use crate::core::Core;
use crate::error::EngineError;

/// The file that asks for recovery from an archive.
pub(super) const SIGNAL: &str = "recovery.signal";
/// The file that says that recovery has ended.
pub(super) const ENDING: &str = "recovery.ending";
/// Name of a history file until it is complete. The log's start removes such files.
const TEMPORARY: &str = "xlogtemp.history";

/// A timeline that recovery has begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Begun {
    /// Its number.
    pub(super) timeline: u32,
    /// Where it branches off its parent.
    pub(super) at: Lsn,
    /// The reason, for its history file.
    pub(super) reason: String,
}

impl Begun {
    /// Parses the file's text.
    pub(super) fn parse(text: &str) -> Option<Begun> {
        let mut fields = text.lines().next()?.splitn(3, '\t');
        let (timeline, at) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
        Some(Begun { timeline, at, reason: fields.next()?.to_owned() })
    }

    fn to_text(&self) -> String {
        format!("{}\t{}\t{}\n", self.timeline, self.at, self.reason.replace(['\n', '\r'], " "))
    }
}

/// What is to be done once the log has started on a new timeline.
#[derive(Debug, Default)]
pub(crate) struct Ended {
    /// Files of the log to be announced to the archiver.
    pub(crate) announce: Vec<String>,
}

/// A directory whose recovery has ended.
pub(super) struct Branch<'a> {
    pub(super) dir: &'a Path,
    pub(super) aio: &'a Arc<Aio>,
    pub(super) size: SegmentSize,
    /// Whether the log is archived.
    pub(super) archives: bool,
}

impl Branch<'_> {
    /// Begins a timeline. `parent` is the history of the recovered timeline.
    pub(super) fn begin(
        &self,
        io: &mut IoBackend,
        parent: &TimelineHistory,
        begun: &Begun,
    ) -> Result<(), EngineError> {
        let wal = self.dir.join("pg_wal");
        let history = until(parent, begun.at).branch(begun.timeline, begun.at);
        forebay_aio::planted_bug!(self.aio, RecoveryRemovesSignalEarly, {
            remove(io, &self.dir.join(SIGNAL))?;
            self.aio.namespace().sync_dir(self.dir)?
        });
        begin_timeline(self.aio, io, &wal, self.size, &history)?;
        let ending = self.dir.join(ENDING);
        remove(io, &ending)?;
        io.write_new_file(&ending, begun.to_text().as_bytes())?;
        self.aio.namespace().sync_dir(self.dir)?;
        self.write_history(io, &wal, &history, begun)?;
        remove(io, &self.dir.join(SIGNAL))?;
        Ok(self.aio.namespace().sync_dir(self.dir)?)
    }

    /// Writes the history file. It gets its name when it is complete, and replaces none. Comments
    /// of earlier history files are kept.
    fn write_history(
        &self,
        io: &mut IoBackend,
        wal: &Path,
        history: &TimelineHistory,
        begun: &Begun,
    ) -> Result<(), EngineError> {
        let (temporary, path) = (wal.join(TEMPORARY), wal.join(history_file_name(begun.timeline)));
        remove(io, &temporary)?;
        let parents = history.stretches().len().saturating_sub(1);
        let mut text = String::new();
        if let Some(before) = history.stretches().get(parents.saturating_sub(1))
            && before.timeline > 1
        {
            let old = io
                .read_file_if_there(&wal.join(history_file_name(before.timeline)))?
                .unwrap_or_default();
            text = String::from_utf8_lossy(&old).into_owned();
            if !text.is_empty() && !text.ends_with('\n') {
                text.push('\n');
            }
        }
        let own = history.to_text(&begun.reason);
        text.push_str(own.lines().last().unwrap_or_default());
        text.push('\n');
        // If the parent's file is missing or differs, the history in memory is used.
        if TimelineHistory::parse(begun.timeline, &text).ok().as_ref() != Some(history) {
            text = own;
        }
        io.write_new_file(&temporary, text.as_bytes())?;
        self.aio.namespace().rename_noreplace(&temporary, &path)?;
        forebay_aio::planted_bug!(self.aio, RecoveryHistoryNameNotSynced, return Ok(()));
        Ok(self.aio.namespace().sync_dir(wal)?)
    }

    /// Removes segments of the parent that lie after the branch point: they are not part of this
    /// server's history. The parent's last segment is kept for the archive as a partial one.
    pub(super) fn tidy(&self, io: &mut IoBackend, begun: &Begun) -> Result<Ended, EngineError> {
        let wal = self.dir.join("pg_wal");
        let namespace = self.aio.namespace();
        let last = self.size.number(begun.at);
        let mut ended = Ended::default();
        let mut parents = Vec::new();
        for entry in namespace.list(&wal)? {
            let Some(name) = entry.name.to_str() else { continue };
            let Some((timeline, number)) = self.size.parse_file_name(name) else { continue };
            if timeline >= begun.timeline || number < last {
                continue;
            }
            let behind = number > last || self.size.offset(begun.at) == 0;
            if behind && !self.has_mark(&wal, name, "ready")? {
                remove(io, &wal.join(name))?;
                remove(io, &wal.join("archive_status").join(format!("{name}.done")))?;
            } else if !behind {
                parents.push(name.to_owned());
            }
        }
        if self.archives {
            ended.announce.push(history_file_name(begun.timeline));
            for name in &parents {
                if !self.has_mark(&wal, name, "ready")? && !self.has_mark(&wal, name, "done")? {
                    let partial = format!("{name}.partial");
                    namespace.rename(&wal.join(name), &wal.join(&partial))?;
                    ended.announce.push(partial);
                }
            }
        }
        namespace.sync_dir(&wal)?;
        Ok(ended)
    }

    fn has_mark(&self, wal: &Path, name: &str, mark: &str) -> Result<bool, EngineError> {
        let path = wal.join("archive_status").join(format!("{name}.{mark}"));
        Ok(self.aio.namespace().exists(&path)?)
    }
}

/// The history of the timeline on which a position lies. Timelines that begin after it were not
/// reached.
fn until(history: &TimelineHistory, at: Lsn) -> TimelineHistory {
    let mut stretches = history.stretches().iter().filter(|stretch| stretch.begin <= at);
    let first = stretches.next().map_or(1, |stretch| stretch.timeline);
    stretches.fold(TimelineHistory::alone(first), |past, stretch| {
        past.branch(stretch.timeline, stretch.begin)
    })
}

/// Removes the files of recovery, after the checkpoint at its end.
pub(crate) fn finish(core: &Core, io: &mut IoBackend) -> Result<(), EngineError> {
    remove(io, &core.dir.join(ENDING))?;
    core.aio.namespace().sync_dir(&core.dir)?;
    let restore = &core.config.restore;
    if !restore.recovery_end_command.is_empty() {
        let redo = core.control.checkpoint().redo;
        let wal = core.wal.config();
        let oldest = wal.segment_size.file_name(wal.timeline, wal.segment_size.number(redo));
        run_command(&core.dir, "recovery_end_command", &restore.recovery_end_command, &oldest);
    }
    Ok(())
}

/// Runs a command whose failure does not matter to recovery.
pub(super) fn run_command(dir: &Path, setting: &'static str, template: &str, oldest: &str) {
    let command = match substitute(template, setting, &[('r', oldest)]).map_err(placeholder) {
        Ok(command) => command,
        Err(error) => return tracing::warn!("{error}: {}", error.detail().unwrap_or_default()),
    };
    match Shell::new(dir).run(&command) {
        Ok(ended) if ended.is_success() => {}
        Ok(ended) => tracing::warn!("{setting} \"{command}\" {ended}"),
        Err(error) => tracing::warn!("{setting} \"{command}\" could not be run: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_aio::{AioConfig, BackendType, MethodKind, PosixNamespace};

    const SEGMENT: SegmentSize = match SegmentSize::new(1 << 20) {
        Some(size) => size,
        None => panic!("a size"),
    };

    fn fixture() -> (tempfile::TempDir, Arc<Aio>, IoBackend) {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::create_dir_all(dir.path().join("pg_wal/archive_status")).expect("pg_wal");
        let aio = Aio::new(Arc::new(PosixNamespace), MethodKind::Sync, AioConfig::default())
            .expect("aio");
        let io = aio.backend(BackendType::Startup).expect("backend");
        (dir, aio, io)
    }

    #[test]
    fn what_the_file_says_reads_back() {
        let begun = Begun {
            timeline: 4,
            at: Lsn(0x1_0000_0028),
            reason: "at restore point \"x\ty\"".to_owned(),
        };
        assert_eq!(Begun::parse(&begun.to_text()), Some(begun));
        for bad in ["", "4", "4\t0/5", "x\t0/5\twhy"] {
            assert_eq!(Begun::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_timeline_that_was_not_reached_is_no_parent() {
        let history = TimelineHistory::alone(1).branch(2, Lsn(100)).branch(5, Lsn(200));
        assert_eq!(until(&history, Lsn(300)), history);
        assert_eq!(until(&history, Lsn(199)), TimelineHistory::alone(1).branch(2, Lsn(100)));
        assert_eq!(until(&history, Lsn(99)), TimelineHistory::alone(1));
    }

    #[test]
    fn a_new_timeline_has_its_segment_its_history_and_no_signal() {
        let (dir, aio, mut io) = fixture();
        let wal = dir.path().join("pg_wal");
        std::fs::write(dir.path().join(SIGNAL), "").expect("signal");
        std::fs::write(wal.join(SEGMENT.file_name(2, 3)), vec![7; 1 << 20]).expect("segment");
        std::fs::write(wal.join("00000002.history"), "1\t0/200000\tfor people").expect("history");
        let parent = TimelineHistory::alone(1).branch(2, Lsn(0x20_0000));
        let branch = Branch { dir: dir.path(), aio: &aio, size: SEGMENT, archives: true };
        let begun =
            Begun { timeline: 3, at: Lsn(0x30_4000), reason: "after LSN 0/303F00".to_owned() };
        branch.begin(&mut io, &parent, &begun).expect("begun");
        let segment = std::fs::read(wal.join(SEGMENT.file_name(3, 3))).expect("segment");
        assert!(segment.len() == 1 << 20 && segment[..0x4000].iter().all(|&b| b == 7));
        assert!(segment[0x4000..].iter().all(|&b| b == 0));
        let text = std::fs::read_to_string(wal.join("00000003.history")).expect("history");
        assert_eq!(text, "1\t0/200000\tfor people\n2\t0/304000\tafter LSN 0/303F00\n");
        assert!(!dir.path().join(SIGNAL).exists());
        let ending = std::fs::read_to_string(dir.path().join(ENDING)).expect("ending");
        assert_eq!(Begun::parse(&ending), Some(begun));
    }

    #[test]
    fn what_lies_behind_goes_and_the_parents_last_segment_is_part_of_one() {
        let (dir, aio, mut io) = fixture();
        let wal = dir.path().join("pg_wal");
        let status = |name: &str| wal.join("archive_status").join(name);
        let names =
            [(1, 2), (2, 3), (2, 4), (2, 5), (3, 3), (3, 4)].map(|(t, n)| SEGMENT.file_name(t, n));
        for name in &names {
            std::fs::write(wal.join(name), "").expect("segment");
        }
        std::fs::write(status(&format!("{}.ready", names[3])), "").expect("mark");
        let begun = Begun { timeline: 3, at: Lsn(0x30_4000), reason: String::new() };
        let branch = Branch { dir: dir.path(), aio: &aio, size: SEGMENT, archives: true };
        let ended = branch.tidy(&mut io, &begun).expect("tidy");
        let partial = format!("{}.partial", names[1]);
        assert_eq!(ended.announce, ["00000003.history".to_owned(), partial.clone()]);
        let left: Vec<bool> = names.iter().map(|name| wal.join(name).exists()).collect();
        assert_eq!(left, [true, false, false, true, true, true]);
        assert!(wal.join(partial).exists());
        // Archived already: it stays what it is. Without an archive nothing is renamed.
        std::fs::write(wal.join(&names[1]), "").expect("segment");
        std::fs::write(status(&format!("{}.done", names[1])), "").expect("mark");
        assert_eq!(branch.tidy(&mut io, &begun).expect("tidy").announce, ["00000003.history"]);
        std::fs::remove_file(status(&format!("{}.done", names[1]))).expect("mark");
        let none = Branch { archives: false, ..branch };
        assert!(none.tidy(&mut io, &begun).expect("tidy").announce.is_empty());
        assert!(wal.join(&names[1]).exists());
    }
}
