//! Base backups with faults at each call. There is either a whole backup or none. A directory is
//! either restored whole, or no server starts on it. And which pages count as damaged.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use forebay_aio::fault::{Effect, FaultPlan, Ops, Rule};
use forebay_aio::{Aio, AioConfig, BackendType, Errno, MethodKind, PosixNamespace};
use forebay_archive::ArchiveError;
use forebay_archive::backup::{
    About, BackupOptions, BackupSource, BackupState, Origin, RestoreOptions, Silent, Stopped,
    backup, list, remove_abandoned, restore,
};
use forebay_format::checksum::set_checksum;
use forebay_format::control::{ControlFile, DbState};
use forebay_format::page::{PageBytes, PageMut};
use forebay_format::wal::xlog::CheckPoint;
use forebay_format::{FullXid, Lsn, SegmentSize};
use forebay_testkit::files;

const SEGMENT: u32 = 1 << 20;
const CHECKPOINT: Lsn = Lsn(0x100_0028);
const THREADS: usize = 2;
const PAGES: u32 = 300;

fn control(state: DbState) -> ControlFile {
    ControlFile {
        system_id: 7,
        state,
        time: 1,
        checkpoint: CHECKPOINT,
        checkpoint_copy: CheckPoint {
            redo: CHECKPOINT,
            timeline: 1,
            prev_timeline: 1,
            full_page_writes: true,
            wal_level: 1,
            next_xid: FullXid(3),
            next_oid: 16_384,
            next_multi: 1,
            next_multi_offset: 0,
            oldest_xid: 3,
            oldest_xid_db: 1,
            oldest_multi: 1,
            oldest_multi_db: 1,
            time: 1,
            oldest_commit_ts_xid: 0,
            newest_commit_ts_xid: 0,
            oldest_active_xid: 0,
        },
        unlogged_lsn: Lsn(1000),
        min_recovery_point: Lsn::INVALID,
        min_recovery_timeline: 0,
        backup_start: Lsn::INVALID,
        backup_end: Lsn::INVALID,
        backup_end_required: false,
        wal_level: 1,
        wal_log_hints: false,
        max_connections: 100,
        max_worker_processes: 8,
        max_wal_senders: 10,
        max_prepared_transactions: 0,
        max_locks_per_transaction: 64,
        track_commit_timestamp: false,
        segment_size: SegmentSize::new(SEGMENT).expect("a size"),
        checksum_version: 1,
        char_signed: true,
        mock_nonce: [9; 32],
    }
}

fn page(block: u32, lsn: Lsn) -> PageBytes {
    let mut page: PageBytes = [0; 8192];
    PageMut(&mut page).init(0);
    PageMut(&mut page).set_lsn(lsn);
    page[8000..8004].copy_from_slice(&block.to_le_bytes());
    set_checksum(&mut page, block);
    page
}

/// A directory that looks like a cluster's, and an archive beside it.
struct Fixture {
    _scratch: tempfile::TempDir,
    data: PathBuf,
    archive: PathBuf,
    restored: PathBuf,
}

fn fixture() -> Fixture {
    let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let path = |name: &str| scratch.path().join(name);
    let (data, archive, restored) = (path("data"), path("archive"), path("restored"));
    std::fs::create_dir(&archive).expect("a directory");
    for dir in ["global", "base/5", "pg_wal", "pg_xact", "pg_tblspc", "pg_notify"] {
        std::fs::create_dir_all(data.join(dir)).expect("a directory");
    }
    let write = |name: &str, bytes: &[u8]| std::fs::write(data.join(name), bytes).expect("a file");
    write("PG_VERSION", b"18\n");
    write("postgresql.auto.conf", b"# none\n");
    write("pg_xact/0000", &[0; 8192]);
    write("base/5/empty", b"");
    write("global/pg_control", &control(DbState::ShutDown).encode());
    let pages: Vec<u8> = (0..PAGES).flat_map(|block| page(block, Lsn(0x80_0000))).collect();
    write("base/5/16384", &pages);
    write("base/5/16384_fsm", &page(0, Lsn::INVALID));
    let mut segment = vec![0; SEGMENT as usize];
    segment[4..8].copy_from_slice(&1_u32.to_le_bytes());
    segment[8..16].copy_from_slice(&0x100_0000_u64.to_le_bytes());
    segment[0x28..0x2c].copy_from_slice(&114_u32.to_le_bytes());
    write("pg_wal/000000010000000000000010", &segment);
    write("pg_wal/000000010000000000000011", &[]);
    Fixture { _scratch: scratch, data, archive, restored }
}

fn sizes() -> AioConfig {
    AioConfig { max_backends: THREADS + 2, combine_limit: 0, ..AioConfig::default() }
}

fn open_aio() -> Arc<Aio> {
    Aio::new(Arc::new(PosixNamespace::new()), MethodKind::Sync, sizes()).expect("an Aio")
}

fn options() -> BackupOptions {
    BackupOptions { jobs: THREADS, direct: false, ..BackupOptions::default() }
}

fn back() -> RestoreOptions {
    RestoreOptions {
        backup: None,
        recovery: None,
        tablespaces: Vec::new(),
        allow_damaged: false,
        jobs: THREADS,
        direct: false,
    }
}

fn take(aio: &Arc<Aio>, fixture: &Fixture, options: &BackupOptions) -> Result<About, ArchiveError> {
    backup(aio, &fixture.data, &fixture.archive, Origin::Still, options, &mut Silent)
}

fn complete(archive: &Path) -> usize {
    let mut io = open_aio().backend(BackendType::Standalone).expect("a backend");
    let all = list(&mut io, archive).expect("a list");
    all.iter().filter(|backup| backup.state == BackupState::Complete).count()
}

/// The contents of every file in a directory.
fn contents(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = files::contents(dir);
    // The manifest is not in the cluster; the last segment is not needed.
    found.retain(|name, _| {
        name != Path::new("backup_manifest") && !name.ends_with("000000010000000000000011")
    });
    found.into_iter().collect()
}

/// Checks that both have the same files with the same contents.
fn compare(found: &[(PathBuf, Vec<u8>)], expected: &[(PathBuf, Vec<u8>)], what: &str) {
    let names =
        |all: &[(PathBuf, Vec<u8>)]| all.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    assert_eq!(names(found), names(expected), "{what}");
    for ((name, found), (_, expected)) in found.iter().zip(expected) {
        let at = found.iter().zip(expected).position(|(a, b)| a != b);
        let lengths = (found.len(), expected.len());
        assert!(
            found == expected,
            "{what}: {} differs at {at:?}, lengths {lengths:?}",
            name.display()
        );
    }
}

/// Kinds of calls, and their errors.
const FAULTS: [(Ops, Effect); 10] = [
    (Ops::READ, Effect::Fail(Errno::IO)),
    (Ops::WRITE, Effect::Fail(Errno::NOSPC)),
    (Ops::WRITE, Effect::FailAfter(4096, Errno::IO)),
    (Ops::FSYNC, Effect::Fail(Errno::IO)),
    (Ops::SYNC_DIR, Effect::Fail(Errno::IO)),
    (Ops::OPEN, Effect::Fail(Errno::ACCES)),
    (Ops::MKDIR, Effect::Fail(Errno::NOSPC)),
    (Ops::RENAME, Effect::Fail(Errno::IO)),
    (Ops::LIST, Effect::Fail(Errno::IO)),
    (Ops::STAT, Effect::Fail(Errno::IO)),
];

/// Runs `body` with each call failing in turn, until no call is left. Calls it with the failing
/// kind of call and its result. Returns the number of failures.
fn each_fault(mut body: impl FnMut(&Arc<Aio>, &dyn Fn() -> bool, Ops, &str) -> bool) -> u32 {
    let mut failures = 0;
    for (ops, effect) in FAULTS {
        for n in 0.. {
            let plan = FaultPlan::new();
            let fault = plan.add(Rule::on(ops).nth(n), effect);
            let aio = plan
                .open(Arc::new(PosixNamespace::new()), MethodKind::Sync, sizes())
                .expect("an Aio");
            let fired = || plan.fired(fault) > 0;
            failures += u32::from(body(&aio, &fired, ops, &format!("{ops:?} {n}: {effect:?}")));
            if !fired() {
                break;
            }
        }
    }
    failures
}

#[test]
fn with_any_call_failing_there_is_a_whole_backup_or_none() {
    let fixture = fixture();
    let expected = contents(&fixture.data);
    let failures = each_fault(|aio, fired, ops, what| {
        let result = take(aio, &fixture, &options());
        let failed = match result {
            Ok(about) => {
                assert_eq!(complete(&fixture.archive), 1, "{what}");
                let data = fixture.archive.join("backups").join(about.name).join("data");
                compare(&contents(&data), &expected, what);
                false
            }
            Err(error) => {
                assert!(fired(), "{what}: {error}");
                // The directory could not be synced after the renaming: whether the name is
                // durable is unknown.
                let unsynced = ops == Ops::SYNC_DIR
                    || error.to_string().starts_with("could not open directory ");
                assert!(complete(&fixture.archive) == 0 || unsynced, "{what}: {error}");
                true
            }
        };
        // The remains do not prevent the next backup.
        let mut io = open_aio().backend(BackendType::Standalone).expect("a backend");
        remove_abandoned(&mut io, &fixture.archive).expect("removed");
        let _ = std::fs::remove_dir_all(fixture.archive.join("backups"));
        failed
    });
    assert!(failures > 50, "{failures}");
}

#[test]
fn with_any_call_failing_a_directory_is_restored_whole_or_not_at_all() {
    let fixture = fixture();
    let expected = contents(&fixture.data);
    take(&open_aio(), &fixture, &options()).expect("a backup");
    let failures = each_fault(|aio, fired, _, what| {
        let result = restore(aio, &fixture.archive, &fixture.restored, &back(), &mut Silent);
        let failed = match result {
            Ok(_) => {
                compare(&contents(&fixture.restored), &expected, what);
                false
            }
            Err(error) => {
                assert!(fired(), "{what}: {error}");
                assert!(!fixture.restored.join("global/pg_control").exists(), "{what}: {error}");
                true
            }
        };
        let _ = std::fs::remove_dir_all(&fixture.restored);
        failed
    });
    assert!(failures > 50, "{failures}");
}

/// A server that only returns what the test has chosen.
struct Server<F: FnMut() -> Stopped> {
    start: Lsn,
    stop: F,
}

impl<F: FnMut() -> Stopped> BackupSource for Server<F> {
    fn start(&mut self, _label: &str, _fast: bool) -> Result<Lsn, String> {
        Ok(self.start)
    }

    fn stop(&mut self, _wait: bool) -> Result<Stopped, String> {
        Ok((self.stop)())
    }

    fn is_archiving(&mut self) -> Result<bool, String> {
        Ok(true)
    }

    fn system_id(&mut self) -> Result<Option<u64>, String> {
        Ok(Some(7))
    }
}

fn label() -> String {
    format!(
        "START WAL LOCATION: {CHECKPOINT} (file 000000010000000000000010)\n\
         CHECKPOINT LOCATION: {CHECKPOINT}\n"
    )
}

fn stopped() -> Stopped {
    Stopped { lsn: Lsn(0x110_0000), label: label() }
}

/// Puts a page with a wrong checksum and this LSN into the relation.
fn damage(fixture: &Fixture, block: u32, lsn: Lsn) {
    let mut page = page(block, lsn);
    page[5000] ^= 1;
    let file = std::fs::File::options()
        .write(true)
        .open(fixture.data.join("base/5/16384"))
        .expect("a file");
    file.write_all_at(&page, u64::from(block) * 8192).expect("a page");
}

fn take_live(
    fixture: &Fixture,
    start: Lsn,
    stop: impl FnMut() -> Stopped,
) -> Result<About, ArchiveError> {
    let running = control(DbState::Production).encode();
    std::fs::write(fixture.data.join("global/pg_control"), running).expect("a file");
    let mut server = Server { start, stop };
    let named =
        BackupOptions { name: Some(format!("live-{}", complete(&fixture.archive))), ..options() };
    backup(
        &open_aio(),
        &fixture.data,
        &fixture.archive,
        Origin::Live(&mut server),
        &named,
        &mut Silent,
    )
}

#[test]
fn only_pages_that_the_wal_does_not_repair_are_damaged() {
    let fixture = fixture();
    // Written since the start: its image is in the log.
    damage(&fixture, 5, Lsn(0x105_0000));
    assert_eq!(take_live(&fixture, CHECKPOINT, stopped).expect("a backup").damaged, 0);
    // Not written since the start.
    damage(&fixture, 6, Lsn(0x90_0000));
    let error = take_live(&fixture, CHECKPOINT, stopped).expect_err("damaged");
    assert!(
        matches!(&error, ArchiveError::DamagedPages { first, count: 1 } if first.block == 6),
        "{error}"
    );
    // An LSN that the WAL has not reached.
    let fresh = self::fixture();
    damage(&fresh, 299, Lsn(0x999_0000));
    let error = take_live(&fresh, CHECKPOINT, stopped).expect_err("damaged");
    assert!(
        matches!(&error, ArchiveError::DamagedPages { first, count: 1 } if first.block == 299),
        "{error}"
    );
    assert_eq!(complete(&fresh.archive), 0);
}

#[test]
fn a_page_that_is_not_quite_empty_is_damaged() {
    let fixture = fixture();
    let file = std::fs::File::options()
        .write(true)
        .open(fixture.data.join("base/5/16384"))
        .expect("a file");
    // Its first half is lost.
    file.write_all_at(&[0; 4096], 17 * 8192).expect("zeros");
    let error = take(&open_aio(), &fixture, &options()).expect_err("damaged");
    assert!(
        matches!(&error, ArchiveError::DamagedPages { first, .. } if first.block == 17),
        "{error}"
    );
    // A page of zeros was never used.
    file.write_all_at(&[0; 8192], 17 * 8192).expect("zeros");
    take(&open_aio(), &fixture, &options()).expect("a backup");
}

#[test]
fn the_wrong_server_is_refused() {
    let fixture = fixture();
    let elsewhere = || Stopped { label: label().replace("0/1000028", "0/2000028"), ..stopped() };
    let error =
        take_live(&fixture, CHECKPOINT, elsewhere).expect_err("its label is of another backup");
    assert!(matches!(error, ArchiveError::Server { operation: "pg_backup_stop", .. }), "{error}");
    let error = take_live(&fixture, Lsn(0x500_0000), stopped)
        .expect_err("there is no such checkpoint here");
    assert!(
        matches!(&error, ArchiveError::Refused(why) if why.contains("runs elsewhere")),
        "{error}"
    );
    let mut other = control(DbState::Production);
    other.system_id = 8;
    std::fs::write(fixture.data.join("global/pg_control"), other.encode()).expect("a file");
    let mut server = Server { start: CHECKPOINT, stop: stopped };
    let origin = Origin::Live(&mut server);
    let error =
        backup(&open_aio(), &fixture.data, &fixture.archive, origin, &options(), &mut Silent);
    let error = error.expect_err("another cluster");
    assert!(
        matches!(&error, ArchiveError::Refused(why) if why.contains("cluster is 7")),
        "{error}"
    );
    assert_eq!(complete(&fixture.archive), 0);
}

#[test]
fn tablespaces_are_restored_into_other_directories() {
    let fixture = fixture();
    let beside = |name: &str| fixture.data.with_file_name(name);
    let (space, moved) = (beside("space"), beside("moved"));
    std::fs::create_dir_all(space.join("PG_18_202506291/5")).expect("a directory");
    std::fs::write(space.join("PG_18_202506291/5/16400"), page(0, Lsn(1))).expect("a file");
    std::os::unix::fs::symlink(&space, fixture.data.join("pg_tblspc/16390")).expect("a link");
    take(&open_aio(), &fixture, &options()).expect("a backup");
    // Its old directory is not empty.
    let error = restore(&open_aio(), &fixture.archive, &fixture.restored, &back(), &mut Silent)
        .expect_err("not empty");
    assert!(error.to_string().contains("not empty"), "{error}");
    assert!(!fixture.restored.exists());
    let sent = RestoreOptions { tablespaces: vec![(space, moved.clone())], ..back() };
    restore(&open_aio(), &fixture.archive, &fixture.restored, &sent, &mut Silent)
        .expect("restored");
    assert_eq!(
        std::fs::read_link(fixture.restored.join("pg_tblspc/16390")).expect("a link"),
        moved
    );
    let file = fixture.restored.join("pg_tblspc/16390/PG_18_202506291/5/16400");
    assert_eq!(std::fs::read(file).expect("a file"), page(0, Lsn(1)));
}
