//! Recovery from an archive: of a base backup, taken while the server was written to, to a restore
//! point. It crashes at every call, and again during the next recoveries, and must always reach the
//! same rows on the same timeline.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use forebay_aio::sync::Arc;
use forebay_aio::{AioError, AlignedBuf, IoBackend, OpenOptions, PlantedBug};
use forebay_engine::{
    ArchiveMode, EngineConfig, EngineError, RecoveryTarget, RestoreFrom, RestoreSettings,
    RestoreSource, TargetAction,
};
use forebay_format::control::{self, ControlFile};
use forebay_testkit::Dice;

use super::Tally;
use super::interrupted::interrupted;
use super::random::setup;
use crate::disk::{Ending, SimDisk};
use crate::model::Model;
use crate::workload::{Life, Script, Setup, data_dir};

/// The number of bytes that are fetched at once.
const PIECE: usize = 256 << 10;
/// The restore point.
const TARGET: &str = "here";

/// An archive in a directory, as recovery sees it.
struct FromDirectory(PathBuf);

impl RestoreSource for FromDirectory {
    fn bring(&self, io: &mut IoBackend, name: &str, to: &Path) -> Result<bool, String> {
        let mut bring = || -> Result<bool, AioError> {
            let names = Arc::clone(io.aio().namespace());
            let from = self.0.join(name);
            if !names.exists(&from)? {
                return Ok(false);
            }
            let bytes = io.read_file(&from)?;
            let file = names.open(to, &OpenOptions::READ_WRITE.create_new())?;
            for (n, piece) in bytes.chunks(PIECE).enumerate() {
                io.write_all_at(&file, (n * PIECE) as u64, &AlignedBuf::copy_of(piece)?)?;
            }
            Ok(true)
        };
        bring().map_err(|error| error.to_string())
    }
}

/// What a server that archives begins with, and the choices for it.
pub(super) struct Start {
    pub(super) disk: SimDisk,
    pub(super) dice: Dice,
    pub(super) model: Model,
    pub(super) script: Script,
    pub(super) setup: Setup,
}

impl Start {
    pub(super) fn new(template: &SimDisk, seed: u64) -> Start {
        let disk = template.copy(seed);
        disk.put_directory(&archive_dir(&disk));
        let mut dice = Dice::new(seed);
        let setup = setup(&mut dice, false);
        Start { disk, dice, model: Model::default(), script: Script::new(seed), setup }
    }
}

/// The life of a server that archives.
pub(super) fn begin(disk: &SimDisk, setup: Setup) -> Result<Life, String> {
    Life::begin_in(disk, setup, &data_dir(disk), archiving(disk)).map_err(told)
}

/// Where a server's segments go.
pub(super) fn archive_dir(disk: &SimDisk) -> PathBuf {
    disk.root().join("archive")
}

/// The directory that is recovered.
pub(super) fn restored_dir(disk: &SimDisk) -> PathBuf {
    disk.root().join("restored")
}

/// Settings of a server that archives and keeps little of its log.
pub(super) fn archiving(disk: &SimDisk) -> impl FnOnce(&mut EngineConfig) + use<> {
    let dir = archive_dir(disk);
    move |config| {
        config.archive_mode = ArchiveMode::On;
        config.archiving.library = "basic_archive".to_owned();
        config.archiving.directory = dir.to_string_lossy().into_owned();
        (config.writing.max_wal_size, config.writing.min_wal_size) = (2 << 20, 2 << 20);
    }
}

/// The same, with a recovery first.
pub(super) fn recovering(
    disk: &SimDisk,
    target: Option<RecoveryTarget>,
) -> impl FnOnce(&mut EngineConfig) + use<> {
    let (archives, source) = (archiving(disk), FromDirectory(archive_dir(disk)));
    move |config| {
        archives(config);
        config.restore = RestoreSettings {
            targets: target.into_iter().collect(),
            action: TargetAction::Promote,
            ..RestoreSettings::default()
        };
        config.restore_from = Some(RestoreFrom(Arc::new(source)));
    }
}

/// Archives everything that waits, for a server on a data directory.
pub(super) fn archive_all(disk: &SimDisk, dir: &Path, life: &mut Life) -> Result<(), String> {
    life.session().switch_wal().map_err(told)?;
    for _ in 0..20 {
        life.engine().step().map_err(told)?;
        if waiting(disk, dir).is_empty() {
            return Ok(());
        }
    }
    Err(format!("they are never archived: {:?}", waiting(disk, dir)))
}

/// Files of the log in a data directory that wait for the archive.
pub(super) fn waiting(disk: &SimDisk, dir: &Path) -> Vec<String> {
    let files = disk.files_below(&dir.join("pg_wal/archive_status"));
    let names = files.iter().filter_map(|path| path.file_name()?.to_str()?.strip_suffix(".ready"));
    names.map(str::to_owned).collect()
}

pub(super) fn told(error: EngineError) -> String {
    error.to_string()
}

/// What recovery begins with, and what it must reach.
struct Past {
    disk: SimDisk,
    expected: BTreeMap<String, Vec<i64>>,
    script: Script,
    setup: Setup,
}

impl Past {
    /// A server writes, is backed up meanwhile, and writes more.
    fn new(template: &SimDisk, seed: u64) -> Result<Past, String> {
        let Start { disk, mut model, mut script, setup, .. } = Start::new(template, seed);
        let (data, restored) = (data_dir(&disk), restored_dir(&disk));
        let mut life = begin(&disk, setup)?;
        life.work(&disk, &mut model, &mut script, 12);
        life.session().start_backup("simulated", true).map_err(told)?;
        // Tables first, and the control file after a later checkpoint.
        let left_out = |path: &Path| {
            path.starts_with("pg_wal")
                || path == Path::new(control::PATH)
                || path == Path::new("postmaster.pid")
        };
        disk.copy_tree(&data, &restored, |path| !left_out(path));
        life.work(&disk, &mut model, &mut script, 6);
        life.session().checkpoint().map_err(told)?;
        disk.copy_tree(&data.join(control::PATH), &restored.join(control::PATH), |_| true);
        life.work(&disk, &mut model, &mut script, 3);
        let end = life.session().stop_backup(false).map_err(told)?;
        life.work(&disk, &mut model, &mut script, 8);
        life.session().create_restore_point(TARGET).map_err(told)?;
        let expected = life.contents()?;
        life.work(&disk, &mut model, &mut script, 4);
        archive_all(&disk, &data, &mut life)?;
        life.end().map_err(told)?;
        disk.put(&restored.join("backup_label"), end.label.as_bytes());
        disk.put(&restored.join("recovery.signal"), b"");
        if seed.is_multiple_of(2) {
            // A backup may bring a segment that was not complete. The archive's counts.
            let name = end.label.split_once("(file ").and_then(|(_, rest)| rest.get(..24));
            let wal = restored.join("pg_wal");
            disk.put_directory(&wal);
            disk.put(&wal.join(name.ok_or("the label names no segment")?), &[0; 1 << 20]);
        }
        Ok(Past { disk: disk.copy(seed), expected, script, setup })
    }

    fn begin(&self, disk: &SimDisk, order: u64) -> Result<Life, EngineError> {
        let target = Some(RecoveryTarget::Name(TARGET.to_owned()));
        let setup = Setup { order, ..self.setup };
        Life::begin_in(disk, setup, &restored_dir(disk), recovering(disk, target))
    }

    /// Recovers and works a little, as far as the disk allows.
    fn live(
        &self,
        disk: &SimDisk,
        order: u64,
        model: &mut Model,
        script: &mut Script,
    ) -> Result<(), String> {
        let mut life = match self.begin(disk, order) {
            Err(_) if disk.is_off() => return Ok(()),
            begun => begun.map_err(told)?,
        };
        match life.contents() {
            Ok(found) => model.settle(&found)?,
            Err(_) if disk.is_off() => {}
            Err(error) => return Err(error),
        }
        for _ in 0..3 {
            life.commit_something(model, script);
            // Later checks find what failed.
            let _ = life.engine().step();
        }
        Ok(())
    }

    /// Checks that the disk is as an undisturbed recovery leaves it.
    fn check(&self, disk: &SimDisk) -> Result<(), String> {
        let dir = restored_dir(disk);
        let control = disk.bytes(&dir.join(control::PATH)).ok_or("there is no pg_control")?;
        let control = ControlFile::decode(&control).map_err(|error| error.to_string())?;
        let timeline = control.checkpoint_copy.timeline;
        if timeline != 2 {
            return Err(format!("it ended on timeline {timeline}"));
        }
        let left = [
            "recovery.signal",
            "recovery.ending",
            "backup_label",
            "RECOVERYXLOG",
            "RECOVERYHISTORY",
        ];
        for path in disk.files_below(&dir) {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if left.contains(&&*name) || name.starts_with("xlogtemp") {
                return Err(format!("{} is left", path.display()));
            }
        }
        Ok(())
    }
}

/// Recovery to a restore point, crashed during each call (each `stride`-th), and the next
/// recoveries somewhere. The first commits on the new timeline and their archiving belong to it.
///
/// # Errors
/// What contradicts the rows at the restore point or later acknowledgements, with the calls of the
/// crashes.
pub fn archive_recovery(
    template: &SimDisk,
    seed: u64,
    stride: usize,
    bug: Option<PlantedBug>,
) -> Result<Tally, String> {
    let past = Past::new(template, seed)?;
    let mut tally = Tally::one();
    for call in (seed % stride as u64..).step_by(stride) {
        let mut dice = Dice::new(seed ^ call << 20);
        let left = past.disk.copy(seed);
        bug.into_iter().for_each(|bug| left.plant(bug));
        let (mut model, mut script) = (Model::of(&past.expected), past.script.clone());
        let live = |left: &SimDisk, order| past.live(left, order, &mut model, &mut script);
        let ending = |dice: &mut Dice| Ending::random(dice, 250);
        let (left, at) = interrupted(left, (seed, call), &mut dice, &mut tally, ending, live)?;
        let wrong = |reason: String| format!("after crashes at calls {at:?}: {reason}");
        let mut life = past.begin(&left, dice.any()).map_err(|error| wrong(told(error)))?;
        let found = life.contents().map_err(wrong)?;
        model.settle(&found).map_err(|e| wrong(e.into()))?;
        archive_all(&left, &restored_dir(&left), &mut life).map_err(wrong)?;
        life.end().map_err(|error| wrong(format!("the stop failed: {error}")))?;
        past.check(&left).map_err(wrong)?;
        tally.compared += 1;
        if at.is_empty() {
            break;
        }
    }
    Ok(tally)
}
