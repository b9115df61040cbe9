//! Recovery from an archive, to its end or to a target; recovery of a base backup, with the archive
//! or with the log that came with it.
//!
//! 1. choose the timeline to recover along, and read its history (`restore`);
//! 2. find the checkpoint that backup_label or pg_control names; it must lie on that timeline's
//!    history;
//! 3. sync everything, and note in pg_control "in archive recovery" and what backup_label says;
//! 4. replay the log (`replay`), fetching each segment when it is needed, up to its end or to the
//!    target (`target`). Replay may not stop before the files are consistent: before the record of
//!    the backup's end, and before the newest page (`floor`);
//! 5. empty unlogged tables (`unlogged`);
//! 6. with an archive, begin a new timeline (`branch`).
//!
//! Crash recovery checks the whole log before it changes anything. Here all segments would have to
//! be fetched twice. So a record that cannot be redone stops recovery in the middle, and recovery
//! can be repeated from there.

use std::sync::Arc;

use forebay_access::redo::Registry;
use forebay_archive::shell::Shell;
use forebay_archive::store::Repository;
use forebay_archive::{Restorer, RestorerOptions};
use forebay_format::Lsn;
use forebay_format::control::{ControlFile, DbState};
use forebay_format::timeline::TimelineHistory;
use forebay_storage::Backend;
use forebay_wal::Resume;

use super::branch::SIGNAL;
use super::branch::{Begun, Branch, ENDING, Ended};
use super::floor::Floor;
use super::label;
use super::replay::{Course, End, Replayed};
use super::request::Request;
use super::restore::{Restore, Way, remove};
use super::scan::Scan;
use super::startup::{Checkpoint, Started, Startup};
use crate::archiver::store_options;
use crate::clock;
use crate::config::{ArchiveMode, Background, Interruptible, TargetAction, TargetTimeline};
use crate::error::EngineError;
use crate::orphans::MadeSince;

/// Most threads that fetch segments ahead.
const FETCHERS: usize = 4;

impl Startup<'_> {
    /// Recovers as `request` says.
    pub(super) fn recover_backup(
        &self,
        backend: &mut Backend,
        request: &Request,
    ) -> Result<Started, EngineError> {
        let control = self.control.get();
        let restore = self.restore(backend, &control, request)?;
        self.config.recovery_stop.watch(Arc::clone(&restore) as Arc<dyn Interruptible>)?;
        restore.clean(&backend.io)?;
        let (at, own) = match &request.label {
            Some(label) => (label.checkpoint, label.timeline),
            None => (control.checkpoint, control.checkpoint_copy.timeline),
        };
        self.tell_beginning(&control, request, own)?;
        let timeline = self.choose_timeline(backend, &restore, request, &control, own)?;
        let history = restore.history(&mut backend.io, timeline)?;
        check_past(&control, request, &history, at, own)?;
        let checkpoint =
            self.first_checkpoint(backend, &control, request, &restore, &history, at)?;
        restore.set_oldest(own, checkpoint.point.redo);
        if control.state != DbState::ShutDown || request.label.is_some() {
            self.sync_everything(backend)?;
        }
        let registry = self.registry();
        let local_end = self.local_end(backend, &control, request, &checkpoint, &registry)?;
        if let Some(scan) = &local_end {
            check_contains(&history, scan.end.end, scan.timeline)?;
        }
        self.note_beginning(backend, request, &checkpoint, local_end)?;
        let floor = Floor::new(Arc::clone(self.control), checkpoint.point.redo, own);
        self.pool.attach_wal(floor.clone());
        let course = Course {
            request,
            restore: &restore,
            history: &history,
            checkpoint: &checkpoint,
            registry: &registry,
            floor: &floor,
        };
        let replayed = self.replay_to_target(backend, &course)?;
        let started = self.conclude(backend, &course, replayed)?;
        Ok(Started { floor: Some(floor), ..started })
    }

    fn restore(
        &self,
        backend: &mut Backend,
        control: &ControlFile,
        request: &Request,
    ) -> Result<Arc<Restore>, EngineError> {
        let way = if request.from_archive { self.way(backend)? } else { Way::Nothing };
        let mode = self.config.archive_mode;
        let stop = self.config.recovery_stop.clone();
        let restore =
            Restore::new(self.dir, way, control.segment_size, control.system_id, mode, stop);
        if let Some(begun) = &request.begun {
            restore.set_own_timeline(begun.timeline);
        }
        Ok(Arc::new(restore))
    }

    /// How files are fetched from the archive.
    fn way(&self, backend: &mut Backend) -> Result<Way, EngineError> {
        let settings = &self.config.restore;
        let refuse = |message: String| Err(EngineError::statement("22023", message));
        if let Some(source) = &self.config.restore_from {
            return Ok(Way::Other(source.clone()));
        }
        match (settings.restore_command.as_str(), settings.library.as_str()) {
            ("", "") => Ok(Way::Nothing),
            (command, "") => Ok(Way::Command(command.to_owned(), Shell::new(self.dir))),
            ("", "forebay_archive") if settings.store.location.is_empty() => {
                refuse("\"forebay_archive.location\" is not set".to_owned())
            }
            ("", "forebay_archive") => {
                let options = store_options(backend, &settings.store, self.direct.wal)?;
                let repository = Repository::open(self.aio, &settings.store.location, options)?;
                let threads = match self.config.background {
                    Background::Threads => settings.prefetch.min(FETCHERS),
                    Background::Stepped => 0,
                };
                let (files, bytes) = (settings.prefetch, settings.prefetch_memory);
                let options = RestorerOptions { threads, files, bytes };
                Ok(Way::Archive(Restorer::start(self.aio, repository, options)))
            }
            ("", other) => refuse(format!("there is no restore library \"{other}\"")),
            _ => refuse("\"restore_command\" and \"restore_library\" are both set".to_owned()),
        }
    }

    /// Logs what begins. Refuses what is impossible.
    fn tell_beginning(
        &self,
        control: &ControlFile,
        request: &Request,
        own: u32,
    ) -> Result<(), EngineError> {
        let settings = &self.config.restore;
        if let Some(label) = &request.label {
            let name = &label.label;
            tracing::info!(
                "starting backup recovery with redo LSN {}, checkpoint LSN {}, on timeline ID \
                 {own} (backup \"{name}\")",
                label.start,
                label.checkpoint,
            );
        } else if matches!(control.state, DbState::ArchiveRecovery | DbState::ShutDownInRecovery) {
            tracing::info!(
                "database system was interrupted while in recovery at log time {}",
                clock::at_time(control.checkpoint_copy.time)
            );
        }
        let target = settings.target()?;
        match (&request.begun, target) {
            _ if !request.from_archive => {}
            (Some(begun), _) => {
                tracing::info!(
                    "finishing recovery that had begun timeline {} at {}",
                    begun.timeline,
                    begun.at
                );
            }
            (None, _)
                if settings.restore_command.is_empty()
                    && settings.library.is_empty()
                    && self.config.restore_from.is_none() =>
            {
                return Err(EngineError::statement(
                    "22023",
                    "must specify \"restore_command\" when standby mode is not enabled",
                )
                .with_hint("\"restore_library\" does as well.")
                .with_detail(format!("Found file \"{}\".", self.dir.join(SIGNAL).display())));
            }
            (None, Some(target)) => tracing::info!("{}", target.beginning()),
            (None, None) => tracing::info!("starting archive recovery"),
        }
        Ok(())
    }

    /// The timeline to recover along.
    fn choose_timeline(
        &self,
        backend: &mut Backend,
        restore: &Restore,
        request: &Request,
        control: &ControlFile,
        own: u32,
    ) -> Result<u32, EngineError> {
        if let Some(begun) = &request.begun {
            return Ok(begun.timeline);
        }
        if !request.from_archive {
            return Ok(own.max(control.min_recovery_timeline));
        }
        match self.config.restore.timeline {
            TargetTimeline::Current => Ok(own),
            TargetTimeline::Latest => restore.newest(&mut backend.io, own),
            TargetTimeline::Number(number) => {
                if number != 1 && !restore.has_history(&mut backend.io, number)? {
                    let message = format!("recovery target timeline {number} does not exist");
                    return Err(EngineError::statement("22023", message));
                }
                Ok(number)
            }
        }
    }

    /// The checkpoint at which recovery begins.
    fn first_checkpoint(
        &self,
        backend: &mut Backend,
        control: &ControlFile,
        request: &Request,
        restore: &Arc<Restore>,
        history: &TimelineHistory,
        at: Lsn,
    ) -> Result<Checkpoint, EngineError> {
        let reader = self.reader(control, history, at).with_fetch(restore.clone());
        let Some(label) = &request.label else {
            return self.last_checkpoint(backend, reader, at);
        };
        let dir = self.dir.display();
        let found = self.last_checkpoint(backend, reader, at).map_err(|error| match error {
            EngineError::Refused(refusal) => {
                let message = format!("could not locate required checkpoint record at {at}");
                let error = EngineError::statement("55000", message).with_hint(format!(
                    "If you are restoring from a backup, touch \"{dir}/recovery.signal\" and add \
                     required recovery options.\nIf you are not restoring from a backup, try \
                     removing the file \"{dir}/backup_label\".\nBe careful: removing \
                     \"{dir}/backup_label\" will result in a corrupt cluster if restoring from a \
                     backup."
                ));
                refusal.detail.into_iter().fold(error, EngineError::with_detail)
            }
            other => other,
        })?;
        if found.point.redo != label.start {
            let message = format!("invalid data in file \"{}\"", label::FILE);
            return Err(EngineError::statement("55000", message).with_detail(format!(
                "The checkpoint at {at} has the redo pointer {}, not {}.",
                found.point.redo, label.start
            )));
        }
        Ok(found)
    }

    /// Where the log in the directory ends. Its pages may be as new as that, if a server has
    /// written them.
    fn local_end(
        &self,
        backend: &mut Backend,
        control: &ControlFile,
        request: &Request,
        checkpoint: &Checkpoint,
        registry: &Registry,
    ) -> Result<Option<Scan>, EngineError> {
        let was_running = !matches!(
            control.state,
            DbState::ShutDown | DbState::ShutDownInRecovery | DbState::ArchiveRecovery
        );
        if !was_running || request.label.is_some() {
            return Ok(None);
        }
        let timeline = checkpoint.point.timeline.max(control.min_recovery_timeline);
        let history =
            forebay_wal::read_history(&mut backend.io, &self.dir.join("pg_wal"), timeline)?;
        self.scan(backend, control, &history, checkpoint, registry).map(Some)
    }

    /// Notes the recovery in pg_control, with the contents of backup_label.
    fn note_beginning(
        &self,
        backend: &mut Backend,
        request: &Request,
        checkpoint: &Checkpoint,
        local_end: Option<Scan>,
    ) -> Result<(), EngineError> {
        let point = checkpoint.point;
        let namespace = Arc::clone(self.aio.namespace());
        let put_aside = || -> Result<(), EngineError> {
            if request.label.is_some() {
                namespace.rename(&self.dir.join(label::FILE), &self.dir.join(label::OLD))?;
                namespace.sync_dir(self.dir)?;
            }
            Ok(())
        };
        let change = |control: &mut ControlFile| {
            if let Some(scan) = local_end
                && scan.end.end > control.min_recovery_point
            {
                (control.min_recovery_point, control.min_recovery_timeline) =
                    (scan.end.end, scan.timeline);
            }
            if let Some(label) = &request.label {
                control.backup_start = point.redo;
                control.backup_end_required = label.end_required;
                if label.from_standby {
                    control.backup_end = control.min_recovery_point;
                }
            }
        };
        let begin = || {
            self.control.begin_archive_recovery(&mut backend.io, checkpoint.start, point, change)
        };
        forebay_aio::planted_bug!(self.aio, RecoveryRemovesLabelEarly, {
            put_aside()?;
            return begin();
        });
        begin()?;
        put_aside()
    }

    /// How the log goes on: on a new timeline, if recovery was from an archive.
    fn conclude(
        &self,
        backend: &mut Backend,
        course: &Course<'_>,
        replayed: Replayed,
    ) -> Result<Started, EngineError> {
        let redo = replayed.redo;
        if let End::Target(_) = &replayed.end
            && self.config.restore.action != TargetAction::Promote
        {
            if self.config.restore.action == TargetAction::Pause {
                tracing::info!(
                    "recovery_target_action \"pause\" without hot standby is \"shutdown\"; \
                     \"promote\" would go on"
                );
            }
            return Err(EngineError::StoppedAtTarget { at: replayed.at });
        }
        let (counters, timeline) = (replayed.counters, replayed.timeline);
        self.end_redo(backend, &counters, &replayed.cluster)?;
        let resume = Resume { insert_at: replayed.at, prev: replayed.last, redo, aborted: None };
        let mut started = Started::new(resume, counters, true, course.checkpoint, timeline);
        let first = course.checkpoint.point.next_oid;
        started.made = MadeSince::new(replayed.made.clone(), first, counters.next_oid);
        if course.request.from_archive {
            let (timeline, ended) = self.end_archive_recovery(backend, course, &replayed)?;
            started.timeline = timeline;
            started.ended = Some(ended);
        } else if let End::Log(end) = &replayed.end {
            started.resume = end.resume(redo);
        }
        Ok(started)
    }

    /// Begins a new timeline, or continues the one that an earlier attempt began.
    fn end_archive_recovery(
        &self,
        backend: &mut Backend,
        course: &Course<'_>,
        replayed: &Replayed,
    ) -> Result<(u32, Ended), EngineError> {
        let archives = self.config.archive_mode != ArchiveMode::Off;
        let size = self.control.get().segment_size;
        let branch = Branch { dir: self.dir, aio: self.aio, size, archives };
        let begun = match &course.request.begun {
            Some(begun) => {
                remove(&backend.io, &self.dir.join(SIGNAL))?;
                self.aio.namespace().sync_dir(self.dir)?;
                begun.clone()
            }
            None => {
                let reason = match &replayed.end {
                    End::Target(stop) => stop.reason.clone(),
                    End::Log(_) => "no recovery target specified".to_owned(),
                };
                let newest = course.restore.newest(&mut backend.io, course.history.timeline())?;
                let begun = Begun { timeline: newest + 1, at: replayed.at, reason };
                tracing::info!("selected new timeline ID: {}", begun.timeline);
                branch.begin(&mut backend.io, course.history, &begun)?;
                begun
            }
        };
        forebay_aio::planted_bug!(self.aio, RecoveryRemovesEndingEarly, {
            remove(&backend.io, &self.dir.join(ENDING))?;
            self.aio.namespace().sync_dir(self.dir)?
        });
        let ended = branch.tidy(&mut backend.io, &begun)?;
        course.restore.clean(&backend.io)?;
        tracing::info!("archive recovery complete");
        Ok((begun.timeline, ended))
    }
}

/// Fails unless the checkpoint lies on the history of the timeline.
fn check_past(
    control: &ControlFile,
    request: &Request,
    history: &TimelineHistory,
    at: Lsn,
    own: u32,
) -> Result<(), EngineError> {
    let target = history.timeline();
    if history.at(at) != own {
        let file =
            if request.label.is_some() { label::FILE } else { forebay_format::control::PATH };
        let message =
            format!("requested timeline {target} is not a child of this server's history");
        let detail = match history.switch_point(own) {
            Some(left) => format!(
                "Latest checkpoint in file \"{file}\" is at {at} on timeline {own}, but in the \
                 history of the requested timeline, the server forked off from that timeline at \
                 {left}."
            ),
            None => format!(
                "Latest checkpoint in file \"{file}\" is at {at} on timeline {own}, which the \
                 requested timeline never was on."
            ),
        };
        return Err(EngineError::statement("55000", message).with_detail(detail));
    }
    let (point, timeline) = (control.min_recovery_point, control.min_recovery_timeline);
    if request.label.is_none() && point.is_valid() && timeline != 0 {
        check_contains(history, point, timeline)?;
    }
    Ok(())
}

/// Fails unless the minimum recovery point lies on the history of the timeline.
fn check_contains(history: &TimelineHistory, point: Lsn, timeline: u32) -> Result<(), EngineError> {
    if history.at(Lsn(point.0.saturating_sub(1))) == timeline {
        return Ok(());
    }
    let target = history.timeline();
    Err(EngineError::statement(
        "55000",
        format!(
            "requested timeline {target} does not contain minimum recovery point {point} on \
             timeline {timeline}"
        ),
    ))
}
