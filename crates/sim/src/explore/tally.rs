//! The outcome of runs.

use std::collections::BTreeMap;
use std::fmt;

use crate::disk::SimDisk;
use crate::faults::{FaultClass, Fired};

/// The outcome of runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// The number of runs.
    pub runs: u64,
    /// Recoveries whose result was compared with the model.
    pub compared: u64,
    /// Recoveries that reached an earlier target than those before.
    pub moved_back: u64,
    /// Faults by class.
    pub fired: Fired,
    /// Where the engine reported errors, if that was counted.
    pub detected: BTreeMap<Detection, u64>,
}

impl Tally {
    /// The outcome of one run so far.
    pub(crate) fn one() -> Tally {
        Tally { runs: 1, ..Tally::default() }
    }

    /// Adds the faults that a disk has made.
    pub(crate) fn add_fired(&mut self, disk: &SimDisk) {
        for (class, n) in disk.fired() {
            *self.fired.entry(class).or_default() += n;
        }
    }

    /// Adds another tally to this one.
    pub fn add(&mut self, other: &Tally) {
        self.runs += other.runs;
        self.compared += other.compared;
        self.moved_back += other.moved_back;
        for (class, n) in &other.fired {
            *self.fired.entry(*class).or_default() += n;
        }
        for (detection, n) in &other.detected {
            *self.detected.entry(*detection).or_default() += n;
        }
    }

    /// How often a class has fired.
    pub fn of(&self, class: FaultClass) -> u64 {
        self.fired.get(&class).copied().unwrap_or(0)
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} runs, {} recoveries compared", self.runs, self.compared)?;
        self.detected.iter().try_for_each(|(what, n)| write!(f, ", {what} {n}"))?;
        f.write_str("; faults:")?;
        self.fired.iter().try_for_each(|(class, n)| write!(f, " {class} {n},"))
    }
}

/// Where damage was noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Detection {
    /// Nothing was lost.
    Harmless,
    /// The engine refused to open, or recovery stopped.
    AtOpen,
    /// A statement or a checkpoint failed, or the engine stopped itself.
    AtWork,
    /// Recovery ended where the damage is, at an earlier state.
    Earlier,
    /// The engine stopped itself, and another table's page is in a page's place, which its content
    /// does not show.
    Strayed,
    /// Rows are missing, and nothing reported it.
    Unnoticed,
}

impl fmt::Display for Detection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Detection::Harmless => "harmless",
            Detection::AtOpen => "refused at start",
            Detection::AtWork => "noticed at work",
            Detection::Earlier => "an earlier state",
            Detection::Strayed => "noticed, in the place of another table's page",
            Detection::Unnoticed => "unnoticed",
        })
    }
}
