//! Lives in which rows change: three on one disk, each ended by a crash, a kill or a fault. After
//! each recovery the rows, and the pages that they are on, are compared with the model.

use forebay_aio::sync::Arc;
use forebay_engine::Table;
use forebay_testkit::Dice;

use super::Tally;
use super::random::{Flaw, rates, revive, setup, survival, writes_whole_pages};
use crate::disk::{Ending, SimDisk};
use crate::faults::FaultRates;
use crate::rows::{Committed, RowLife, check_indexes, check_pages, check_trees, found, table_of};
use crate::workload::{Life, data_dir};

/// Lives of a seed, each with a recovery after it.
pub const LIVES: u64 = 4;

/// One seed, on a copy of a disk that [`rows_disk`](crate::rows_disk) made.
///
/// # Errors
/// What contradicts the model.
pub fn row_lives(template: &SimDisk, seed: u64, flaw: Option<Flaw>) -> Result<Tally, String> {
    let mut dice = Dice::new(seed);
    let mut disk = template.copy(dice.any());
    flaw.into_iter().for_each(|flaw| flaw.apply(&disk));
    let whole = writes_whole_pages(&disk, dice.chance(150));
    let (mut committed, mut tally) = (Committed::default(), Tally::one());
    for _ in 0..LIVES {
        let mut life = revive(&mut disk, &mut dice, whole, &mut tally)?;
        let table = compare(&mut life, &disk, &mut committed, &mut tally)?;
        let (rates, calls) = (rates(&mut dice), dice.below(600));
        disk.end_after(calls, Ending::random(&mut dice, 300));
        disk.set_faults(rates);
        committed = work((life, table), &disk, committed, rates, &mut dice)?;
        tally.add_fired(&disk);
        disk = disk.reborn(survival(&mut dice), dice.any());
    }
    let mut life = revive(&mut disk, &mut dice, whole, &mut tally)?;
    compare(&mut life, &disk, &mut committed, &mut tally)?;
    life.end().map_err(|error| format!("the last stop failed: {error}"))?;
    let mut life = Life::begin(&disk, setup(&mut dice, whole))
        .map_err(|error| format!("after a clean stop: {error}"))?;
    compare(&mut life, &disk, &mut committed, &mut tally)?;
    tally.add_fired(&disk);
    Ok(tally)
}

/// Lets clients work until something ends the life. Returns what was committed.
fn work(
    life: (Life, Arc<Table>),
    disk: &SimDisk,
    committed: Committed,
    rates: FaultRates,
    dice: &mut Dice,
) -> Result<Committed, String> {
    let (faulty, before) = (rates != FaultRates::default(), committed.clone());
    let Ok(mut rows) = RowLife::begin(life, disk, committed, Dice::new(dice.any()), faulty) else {
        return Ok(before);
    };
    let steps = 20 + dice.below(400) as usize;
    rows.work(dice, steps)?;
    let (committed, life) = rows.end();
    if dice.chance(150) {
        // A stop may fail as well; then it was none.
        let _ = life.end();
    }
    Ok(committed)
}

/// Compares the pages on the disk, and the rows that a transaction sees, after recovery. Returns
/// the table.
fn compare(
    life: &mut Life,
    disk: &SimDisk,
    committed: &mut Committed,
    tally: &mut Tally,
) -> Result<Arc<Table>, String> {
    let table = table_of(life)?;
    check_pages(disk, &data_dir(disk), table.locator)?;
    check_trees(disk, &data_dir(disk), &table)?;
    let rows = found(life)?;
    committed.settle(&rows)?;
    check_indexes(life, &rows)?;
    tally.compared += 1;
    Ok(table)
}
