//! Crashes: by chance, life after life, and at every call of a short workload.

use std::collections::BTreeMap;

use crate::dice::Dice;
use crate::disk::{Forgotten, SimDisk};
use crate::faults::{FaultClass, FaultRates};
use crate::model::Model;
use crate::survival::Survival;
use crate::workload::{Life, Script, Setup};

/// What a run came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Runs.
    pub runs: u64,
    /// Recoveries whose outcome was compared with the model.
    pub compared: u64,
    /// Faults by class.
    pub fired: BTreeMap<FaultClass, u64>,
}

impl Tally {
    fn add_fired(&mut self, disk: &SimDisk) {
        for (class, n) in disk.fired() {
            *self.fired.entry(class).or_default() += n;
        }
    }

    /// Adds another tally to this one.
    pub fn add(&mut self, other: &Tally) {
        self.runs += other.runs;
        self.compared += other.compared;
        for (class, n) in &other.fired {
            *self.fired.entry(*class).or_default() += n;
        }
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} runs, {} recoveries compared", self.runs, self.compared)?;
        self.fired.iter().try_for_each(|(class, n)| write!(f, ", {class} {n}"))
    }
}

/// One seed: three lives of an engine, each ended by a crash or a fault, each followed by a comparison; crashes during recovery
/// among them.
///
/// # Errors
/// What contradicts the model.
pub fn random_run(template: &SimDisk, seed: u64) -> Result<Tally, String> {
    run_forgetting(template, seed, None)
}

/// The same for a program that forgets some syncs: over enough seeds, one must fail.
///
/// # Errors
/// What contradicts the model, which is what one hopes for.
pub fn run_forgetting(template: &SimDisk, seed: u64, forgotten: Option<Forgotten>) -> Result<Tally, String> {
    let mut dice = Dice::new(seed);
    let mut disk = template.copy(dice.any());
    let (mut model, mut script) = (Model::default(), Script::new(dice.any()));
    let mut tally = Tally { runs: 1, ..Tally::default() };
    for _ in 0..3 {
        forgotten.into_iter().for_each(|what| disk.forget(what));
        let mut life = revive(&mut disk, &mut dice, &mut tally)?;
        let found = life.contents()?;
        model.settle(&found)?;
        tally.compared += 1;
        disk.crash_after(dice.below(600));
        disk.set_faults(rates(&mut dice));
        life.work(&disk, &mut model, &mut script, 1 + dice.below(60) as usize);
        drop(life);
        tally.add_fired(&disk);
        disk = disk.restart(survival(&mut dice), dice.any());
    }
    let mut life = revive(&mut disk, &mut dice, &mut tally)?;
    model.settle(&life.contents()?)?;
    tally.compared += 1;
    life.end().map_err(|error| format!("the last stop failed: {error}"))?;
    let mut life =
        Life::begin(&disk, Setup::random(&mut dice)).map_err(|e| format!("after a clean stop: {e}"))?;
    model.settle(&life.contents()?)?;
    tally.add_fired(&disk);
    Ok(tally)
}

/// Half of the lives have no faults but the crash.
fn rates(dice: &mut Dice) -> FaultRates {
    if dice.chance(500) {
        return FaultRates::default();
    }
    let mut rate = |most: u64| if dice.chance(400) { dice.below(most) as u32 } else { 0 };
    FaultRates {
        read_error: rate(20),
        write_error: rate(10),
        no_space: rate(40),
        short: rate(200),
        failed_sync: rate(20),
    }
}

fn survival(dice: &mut Dice) -> Survival {
    match dice.below(8) {
        0 => Survival::none(),
        1 => Survival::all(),
        _ => Survival::random(dice.any()),
    }
}

/// Opens the engine on a disk that has crashed, crashing up to three times more on the way.
fn revive(disk: &mut SimDisk, dice: &mut Dice, tally: &mut Tally) -> Result<Life, String> {
    for _ in 0..dice.below(4) {
        if dice.chance(600) {
            continue;
        }
        disk.crash_after(dice.below(60));
        let result = Life::begin(disk, Setup::random(dice));
        if let (Err(error), false) = (&result, disk.is_off()) {
            return Err(format!("recovery failed without a fault: {error}"));
        }
        drop(result);
        tally.add_fired(disk);
        *disk = disk.restart(survival(dice), dice.any());
    }
    Life::begin(disk, Setup::random(dice)).map_err(|error| format!("recovery failed: {error}"))
}

/// A short workload, crashed in the midst of each call that changes something, and after it; each time with the unsynced lost, kept,
/// torn in `ways` ways, and, where few writes are in doubt, with each subset of them.
///
/// # Errors
/// What contradicts the model, with the number of the call and what survived.
pub fn every_crash(template: &SimDisk, seed: u64, steps: usize, ways: u64) -> Result<Tally, String> {
    let mut tally = Tally { runs: 1, ..Tally::default() };
    for call in 0.. {
        let disk = template.copy(seed);
        let (mut model, mut script, mut dice) = (Model::default(), Script::new(seed), Dice::new(seed));
        disk.crash_after(call);
        let setup = Setup::random(&mut dice);
        match Life::begin(&disk, setup) {
            Ok(mut life) => life.work(&disk, &mut model, &mut script, steps),
            Err(error) if !disk.is_off() => return Err(format!("could not open: {error}")),
            Err(_) => {}
        }
        let over = !disk.is_off();
        tally.add_fired(&disk);
        let doubtful = disk.unsynced();
        let subsets = if doubtful <= 6 { 1 << doubtful } else { 0 };
        let mut fates =
            vec![("nothing".to_owned(), Survival::none()), ("everything".to_owned(), Survival::all())];
        fates.extend(
            (0..ways).map(|n| (format!("a random part ({n})"), Survival::random(seed ^ call ^ n << 32))),
        );
        fates.extend((1..subsets).map(|bits| (format!("writes {bits:#b}"), Survival::chosen(bits))));
        for (what, survival) in fates {
            let left = disk.restart(survival, seed);
            let wrong = |reason: String| format!("crash at call {call}, {what} survived: {reason}");
            let mut life = Life::begin(&left, setup).map_err(|error| wrong(error.to_string()))?;
            let found = life.contents().map_err(wrong)?;
            model.clone().settle(&found).map_err(wrong)?;
            tally.compared += 1;
        }
        if over {
            break;
        }
    }
    Ok(tally)
}
