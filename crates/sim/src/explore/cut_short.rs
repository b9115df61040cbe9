//! A life on copies of a disk, crashed at its calls: what `old_ids`, `trees` and `vacuums` have in
//! common.

use forebay_aio::PlantedBug;

use super::Tally;
use crate::disk::SimDisk;
use crate::survival::Survival;
use crate::workload::{Life, Setup};

/// A life that is crashed.
pub(super) struct CutShort<'a> {
    /// What it begins with.
    pub(super) template: &'a SimDisk,
    pub(super) setup: Setup,
    pub(super) seed: u64,
    /// It is crashed during every so many-th call.
    pub(super) stride: usize,
    pub(super) bug: Option<PlantedBug>,
}

impl CutShort<'_> {
    /// Runs `work`, which notes in a model what was acknowledged, and crashes it. Each time the
    /// unsynced changes are lost, kept, and torn, and `look` compares what is left with the model.
    ///
    /// # Errors
    /// What fails without a crash, or what `look` complains of, with the number of the call and
    /// what survived.
    pub(super) fn run<M: Default>(
        &self,
        work: impl Fn(Life, &mut M) -> Result<(), String>,
        look: impl Fn(&SimDisk, &M) -> Result<(), String>,
    ) -> Result<Tally, String> {
        let (seed, mut tally) = (self.seed, Tally::one());
        for call in (seed % self.stride as u64..).step_by(self.stride) {
            let disk = self.template.copy(seed);
            self.bug.into_iter().for_each(|bug| disk.plant(bug));
            disk.crash_after(call);
            let mut model = M::default();
            let worked = Life::begin(&disk, self.setup)
                .map_err(|error| format!("could not open: {error}"))
                .and_then(|life| work(life, &mut model));
            let over = !disk.is_off();
            if let (Err(error), true) = (worked, over) {
                return Err(format!("without a crash: {error}"));
            }
            disk.cut_power();
            tally.add_fired(&disk);
            for survival in [Survival::none(), Survival::all(), Survival::random(seed ^ call)] {
                let what = format!("crash at call {call}, survival {survival:?}");
                let left = disk.restart(survival, seed);
                look(&left, &model).map_err(|reason| format!("{what}: {reason}"))?;
                tally.compared += 1;
            }
            if over {
                break;
            }
        }
        Ok(tally)
    }
}
