//! Trees that split, lose pages and use them again, with crashes at their calls.
//!
//! Rows with long texts make the tree of an index on them four levels high. Most rows are deleted,
//! and vacuums remove their items, the leaves that become empty, and the pages above that lead to
//! nothing else. Later rows use these pages and the places of the old rows again. Meanwhile a scan
//! stays open: it must return the rows of its snapshot.

use forebay_aio::PlantedBug;
use forebay_engine::{EngineError, IndexCleanup, ItemPointer, VacuumOptions};
use forebay_testkit::Dice;

use super::Tally;
use super::cut_short::CutShort;
use super::random::with_or_without_images;
use crate::disk::SimDisk;
use crate::rows::{
    Act, Committed, OpenScan, Writer, check_indexes, check_pages, check_trees, found, keep,
    keep_writing,
};
use crate::workload::{Life, Setup, data_dir};

/// Rows at the beginning: on about twenty pages.
const ROWS: usize = 120;

/// A life of a seed on a copy of a disk that [`indexed_rows_disk`](crate::indexed_rows_disk) made
/// with an index on the third column, crashed at every `stride`-th call. Each time the unsynced
/// changes are lost, kept, and torn. A fourth of the seeds have no full-page images, on a disk that
/// writes pages whole.
///
/// # Errors
/// What contradicts the model, with the number of the call and what survived.
pub fn trees_cut_short(
    template: &SimDisk,
    seed: u64,
    stride: usize,
    bug: Option<PlantedBug>,
) -> Result<Tally, String> {
    let mut dice = Dice::new(seed);
    let template = template.copy(seed);
    let setup = with_or_without_images(&template, &mut dice, 250);
    let life = CutShort { template: &template, setup, seed, stride, bug };
    life.run(
        |life, committed| {
            let mut wrong = Ok(());
            let dice = &mut Dice::new(seed);
            keep_writing(life, committed, |writer| work(writer, dice, &mut wrong))?;
            wrong
        },
        |disk, committed| go_on(disk, setup, committed, seed),
    )
}

/// Deletes most of the rows, by their places.
fn most(dice: &mut Dice) -> impl Fn(ItemPointer) -> Act + use<> {
    let (kept, of) = (dice.below(9), 8 + dice.below(3));
    move |place| match u64::from(place.block) % of {
        block if block == kept => Act::Keep,
        _ => Act::Delete,
    }
}

/// Updates the rows of some blocks.
fn some(dice: &mut Dice) -> impl Fn(ItemPointer) -> Act + use<> {
    let changed = dice.below(3);
    move |place| if u64::from(place.block) % 3 == changed { Act::Update } else { Act::Keep }
}

/// A vacuum of all indexes.
fn vacuum(writer: &mut Writer, cut: bool, dice: &mut Dice) -> Result<(), EngineError> {
    let options = VacuumOptions {
        truncate: Some(cut),
        index_cleanup: Some(IndexCleanup::On),
        ..VacuumOptions::default()
    };
    writer.vacuum(options, dice.chance(500))
}

/// What is done before the crash. `wrong`: what a scan has returned that it should not have.
fn work(
    writer: &mut Writer,
    dice: &mut Dice,
    wrong: &mut Result<(), String>,
) -> Result<(), EngineError> {
    writer.change(dice.chance(500), (ROWS, &keep))?;
    if dice.chance(300) {
        writer.checkpoint()?;
    }
    writer.change(dice.chance(500), (0, &most(dice)))?;
    let scan = OpenScan::begin(writer)?;
    vacuum(writer, false, dice)?;
    writer.change(dice.chance(500), (ROWS / 2, &keep))?;
    *wrong = scan.end()?;
    if dice.chance(500) {
        writer.checkpoint()?;
    }
    // Enters the deleted pages in the free-space map.
    vacuum(writer, dice.chance(500), dice)?;
    writer.change(dice.chance(500), (ROWS / 2, &some(dice)))?;
    writer.change(dice.chance(500), (0, &most(dice)))?;
    vacuum(writer, true, dice)?;
    writer.change(true, (ROWS / 3, &keep))
}

/// Compares what a crash has left, and goes on with it.
fn go_on(disk: &SimDisk, setup: Setup, committed: &Committed, seed: u64) -> Result<(), String> {
    let life = Life::begin(disk, setup).map_err(|error| error.to_string())?;
    let mut writer = Writer::open(life, committed.clone())?;
    let dir = data_dir(disk);
    check_pages(disk, &dir, writer.table.locator)?;
    check_trees(disk, &dir, &writer.table)?;
    writer.compare()?;
    let rows = found(&mut writer.life)?;
    check_indexes(&mut writer.life, &rows)?;
    let afterwards = |reason: String| format!("afterwards: {reason}");
    let told = |error: EngineError| afterwards(error.to_string());
    let dice = &mut Dice::new(seed);
    writer.change(true, (ROWS / 6, &some(dice))).map_err(told)?;
    vacuum(&mut writer, true, dice).map_err(told)?;
    writer.compare().map_err(afterwards)?;
    let rows = found(&mut writer.life)?;
    check_indexes(&mut writer.life, &rows).map_err(afterwards)?;
    let table = writer.table;
    writer.life.end().map_err(told)?;
    check_pages(disk, &dir, table.locator).map_err(afterwards)?;
    check_trees(disk, &dir, &table).map_err(afterwards)
}
