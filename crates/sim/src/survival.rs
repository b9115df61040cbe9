//! Which unsynced changes survive a crash.

use forebay_testkit::Dice;

use crate::faults::{FaultClass, Fired};

/// The unit that a medium writes whole or not at all.
pub const SECTOR: usize = 512;

/// How survival is decided.
#[derive(Clone, Debug)]
enum Rule {
    /// All changes or none.
    Always(bool),
    /// Each piece of a write survives with a probability of `share` in a thousand. A torn write
    /// tears at sectors or at pages.
    Random { dice: Dice, share: u32, unit: usize },
    /// Whole writes in their order: bit `n` for write `n`; writes beyond are lost. A length shares
    /// the fate of the write before it.
    Chosen { bits: u64, next: u32, last: bool },
}

/// Decides which unsynced changes a crash leaves, one after the other, and counts its decisions.
#[derive(Clone, Debug)]
pub struct Survival {
    rule: Rule,
    /// The pieces of the current write: all, and kept.
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

    /// Random. A third of the seeds keep much, a third little, and a third half.
    pub fn random(seed: u64) -> Survival {
        let mut dice = Dice::new(seed ^ 0x5a5a_1234);
        let share = [100, 500, 900][dice.below(3) as usize];
        let unit = if dice.chance(500) { SECTOR } else { 8 * SECTOR };
        Survival::by(Rule::Random { dice, share, unit })
    }

    /// Write `n` of all unsynced ones survives whole if bit `n` is set.
    pub fn chosen(bits: u64) -> Survival {
        Survival::by(Rule::Chosen { bits, next: 0, last: false })
    }

    /// Writes tear only between pages of 8 kB.
    pub(crate) fn keep_pages_whole(&mut self) {
        if let Rule::Random { unit, .. } = &mut self.rule {
            *unit = 16 * SECTOR;
        }
    }

    /// The numbers of lost, torn and kept changes.
    pub fn done(&self) -> &Fired {
        &self.done
    }

    fn count(&mut self, class: FaultClass, n: u64) {
        if n > 0 {
            *self.done.entry(class).or_default() += n;
        }
    }

    /// Begins the next write, and returns the unit at which it tears.
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

    /// Whether the next piece of the write survives.
    pub(crate) fn piece(&mut self) -> bool {
        let survives = self.decide();
        self.pieces.0 += 1;
        self.pieces.1 += u32::from(survives);
        survives
    }

    /// Ends a write. Returns whether any of it survived.
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

    /// Whether a new length survives.
    pub(crate) fn length(&mut self) -> bool {
        let survives = self.decide();
        self.count(FaultClass::LostLength, u64::from(!survives));
        survives
    }

    /// How many of `n` changes of names in one directory survive. File systems log names in order,
    /// so these are the first ones.
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
