//! What of the unsynced survives a crash.

use crate::dice::Dice;
use crate::faults::{FaultClass, Fired};
use crate::file::SECTOR;

/// How the fate of the unsynced is decided.
#[derive(Clone, Debug)]
enum Rule {
    /// The same for everything.
    Always(bool),
    /// Write by write, piece by piece, with this share of a thousand for each piece; a torn write
    /// tears at sectors or at pages.
    Random { dice: Dice, share: u32, unit: usize },
    /// Whole writes, in the order in which they were made: bit `n` for write `n`; those beyond are
    /// lost. Lengths follow the write before them.
    Chosen { bits: u64, next: u32, last: bool },
}

/// Decides, one after the other, which unsynced changes a crash leaves; and counts what it has
/// done.
#[derive(Clone, Debug)]
pub struct Survival {
    rule: Rule,
    /// Pieces of the present write: all, and kept.
    pieces: (u32, u32),
    done: Fired,
}

impl Survival {
    fn by(rule: Rule) -> Survival {
        Survival { rule, pieces: (0, 0), done: Fired::new() }
    }

    /// Nothing unsynced survives.
    pub fn none() -> Survival {
        Survival::by(Rule::Always(false))
    }

    /// Everything survives.
    pub fn all() -> Survival {
        Survival::by(Rule::Always(true))
    }

    /// Chance decides, and how likely survival is: a third of the seeds keep much, a third little,
    /// and a third half.
    pub fn random(seed: u64) -> Survival {
        let mut dice = Dice::new(seed ^ 0x5a5a_1234);
        let share = [100, 500, 900][dice.below(3) as usize];
        let unit = if dice.chance(500) { SECTOR } else { 8 * SECTOR };
        Survival::by(Rule::Random { dice, share, unit })
    }

    /// Write `n` of all that are unsynced survives whole if bit `n` is set.
    pub fn chosen(bits: u64) -> Survival {
        Survival::by(Rule::Chosen { bits, next: 0, last: false })
    }

    /// Writes tear between pages of 8 kB only.
    pub(crate) fn keep_pages_whole(&mut self) {
        if let Rule::Random { unit, .. } = &mut self.rule {
            *unit = 16 * SECTOR;
        }
    }

    /// What was lost, torn and kept.
    pub fn done(&self) -> &Fired {
        &self.done
    }

    fn count(&mut self, class: FaultClass, n: u64) {
        if n > 0 {
            *self.done.entry(class).or_default() += n;
        }
    }

    /// Goes on to the next write. In which units it is torn.
    pub(crate) fn begin_write(&mut self) -> usize {
        self.pieces = (0, 0);
        match &mut self.rule {
            Rule::Chosen { bits, next, last } => {
                *last = *next < u64::BITS && *bits >> *next & 1 == 1;
                *next += 1;
                usize::MAX
            }
            Rule::Always(_) => usize::MAX,
            Rule::Random { unit, .. } => *unit,
        }
    }

    fn decide(&mut self) -> bool {
        match &mut self.rule {
            Rule::Always(survives) => *survives,
            Rule::Random { dice, share, .. } => dice.chance(*share),
            Rule::Chosen { last, .. } => *last,
        }
    }

    /// Does the next piece of the write survive?
    pub(crate) fn piece(&mut self) -> bool {
        let survives = self.decide();
        self.pieces.0 += 1;
        self.pieces.1 += u32::from(survives);
        survives
    }

    /// The write is over. Whether any of it survived.
    pub(crate) fn end_write(&mut self, in_flight: bool) -> bool {
        let (all, kept) = self.pieces;
        match (kept, in_flight) {
            (0, true) => {}
            (0, false) => self.count(FaultClass::LostUnsynced, 1),
            (_, true) => self.count(FaultClass::InFlightKept, 1),
            (_, false) => {}
        }
        if kept > 0 && kept < all {
            self.count(FaultClass::TornWrite, 1);
        }
        kept > 0
    }

    /// Does a new length survive?
    pub(crate) fn length(&mut self) -> bool {
        let survives = self.decide();
        self.count(FaultClass::LostLength, u64::from(!survives));
        survives
    }

    /// How many of `n` changes of names in one directory survive: the first ones, since file
    /// systems log them in order.
    pub(crate) fn names(&mut self, n: usize) -> usize {
        let kept = match &mut self.rule {
            Rule::Always(true) => n,
            Rule::Always(false) => 0,
            Rule::Random { dice, .. } => dice.below(n as u64 + 1) as usize,
            Rule::Chosen { bits, .. } => {
                if *bits & 1 == 1 {
                    n
                } else {
                    0
                }
            }
        };
        self.count(FaultClass::LostName, (n - kept) as u64);
        kept
    }
}
