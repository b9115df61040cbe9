//! Lives of an engine that archives its log, ended by crashes and kills. The log must release
//! nothing that the archive does not hold durably. At the end all rows are recovered from the
//! archive and a cold copy of the beginning.

use std::collections::BTreeMap;
use std::path::Path;

use forebay_aio::PlantedBug;
use forebay_format::SegmentSize;
use forebay_format::wal::PageHeader;
use forebay_testkit::Dice;

use super::Tally;
use super::pitr::{archive_all, archive_dir, archiving, recovering, restored_dir, told, waiting};
use super::random::{setup, survival};
use crate::disk::{Ending, SimDisk};
use crate::model::Model;
use crate::workload::{Life, Script, Setup, data_dir};

const LIVES: u32 = 3;

/// One seed: several lives, each compared, and a recovery from their archive.
///
/// # Errors
/// What contradicts the model, or is missing in the archive.
pub fn archived_lives(
    template: &SimDisk,
    seed: u64,
    bug: Option<PlantedBug>,
) -> Result<Tally, String> {
    let mut disk = template.copy(seed);
    bug.into_iter().for_each(|bug| disk.plant(bug));
    disk.put_directory(&archive_dir(&disk));
    disk.copy_tree(&data_dir(&disk), &restored_dir(&disk), |path| {
        path != Path::new("postmaster.pid")
    });
    disk.put(&restored_dir(&disk).join("recovery.signal"), b"");
    let (mut dice, mut model, mut script) = (Dice::new(seed), Model::default(), Script::new(seed));
    let mut tally = Tally::one();
    for n in 0..LIVES {
        let setup = setup(&mut dice, false);
        let wrong = |reason: String| format!("life {n}: {reason}");
        let begun = Life::begin_in(&disk, setup, &data_dir(&disk), archiving(&disk));
        let mut life = begun.map_err(|error| wrong(told(error)))?;
        let found = life.contents().map_err(wrong)?;
        model.settle(&found).map_err(|e| wrong(e.into()))?;
        tally.compared += 1;
        let ending = Ending::random(&mut dice, 400);
        if dice.chance(400) {
            // Between the marks that say .done and their sync.
            disk.end_before_sync_of("archive_status", 1 + dice.below(6), Ending::Kill);
        } else {
            disk.end_after(100 + dice.below(600), ending);
        }
        for _ in 0..3 + dice.below(6) {
            life.work(&disk, &mut model, &mut script, 2 + dice.below(10) as usize);
            // The model finds out what failed.
            let _ = life.session().switch_wal();
            if dice.chance(600) {
                let _ = life.engine().step();
            }
            if dice.chance(600) {
                let _ = life.session().checkpoint();
            }
        }
        drop(life);
        tally.add_fired(&disk);
        disk = disk.reborn(survival(&mut dice), dice.any());
        check_marks(&disk).map_err(wrong)?;
    }
    let setup = setup(&mut dice, false);
    let mut life =
        Life::begin_in(&disk, setup, &data_dir(&disk), archiving(&disk)).map_err(told)?;
    let found = life.contents()?;
    model.settle(&found).map_err(String::from)?;
    archive_all(&disk, &data_dir(&disk), &mut life)?;
    life.end().map_err(told)?;
    tally.compared += 1;
    compare(&disk, &found, setup)?;
    Ok(tally)
}

/// Recovers the cold copy from the archive.
fn compare(
    disk: &SimDisk,
    expected: &BTreeMap<String, Vec<i64>>,
    setup: Setup,
) -> Result<(), String> {
    let wrong = |reason: String| format!("recovered from the archive: {reason}");
    let begun = Life::begin_in(disk, setup, &restored_dir(disk), recovering(disk, None));
    let mut life = begun.map_err(|error| wrong(told(error)))?;
    let found = life.contents().map_err(wrong)?;
    Model::of(expected).settle(&found).map_err(|e| wrong(e.into()))?;
    life.end().map_err(|error| wrong(told(error)))
}

/// Checks the files that are marked as to be archived: each is there, and its content is what its
/// name says.
fn check_marks(disk: &SimDisk) -> Result<(), String> {
    let size = SegmentSize::new(1 << 20).ok_or("a size")?;
    for name in waiting(disk, &data_dir(disk)) {
        let Some((_, number)) = size.parse_file_name(&name) else { continue };
        let Some(bytes) = disk.bytes(&data_dir(disk).join("pg_wal").join(&name)) else {
            return Err(format!("{name} is to be archived, and gone"));
        };
        let begins = PageHeader::decode(&bytes).map(|header| header.page_addr).ok();
        if begins != Some(size.start(number)) {
            return Err(format!(
                "{name} is to be archived, and has become another one: {begins:?}"
            ));
        }
    }
    Ok(())
}
