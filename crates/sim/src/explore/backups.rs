//! Base backups and restores, interrupted at every call. A backup that was acknowledged, or that
//! looks complete, must restore all rows that were acknowledged before its end. A restored
//! directory that looks complete must be complete.

use forebay_aio::sync::Arc;
use forebay_aio::{Aio, AioConfig, BackendType, PlantedBug};
use forebay_archive::backup::{
    self, BackupOptions, BackupSource, BackupState, ChecksumKind, Origin, RecoveryTarget,
    RestoreOptions, Silent, Stopped, Target,
};
use forebay_format::Lsn;
use forebay_format::control::{self, ControlFile};
use forebay_testkit::Dice;

use super::Tally;
use super::pitr::{Start, archive_dir, begin, recovering, restored_dir, told};
use super::random::survival;
use crate::disk::{Ending, SimDisk};
use crate::model::Model;
use crate::workload::{Life, Script, Setup, data_dir};

/// A server with some rows, and an empty archive.
struct World {
    disk: SimDisk,
    model: Model,
    script: Script,
    setup: Setup,
}

impl World {
    fn new(template: &SimDisk, seed: u64) -> Result<World, String> {
        let Start { disk, mut model, mut script, setup, .. } = Start::new(template, seed);
        let mut life = begin(&disk, setup)?;
        life.work(&disk, &mut model, &mut script, 12);
        model.settle(&life.contents()?).map_err(String::from)?;
        life.end().map_err(told)?;
        Ok(World { disk: disk.copy(seed), model, script, setup })
    }

    /// Backs up the running server, and writes to it meanwhile. Err: no backup was acknowledged.
    fn back_up(&self, disk: &SimDisk, end: (u64, Ending), model: &mut Model) -> Result<(), String> {
        let (data, archive) = (data_dir(disk), archive_dir(disk));
        let mut life = begin(disk, self.setup)?;
        disk.end_after(end.0, end.1);
        let aio = Arc::clone(life.aio());
        let mut script = self.script.clone();
        let mut source = Running { life: &mut life, model, script: &mut script };
        let options = BackupOptions {
            name: Some("weekly".to_owned()),
            jobs: 1,
            checksums: ChecksumKind::Crc32c,
            direct: false,
            ..BackupOptions::default()
        };
        let origin = Origin::Live(&mut source);
        let made = backup::backup(&aio, &data, &archive, origin, &options, &mut Silent);
        made.map(drop).map_err(|error| error.to_string())
    }

    /// Restores the backup.
    fn restore(&self, disk: &SimDisk) -> Result<(), String> {
        let aio = open_aio(disk)?;
        let recovery = RecoveryTarget {
            restore_command: "none".to_owned(),
            target: Target::Latest,
            inclusive: None,
            timeline: None,
            action: None,
        };
        let options = RestoreOptions {
            backup: None,
            recovery: Some(recovery),
            tablespaces: Vec::new(),
            allow_damaged: false,
            jobs: 1,
            direct: false,
        };
        let restored =
            backup::restore(&aio, &archive_dir(disk), &restored_dir(disk), &options, &mut Silent);
        drop(aio);
        disk.close();
        restored.map(drop).map_err(|error| error.to_string())
    }

    /// Recovers the restored directory, and compares.
    fn recover(&self, disk: &SimDisk, model: &Model) -> Result<(), String> {
        let begun = Life::begin_in(disk, self.setup, &restored_dir(disk), recovering(disk, None));
        let mut life = begun.map_err(|error| format!("recovery of what was restored: {error}"))?;
        let found = life.contents()?;
        model.clone().settle(&found).map_err(String::from)?;
        life.end().map_err(told)
    }

    /// Checks that backups are complete if they look so.
    fn check(&self, disk: &SimDisk, acknowledged: bool, model: &Model) -> Result<(), String> {
        let aio = open_aio(disk)?;
        let mut io = aio.backend(BackendType::Standalone).map_err(|error| error.to_string())?;
        let found = backup::list(&mut io, &archive_dir(disk)).map_err(|error| error.to_string())?;
        drop((io, aio));
        disk.close();
        let complete = found.iter().any(|backup| backup.state == BackupState::Complete);
        if !complete {
            return if acknowledged { Err("the backup is gone".to_owned()) } else { Ok(()) };
        }
        self.restore(disk)?;
        self.recover(disk, model)
    }
}

fn open_aio(disk: &SimDisk) -> Result<Arc<Aio>, String> {
    let config = AioConfig { max_backends: 4, handles_per_backend: 16, ..AioConfig::default() };
    disk.open(config, 1).map_err(|error| error.to_string())
}

/// A server that is written to while it is backed up.
struct Running<'a> {
    life: &'a mut Life,
    model: &'a mut Model,
    script: &'a mut Script,
}

impl BackupSource for Running<'_> {
    fn start(&mut self, label: &str, fast: bool) -> Result<Lsn, String> {
        self.life.session().start_backup(label, fast).map_err(told)
    }

    fn stop(&mut self, wait: bool) -> Result<Stopped, String> {
        for _ in 0..3 {
            self.life.commit_something(self.model, self.script);
        }
        let end = self.life.session().stop_backup(wait).map_err(told)?;
        Ok(Stopped { lsn: end.lsn, label: end.label })
    }

    fn is_archiving(&mut self) -> Result<bool, String> {
        Ok(true)
    }

    fn system_id(&mut self) -> Result<Option<u64>, String> {
        Ok(None)
    }
}

/// Something that is ended during each call (each `stride`-th), and right after the last one. `act`
/// tells whether it was acknowledged, and what rows there are; `check` looks at the disk that is
/// left.
fn cut_short(
    template: &SimDisk,
    (seed, stride): (u64, usize),
    bug: Option<PlantedBug>,
    act: impl Fn(&SimDisk, u64, Ending) -> (Result<(), String>, Model),
    check: impl Fn(&SimDisk, bool, &Model) -> Result<(), String>,
) -> Result<Tally, String> {
    let mut tally = Tally::one();
    for call in (seed % stride as u64..).step_by(stride) {
        let mut dice = Dice::new(seed ^ call << 20);
        let disk = template.copy(seed);
        bug.into_iter().for_each(|bug| disk.plant(bug));
        let (made, model) = act(&disk, call, Ending::random(&mut dice, 250));
        let over = !disk.is_off();
        let wrong =
            |reason: String| format!("the one that ended at call {call} ({made:?}): {reason}");
        if over && made.is_err() {
            return Err(wrong("it failed without a fault".to_owned()));
        }
        tally.add_fired(&disk);
        let left = disk.reborn(survival(&mut dice), seed);
        check(&left, made.is_ok(), &model).map_err(wrong)?;
        tally.compared += 1;
        if over {
            break;
        }
    }
    Ok(tally)
}

/// Backups of a running server, ended during each call (each `stride`-th), and right after the last
/// one.
///
/// # Errors
/// What a backup does not restore, with the call.
pub fn backups_cut_short(
    template: &SimDisk,
    seed: u64,
    stride: usize,
    bug: Option<PlantedBug>,
) -> Result<Tally, String> {
    let world = World::new(template, seed)?;
    let act = |disk: &SimDisk, call, ending| {
        let mut model = world.model.clone();
        (world.back_up(disk, (call, ending), &mut model), model)
    };
    let check = |left: &SimDisk, made, model: &Model| world.check(left, made, model);
    cut_short(&world.disk, (seed, stride), bug, act, check)
}

/// Restores of a backup, ended during each call (each `stride`-th), and right after the last one.
///
/// # Errors
/// A directory that looks complete and is not, with the call.
pub fn restores_cut_short(
    template: &SimDisk,
    seed: u64,
    stride: usize,
    bug: Option<PlantedBug>,
) -> Result<Tally, String> {
    let world = World::new(template, seed)?;
    let mut model = world.model.clone();
    world.back_up(&world.disk, (u64::MAX / 2, Ending::Crash), &mut model)?;
    let template = world.disk.copy(seed);
    let act = |disk: &SimDisk, call, ending| {
        disk.end_after(call, ending);
        (world.restore(disk), model.clone())
    };
    let check = |left: &SimDisk, made, model: &Model| {
        let control = left.bytes(&restored_dir(left).join(control::PATH));
        if control.is_some_and(|bytes| ControlFile::decode(&bytes).is_ok()) {
            return world.recover(left, model);
        }
        if made { Err("it has no pg_control".to_owned()) } else { Ok(()) }
    };
    cut_short(&template, (seed, stride), bug, act, check)
}
