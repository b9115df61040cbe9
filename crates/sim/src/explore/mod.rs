//! What the battery runs: lives by chance, and each fault at each place of short workloads.
//!
//! - `random`: lives of an engine, ended by crashes, kills and faults
//! - `crashes`: a crash at every call, with every subset of what was in doubt
//! - `again`: crashes during recovery, and what recoveries that were cut short come to
//! - `failures`: the i-th call fails
//! - `damage`: bytes that rot, writes that are lost or go astray
//! - `archive`: lives of an archiver
//! - `archived`: lives of an engine that archives its log
//! - `pitr`: recovery from an archive
//! - `retarget`: recovery from an archive whose target moves back
//! - `backups`: base backups and restores, cut short
//! - `many`: many seeds, by several threads

mod again;
mod archive;
mod archived;
mod backups;
mod crashes;
mod damage;
mod failures;
mod many;
mod pitr;
mod random;
mod retarget;

pub use again::recovery_again;
pub use archive::{archive_life, every_archive_crash};
pub use archived::archived_lives;
pub use backups::{backups_cut_short, restores_cut_short};
pub use crashes::{Depth, every_crash};
pub use damage::{Damage, Detection, control_rot, lying_writes, wal_rot};
pub use failures::every_failure;
pub use many::{Failed, many};
pub use pitr::archive_recovery;
pub use random::{Flaw, random_run, run_with};
pub use retarget::recovery_moved_back;

use std::collections::BTreeMap;

use crate::disk::SimDisk;
use crate::faults::{FaultClass, Fired};

/// What a run came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Runs.
    pub runs: u64,
    /// Recoveries whose outcome was compared with the model.
    pub compared: u64,
    /// Recoveries that came to an earlier target than those before.
    pub moved_back: u64,
    /// Faults by class.
    pub fired: Fired,
    /// Where errors of the engine's came up, if that was counted.
    pub detected: BTreeMap<Detection, u64>,
}

impl Tally {
    fn one() -> Tally {
        Tally { runs: 1, ..Tally::default() }
    }

    fn add_fired(&mut self, disk: &SimDisk) {
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

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} runs, {} recoveries compared", self.runs, self.compared)?;
        self.detected.iter().try_for_each(|(what, n)| write!(f, ", {what} {n}"))?;
        f.write_str("; faults:")?;
        self.fired.iter().try_for_each(|(class, n)| write!(f, " {class} {n},"))
    }
}
