//! Recoveries that are interrupted, one after the other, until one is not.

use forebay_testkit::Dice;

use super::Tally;
use super::random::survival;
use crate::disk::{Ending, SimDisk};

/// How many recoveries in a row are interrupted.
const DEPTH: u32 = 3;

/// Tries to recover. The disk ends during `call` of the first attempt, and somewhere during the
/// next ones. Returns the disk on which an attempt was not interrupted, or that the last
/// interruption has left, and the calls of the interruptions.
///
/// # Errors
/// What an attempt complains of, with the interruptions before it.
pub(super) fn interrupted(
    mut left: SimDisk,
    (seed, call): (u64, u64),
    dice: &mut Dice,
    tally: &mut Tally,
    ending: impl Fn(&mut Dice) -> Ending,
    mut attempt: impl FnMut(&SimDisk, u64) -> Result<(), String>,
) -> Result<(SimDisk, Vec<u64>), String> {
    let mut at = Vec::new();
    for depth in 0..DEPTH {
        let call = if depth == 0 { call } else { dice.below(call + 20) };
        left.end_after(call, ending(dice));
        attempt(&left, dice.any()).map_err(|reason| {
            format!("recovery {depth}, ended at call {call}, after ends at {at:?}: {reason}")
        })?;
        if !left.is_off() {
            left.go_on();
            break;
        }
        at.push(call);
        tally.add_fired(&left);
        left = left.reborn(survival(dice), seed);
    }
    Ok((left, at))
}
