//! What of the unsynced survives a crash.

use crate::dice::Dice;
use crate::file::SECTOR;

/// How the fate of the unsynced is decided.
#[derive(Clone, Debug)]
enum Rule {
    /// The same for everything.
    Always(bool),
    /// Write by write, piece by piece, with this share of a thousand for each piece; a torn write tears at sectors or at pages.
    Random { dice: Dice, share: u32, unit: usize },
    /// Whole writes, in the order in which they were made: bit `n` for write `n`; those beyond are lost. Lengths follow the
    /// write before them.
    Chosen { bits: u64, next: u32, last: bool },
}

/// Decides, one after the other, which unsynced changes a crash leaves.
#[derive(Clone, Debug)]
pub struct Survival(Rule);

impl Survival {
    /// Nothing unsynced survives.
    pub fn none() -> Survival {
        Survival(Rule::Always(false))
    }

    /// Everything survives, as after the kill of a process.
    pub fn all() -> Survival {
        Survival(Rule::Always(true))
    }

    /// Chance decides, and how likely survival is: a third of the seeds keep much, a third little, and a third half.
    pub fn random(seed: u64) -> Survival {
        let mut dice = Dice::new(seed ^ 0x5a5a_1234);
        let share = [100, 500, 900][dice.below(3) as usize];
        let unit = if dice.chance(500) { SECTOR } else { 8 * SECTOR };
        Survival(Rule::Random { dice, share, unit })
    }

    /// Write `n` of all that are unsynced survives whole if bit `n` is set.
    pub fn chosen(bits: u64) -> Survival {
        Survival(Rule::Chosen { bits, next: 0, last: false })
    }

    /// Goes on to the next write. In which units it is torn.
    pub(crate) fn begin_write(&mut self) -> usize {
        match &mut self.0 {
            Rule::Chosen { bits, next, last } => {
                *last = *next < u64::BITS && *bits >> *next & 1 == 1;
                *next += 1;
                usize::MAX
            }
            Rule::Always(_) => usize::MAX,
            Rule::Random { unit, .. } => *unit,
        }
    }

    /// Does the next piece of the write survive?
    pub(crate) fn piece(&mut self) -> bool {
        match &mut self.0 {
            Rule::Always(survives) => *survives,
            Rule::Random { dice, share, .. } => dice.chance(*share),
            Rule::Chosen { last, .. } => *last,
        }
    }

    /// Does a new length survive?
    pub(crate) fn length(&mut self) -> bool {
        self.piece()
    }

    /// How many of `n` changes of names in one directory survive: the first ones, since file systems log them in order.
    pub(crate) fn names(&mut self, n: usize) -> usize {
        match &mut self.0 {
            Rule::Always(survives) => {
                if *survives {
                    n
                } else {
                    0
                }
            }
            Rule::Random { dice, .. } => dice.below(n as u64 + 1) as usize,
            Rule::Chosen { bits, .. } => {
                if *bits & 1 == 1 {
                    n
                } else {
                    0
                }
            }
        }
    }
}
