//! Random lives: three on one disk, each ended by a crash, a kill or a fault, and each followed by
//! a comparison.

use forebay_aio::PlantedBug;
use forebay_testkit::Dice;

use super::Tally;
use crate::disk::{Ending, Forgotten, SimDisk};
use crate::faults::FaultRates;
use crate::model::Model;
use crate::survival::Survival;
use crate::workload::{Life, Script, Setup};

/// A defect of the program that the battery should notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// It forgets syncs.
    Forgets(Forgotten),
    /// It has a bug, planted by the feature `planted-bugs`.
    Bug(PlantedBug),
}

impl Flaw {
    pub(super) fn apply(self, disk: &SimDisk) {
        match self {
            Flaw::Forgets(what) => disk.forget(what),
            Flaw::Bug(bug) => disk.plant(bug),
        }
    }
}

/// One seed: three lives of an engine, each ended by a crash or a fault and followed by a
/// comparison, with crashes during recovery.
///
/// # Errors
/// What contradicts the model.
pub fn random_run(template: &SimDisk, seed: u64) -> Result<Tally, String> {
    run_with(template, seed, None)
}

/// The same for a program with a flaw. Over enough seeds, one must fail.
///
/// # Errors
/// What contradicts the model: the expected result.
pub fn run_with(template: &SimDisk, seed: u64, flaw: Option<Flaw>) -> Result<Tally, String> {
    let mut dice = Dice::new(seed);
    let mut disk = template.copy(dice.any());
    flaw.into_iter().for_each(|flaw| flaw.apply(&disk));
    let whole = writes_whole_pages(&disk, dice.chance(150));
    let (mut model, mut script) = (Model::default(), Script::new(dice.any()));
    let mut tally = Tally::one();
    for _ in 0..3 {
        let mut life = revive(&mut disk, &mut dice, whole, &mut tally)?;
        let found = life.contents()?;
        model.settle(&found)?;
        tally.compared += 1;
        disk.end_after(dice.below(600), Ending::random(&mut dice, 300));
        disk.set_faults(rates(&mut dice));
        life.work(&disk, &mut model, &mut script, 1 + dice.below(60) as usize);
        if dice.chance(150) {
            // A stop may fail as well; then it was none.
            let _ = life.end();
        } else {
            drop(life);
        }
        tally.add_fired(&disk);
        disk = disk.reborn(survival(&mut dice), dice.any());
    }
    let mut life = revive(&mut disk, &mut dice, whole, &mut tally)?;
    model.settle(&life.contents()?)?;
    tally.compared += 1;
    life.end().map_err(|error| format!("the last stop failed: {error}"))?;
    let mut life = Life::begin(&disk, setup(&mut dice, whole))
        .map_err(|e| format!("after a clean stop: {e}"))?;
    model.settle(&life.contents()?)?;
    tally.compared += 1;
    tally.add_fired(&disk);
    Ok(tally)
}

/// Faults of a life. Half of the lives have none but the crash.
pub(super) fn rates(dice: &mut Dice) -> FaultRates {
    if dice.chance(500) {
        return FaultRates::default();
    }
    let mut rate = |most: u64| if dice.chance(400) { dice.below(most) as u32 } else { 0 };
    FaultRates {
        read_error: rate(20),
        write_error: rate(10),
        no_space: rate(40),
        short: rate(200),
        interrupted: rate(100),
        failed_sync: rate(20),
        false_alarm: rate(20),
        name_error: rate(10),
        ..FaultRates::default()
    }
}

/// Whether this disk writes pages whole. If so, the log may omit full-page images.
pub(super) fn writes_whole_pages(disk: &SimDisk, whole: bool) -> bool {
    if whole {
        disk.write_whole_pages();
    }
    whole
}

pub(super) fn setup(dice: &mut Dice, whole: bool) -> Setup {
    Setup { full_page_writes: !whole, ..Setup::random(dice) }
}

/// A random setup. `of_1000` in 1,000 have no full-page images, on a disk that writes pages whole.
pub(super) fn with_or_without_images(disk: &SimDisk, dice: &mut Dice, of_1000: u32) -> Setup {
    let whole = writes_whole_pages(disk, dice.chance(of_1000));
    setup(dice, whole)
}

pub(super) fn survival(dice: &mut Dice) -> Survival {
    match dice.below(8) {
        0 => Survival::none(),
        1 => Survival::all(),
        _ => Survival::random(dice.any()),
    }
}

/// Opens the engine on a disk that has crashed, with up to three more crashes on the way.
pub(super) fn revive(
    disk: &mut SimDisk,
    dice: &mut Dice,
    whole: bool,
    tally: &mut Tally,
) -> Result<Life, String> {
    for _ in 0..dice.below(4) {
        if dice.chance(600) {
            continue;
        }
        disk.end_after(dice.below(150), Ending::random(dice, 300));
        let result = Life::begin(disk, setup(dice, whole));
        if let (Err(error), false) = (&result, disk.is_off()) {
            return Err(format!("recovery failed without a fault: {error}"));
        }
        drop(result);
        tally.add_fired(disk);
        *disk = disk.reborn(survival(dice), dice.any());
    }
    Life::begin(disk, setup(dice, whole)).map_err(|error| format!("recovery failed: {error}"))
}
