//! Long values of a table, with crashes at the calls.

use forebay_aio::PlantedBug;
use forebay_engine::{Session, VacuumOptions};
use forebay_testkit::Dice;

use super::Tally;
use super::cut_short::CutShort;
use super::random::with_or_without_images;
use crate::disk::SimDisk;
use crate::rows::Committed;
use crate::rows::long::{self, Orphans};
use crate::workload::{Life, Setup};

/// Transactions of a life.
const TRANSACTIONS: usize = 10;

/// A life of a seed on a copy of a disk that [`long_values_disk`](crate::long_values_disk) made, crashed at every
/// `stride`-th call. Each time the unsynced changes are lost, kept, and torn.
///
/// # Errors
/// What contradicts the model, with the number of the call and what survived.
pub fn long_values_cut_short(
    template: &SimDisk,
    seed: u64,
    stride: usize,
    bug: Option<PlantedBug>,
) -> Result<Tally, String> {
    let template = template.copy(seed);
    let mut dice = Dice::new(seed);
    let setup = with_or_without_images(&template, &mut dice, 250);
    let cut = CutShort { template: &template, setup, seed, stride, bug };
    cut.run(
        |mut life, committed| work(&mut life, committed, &mut Dice::new(seed)),
        |left, committed| go_on(left, setup, committed),
    )
}

/// What is done before the crash.
fn work(life: &mut Life, committed: &mut Committed, dice: &mut Dice) -> Result<(), String> {
    for _ in 0..TRANSACTIONS {
        long::change(life.session(), committed, dice).map_err(|error| error.to_string())?;
        long::compare(life.session(), committed, Orphans::None)?;
        match dice.below(6) {
            0 => {
                life.session().checkpoint().map_err(|error| error.to_string())?;
                committed.durable(committed.commits());
            }
            1 => vacuum(life.session())?,
            _ => {}
        }
    }
    Ok(())
}

/// Compares what a crash has left, and goes on with it.
fn go_on(disk: &SimDisk, setup: Setup, committed: &Committed) -> Result<(), String> {
    let (mut committed, mut dice) = (committed.clone(), Dice::new(setup.order));
    let mut life = Life::begin(disk, setup).map_err(|error| error.to_string())?;
    committed.settle(&long::found(life.session(), Orphans::None)?)?;
    long::change(life.session(), &mut committed, &mut dice)
        .map_err(|error| format!("afterwards: {error}"))?;
    vacuum(life.session())?;
    long::compare(life.session(), &committed, Orphans::None)?;
    life.end().map_err(|error| format!("the stop failed: {error}"))
}

/// Vacuums the table and its TOAST table.
fn vacuum(session: &mut Session) -> Result<(), String> {
    let table = long::table_of(session)?;
    let options = VacuumOptions { truncate: Some(true), ..VacuumOptions::default() };
    let vacuumed = session.vacuum(&table, &options, &mut Vec::new());
    vacuumed.map_err(|error| format!("vacuum: {error}"))
}
