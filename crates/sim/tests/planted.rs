//! A battery is worth what it catches. Each of these bugs is planted in the engine, one at a time,
//! and the battery must notice: by lives by chance, or by the exhaustive part of it that is meant
//! for such bugs. Only in builds with the feature `planted-bugs`.

mod common;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use common::{setting, threads};
use forebay_sim::explore::Flaw;
use forebay_sim::explore::{
    Damage, Depth, archive_life, archive_recovery, archived_lives, backups_cut_short, every_crash,
    every_failure, lying_writes, recovery_again, recovery_moved_back, restores_cut_short, run_with,
    wal_rot,
};
use forebay_sim::workload::fresh_disk;
use forebay_sim::{Failure, SimDisk};

/// What of the battery is to catch a bug.
#[derive(Clone, Copy, Debug)]
enum By {
    /// Lives by chance.
    Lives,
    /// A crash at every call.
    Crashes,
    /// Crashes during recovery.
    Again,
    /// The i-th call fails.
    Failing(Failure),
    /// Rot in the last page of the log.
    Rot,
    /// Writes that go astray.
    Lies,
    /// Writes that are lost, and looked for.
    Verified,
    /// Lives of an archiver.
    Archive,
    /// Lives of an engine that archives.
    Archived,
    /// Recovery from an archive, cut short.
    Pitr,
    /// The same, begun again with an earlier target.
    Retarget,
    /// Base backups, cut short.
    Backups,
    /// Restores, cut short.
    Restores,
}

const BUGS: &[(&str, By)] = &[
    ("wal: a flush does not sync", By::Lives),
    ("wal: a failed sync is tried again", By::Failing(Failure::Error)),
    ("wal: segments are not opened O_DSYNC", By::Lives),
    ("wal: names of segments are not synced", By::Lives),
    ("wal: segments go before the checkpoint is past them", By::Lives),
    ("wal: images go by an old redo pointer", By::Lives),
    ("wal: pages are logged without images", By::Lives),
    ("reader: checksums of records are not looked at", By::Rot),
    ("commit: acknowledged before its record is durable", By::Lives),
    ("commit: files go before its record is durable", By::Lives),
    ("commit: an error of the log goes unheard", By::Failing(Failure::Error)),
    ("pg_xact: written without a sync", By::Lives),
    ("pg_xact: changed pages are not written", By::Lives),
    ("checkpoint: redo begins where it ended", By::Lives),
    ("checkpoint: shut down before it is", By::Lives),
    ("checkpoint: pages are not written", By::Lives),
    ("checkpoint: files are not synced", By::Lives),
    ("checkpoint: its record is not durable when pg_control tells of it", By::Lives),
    ("pg_control: written without a sync", By::Lives),
    ("redo: a page that is one record behind is taken for new", By::Lives),
    ("redo: pages are changed whatever their LSN", By::Lives),
    ("redo: a changed page keeps its old LSN", By::Again),
    ("redo: images are not restored", By::Lives),
    ("redo: ends of transactions are not noted", By::Crashes),
    ("recovery: files are not synced first", By::Lives),
    ("recovery: what the kernel has cached is trusted", By::Failing(Failure::Error)),
    ("recovery: transaction ids begin again at the checkpoint's", By::Lives),
    ("heap: a change goes without a record", By::Lives),
    ("pages: written before their log", By::Lives),
    ("pages: written without asking for a sync", By::Lives),
    ("pages: clean after a write that failed", By::Lives),
    ("pages: read as they are", By::Lies),
    ("readback: pages are taken to be there", By::Verified),
    ("readback: pages that are read are not compared", By::Verified),
    ("readback: pg_xact and pg_control are taken to be there", By::Verified),
    ("files: a sync that was asked for is forgotten", By::Lives),
    ("files: a failed sync goes unheard", By::Failing(Failure::Error)),
    ("files: directories are not synced", By::Lives),
    ("stop: all goes on after a failed sync", By::Failing(Failure::Error)),
    ("archive: a stored file is not synced", By::Archive),
    ("archive: an identical file is not synced", By::Archive),
    ("archive: an existing file is replaced", By::Archive),
    ("archive: names of stored files are not synced", By::Archive),
    ("archive: a new directory's parent is not synced", By::Archive),
    ("archive: a segment is acknowledged before it is stored", By::Archive),
    ("wal: segments go before the archive has them", By::Archived),
    ("recovery: restored segments are not synced", By::Pitr),
    ("recovery: a segment that is there is not restored again", By::Pitr),
    ("recovery: backup_label goes before pg_control has what it says", By::Pitr),
    ("recovery: recovery.signal goes before the new timeline has begun", By::Pitr),
    ("recovery: the name of a new timeline's history is not durable", By::Pitr),
    ("recovery: recovery.ending goes before the checkpoint", By::Pitr),
    ("recovery: files go before pg_control names the record", By::Retarget),
    ("recovery: pg_xact is written before pg_control names a point that far", By::Retarget),
    ("recovery: unlogged tables are emptied without a sync", By::Again),
    ("recovery: directories of emptied tables are not synced", By::Again),
    ("backup: files are not synced before the manifest tells of them", By::Backups),
    ("backup: names of files are not synced", By::Backups),
    ("backup: nobody waits for the WAL of its end", By::Backups),
    ("restore: pg_control does not come last", By::Restores),
    ("restore: files are not synced", By::Restores),
];

/// The first seeds look at few calls, so that what is easily caught is caught soon.
fn stride(seed: u64) -> usize {
    if seed < 4 { 17 } else { 1 }
}

/// The seed that notices a bug, and what it says.
fn catch(
    template: &SimDisk,
    bug: &'static str,
    by: By,
    most: u64,
) -> Result<(u64, String), String> {
    let rotten = template.copy(0);
    rotten.plant(bug);
    let once = |seed: u64| match by {
        By::Lives => run_with(template, seed, Some(Flaw::Bug(bug))),
        By::Crashes => every_crash(&rotten, seed, Depth { steps: 6, ways: 1, subsets_of: 4 }),
        By::Again => recovery_again(&rotten, seed, 30, 1),
        By::Failing(failure) => every_failure(&rotten, seed, failure, 6, 1),
        By::Rot => wal_rot(&rotten, seed, 40, 5),
        By::Lies => lying_writes(&rotten, seed, Damage::Misdirected, false),
        By::Verified => lying_writes(&rotten, seed, Damage::Lost, true),
        By::Archive => archive_life(seed, Some(bug)),
        By::Archived => archived_lives(template, seed, Some(bug)),
        By::Pitr => archive_recovery(template, seed, stride(seed), Some(bug)),
        By::Retarget => recovery_moved_back(template, seed, stride(seed), Some(bug)),
        By::Backups => backups_cut_short(template, seed, stride(seed), Some(bug)),
        By::Restores => restores_cut_short(template, seed, stride(seed), Some(bug)),
    };
    for seed in 1..=most {
        // An engine with a bug may also break an invariant of its own, and panic.
        let run = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| once(seed)));
        match run {
            Ok(Ok(_)) => {}
            Ok(Err(wrong)) => return Ok((seed, wrong)),
            Err(_) => return Ok((seed, "panicked".to_owned())),
        }
    }
    Err(format!("nobody noticed \"{bug}\" in {most} seeds ({by:?})"))
}

#[test]
fn every_planted_bug_is_caught() {
    let template = fresh_disk().expect("init");
    let only = std::env::var("FOREBAY_SIM_BUG").unwrap_or_default();
    let most = setting("FOREBAY_SIM_BUG_SEEDS", 1000);
    let bugs: Vec<&(&str, By)> = BUGS.iter().filter(|(bug, _)| bug.contains(&only)).collect();
    let (next, missed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..threads() {
            scope.spawn(|| {
                while let Some(&&(bug, by)) = bugs.get(next.fetch_add(1, Relaxed)) {
                    match catch(&template, bug, by, most) {
                        Ok((seed, wrong)) => {
                            println!("battery: \"{bug}\": {by:?}, seed {seed}: {wrong}")
                        }
                        Err(uncaught) => missed.lock().expect("no panic in between").push(uncaught),
                    }
                }
            });
        }
    });
    let missed = missed.into_inner().expect("all threads have ended");
    assert!(missed.is_empty(), "{missed:#?}");
    println!("battery: {} planted bugs, all caught", bugs.len());
}

/// A bug that no place of the program asks for would be caught by nothing, and its absence by
/// nobody.
#[test]
fn every_planted_bug_is_reached() {
    let template = fresh_disk().expect("init");
    // Those of archives have disks of their own; what is caught there has been reached.
    let elsewhere = |by: &By| {
        matches!(
            by,
            By::Archive | By::Archived | By::Pitr | By::Retarget | By::Backups | By::Restores
        )
    };
    for (bug, by) in BUGS.iter().filter(|(_, by)| !elsewhere(by)) {
        let rotten = template.copy(0);
        rotten.plant(bug);
        let mut seed = 0;
        while rotten.bug_reached() == 0 && seed < 100 {
            seed += 1;
            let run = || match by {
                By::Failing(failure) => every_failure(&rotten, seed, *failure, 6, 1).map(drop),
                By::Again => recovery_again(&rotten, seed, 30, 7).map(drop),
                By::Lies => lying_writes(&rotten, seed, Damage::Lost, false).map(drop),
                By::Verified => lying_writes(&rotten, seed, Damage::Lost, true).map(drop),
                _ => run_with(&rotten, seed, None).map(drop),
            };
            // Caught or not, it was there.
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
        }
        assert!(rotten.bug_reached() > 0, "no place asks for the bug \"{bug}\"");
    }
}
