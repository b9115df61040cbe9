//! Crashes during recovery: at each of its calls, and during the next recoveries, three deep.
//! However often recovery is interrupted, it must produce the same rows and the same bytes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use forebay_format::checksum::page_checksum;
use forebay_format::page::stored_checksum;
use forebay_format::{BLOCK_SIZE, Page, PageBytes, PageMut, free_space_map};
use forebay_testkit::Dice;

use super::Tally;
use super::interrupted::interrupted;
use super::random::{setup, survival, writes_whole_pages};
use crate::disk::{Ending, SimDisk};
use crate::model::Model;
use crate::survival::Survival;
use crate::workload::{Life, Script, Setup, data_dir};

/// Files of an unlogged table of PostgreSQL's. Recovery must make the first equal to the last, and
/// remove the one between.
const UNLOGGED: [(&str, &[u8]); 3] = [
    ("base/5/90000", &[1; 9000]),
    ("base/5/90000_vm", &[2; 8192]),
    ("base/5/90000_init", &[3; 8192]),
];

/// A crash ends a workload. Recovery then crashes during each of its calls (each `stride`-th), and
/// so does the next recovery somewhere, and the one after it. The last recovery is compared with an
/// undisturbed one, by its rows and by the bytes of all files that the log determines (tables,
/// visibility maps, pg_xact, pg_multixact). Pages of free-space maps are checked one by one.
///
/// # Errors
/// What contradicts the model or differs, with the calls at which recovery crashed.
pub fn recovery_again(
    template: &SimDisk,
    seed: u64,
    steps: usize,
    stride: usize,
) -> Result<Tally, String> {
    let mut tally = Tally::one();
    let mut dice = Dice::new(seed);
    let disk = template.copy(seed);
    let whole = writes_whole_pages(&disk, dice.chance(500));
    let (mut model, mut script, setup) =
        (Model::default(), Script::new(seed), setup(&mut dice, whole));
    let mut life = Life::begin(&disk, setup).map_err(|error| format!("could not open: {error}"))?;
    UNLOGGED.iter().for_each(|(name, bytes)| disk.put(&data_dir(&disk).join(name), bytes));
    disk.crash_after(150 + dice.below(450));
    life.work(&disk, &mut model, &mut script, steps);
    drop(life);
    // Every recovery below begins with what this crash leaves.
    let crashed = disk.restart(survival(&mut dice), seed);
    tally.add_fired(&disk);
    let alone = crashed.copy(seed);
    model.settle(&recovered(&alone, setup)?)?;
    let expected = bytes(&alone);
    check_unlogged(&expected, &data_dir(&alone))?;
    check_free_space_maps(&expected, whole)?;
    for call in (seed % stride as u64..).step_by(stride) {
        let recover = |left: &SimDisk, order| match Life::begin(left, Setup { order, ..setup }) {
            Err(error) if !left.is_off() => Err(error.to_string()),
            _ => Ok(()),
        };
        let left = crashed.copy(seed);
        let (left, at) =
            interrupted(left, (seed, call), &mut dice, &mut tally, |_| Ending::Crash, recover)?;
        let wrong =
            |reason: String| format!("after recoveries that crashed at calls {at:?}: {reason}");
        model
            .clone()
            .settle(&recovered(&left, setup).map_err(wrong)?)
            .map_err(|e| wrong(e.into()))?;
        let found = bytes(&left);
        compare(&expected, &found).map_err(wrong)?;
        check_free_space_maps(&found, whole).map_err(wrong)?;
        tally.compared += 1;
        if at.is_empty() {
            break;
        }
    }
    Ok(tally)
}

/// Recovers and stops, so that everything is written.
fn recovered(disk: &SimDisk, setup: Setup) -> Result<BTreeMap<String, Vec<i64>>, String> {
    let mut life = Life::begin(disk, setup).map_err(|error| error.to_string())?;
    let found = life.contents()?;
    life.end().map_err(|error| format!("the stop failed: {error}"))?;
    Ok(found)
}

fn check_unlogged(files: &BTreeMap<PathBuf, Vec<u8>>, dir: &Path) -> Result<(), String> {
    let [main, map, init] = UNLOGGED.map(|(name, _)| files.get(&dir.join(name)));
    let init = init.ok_or("the init fork of an unlogged table is gone")?;
    match main == Some(init) && map.is_none() {
        true => Ok(()),
        false => Err("an unlogged table was not emptied".to_owned()),
    }
}

/// The bytes of the files that the log determines, as a power cut after the stop leaves them.
fn bytes(disk: &SimDisk) -> BTreeMap<PathBuf, Vec<u8>> {
    let disk = &disk.restart(Survival::none(), 0);
    let dir = data_dir(disk);
    let mut files = BTreeMap::new();
    for part in ["base", "global", "pg_xact", "pg_multixact"] {
        for path in disk.files_below(&dir.join(part)) {
            // It holds the time, and the log's position.
            if !path.ends_with("global/pg_control")
                && let Some(bytes) = disk.bytes(&path)
            {
                files.insert(path, bytes);
            }
        }
    }
    files
}

/// Free-space maps have no log: redo notes the space of the pages that it changes, and those are
/// fewer when a recovery before it has changed some.
fn is_free_space_map(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().ends_with(b"_fsm")
}

/// Checks that the inner nodes of each page of a free-space map fit its leaves. A page may be torn,
/// which its checksum shows, unless the disk writes pages whole.
fn check_free_space_maps(files: &BTreeMap<PathBuf, Vec<u8>>, whole: bool) -> Result<(), String> {
    for (path, bytes) in files.iter().filter(|(path, _)| is_free_space_map(path)) {
        let (pages, rest) = bytes.as_chunks::<BLOCK_SIZE>();
        if !rest.is_empty() {
            return Err(format!("{} ends within a page", path.display()));
        }
        for (block, page) in (0..).zip(pages) {
            check_free_space_page(page, block, whole)
                .map_err(|what| format!("page {block} of {} {what}", path.display()))?;
        }
    }
    Ok(())
}

fn check_free_space_page(bytes: &PageBytes, block: u32, whole: bool) -> Result<(), &'static str> {
    if Page::new(bytes).is_all_zeros() {
        return Ok(());
    }
    if page_checksum(bytes, block) != stored_checksum(bytes) {
        return if whole { Err("has a wrong checksum") } else { Ok(()) };
    }
    match free_space_map::rebuild(&mut PageMut(&mut bytes.clone())) {
        true => Err("has an inner node that does not fit its leaves"),
        false => Ok(()),
    }
}

fn compare(
    expected: &BTreeMap<PathBuf, Vec<u8>>,
    found: &BTreeMap<PathBuf, Vec<u8>>,
) -> Result<(), String> {
    for (path, bytes) in expected.iter().filter(|(path, _)| !is_free_space_map(path)) {
        let Some(other) = found.get(path) else {
            return Err(format!("{} is missing", path.display()));
        };
        if bytes.len() != other.len() {
            return Err(format!(
                "{} has {} bytes instead of {}",
                path.display(),
                other.len(),
                bytes.len()
            ));
        }
        if let Some(at) = bytes.iter().zip(other).position(|(a, b)| a != b) {
            return Err(format!("{} differs at byte {at}", path.display()));
        }
    }
    // A dropped table's file may come back with its directory: that is only lost space.
    let is_table = |path: &PathBuf| path.parent().is_some_and(|dir| dir.ends_with("base/5"));
    match found.keys().find(|path| !expected.contains_key(*path) && !is_table(path)) {
        Some(path) => Err(format!("{} is left over", path.display())),
        None => Ok(()),
    }
}
