//! A table with indexes and long values that is looked after, with crashes at the calls.
//!
//! Autovacuum goes over all tables in which anything has changed, catalogs too; or VACUUM FULL
//! rewrites the table with its TOAST table and indexes. In half of the lives a transaction keeps an
//! old snapshot meanwhile, and must find its rows afterwards. Whatever is left, the rows are those
//! of the model, by each index too. The check finds nothing wrong with them, nor with the catalogs
//! that change.

use forebay_aio::PlantedBug;
use forebay_engine::{EngineError, VacuumOptions};
use forebay_testkit::Dice;

use super::Tally;
use super::at_rest::check_at_rest;
use super::cut_short::CutShort;
use super::random::with_or_without_images;
use crate::care::autovacuum;
use crate::disk::SimDisk;
use crate::rows::Committed;
use crate::rows::long::{self, OldReader, Orphans};
use crate::workload::{Life, Setup};

/// How often the table is looked after before the crash.
const ROUNDS: usize = 2;

/// How a table is looked after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Care {
    /// By a worker of autovacuum.
    Autovacuum,
    /// By VACUUM FULL.
    Rewrite,
}

/// A life of a seed on a copy of a disk that
/// [`indexed_long_values_disk`](crate::indexed_long_values_disk) made, crashed at every `stride`-th
/// call. Each time the unsynced changes are lost, kept, and torn.
///
/// # Errors
/// What contradicts the model, or what is damaged, with the number of the call and what survived.
pub fn care_cut_short(
    template: &SimDisk,
    care: Care,
    seed: u64,
    stride: usize,
    bug: Option<PlantedBug>,
) -> Result<Tally, String> {
    let template = template.copy(seed);
    let mut dice = Dice::new(seed);
    let setup = with_or_without_images(&template, &mut dice, 250);
    let life = Maintained { care, setup, snapshots: dice.chance(500) };
    let cut = CutShort { template: &template, setup, seed, stride, bug };
    cut.run(
        |mut begun, committed| life.work(&mut begun, committed, &mut Dice::new(seed)),
        |left, committed| life.go_on(left, committed),
    )
}

/// A life in which a table is looked after.
#[derive(Clone, Copy)]
struct Maintained {
    care: Care,
    setup: Setup,
    /// Whether a transaction keeps an older snapshot meanwhile.
    snapshots: bool,
}

impl Maintained {
    /// What is done before the crash.
    fn work(
        self,
        life: &mut Life,
        committed: &mut Committed,
        dice: &mut Dice,
    ) -> Result<(), String> {
        let told = |error: EngineError| error.to_string();
        for _ in 0..ROUNDS {
            for _ in 0..1 + dice.below(3) {
                long::change(life.session(), committed, dice).map_err(told)?;
            }
            let reader = match self.snapshots {
                true => Some(OldReader::begin(life, committed).map_err(told)?),
                false => None,
            };
            long::change(life.session(), committed, dice).map_err(told)?;
            if dice.chance(300) {
                life.session().checkpoint().map_err(told)?;
                committed.durable(committed.commits());
            }
            self.look_after(life, dice)?;
            reader.map_or(Ok(()), OldReader::end)?;
            long::compare(life.session(), committed, self.orphans())?;
        }
        long::change(life.session(), committed, dice).map_err(told)
    }

    fn look_after(self, life: &mut Life, dice: &mut Dice) -> Result<(), String> {
        if self.care == Care::Autovacuum {
            return autovacuum(life.engine(), true);
        }
        let table = long::table_of(life.session())?;
        let session = life.session();
        session.settings_mut().synchronous_commit = dice.chance(500);
        // Without that its TOAST table alone gets a new file.
        let options = VacuumOptions { process_main: dice.chance(800), ..VacuumOptions::default() };
        let rewritten = session.vacuum_full(&table, &options, &mut Vec::new());
        rewritten.map_err(|error| format!("vacuum: {error}"))
    }

    fn orphans(self) -> Orphans {
        match self.care {
            Care::Rewrite if self.snapshots => Orphans::Some,
            _ => Orphans::None,
        }
    }

    /// Compares what a crash has left, and goes on with it.
    fn go_on(self, disk: &SimDisk, committed: &Committed) -> Result<(), String> {
        let (mut committed, mut dice) = (committed.clone(), Dice::new(self.setup.order));
        let (told, orphans) = (|error: EngineError| error.to_string(), self.orphans());
        let mut life = Life::begin(disk, self.setup).map_err(told)?;
        committed.settle(&long::found(life.session(), orphans)?)?;
        life.end().map_err(told)?;
        check_at_rest(disk, long::TABLE, orphans)?;
        let mut go_on = || {
            let mut life = Life::begin(disk, self.setup).map_err(told)?;
            long::change(life.session(), &mut committed, &mut dice).map_err(told)?;
            self.look_after(&mut life, &mut dice)?;
            long::compare(life.session(), &committed, orphans)?;
            life.end().map_err(told)?;
            check_at_rest(disk, long::TABLE, orphans)
        };
        go_on().map_err(|what| format!("afterwards: {what}"))
    }
}
