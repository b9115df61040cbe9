//! Bugs that a test plants, to show that the tests would notice them.
//!
//! [`PlantedBug`] lists every bug. The place in the program where a bug belongs names it in a
//! [`planted_bug!`](crate::planted_bug) on a line of its own. Only builds with the feature
//! `planted-bugs` can have bugs, and no crate of the product turns it on. In other builds the
//! macro's condition is a constant `false`: the compiler checks the misbehaviour and removes it.
//!
//! A bug belongs to one [`Aio`](crate::Aio), so that two engines in a process can have different
//! ones. The simulator's test (crates/sim/tests/planted.rs) catches each bug of the list.

#[cfg(feature = "planted-bugs")]
use crate::sync::{
    Arc, OnceLock,
    atomic::{AtomicU64, Ordering::Relaxed},
};

/// Whether this build can have planted bugs at all.
pub const CAN_HAVE_BUGS: bool = cfg!(feature = "planted-bugs");

/// `planted_bug!(aio, Name, misbehave)`: evaluates the expression `misbehave` if `PlantedBug::Name`
/// is planted in `aio` (anything with a method `has_bug`). Nothing without the feature
/// `planted-bugs`.
#[macro_export]
macro_rules! planted_bug {
    ($aio:expr, $bug:ident, $misbehave:expr $(,)?) => {
        if $crate::CAN_HAVE_BUGS && $aio.has_bug($crate::PlantedBug::$bug) {
            $misbehave;
        }
    };
}

macro_rules! planted_bugs {
    ($($(#[$doc:meta])* $bug:ident,)*) => {
        /// A bug that a test can plant.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum PlantedBug {
            $($(#[$doc])* $bug,)*
        }

        impl PlantedBug {
            /// Every bug.
            pub const ALL: &[PlantedBug] = &[$(PlantedBug::$bug),*];
        }
    };
}

planted_bugs! {
    /// The pages of a relation that is copied for a new database are not logged.
    CopiedPagesNotLogged,
    /// The directory in which that of a new database is made is not synced.
    DatabaseDirectoryNotSynced,
    /// The files of a database that is copied are not synced.
    DatabaseCopyNotSynced,
    /// The creation of a relation's file is not logged.
    FileCreationNotLogged,
    /// The creation of an unlogged table's init fork is not logged.
    InitForkNotLogged,
    /// The page of an unlogged index's init fork is not logged.
    InitPageNotLogged,
    /// The pages of a relation that moves to another tablespace, or becomes logged, are not logged.
    MovedPagesNotLogged,
    /// A relation map takes its name before its contents are durable.
    RelationMapNotSynced,
    /// A commit's record does not tell which files it removes.
    CommitForgetsDroppedFiles,
    /// The names of files that were dropped may come back after a checkpoint.
    DroppedNamesNotSynced,
    /// What transactions that were cut off have left stays.
    OrphansStay,
    /// The files that they have left are removed without a record.
    OrphansRemovedUnlogged,
    /// Recovery forgets which identifiers were handed out since its redo pointer.
    RecoveryIgnoresNewOids,
    /// Rows of transactions that were cut off tell nothing of files.
    OrphansIgnoreDeadRows,
    /// A flush of the WAL ends without a sync.
    WalFlushNotSynced,
    /// A failed sync of the WAL is tried again.
    WalFailedSyncRetried,
    /// WAL segments are opened without `O_DSYNC`.
    WalSegmentsOpenedWithoutDsync,
    /// The directory of the WAL is not synced.
    WalSegmentNamesNotSynced,
    /// WAL segments that the last checkpoint needs are removed.
    WalSegmentsRemovedBeforeCheckpoint,
    /// WAL segments are removed before the archive has them.
    WalSegmentsRemovedBeforeArchived,
    /// Full-page images are decided by an old redo pointer.
    WalImagesByOldRedoPointer,
    /// Records have no full-page images.
    WalPagesLoggedWithoutImages,
    /// The WAL reader does not check the checksums of records.
    ReaderIgnoresChecksums,
    /// A commit is acknowledged before its record is durable.
    CommitAcknowledgedBeforeDurable,
    /// A commit removes files before its record is durable.
    CommitRemovesFilesBeforeDurable,
    /// A commit ignores an error of the WAL.
    CommitIgnoresWalError,
    /// pg_xact is written without a sync.
    ClogNotSynced,
    /// Changed pages of pg_xact are not written.
    ClogNotWritten,
    /// Files of pg_xact are removed before the log says so.
    ClogTruncatedBeforeLogged,
    /// Files of pg_multixact are removed before the log says so.
    MultiXactsTruncatedBeforeLogged,
    /// A checkpoint's redo pointer is its end, not its beginning.
    CheckpointRedoAtItsEnd,
    /// pg_control says "shut down" before the shutdown checkpoint is complete.
    CheckpointShutDownTooEarly,
    /// A changed page that moves to another buffer, as in a smaller pool, counts as written.
    MovedPagesBecomeClean,
    /// A checkpoint writes no pages.
    CheckpointPagesNotWritten,
    /// A checkpoint syncs no files.
    CheckpointFilesNotSynced,
    /// pg_control names a checkpoint record that is not durable.
    CheckpointRecordNotFlushed,
    /// pg_control is written without a sync.
    ControlFileNotSynced,
    /// Redo takes a page that is one record behind for current.
    RedoSkipsLastRecord,
    /// Redo changes pages whatever their LSN.
    RedoIgnoresPageLsn,
    /// Redo leaves a changed page its old LSN.
    RedoKeepsOldPageLsn,
    /// Redo does not restore full-page images.
    RedoIgnoresImages,
    /// Redo does not record the ends of transactions.
    RedoIgnoresTransactionEnds,
    /// Crash recovery does not sync the data directory first.
    RecoveryFilesNotSyncedFirst,
    /// Recovery keeps what the kernel has cached.
    RecoveryTrustsKernelCache,
    /// Recovery hands out transaction ids from the checkpoint's on.
    RecoveryReusesTransactionIds,
    /// A segment restored from the archive is not synced.
    RecoveryRestoredSegmentNotSynced,
    /// A segment that exists is not restored from the archive.
    RecoveryKeepsExistingSegment,
    /// backup_label is removed before pg_control has its contents.
    RecoveryRemovesLabelEarly,
    /// recovery.signal is removed before the new timeline has begun.
    RecoveryRemovesSignalEarly,
    /// The name of a new timeline's history file is not synced.
    RecoveryHistoryNameNotSynced,
    /// recovery.ending is removed before the checkpoint that ends recovery.
    RecoveryRemovesEndingEarly,
    /// Redo removes files before pg_control names a point that far.
    RecoveryRemovesFilesEarly,
    /// pg_xact is written before pg_control names a point that far.
    RecoveryWritesClogEarly,
    /// Unlogged tables are emptied without a sync.
    RecoveryEmptiedTablesNotSynced,
    /// The directories of emptied unlogged tables are not synced.
    RecoveryEmptiedDirectoriesNotSynced,
    /// A sequence trusts records from before the last checkpoint.
    SequenceIgnoresRedoPointer,
    /// A commit does not wait for the records of the sequences whose values it got.
    SequenceValueNotDurable,
    /// A change of a heap page is not logged.
    HeapChangeNotLogged,
    /// A row lock is not written into the row.
    RowLockNotWritten,
    /// The record of an update leaves out the page of the old version.
    UpdateOldPageNotLogged,
    /// Pruning is not logged.
    PruneNotLogged,
    /// Pruning removes versions that a snapshot still sees.
    PruneIgnoresSnapshots,
    /// An update that changes an indexed column is a HOT update.
    HotUpdateIgnoresIndexes,
    /// A change of an index is not logged.
    IndexChangeNotLogged,
    /// The record of a split leaves out the page to the right, whose left link changes.
    SplitNeighbourNotLogged,
    /// Redo forgets that a split is complete once the parent leads to the right half.
    RedoKeepsIncompleteSplits,
    /// A row that goes into the middle of a posting list is logged as an item of its own.
    PostingSplitNotLogged,
    /// The record of a deduplication leaves out the last posting list.
    DeduplicationLoggedShort,
    /// Vacuum leaves the places of dead rows in posting lists that stay.
    IndexVacuumForgetsLists,
    /// The deletion of a leaf forgets the pages above that lead to it alone.
    BranchForgotten,
    /// Redo of a page's deletion forgets the page to the left, whose right link changes.
    RedoForgetsLeftSibling,
    /// A deleted page may be used again at once.
    DeletedPageWithoutSafeXid,
    /// A new MultiXact is not logged.
    MultiXactNotLogged,
    /// Redo forgets that the newer version of a row is heap-only.
    RedoForgetsHotUpdates,
    /// Redo of a commit forgets the subtransactions.
    RedoForgetsSubtransactions,
    /// Bits that are set in the visibility map are not logged.
    VisibilityMapNotLogged,
    /// A page of the visibility map in which bits are set gets no LSN.
    VisibilityMapWithoutLsn,
    /// A page without checksums is marked all-visible before the commits of its rows are durable.
    PageMarkedBeforeCommits,
    /// A table's end is cut off before the log says so.
    TableCutBeforeLogged,
    /// The record of a deletion does not say that the page is no longer all-visible.
    DeletionKeepsAllVisible,
    /// Redo does not clear bits of the visibility map.
    RedoKeepsVisibilityMap,
    /// The pages of a table that is rewritten are not logged.
    RewriteNotLogged,
    /// The chunks of a long value are not logged.
    ToastChunksNotLogged,
    /// The chunks of a value that was replaced or deleted stay.
    ToastDeletionSkipped,
    /// Pages are written before their WAL.
    PagesWrittenBeforeWal,
    /// A written page asks for no sync of its file.
    PagesWrittenWithoutSyncRequest,
    /// A page turns clean although its write failed.
    PagesCleanAfterFailedWrite,
    /// Pages are not verified when they are read.
    PagesNotVerified,
    /// Written pages are not read back.
    ReadBackSkipsPages,
    /// Pages that are read are not compared with what was written.
    ReadBackSkipsComparison,
    /// pg_xact and pg_control are not read back.
    ReadBackSkipsClogAndControl,
    /// A requested sync of a file is forgotten.
    SyncRequestForgotten,
    /// A failed sync of a file is ignored.
    SyncFailureIgnored,
    /// Directories of relations are not synced.
    SyncSkipsDirectories,
    /// The engine goes on after a failed sync.
    StopIgnored,
    /// A file stored in the archive is not synced.
    ArchiveFileNotSynced,
    /// A file that the archive has already is not synced.
    ArchiveIdenticalFileNotSynced,
    /// The archive replaces a file that exists.
    ArchiveReplacesFile,
    /// The names of files stored in the archive are not synced.
    ArchiveNamesNotSynced,
    /// The parent of a new directory of the archive is not synced.
    ArchiveParentNotSynced,
    /// The archiver acknowledges a segment before the archive has it.
    ArchiveAcknowledgesEarly,
    /// A backup's files are not synced before its manifest is written.
    BackupFilesNotSynced,
    /// The names of a backup's files are not synced.
    BackupNamesNotSynced,
    /// A backup does not wait until the archive has its WAL.
    BackupDoesNotWaitForWal,
    /// A restore does not write pg_control last.
    RestoreControlNotLast,
    /// A restore's files are not synced.
    RestoreFilesNotSynced,
}

/// The bug planted in one [`Aio`](crate::Aio), if any.
#[derive(Debug, Default)]
pub(crate) struct Planted {
    /// The bug, and how often its place was reached.
    #[cfg(feature = "planted-bugs")]
    bug: OnceLock<(PlantedBug, Arc<AtomicU64>)>,
}

#[cfg(not(feature = "planted-bugs"))]
impl Planted {
    #[inline(always)]
    pub fn has(&self, _bug: PlantedBug) -> bool {
        false
    }
}

#[cfg(feature = "planted-bugs")]
impl Planted {
    pub fn has(&self, bug: PlantedBug) -> bool {
        let planted = self.bug.get().filter(|(planted, _)| *planted == bug);
        planted.map(|(_, reached)| reached.fetch_add(1, Relaxed)).is_some()
    }

    pub fn plant(&self, bug: PlantedBug, reached: Arc<AtomicU64>) {
        assert!(self.bug.set((bug, reached)).is_ok(), "at most one bug is planted in an Aio");
    }
}
