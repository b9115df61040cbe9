//! Damage that syncs do not prevent: changed bytes, lost writes, and misdirected writes, although
//! they were acknowledged and synced.
//!
//! The requirements differ. If a byte of the log's last page or of pg_control changes, the engine
//! must refuse, or recover a state that the database was once in. If pages of tables are damaged,
//! nothing may appear that nobody committed; how many losses are noticed, and where, is counted.

use std::collections::BTreeMap;
use std::path::PathBuf;

use forebay_testkit::Dice;

use super::random::survival;
use super::{Detection, Tally};
use crate::disk::SimDisk;
use crate::faults::FaultRates;
use crate::model::{Contradiction, Model};
use crate::workload::{Life, Script, Setup, data_dir};

/// How a disk lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// It loses writes to pages of tables.
    Lost,
    /// It makes writes to pages of tables elsewhere.
    Misdirected,
}

/// The content of a database: the ids in each table, sorted.
type Contents = BTreeMap<String, Vec<i64>>;

fn contents(life: &mut Life) -> Result<Contents, String> {
    let mut found = life.contents()?;
    found.values_mut().for_each(|ids| ids.sort_unstable());
    Ok(found)
}

/// A disk that was killed after some transactions, and the states of the database in order.
fn with_history(
    template: &SimDisk,
    seed: u64,
    steps: usize,
) -> Result<(SimDisk, Setup, Vec<Contents>), String> {
    let mut dice = Dice::new(seed);
    let disk = template.copy(seed);
    // Enough buffers that no page is written early: the pages' content comes from the log.
    let setup = Setup { buffers: 256, ..Setup::random(&mut dice) };
    let mut life = Life::begin(&disk, setup).map_err(|error| format!("could not open: {error}"))?;
    let (mut model, mut script) = (Model::default(), Script::new(seed));
    let mut states = vec![contents(&mut life)?];
    for _ in 0..steps {
        life.commit_something(&mut model, &mut script);
        states.push(contents(&mut life)?);
    }
    disk.cut_power();
    drop(life);
    Ok((disk.restart(crate::Survival::none(), seed), setup, states))
}

/// The file of the log that was written last, and where its last page with content begins.
fn last_page(disk: &SimDisk) -> Option<(PathBuf, usize)> {
    const PAGE: usize = 8192;
    disk.files_below(&data_dir(disk).join("pg_wal")).into_iter().rev().find_map(|path| {
        let bytes = disk.bytes(&path)?;
        let last = bytes.chunks(PAGE).rposition(|page| page.iter().any(|&byte| byte != 0))?;
        Some((path, last * PAGE))
    })
}

/// After some transactions and a crash, each byte of the log's last page (each `stride`-th) is
/// changed, one at a time. The engine must refuse to start or recover an earlier state; bytes
/// behind the end must lose nothing.
///
/// # Errors
/// Any other outcome, with the byte.
pub fn wal_rot(
    template: &SimDisk,
    seed: u64,
    steps: usize,
    stride: usize,
) -> Result<Tally, String> {
    let (disk, setup, states) = with_history(template, seed, steps)?;
    let (path, page) = last_page(&disk).ok_or("there is no log")?;
    let bytes = disk.bytes(&path).ok_or("there is no log")?;
    let page_bytes = &bytes[page..page + 8192];
    let end = page_bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    let last = states.last().ok_or("there is no state")?;
    let mut dice = Dice::new(seed ^ 0x77);
    let mut tally = Tally::one();
    for at in (0..page_bytes.len()).step_by(stride) {
        let changed =
            page_bytes[at] ^ [0x01, 0x80, 0xff, 1 + dice.below(255) as u8][dice.below(4) as usize];
        let rotten = disk.copy(seed);
        rotten.rot(&path, (page + at) as u64, &[changed]);
        let wrong = |what: String| {
            format!("byte {at} of the log's last page changed to {changed:#x}: {what}")
        };
        let detection = match Life::begin(&rotten, setup) {
            Err(_) => Detection::AtOpen,
            Ok(mut life) => {
                let found = contents(&mut life).map_err(wrong)?;
                let harmless = found == *last;
                // Alignment leaves up to seven zeros behind the last record.
                if !harmless && at >= end + 7 {
                    return Err(wrong("behind the end, and rows are lost".to_owned()));
                }
                if !states.contains(&found) {
                    return Err(wrong("the database was never in this state".to_owned()));
                }
                life.end().map_err(|error| wrong(format!("the stop failed: {error}")))?;
                if harmless { Detection::Harmless } else { Detection::Earlier }
            }
        };
        *tally.detected.entry(detection).or_default() += 1;
        tally.compared += 1;
        tally.add_fired(&rotten);
    }
    Ok(tally)
}

/// The bytes of pg_control that mean something: its fields and their checksum.
const CONTROL_FIELDS: usize = 296;

/// Each byte of pg_control (each `stride`-th) is changed, one at a time. The engine must refuse to
/// start and change nothing, unless the byte means nothing.
///
/// # Errors
/// Any other outcome, with the byte.
pub fn control_rot(template: &SimDisk, seed: u64, stride: usize) -> Result<Tally, String> {
    let (disk, setup, states) = with_history(template, seed, 3)?;
    let path = data_dir(&disk).join("global/pg_control");
    let bytes = disk.bytes(&path).ok_or("there is no pg_control")?;
    let mut dice = Dice::new(seed ^ 0x78);
    let mut tally = Tally::one();
    for at in (0..CONTROL_FIELDS).chain((CONTROL_FIELDS..bytes.len()).step_by(stride)) {
        let changed =
            bytes[at] ^ [0x01, 0x80, 0xff, 1 + dice.below(255) as u8][dice.below(4) as usize];
        let rotten = disk.copy(seed);
        rotten.rot(&path, at as u64, &[changed]);
        let wrong = |what: &str| format!("byte {at} of pg_control changed to {changed:#x}: {what}");
        let before = all_bytes(&rotten);
        let detection = match Life::begin(&rotten, setup) {
            Err(_) if at >= CONTROL_FIELDS => {
                return Err(wrong("refused, though it means nothing"));
            }
            Err(_) if all_bytes(&rotten) != before => {
                return Err(wrong("refused, and files were changed"));
            }
            Err(_) => Detection::AtOpen,
            Ok(_) if at < CONTROL_FIELDS => return Err(wrong("and it was taken as it is")),
            Ok(mut life) => {
                if contents(&mut life)? != *states.last().ok_or("there is no state")? {
                    return Err(wrong("and rows are lost"));
                }
                Detection::Harmless
            }
        };
        *tally.detected.entry(detection).or_default() += 1;
        tally.compared += 1;
        tally.add_fired(&rotten);
    }
    Ok(tally)
}

/// The bytes of all files except the lock file.
fn all_bytes(disk: &SimDisk) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let files = disk.files_below(disk.root()).into_iter();
    let files = files.filter(|path| !path.ends_with("postmaster.pid"));
    files.map(|path| (path.clone(), disk.bytes(&path))).collect()
}

/// A life on a disk that sometimes lies about writes to tables, ended by a crash or a stop, and
/// what the next life finds. Nothing may appear that nobody committed. With `verify`
/// (checkpoint_verify_writes) the disk lies about pg_xact and pg_control as well; if writes were
/// only lost, no row may be lost.
///
/// What appeared.
pub fn lying_writes(
    template: &SimDisk,
    seed: u64,
    damage: Damage,
    verify: bool,
) -> Result<Tally, String> {
    let mut tally = Tally::one();
    let mut dice = Dice::new(seed);
    let disk = template.copy(dice.any());
    let (mut model, mut script) = (Model::default(), Script::new(dice.any()));
    let setup = Setup { verify_writes: verify, ..Setup::random(&mut dice) };
    let mut life = Life::begin(&disk, setup).map_err(|error| format!("could not open: {error}"))?;
    life.work(&disk, &mut model, &mut script, 10 + dice.below(20) as usize);
    let share = 20 + dice.below(100) as u32;
    disk.set_faults(match damage {
        Damage::Lost => FaultRates {
            lost_write: share,
            lost_bookkeeping: if verify { share } else { 0 },
            ..FaultRates::default()
        },
        Damage::Misdirected => FaultRates { misdirected: share, ..FaultRates::default() },
    });
    life.work(&disk, &mut model, &mut script, 10 + dice.below(40) as usize);
    let stopped = life.stopped().is_some();
    disk.set_faults(FaultRates::default());
    let failed = if dice.chance(500) { life.end().is_err() } else { false };
    tally.add_fired(&disk);
    // The power fails, or the process ends and the system lives on with its cache.
    let left = if dice.chance(500) {
        disk.restart(survival(&mut dice), dice.any())
    } else {
        disk.after_kill(dice.any())
    };
    // The log still has what was not found on the disk.
    let is_healed = verify && damage == Damage::Lost;
    let detection = match Life::begin(&left, Setup::random(&mut dice)) {
        Err(error) if is_healed => return Err(format!("could not open: {error}")),
        Err(_) => Detection::AtOpen,
        Ok(mut life) => match life.contents() {
            Err(error) if is_healed => return Err(format!("could not be read: {error}")),
            Err(_) => Detection::AtWork,
            Ok(found) => match model.settle(&found) {
                Ok(()) if stopped || failed => Detection::AtWork,
                Ok(()) => Detection::Harmless,
                Err(Contradiction::Lost(what)) if is_healed => return Err(what),
                Err(Contradiction::Lost(_)) if stopped || failed => Detection::AtWork,
                Err(Contradiction::Lost(_)) => Detection::Unnoticed,
                // A page in the place of the same block of another table has a valid checksum. The
                // only sign is that the engine stopped, because the write was missing elsewhere.
                Err(Contradiction::Phantom(_))
                    if verify && stopped && damage == Damage::Misdirected =>
                {
                    Detection::Strayed
                }
                Err(Contradiction::Phantom(what)) => return Err(what),
            },
        },
    };
    *tally.detected.entry(detection).or_default() += 1;
    tally.compared += 1;
    Ok(tally)
}
