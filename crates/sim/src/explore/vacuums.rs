//! Vacuums of a table, with crashes at their calls.
//!
//! Rows of a few pages change, and some of the commits do not wait for the log. Vacuums set bits of
//! the visibility map, freeze, and cut off the table's end. After each of them the pages of the
//! table and of its map are written, as if somebody needed their buffers: the log must be durable
//! as far as each of these pages needs it, and no less when a file is cut. Then the table is
//! rewritten into a new file, which nothing but the log makes durable.

use forebay_aio::PlantedBug;
use forebay_engine::{EngineError, Fork, ItemPointer, VacuumOptions};
use forebay_format::BLOCK_SIZE;
use forebay_format::control::{self, Outline};
use forebay_testkit::Dice;

use super::Tally;
use super::cut_short::CutShort;
use super::random::with_or_without_images;
use crate::disk::SimDisk;
use crate::rows::{Act, Committed, Writer, check_pages, keep, keep_writing};
use crate::workload::{Life, Setup, data_dir};

/// Rows at the beginning: on about five pages.
const ROWS: usize = 120;

/// A life of a seed on a copy of a disk that [`rows_disk`](crate::rows_disk) made, crashed at every
/// `stride`-th call. Each time the unsynced changes are lost, kept, and torn. Half of the seeds
/// have no checksums, so that hints leave a page its LSN. A fourth have no full-page images, on a
/// disk that writes pages whole.
///
/// # Errors
/// What contradicts the model, with the number of the call and what survived.
pub fn vacuums_cut_short(
    template: &SimDisk,
    seed: u64,
    stride: usize,
    bug: Option<PlantedBug>,
) -> Result<Tally, String> {
    let template = template.copy(seed);
    if seed.is_multiple_of(2) {
        disable_checksums(&template);
    }
    let mut dice = Dice::new(seed);
    let setup = with_or_without_images(&template, &mut dice, 250);
    let life = CutShort { template: &template, setup, seed, stride, bug };
    life.run(
        |life, committed| {
            keep_writing(life, committed, |writer| work(writer, &mut Dice::new(seed)))
        },
        |disk, committed| go_on(disk, setup, committed),
    )
}

/// Makes a cluster at rest one without checksums.
fn disable_checksums(disk: &SimDisk) {
    let path = data_dir(disk).join(control::PATH);
    let outline = Outline::decode(&disk.bytes(&path).expect("pg_control")).expect("pg_control");
    disk.rot(&path, 0, &outline.with_checksum_version(0, 0));
}

/// What becomes of a row on one of the blocks from `first` on, or before.
fn by_block(first: u32, before: Act, from: Act) -> impl Fn(ItemPointer) -> Act {
    move |place| if place.block < first { before } else { from }
}

/// What becomes of the row at a line pointer of the first block. The others stay.
fn at(offset: u16, act: Act) -> impl Fn(ItemPointer) -> Act {
    move |place| if place == ItemPointer::new(0, offset) { act } else { Act::Keep }
}

/// What is done before the crash.
fn work(writer: &mut Writer, dice: &mut Dice) -> Result<(), EngineError> {
    let bits = VacuumOptions { truncate: Some(false), ..VacuumOptions::default() };
    let cut = VacuumOptions { truncate: Some(true), freeze: dice.chance(500), ..bits };
    writer.change(true, (ROWS, &keep))?;
    // The page of a row is durable, the commit of its insertion is not.
    writer.change_across_a_checkpoint((1, &keep))?;
    vacuum(writer, bits, dice)?;
    writer.change(true, (0, &at(1, Act::Delete)))?;
    vacuum(writer, bits, dice)?;
    if dice.chance(500) {
        writer.checkpoint()?;
    }
    // The pages at the end become empty, and nobody waits for that to be durable.
    writer.change(true, (0, &by_block(1, Act::Keep, Act::Update)))?;
    writer.change(false, (0, &at(2, Act::Delete)))?;
    writer.change(false, (0, &by_block(2, Act::Keep, Act::Delete)))?;
    vacuum(writer, cut, dice)?;
    writer.change(dice.chance(500), (ROWS / 2, &by_block(1, Act::Update, Act::Keep)))?;
    vacuum(writer, VacuumOptions { freeze: true, ..cut }, dice)?;
    writer.change(true, (0, &by_block(1, Act::Delete, Act::Update)))?;
    writer.rewrite(dice.chance(500))?;
    writer.change(true, (5, &by_block(1, Act::Update, Act::Delete)))?;
    if dice.chance(500) {
        writer.evict(Fork::Main)?;
    }
    writer.rewrite(true)?;
    writer.change(true, (1, &at(1, Act::Update)))
}

/// A vacuum, after which the table's pages are written before those of its map, or after them.
fn vacuum(writer: &mut Writer, options: VacuumOptions, dice: &mut Dice) -> Result<(), EngineError> {
    writer.vacuum(options, dice.chance(500))?;
    let forks = [Fork::Main, Fork::Vm];
    let first = dice.index(2);
    writer.evict(forks[first])?;
    writer.evict(forks[1 - first])
}

/// Compares what a crash has left, and goes on with it.
fn go_on(disk: &SimDisk, setup: Setup, committed: &Committed) -> Result<(), String> {
    let life = Life::begin(disk, setup).map_err(|error| error.to_string())?;
    let mut writer = Writer::open(life, committed.clone())?;
    let (dir, rel) = (data_dir(disk), writer.table.locator);
    check_pages(disk, &dir, rel)?;
    writer.compare()?;
    let told = |error: EngineError| format!("afterwards: {error}");
    let options = VacuumOptions { truncate: Some(true), ..VacuumOptions::default() };
    writer.vacuum(options, true).map_err(told)?;
    writer.compare()?;
    writer.change(true, (3, &by_block(1, Act::Update, Act::Delete))).map_err(told)?;
    let all = VacuumOptions { freeze: true, disable_page_skipping: true, ..options };
    writer.vacuum(all, true).map_err(told)?;
    writer.compare()?;
    let with_rows = writer.blocks().map_err(told)?;
    writer.life.end().map_err(told)?;
    check_pages(disk, &dir, rel)?;
    let bytes = disk.bytes(&dir.join(rel.path(Fork::Main))).unwrap_or_default().len();
    if bytes != with_rows as usize * BLOCK_SIZE {
        return Err(format!("the table has {bytes} bytes, and rows on {with_rows} blocks"));
    }
    Ok(())
}
