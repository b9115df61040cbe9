//! Recovery from an archive whose target moves back. Recovery stops at a restore point, perhaps
//! after crashes on the way, and begins again with an earlier target. The first attempts must leave
//! no trace: either the earlier target is refused, or everything is as it was there.

use std::collections::BTreeMap;

use forebay_aio::PlantedBug;
use forebay_engine::{EngineError, Lsn, RecoveryTarget, TargetAction};
use forebay_testkit::Dice;

use super::Tally;
use super::interrupted::interrupted;
use super::pitr::{Start, archive_all, begin, recovering, restored_dir, told};
use crate::disk::{Ending, SimDisk};
use crate::workload::{Life, Setup, data_dir};

/// The later target.
const LATE: &str = "late";
/// PostgreSQL's message for a target that is too early.
const REFUSED: &str = "requested recovery stop point is before consistent recovery point";

/// The main fork of an unlogged table of PostgreSQL's, which no backup has, and the fork it is made
/// from.
const UNLOGGED: [&str; 2] = ["base/5/90000", "base/5/90000_init"];

type Contents = BTreeMap<String, Vec<i64>>;

/// A cold backup, and the rows at two places of the log behind it.
struct Past {
    disk: SimDisk,
    setup: Setup,
    /// A position between two records.
    early_at: Lsn,
    early: Contents,
    late: Contents,
}

impl Past {
    /// Behind the earlier target a table is dropped. In every other case, a transaction that was
    /// running at the target commits before that, and a checkpoint is made at which recovery can
    /// make a restart point.
    fn new(template: &SimDisk, seed: u64) -> Result<Past, String> {
        let Start { disk, mut dice, mut model, mut script, setup } = Start::new(template, seed);
        let (data, restored) = (data_dir(&disk), restored_dir(&disk));
        let begin = || begin(&disk, setup);
        let mut life = begin()?;
        life.work(&disk, &mut model, &mut script, 8);
        // The log that is replayed must not create the dropped table again.
        for name in ["t_gone", "t_kept"] {
            life.make(&mut model, name.to_owned());
            life.put(&mut model, name, script.ids(), true);
        }
        life.end().map_err(told)?;
        disk.copy_tree(&data, &restored, |path| !path.starts_with("pg_wal/archive_status"));
        disk.put(&restored.join("recovery.signal"), b"");
        disk.put(&restored.join(UNLOGGED[1]), &[1; 8192]);
        let mut life = begin()?;
        life.begin_long(&mut model, "t_kept", script.ids()).map_err(told)?;
        // A later id is in use, so the running transaction's id is not cleared as unused.
        life.put(&mut model, "t_kept", script.ids(), true);
        let early_at = life.session().wal_insert_lsn();
        let early = life.contents()?;
        if dice.chance(500) {
            life.commit_long(&mut model);
            for _ in 0..3 {
                life.put(&mut model, "t_kept", script.ids(), true);
                life.session().switch_wal().map_err(told)?;
            }
            life.session().checkpoint().map_err(told)?;
        }
        life.put(&mut model, "t_kept", script.ids(), true);
        life.remove(&mut model, "t_gone");
        life.session().create_restore_point(LATE).map_err(told)?;
        let late = life.contents()?;
        life.put(&mut model, "t_kept", script.ids(), true);
        archive_all(&disk, &data, &mut life)?;
        life.end().map_err(told)?;
        Ok(Past { disk: disk.copy(seed), setup, early_at, early, late })
    }

    /// Recovers to the later target or the earlier one.
    fn begin(
        &self,
        disk: &SimDisk,
        late: bool,
        action: TargetAction,
        order: u64,
    ) -> Result<Life, EngineError> {
        let target = if late {
            RecoveryTarget::Name(LATE.to_owned())
        } else {
            RecoveryTarget::Lsn(self.early_at)
        };
        let change = recovering(disk, Some(target));
        Life::begin_in(disk, Setup { order, ..self.setup }, &restored_dir(disk), |config| {
            change(config);
            (config.restore.action, config.restore.inclusive) = (action, late);
        })
    }

    /// Recovers to the later target and stops there, as far as the disk allows.
    fn stop_late(&self, disk: &SimDisk, order: u64) -> Result<(), String> {
        match self.begin(disk, true, TargetAction::Shutdown, order) {
            Err(EngineError::StoppedAtTarget { .. }) => Ok(()),
            Err(_) if disk.is_off() => Ok(()),
            Err(error) => Err(told(error)),
            Ok(_) => Err("it did not stop at its target".to_owned()),
        }
    }

    /// Begins again with the earlier target, and returns whether it could be reached. If not, the
    /// later one must be.
    fn move_back(&self, disk: &SimDisk, dice: &mut Dice) -> Result<bool, String> {
        let (mut life, expected, is_early) =
            match self.begin(disk, false, TargetAction::Promote, dice.any()) {
                Ok(life) => (life, &self.early, true),
                Err(error) if error.to_string() == REFUSED => {
                    let life = self.begin(disk, true, TargetAction::Promote, dice.any());
                    (life.map_err(|error| format!("the later target: {error}"))?, &self.late, false)
                }
                Err(error) => return Err(format!("the earlier target: {error}")),
            };
        let [main, init] = UNLOGGED.map(|name| disk.bytes(&restored_dir(disk).join(name)));
        if main.is_none() || main != init {
            return Err("an unlogged table was not emptied".to_owned());
        }
        let name = if is_early { "earlier" } else { "later" };
        let found = life.contents().map_err(|error| format!("at the {name} target: {error}"))?;
        match found == *expected {
            true => Ok(is_early),
            false => Err(format!(
                "it is not what there was at the {name} target: {found:?}, not {expected:?}"
            )),
        }
    }
}

/// Recovery to a target at which it stops, crashed during each call (each `stride`-th), then in the
/// next attempts somewhere, and begun again with an earlier target.
///
/// # Errors
/// What contradicts the rows at the target, or a wrong refusal, with the calls of the crashes.
pub fn recovery_moved_back(
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
        let ending = |dice: &mut Dice| Ending::random(dice, 250);
        let stop = |left: &SimDisk, order| past.stop_late(left, order);
        let (left, at) = interrupted(left, (seed, call), &mut dice, &mut tally, ending, stop)?;
        let moved = past.move_back(&left, &mut dice);
        tally.moved_back +=
            u64::from(moved.map_err(|reason| format!("after crashes at calls {at:?}: {reason}"))?);
        tally.compared += 1;
        if at.is_empty() {
            break;
        }
    }
    Ok(tally)
}
