//! Shows that the battery notices bugs. Each bug is planted in the engine, one at a time, and the
//! battery must notice it: by random lives, or by the exhaustive part that is meant for such bugs.
//! Only in builds with the feature `planted-bugs`.

mod common;

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{LazyLock, Mutex};
use std::time::Instant;

use common::{setting, threads};
use forebay_aio::PlantedBug;
use forebay_sim::explore::Flaw;
use forebay_sim::explore::{
    Damage, Depth, archive_life, archive_recovery, archived_lives, backups_cut_short,
    databases_cut_short, databases_disk, ddl_cut_short, ddl_disk, ddl_recovery_cut_short,
    every_crash, every_failure, long_values_cut_short, lying_writes, old_ids_disks,
    old_ids_removed, recovery_again, recovery_moved_back, restores_cut_short, row_lives, run_with,
    sequences_cut_short, sequences_disk, trees_cut_short, vacuums_cut_short, wal_rot,
};
use forebay_sim::workload::fresh_disk;
use forebay_sim::{Failure, SimDisk, indexed_rows_disk, long_values_disk, rows_disk};

/// The part of the battery that must catch a bug.
#[derive(Clone, Copy, Debug)]
enum By {
    /// Random lives.
    Lives,
    /// Lives in which rows change.
    Rows,
    /// The same, of a table with indexes.
    IndexedRows,
    /// A crash at every call.
    Crashes,
    /// Crashes during recovery.
    Again,
    /// The i-th call fails.
    Failing(Failure),
    /// Damage to the last page of the log.
    Rot,
    /// Misdirected writes.
    Lies,
    /// Lost writes, with verification.
    Verified,
    /// Lives of an archiver.
    Archive,
    /// Lives of an engine that archives.
    Archived,
    /// Interrupted recovery from an archive.
    Pitr,
    /// The same, begun again with an earlier target.
    Retarget,
    /// Interrupted base backups.
    Backups,
    /// Interrupted restores.
    Restores,
    /// Crashes while old ids are removed.
    OldIds,
    /// Crashes while a table is vacuumed.
    Vacuums,
    /// Crashes while trees change.
    Trees,
    /// Crashes while databases are made and dropped.
    Databases,
    /// Crashes within DDL.
    Ddl,
    /// Crashes in the recovery after such a crash.
    DdlAgain,
    /// Crashes while values are stored out of line.
    LongValues,
    /// Crashes while sequences hand out values.
    Sequences,
}

/// The part that catches each bug: random lives, unless another is named here.
fn caught_by(bug: PlantedBug) -> By {
    if let Some(by) = caught_by_archives(bug) {
        return by;
    }
    match bug {
        PlantedBug::RowLockNotWritten
        | PlantedBug::UpdateOldPageNotLogged
        | PlantedBug::PruneNotLogged
        | PlantedBug::PruneIgnoresSnapshots
        | PlantedBug::MultiXactNotLogged
        | PlantedBug::RedoForgetsHotUpdates
        | PlantedBug::RedoForgetsSubtransactions
        | PlantedBug::VisibilityMapNotLogged
        | PlantedBug::DeletionKeepsAllVisible
        | PlantedBug::RedoKeepsVisibilityMap => By::Rows,
        PlantedBug::HotUpdateIgnoresIndexes | PlantedBug::IndexChangeNotLogged => By::IndexedRows,
        PlantedBug::WalFailedSyncRetried
        | PlantedBug::CommitIgnoresWalError
        | PlantedBug::RecoveryTrustsKernelCache
        | PlantedBug::SyncFailureIgnored
        | PlantedBug::StopIgnored => By::Failing(Failure::Error),
        PlantedBug::ReaderIgnoresChecksums => By::Rot,
        PlantedBug::RedoKeepsOldPageLsn
        | PlantedBug::RecoveryEmptiedTablesNotSynced
        | PlantedBug::RecoveryEmptiedDirectoriesNotSynced => By::Again,
        PlantedBug::RedoIgnoresTransactionEnds => By::Crashes,
        PlantedBug::PagesNotVerified => By::Lies,
        PlantedBug::ReadBackSkipsPages
        | PlantedBug::ReadBackSkipsComparison
        | PlantedBug::ReadBackSkipsClogAndControl => By::Verified,
        PlantedBug::ClogTruncatedBeforeLogged | PlantedBug::MultiXactsTruncatedBeforeLogged => {
            By::OldIds
        }
        PlantedBug::VisibilityMapWithoutLsn
        | PlantedBug::PageMarkedBeforeCommits
        | PlantedBug::TableCutBeforeLogged
        | PlantedBug::RewriteNotLogged => By::Vacuums,
        PlantedBug::SplitNeighbourNotLogged
        | PlantedBug::RedoKeepsIncompleteSplits
        | PlantedBug::PostingSplitNotLogged
        | PlantedBug::DeduplicationLoggedShort
        | PlantedBug::IndexVacuumForgetsLists
        | PlantedBug::BranchForgotten
        | PlantedBug::RedoForgetsLeftSibling
        | PlantedBug::DeletedPageWithoutSafeXid => By::Trees,
        PlantedBug::CopiedPagesNotLogged
        | PlantedBug::RelationMapNotSynced
        | PlantedBug::DatabaseDirectoryNotSynced
        | PlantedBug::DatabaseCopyNotSynced => By::Databases,
        PlantedBug::ToastChunksNotLogged | PlantedBug::ToastDeletionSkipped => By::LongValues,
        PlantedBug::SequenceIgnoresRedoPointer | PlantedBug::SequenceValueNotDurable => {
            By::Sequences
        }
        _ => ddl_bug(bug).unwrap_or(By::Lives),
    }
}

/// The part that catches a bug of files that come and go with DDL.
fn ddl_bug(bug: PlantedBug) -> Option<By> {
    match bug {
        PlantedBug::FileCreationNotLogged
        | PlantedBug::InitForkNotLogged
        | PlantedBug::InitPageNotLogged
        | PlantedBug::MovedPagesNotLogged
        | PlantedBug::CommitForgetsDroppedFiles
        | PlantedBug::DroppedNamesNotSynced
        | PlantedBug::OrphansStay
        | PlantedBug::OrphansIgnoreDeadRows
        | PlantedBug::RecoveryIgnoresNewOids => Some(By::Ddl),
        PlantedBug::OrphansRemovedUnlogged => Some(By::DdlAgain),
        _ => None,
    }
}

/// The same of archives, backups, and recoveries from them.
fn caught_by_archives(bug: PlantedBug) -> Option<By> {
    match bug {
        PlantedBug::ArchiveFileNotSynced
        | PlantedBug::ArchiveIdenticalFileNotSynced
        | PlantedBug::ArchiveReplacesFile
        | PlantedBug::ArchiveNamesNotSynced
        | PlantedBug::ArchiveParentNotSynced
        | PlantedBug::ArchiveAcknowledgesEarly => Some(By::Archive),
        PlantedBug::WalSegmentsRemovedBeforeArchived => Some(By::Archived),
        PlantedBug::RecoveryRestoredSegmentNotSynced
        | PlantedBug::RecoveryKeepsExistingSegment
        | PlantedBug::RecoveryRemovesLabelEarly
        | PlantedBug::RecoveryRemovesSignalEarly
        | PlantedBug::RecoveryHistoryNameNotSynced
        | PlantedBug::RecoveryRemovesEndingEarly => Some(By::Pitr),
        PlantedBug::RecoveryRemovesFilesEarly | PlantedBug::RecoveryWritesClogEarly => {
            Some(By::Retarget)
        }
        PlantedBug::BackupFilesNotSynced
        | PlantedBug::BackupNamesNotSynced
        | PlantedBug::BackupDoesNotWaitForWal => Some(By::Backups),
        PlantedBug::RestoreControlNotLast | PlantedBug::RestoreFilesNotSynced => Some(By::Restores),
        _ => None,
    }
}

/// The seed from which a bug is looked for: 1, or where the seeds before would take long, one that
/// notices it. Should that one notice it no more, the search goes on from there.
fn first_seed(bug: PlantedBug) -> u64 {
    match bug {
        PlantedBug::SyncFailureIgnored | PlantedBug::StopIgnored => 2,
        PlantedBug::WalFailedSyncRetried | PlantedBug::DroppedNamesNotSynced => 3,
        PlantedBug::FileCreationNotLogged
        | PlantedBug::PageMarkedBeforeCommits
        | PlantedBug::RecoveryRemovesLabelEarly => 4,
        PlantedBug::SequenceValueNotDurable | PlantedBug::MultiXactsTruncatedBeforeLogged => 5,
        PlantedBug::PostingSplitNotLogged | PlantedBug::CommitForgetsDroppedFiles => 7,
        PlantedBug::DeletedPageWithoutSafeXid
        | PlantedBug::InitForkNotLogged
        | PlantedBug::InitPageNotLogged
        | PlantedBug::MovedPagesNotLogged => 9,
        PlantedBug::RecoveryTrustsKernelCache => 20,
        PlantedBug::OrphansIgnoreDeadRows => 23,
        PlantedBug::PagesWrittenBeforeWal => 55,
        PlantedBug::PagesCleanAfterFailedWrite => 94,
        PlantedBug::ReadBackSkipsClogAndControl => 652,
        PlantedBug::PagesNotVerified => 656,
        _ => 1,
    }
}

/// The first seeds try few calls, so bugs that are easily caught are caught soon.
fn stride(seed: u64) -> usize {
    if seed < 4 { 17 } else { 1 }
}

/// The disks from which runs begin.
struct Templates {
    /// For all that have none of their own.
    fresh: SimDisk,
    rows: SimDisk,
    indexed: SimDisk,
    trees: SimDisk,
    long_values: SimDisk,
    databases: SimDisk,
    ddl: SimDisk,
    sequences: SimDisk,
    old_ids: [SimDisk; 2],
}

/// Made once, as that takes a while.
static TEMPLATES: LazyLock<Templates> = LazyLock::new(Templates::new);

impl Templates {
    fn new() -> Templates {
        let indexed = indexed_rows_disk(&[2]).expect("init");
        let trees = indexed_rows_disk(&[3]).expect("init");
        let (fresh, rows) = (fresh_disk().expect("init"), rows_disk().expect("init"));
        let (long_values, old_ids) = (long_values_disk(), old_ids_disks());
        let (long_values, old_ids) = (long_values.expect("init"), old_ids.expect("init"));
        let databases = databases_disk().expect("init");
        let (sequences, ddl) = (sequences_disk().expect("init"), ddl_disk().expect("init"));
        Templates { fresh, rows, indexed, trees, long_values, databases, ddl, sequences, old_ids }
    }

    fn of(&self, by: By) -> &SimDisk {
        match by {
            By::Rows | By::Vacuums => &self.rows,
            By::IndexedRows => &self.indexed,
            By::Trees => &self.trees,
            By::LongValues => &self.long_values,
            By::Databases => &self.databases,
            By::Ddl | By::DdlAgain => &self.ddl,
            By::Sequences => &self.sequences,
            _ => &self.fresh,
        }
    }
}

/// The seed that notices a bug, and what it says.
fn catch(
    templates: &Templates,
    bug: PlantedBug,
    by: By,
    most: u64,
) -> Result<(u64, String), String> {
    let template = templates.of(by);
    let rotten = template.copy(0);
    rotten.plant(bug);
    let once = |seed: u64| match by {
        By::Lives => run_with(template, seed, Some(Flaw::Bug(bug))),
        By::Rows | By::IndexedRows => row_lives(template, seed, Some(Flaw::Bug(bug))),
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
        By::OldIds => old_ids_removed(&templates.old_ids, seed, stride(seed), Some(bug)),
        By::Vacuums => vacuums_cut_short(template, seed, 1, Some(bug)),
        By::Trees => trees_cut_short(template, seed, 97, Some(bug)),
        By::LongValues => long_values_cut_short(template, seed, stride(seed), Some(bug)),
        By::Databases => databases_cut_short(template, seed, 97, Some(bug)),
        By::Ddl => ddl_cut_short(template, seed, 31, Some(bug)),
        By::DdlAgain => ddl_recovery_cut_short(template, seed, 3, Some(bug)),
        By::Sequences => sequences_cut_short(template, seed, stride(seed), Some(bug)),
    };
    let first = first_seed(bug);
    for seed in first..first + most {
        // An engine with a bug may also break one of its invariants and panic.
        let run = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| once(seed)));
        match run {
            Ok(Ok(_)) => {}
            Ok(Err(wrong)) => return Ok((seed, wrong)),
            Err(_) => return Ok((seed, "panicked".to_owned())),
        }
    }
    Err(format!("nobody noticed {bug:?} in {most} seeds from {first} ({by:?})"))
}

/// A test for the bugs that some parts catch, for each of these. They are several, because a
/// program that prints nothing for long is taken for one that hangs.
macro_rules! parts {
    ($($test:ident: $parts:pat,)+) => {
        $(#[test]
        fn $test() {
            all_are_caught(|by| matches!(by, $parts));
        })+

        /// A part without a test does not compile.
        const _: fn(By) = |by| match by {
            $($parts => {})+
        };
    };
}

parts! {
    planted_bugs_that_lives_catch: By::Lives,
    planted_bugs_in_rows: By::Rows | By::IndexedRows,
    planted_bugs_of_crashes_and_recoveries: By::Crashes | By::Again,
    planted_bugs_of_failing_calls: By::Failing(_),
    planted_bugs_of_rot_and_lies: By::Rot | By::Lies | By::Verified,
    planted_bugs_of_archivers: By::Archive | By::Archived,
    planted_bugs_of_recoveries_from_archives: By::Pitr | By::Retarget,
    planted_bugs_of_backups: By::Backups | By::Restores,
    planted_bugs_of_vacuums: By::OldIds | By::Vacuums,
    planted_bugs_in_trees: By::Trees,
    planted_bugs_of_ddl: By::Databases | By::Ddl | By::DdlAgain,
    planted_bugs_in_values: By::LongValues | By::Sequences,
}

fn all_are_caught(is_of: impl Fn(By) -> bool) {
    let only = std::env::var("FOREBAY_SIM_BUG").unwrap_or_default();
    let most = setting("FOREBAY_SIM_BUG_SEEDS", 1000);
    let chosen = |bug: &PlantedBug| is_of(caught_by(*bug)) && format!("{bug:?}").contains(&only);
    let bugs: Vec<PlantedBug> = PlantedBug::ALL.iter().copied().filter(chosen).collect();
    assert!(!bugs.is_empty() || !only.is_empty(), "no bug is planted for this");
    let (next, missed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..threads() {
            scope.spawn(|| {
                while let Some(&bug) = bugs.get(next.fetch_add(1, Relaxed)) {
                    let (by, begun) = (caught_by(bug), Instant::now());
                    match catch(&TEMPLATES, bug, by, most) {
                        Ok((seed, wrong)) => {
                            let took = begun.elapsed().as_secs();
                            println!("battery: {bug:?}: {by:?}, seed {seed}, {took} s: {wrong}")
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

/// A bug that no place of the program asks for could not be caught.
#[test]
fn every_planted_bug_is_reached() {
    // These have disks of their own; what is caught there has been reached.
    let elsewhere = |by: &By| {
        matches!(
            by,
            By::Archive
                | By::Archived
                | By::Pitr
                | By::Retarget
                | By::Backups
                | By::Restores
                | By::OldIds
                | By::Vacuums
                | By::Trees
                | By::LongValues
                | By::Databases
                | By::Ddl
                | By::DdlAgain
                | By::Sequences
        )
    };
    let all = PlantedBug::ALL.iter().map(|&bug| (bug, caught_by(bug)));
    for (bug, by) in all.filter(|(_, by)| !elsewhere(by)) {
        let rotten = TEMPLATES.of(by).copy(0);
        rotten.plant(bug);
        let mut seed = 0;
        while rotten.bug_reached() == 0 && seed < 100 {
            seed += 1;
            let run = || match by {
                By::Failing(failure) => every_failure(&rotten, seed, failure, 6, 1).map(drop),
                By::Again => recovery_again(&rotten, seed, 30, 7).map(drop),
                By::Lies => lying_writes(&rotten, seed, Damage::Lost, false).map(drop),
                By::Verified => lying_writes(&rotten, seed, Damage::Lost, true).map(drop),
                By::Rows | By::IndexedRows => row_lives(&rotten, seed, None).map(drop),
                _ => run_with(&rotten, seed, None).map(drop),
            };
            // Whether it was caught does not matter here.
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
        }
        assert!(rotten.bug_reached() > 0, "no place has the bug {bug:?}");
    }
}
