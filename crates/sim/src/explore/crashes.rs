//! A crash at every call of a short workload, with every subset of the writes in doubt.

use std::collections::HashSet;

use forebay_testkit::Dice;

use super::Tally;
use crate::disk::SimDisk;
use crate::model::Model;
use crate::survival::Survival;
use crate::workload::{Life, Script, Setup};

/// How thoroughly a crash is explored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Depth {
    /// The number of things that the workload does.
    pub steps: usize,
    /// The number of random ways to tear writes.
    pub ways: u64,
    /// With at most so many writes in doubt, every subset of them survives once.
    pub subsets_of: usize,
}

/// A short workload, crashed during each call that changes something and after it. Each time the
/// unsynced changes are lost, kept, and torn in some ways; if few writes are in doubt, each subset
/// of them survives once. An outcome that was seen before with the same knowledge is not tried
/// again.
///
/// # Errors
/// What contradicts the model, with the number of the call and what survived.
pub fn every_crash(template: &SimDisk, seed: u64, depth: Depth) -> Result<Tally, String> {
    let mut tally = Tally::one();
    let mut seen = HashSet::new();
    for call in 0.. {
        let disk = template.copy(seed);
        let (mut model, mut script, mut dice) =
            (Model::default(), Script::new(seed), Dice::new(seed));
        disk.crash_after(call);
        let setup = Setup::random(&mut dice);
        match Life::begin(&disk, setup) {
            Ok(mut life) => life.work(&disk, &mut model, &mut script, depth.steps),
            Err(error) if !disk.is_off() => return Err(format!("could not open: {error}")),
            Err(_) => {}
        }
        let over = !disk.is_off();
        disk.cut_power();
        tally.add_fired(&disk);
        for (what, survival) in fates(&disk, depth, seed ^ call << 8, model.noted(), &mut seen) {
            let left = disk.restart(survival, seed);
            let wrong = |reason: String| format!("crash at call {call}, {what} survived: {reason}");
            let mut life = Life::begin(&left, setup).map_err(|error| wrong(error.to_string()))?;
            let found = life.contents().map_err(wrong)?;
            model.clone().settle(&found).map_err(|e| wrong(e.into()))?;
            tally.compared += 1;
            tally.add_fired(&left);
        }
        if over {
            break;
        }
    }
    Ok(tally)
}

type Seen = HashSet<(u64, (u64, usize, bool, Vec<u64>))>;

/// The ways in which changes in doubt may survive.
fn fates(
    disk: &SimDisk,
    depth: Depth,
    seed: u64,
    noted: u64,
    seen: &mut Seen,
) -> Vec<(String, Survival)> {
    let doubtful = disk.doubtful();
    let mut fates = Vec::new();
    if doubtful <= depth.subsets_of {
        let doubt = disk.doubt();
        for bits in 0..1_u64 << doubtful {
            if seen.insert((noted, doubt.of_outcome(bits))) {
                fates.push((format!("writes {bits:#b} of {doubtful}"), Survival::chosen(bits)));
            }
        }
    } else {
        fates.push(("nothing".to_owned(), Survival::none()));
        fates.push(("everything".to_owned(), Survival::all()));
    }
    fates.extend(
        (0..depth.ways).map(|n| (format!("a random part ({n})"), Survival::random(seed + n))),
    );
    fates
}
