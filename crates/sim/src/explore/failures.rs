//! The i-th call fails, for every i, until a run ends without meeting the failure.

use forebay_testkit::Dice;

use super::Tally;
use super::random::{setup, survival, writes_whole_pages};
use crate::disk::SimDisk;
use crate::faults::Failure;
use crate::model::Model;
use crate::survival::Survival;
use crate::workload::{Life, Script, Setup};

/// A short workload from opening to a clean stop, in which one call fails as `failure` says: the
/// first, then the second, and so on (each `stride`-th). Nothing acknowledged may be lost, whether
/// the engine goes on or restarts.
///
/// # Errors
/// What contradicts the model, with the call that failed.
pub fn every_failure(
    template: &SimDisk,
    seed: u64,
    failure: Failure,
    steps: usize,
    stride: usize,
) -> Result<Tally, String> {
    let mut tally = Tally::one();
    for call in (seed % stride as u64..).step_by(stride) {
        let disk = template.copy(seed);
        let (mut model, mut script, mut dice) =
            (Model::default(), Script::new(seed), Dice::new(seed));
        let whole = writes_whole_pages(&disk, dice.chance(500));
        disk.fail_call(call, failure);
        let setup = setup(&mut dice, whole);
        let stopped = one_life(&disk, setup, &mut model, &mut script, steps, &mut tally);
        let over = disk.calls() <= call;
        let struck = disk.struck().unwrap_or_else(|| format!("nothing at {call}"));
        let wrong = |reason: String| format!("call {call} failed ({struck}): {reason}");
        stopped.map_err(wrong)?;
        tally.add_fired(&disk);
        // Half of the seeds lose the power, the others only the process.
        let left = if dice.chance(500) {
            disk.restart(survival(&mut dice), seed)
        } else {
            disk.after_kill(seed)
        };
        let mut life = Life::begin(&left, setup).map_err(|error| wrong(error.to_string()))?;
        let found = life.contents().map_err(wrong)?;
        model.settle(&found).map_err(|e| wrong(e.into()))?;
        life.end().map_err(|error| wrong(format!("the stop afterwards failed: {error}")))?;
        // Everything that a clean stop leaves is durable.
        let left = left.restart(Survival::none(), seed);
        let mut life = Life::begin(&left, setup).map_err(|error| wrong(error.to_string()))?;
        model.settle(&life.contents().map_err(wrong)?).map_err(|e| wrong(e.into()))?;
        tally.compared += 2;
        if over {
            break;
        }
    }
    Ok(tally)
}

/// A life in which a call fails. If the engine goes on, it must still have everything.
fn one_life(
    disk: &SimDisk,
    setup: Setup,
    model: &mut Model,
    script: &mut Script,
    steps: usize,
    tally: &mut Tally,
) -> Result<(), String> {
    let begun = Life::begin(disk, setup);
    let begun = match begun {
        Err(_) if disk.struck().is_some() => return Ok(()),
        begun => begun,
    };
    let mut life = begun.map_err(|error| format!("could not open: {error}"))?;
    life.work(disk, model, script, steps);
    if life.stopped().is_none() {
        // The failure may strike only now.
        let before = disk.struck();
        match life.contents() {
            // Rows seen before a crash need not be there after it.
            Ok(found) => {
                model.clone().settle(&found)?;
                tally.compared += 1;
            }
            Err(_) if before.is_none() && disk.struck().is_some() => {}
            Err(_) if life.stopped().is_some() => {}
            Err(error) => return Err(error),
        }
    }
    if life.stopped().is_some() {
        life.linger();
    }
    match life.end() {
        Err(error) if disk.struck().is_none() => Err(format!("the stop failed: {error}")),
        _ => Ok(()),
    }
}
