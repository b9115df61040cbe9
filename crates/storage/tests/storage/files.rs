//! Relation files: sizes, segments, syncs.

use crate::fixture::{Fixture, REL, Spec, as_the_system_does, each, each_faulty, tag};
use forebay_aio::fault::{Effect, FaultPlan, Ops, Rule};
use forebay_aio::{
    Aio, AioConfig, AioError, BackendType, DirEntry, DirectAlignment, DirectRefusal, Errno, File,
    FileStat, IoOp, MethodKind, Namespace, OpenOptions, PosixNamespace,
};
use forebay_format::{Fork, RelFileLocator};
use forebay_storage::{Smgr, SmgrConfig, StorageError, Strategy};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

const SMALL: Spec = Spec { segment_blocks: 8, ..Spec::plain() };

#[test]
fn sizes_cross_segments_and_survive_reopening() {
    each(SMALL, |fixture| {
        let mut backend = fixture.backend();
        let smgr = &fixture.smgr;
        assert!(!smgr.exists(REL, Fork::Main).unwrap());
        smgr.create(REL, Fork::Main, false).unwrap();
        assert!(smgr.exists(REL, Fork::Main).unwrap());
        assert_eq!(smgr.nblocks(REL, Fork::Main).unwrap(), 0);
        assert_eq!(smgr.extend(&mut backend.io, REL, Fork::Main, 5).unwrap(), 0);
        assert_eq!(smgr.extend(&mut backend.io, REL, Fork::Main, 15).unwrap(), 5);
        assert_eq!(smgr.nblocks(REL, Fork::Main).unwrap(), 20);
        let lens: Vec<u64> =
            (0..3).map(|s| std::fs::metadata(fixture.path(s)).unwrap().len() / 8192).collect();
        assert_eq!(lens, [8, 8, 4]);
        assert_eq!(fixture.cold().0.nblocks(REL, Fork::Main).unwrap(), 20);

        fixture.pool.truncate(&mut backend, REL, Fork::Main, 9).unwrap();
        assert_eq!(smgr.nblocks(REL, Fork::Main).unwrap(), 9);
        assert_eq!(fixture.cold().0.nblocks(REL, Fork::Main).unwrap(), 9);
        assert_eq!(smgr.extend(&mut backend.io, REL, Fork::Main, 10).unwrap(), 9);
        assert_eq!(fixture.cold().0.nblocks(REL, Fork::Main).unwrap(), 19);
        fixture.pool.truncate(&mut backend, REL, Fork::Main, 16).unwrap();
        assert_eq!(fixture.cold().0.nblocks(REL, Fork::Main).unwrap(), 16);

        smgr.unlink(REL).unwrap();
        assert_eq!(std::fs::read_dir(fixture.dir().join("base/5")).unwrap().count(), 0);
        assert!(!smgr.exists(REL, Fork::Main).unwrap());
        smgr.unlink(REL).unwrap();
    });
}

#[test]
fn a_failed_truncation_or_removal_can_be_repeated() {
    each_faulty(SMALL, |fixture, plan| {
        let mut backend = fixture.backend();
        fixture.fill(&mut backend, 40);
        fixture.smgr.sync_pending(&mut backend.io).unwrap();
        let there = || (0..5).filter(|&segment| fixture.path(segment).exists()).collect::<Vec<_>>();
        let fails = |segment: u32| {
            let path = format!("16384.{segment}");
            plan.add(Rule::on(Ops::UNLINK).path(path).times(1), Effect::Fail(Errno::IO));
        };
        fails(3);
        let error = fixture.pool.truncate(&mut backend, REL, Fork::Main, 12).unwrap_err();
        let text = error.to_string();
        assert!(
            text.starts_with("could not remove file") && text.contains("base/5/16384.3\""),
            "{text}"
        );
        assert_eq!(there(), [0, 1, 2, 3]);
        // It was emptied, so it takes no space.
        assert_eq!(fixture.smgr.nblocks(REL, Fork::Main).unwrap(), 24);
        fixture.smgr.sync_pending(&mut backend.io).unwrap();
        fixture.pool.truncate(&mut backend, REL, Fork::Main, 12).unwrap();
        assert_eq!(there(), [0, 1]);
        assert_eq!(fixture.cold().0.nblocks(REL, Fork::Main).unwrap(), 12);
        assert_eq!(fixture.smgr.extend(&mut backend.io, REL, Fork::Main, 28).unwrap(), 12);

        fails(1);
        let error = fixture.pool.drop_relation(&mut backend, REL).unwrap_err();
        assert!(error.to_string().contains("base/5/16384.1\""), "{error}");
        assert_eq!(there(), [0, 1]);
        assert_eq!(fixture.smgr.sync_pending(&mut backend.io).unwrap().files, 0);
        fixture.pool.drop_relation(&mut backend, REL).unwrap();
        assert!(there().is_empty());
    });
}

#[test]
fn a_removed_file_takes_no_space_even_if_it_is_open_somewhere() {
    let fixture = Fixture::new(SMALL);
    let mut backend = fixture.backend();
    fixture.smgr.create(REL, Fork::Main, false).unwrap();
    fixture.smgr.extend(&mut backend.io, REL, Fork::Main, 20).unwrap();
    let open: Vec<_> = (0..3).map(|s| std::fs::File::open(fixture.path(s)).unwrap()).collect();
    assert_eq!(open[2].metadata().unwrap().len(), 4 * 8192);
    fixture.smgr.unlink(REL).unwrap();
    assert!(open.iter().all(|file| file.metadata().unwrap().len() == 0));
}

#[test]
fn a_missing_file_is_named() {
    let fixture = Fixture::new(SMALL);
    let error = fixture.smgr.nblocks(REL, Fork::Vm).unwrap_err();
    assert!(error.to_string().ends_with("base/5/16384_vm\": No such file or directory"), "{error}");
    assert_eq!(error.sqlstate(), "58P01");
    fixture.smgr.create(REL, Fork::Main, false).unwrap();
    assert!(fixture.smgr.create(REL, Fork::Main, false).is_err(), "it exists");
    fixture.smgr.create(REL, Fork::Main, true).unwrap();
    // Recovery may find that a database's directory was removed.
    fixture.smgr.create(RelFileLocator::in_default(99, 1), Fork::Main, true).unwrap();
    assert!(fixture.dir().join("base/99/1").exists());
}

/// The first `n` allocations succeed; the next one gets a part of its space.
fn room_for(plan: &FaultPlan, n: u64) {
    plan.add(Rule::on(Ops::ALLOCATE).skip(n), Effect::FailAfter(8192, Errno::NOSPC));
}

#[test]
fn a_full_disk_leaves_sizes_as_they_were() {
    // The first growth succeeds. The second one needs two segments and fails in the latter.
    let plan = FaultPlan::new();
    room_for(&plan, 2);
    let fixture = Fixture::faulty(SMALL, &plan);
    let mut backend = fixture.backend();
    fixture.smgr.create(REL, Fork::Main, false).unwrap();
    assert_eq!(
        fixture.pool.extend(&mut backend, REL, Fork::Main, 6, Strategy::Normal).unwrap().len(),
        6
    );
    let error =
        fixture.pool.extend(&mut backend, REL, Fork::Main, 6, Strategy::Normal).unwrap_err();
    assert_eq!(
        error.to_string(),
        "could not extend file \"base/5/16384.1\" at block 8: No space left on device"
    );
    assert_eq!(error.sqlstate(), "53100");
    assert!(!error.is_fatal());
    assert_eq!(fixture.smgr.nblocks(REL, Fork::Main).unwrap(), 6);
    assert_eq!(std::fs::metadata(fixture.path(0)).unwrap().len(), 6 * 8192);
    assert!(!fixture.path(1).exists());
    // No buffer is lost: all can be pinned at once.
    plan.mend();
    let mut pins = Vec::new();
    while pins.len() < fixture.spec.buffers {
        pins.extend(
            fixture.pool.extend(&mut backend, REL, Fork::Main, 8, Strategy::Normal).unwrap(),
        );
    }
    assert_eq!(fixture.smgr.nblocks(REL, Fork::Main).unwrap(), 6 + 128);
}

#[test]
fn a_growth_that_is_undone_leaves_no_sync_request_and_no_space() {
    // The last of three segments gets no space: the one before was created and is removed again.
    let plan = FaultPlan::new();
    room_for(&plan, 3);
    let fixture = Fixture::faulty(SMALL, &plan);
    let mut backend = fixture.backend();
    fixture.smgr.create(REL, Fork::Main, false).unwrap();
    fixture.smgr.extend(&mut backend.io, REL, Fork::Main, 6).unwrap();
    fixture.smgr.extend(&mut backend.io, REL, Fork::Main, 12).unwrap_err();
    assert!(fixture.path(0).exists() && !fixture.path(1).exists() && !fixture.path(2).exists());
    assert_eq!(fixture.smgr.sync_pending(&mut backend.io).unwrap().counts(), (1, 1));
    assert!(fixture.smgr.nothing_to_sync());
}

#[test]
fn zeros_are_written_where_files_cannot_be_allocated() {
    let plan = FaultPlan::new();
    plan.add(Rule::on(Ops::ALLOCATE), Effect::Fail(Errno::OPNOTSUPP));
    let fixture = Fixture::faulty(SMALL, &plan);
    let mut backend = fixture.backend();
    fixture.fill(&mut backend, 20);
    fixture.smgr.extend(&mut backend.io, REL, Fork::Main, 300).unwrap();
    assert_eq!(fixture.cold().0.nblocks(REL, Fork::Main).unwrap(), 320);
    let pin = fixture.pool.read(&mut backend, tag(319), Strategy::Normal).unwrap();
    assert!(pin.lock_shared().page().is_all_zeros());
}

#[test]
fn reserved_space_is_not_part_of_the_file() {
    each(Spec { segment_blocks: 1000, ..Spec::plain() }, |fixture| {
        let mut backend = fixture.backend();
        fixture.smgr.create(REL, Fork::Main, false).unwrap();
        let mut n = 0;
        while n < 1500 {
            n += fixture
                .pool
                .extend(&mut backend, REL, Fork::Main, 7, Strategy::BulkWrite)
                .unwrap()
                .len() as u32;
            let len: u64 = (0..2)
                .filter_map(|s| std::fs::metadata(fixture.path(s)).ok())
                .map(|m| m.len())
                .sum();
            assert_eq!(len, u64::from(n) * 8192);
        }
        assert_eq!(fixture.cold().0.nblocks(REL, Fork::Main).unwrap(), n);
        fixture.pool.truncate(&mut backend, REL, Fork::Main, 1200).unwrap();
        assert_eq!(fixture.smgr.extend(&mut backend.io, REL, Fork::Main, 10).unwrap(), 1200);
        let pin = fixture.pool.read(&mut backend, tag(1209), Strategy::Normal).unwrap();
        assert!(pin.lock_shared().page().is_all_zeros());
    });
}

#[test]
fn syncs_are_collected_once_and_forgotten_with_the_file() {
    each(SMALL, |fixture| {
        let mut backend = fixture.backend();
        fixture.fill(&mut backend, 20);
        assert_eq!(fixture.smgr.sync_pending(&mut backend.io).unwrap().counts(), (3, 1));
        assert!(fixture.smgr.nothing_to_sync());
        assert_eq!(fixture.smgr.sync_pending(&mut backend.io).unwrap().counts(), (0, 0));
        assert_eq!(fixture.count(IoOp::Fsync), 3);

        fixture.smgr.extend(&mut backend.io, REL, Fork::Main, 1).unwrap();
        fixture.pool.drop_relation(&mut backend, REL).unwrap();
        assert_eq!(fixture.smgr.sync_pending(&mut backend.io).unwrap().files, 0);
    });
}

#[test]
fn a_failed_sync_is_fatal_and_is_not_tried_again() {
    each_faulty(SMALL, |fixture, plan| {
        let mut backend = fixture.backend();
        fixture.fill(&mut backend, 4);
        plan.add(Rule::on(Ops::SYNCS).times(1), Effect::Fail(Errno::IO));
        let error = fixture.pool.sync_pending(&mut backend).unwrap_err();
        assert!(matches!(error, StorageError::Sync { errno: Errno::IO, .. }));
        assert!(error.is_fatal());
        let text = error.to_string();
        assert!(
            text.starts_with("could not fsync file \"") && text.contains("base/5/16384"),
            "{text}"
        );
        // A second sync would report success.
        assert_eq!(fixture.smgr.sync_pending(&mut backend.io).unwrap_err().to_string(), text);
        assert_eq!(fixture.pool.sync_pending(&mut backend).unwrap_err().to_string(), text);
        assert_eq!(plan.calls(Ops::SYNCS), 1);
    });
}

#[test]
fn a_failed_sync_of_a_directory_is_not_tried_again() {
    each_faulty(SMALL, |fixture, plan| {
        let mut backend = fixture.backend();
        fixture.fill(&mut backend, 4);
        plan.add(Rule::on(Ops::SYNC_DIR).times(1), Effect::Fail(Errno::IO));
        let error = fixture.pool.sync_pending(&mut backend).unwrap_err();
        assert!(
            error.is_fatal() && error.to_string().ends_with("base/5\": Input/output error"),
            "{error}"
        );
        let (dirs, syncs) = (plan.calls(Ops::SYNC_DIR), plan.calls(Ops::SYNCS));
        let again = fixture.pool.sync_pending(&mut backend).unwrap_err();
        assert_eq!(again.to_string(), error.to_string());
        assert_eq!((plan.calls(Ops::SYNC_DIR), plan.calls(Ops::SYNCS)), (dirs, syncs));
    });
}

/// If descriptors or memory are short for a moment, nothing is synced and nothing is lost.
#[test]
fn a_file_that_cannot_be_opened_for_its_sync_is_synced_later() {
    let fixture = Fixture::new(SMALL);
    let mut backend = fixture.backend();
    fixture.fill(&mut backend, 4);
    let (dir, aside) = (fixture.dir.path().join("base/5"), fixture.dir.path().join("base/aside"));
    std::fs::rename(&dir, &aside).unwrap();
    std::fs::write(&dir, "no directory").unwrap();
    let error = fixture.pool.sync_pending(&mut backend).unwrap_err();
    assert!(!error.is_fatal(), "{error}");
    assert!(error.to_string().contains("base/5"), "{error}");
    std::fs::remove_file(&dir).unwrap();
    std::fs::rename(&aside, &dir).unwrap();
    assert_eq!(fixture.pool.sync_pending(&mut backend).unwrap().counts().1, 1);
    assert!(fixture.smgr.nothing_to_sync());
}

/// Descriptors of files below a directory that this process has open.
fn open_below(dir: &Path) -> usize {
    std::fs::read_dir("/proc/self/fd")
        .unwrap()
        .filter_map(|e| std::fs::read_link(e.ok()?.path()).ok())
        .filter(|target| target.starts_with(dir) && !target.is_dir())
        .count()
}

#[test]
fn files_are_closed_when_the_system_has_no_descriptor_left() {
    const EMFILE: Errno = Errno(24);
    const ENFILE: Errno = Errno(23);
    for errno in [EMFILE, ENFILE] {
        let (dir, plan) = (tempfile::tempdir().unwrap(), FaultPlan::new());
        let below = dir.path().to_path_buf();
        let none_left = plan
            .add(Rule::on(Ops::OPEN).when(move |_| open_below(&below) >= 20), Effect::Fail(errno));
        let aio =
            plan.open(Arc::new(PosixNamespace), MethodKind::Sync, AioConfig::default()).unwrap();
        std::fs::create_dir_all(dir.path().join("base/5")).unwrap();
        let smgr = Smgr::new(Arc::clone(&aio), dir.path(), SmgrConfig::default());
        let mut io = aio.backend(BackendType::Client).unwrap();
        for n in 0..100 {
            let rel = RelFileLocator::in_default(5, 30_000 + n);
            smgr.create(rel, Fork::Main, false).unwrap();
            smgr.extend(&mut io, rel, Fork::Main, 1).unwrap();
        }
        assert_eq!(smgr.sync_pending(&mut io).unwrap().files, 100);
        assert!(plan.fired(none_left) > 0);
    }
}

/// Drops each relation just after one of its files was opened.
#[derive(Default)]
struct DropAfterOpen(OnceLock<Arc<Smgr>>, AtomicUsize);

impl Namespace for DropAfterOpen {
    fn open(&self, path: &Path, options: &OpenOptions) -> Result<File, AioError> {
        let file = PosixNamespace.open(path, options)?;
        let number =
            path.file_name().and_then(|name| name.to_str()).and_then(|name| name.parse().ok());
        // Dropping opens files too, to empty them.
        let for_use = !options.create_new && !options.truncate;
        if let (Some(smgr), Some(number), true) = (self.0.get(), number, for_use) {
            smgr.unlink(RelFileLocator::in_default(5, number)).unwrap();
            self.1.fetch_add(1, Ordering::SeqCst);
        }
        Ok(file)
    }
    fn allocate(&self, file: &File, offset: u64, len: u64) -> Result<(), AioError> {
        PosixNamespace.allocate(file, offset, len)
    }
    as_the_system_does! {
        mkdir(path: &Path) -> Result<(), AioError>;
        rename(from: &Path, to: &Path) -> Result<(), AioError>;
        rename_noreplace(from: &Path, to: &Path) -> Result<(), AioError>;
        unlink(path: &Path) -> Result<(), AioError>;
        rmdir(path: &Path) -> Result<(), AioError>;
        link_count(path: &Path) -> Result<u64, AioError>;
        list(path: &Path) -> Result<Vec<DirEntry>, AioError>;
        stat(path: &Path) -> Result<Option<FileStat>, AioError>;
        file_len(file: &File) -> Result<u64, AioError>;
        set_len(file: &File, len: u64) -> Result<(), AioError>;
        sync_file(file: &File) -> Result<(), AioError>;
        sync_dir(path: &Path) -> Result<(), AioError>;
        try_lock(file: &File) -> Result<bool, AioError>;
        probe_direct(dir: &Path) -> Result<DirectAlignment, DirectRefusal>;
    }
}

#[test]
fn a_file_opened_while_its_relation_is_dropped_is_not_kept() {
    let dir = tempfile::tempdir().unwrap();
    let names = Arc::new(DropAfterOpen::default());
    let namespace = Arc::clone(&names);
    let aio = Aio::new(namespace, MethodKind::Sync, AioConfig::default()).unwrap();
    std::fs::create_dir_all(dir.path().join("base/5")).unwrap();
    let smgr = Smgr::new(
        Arc::clone(&aio),
        dir.path(),
        SmgrConfig { max_open_files: 40, ..Default::default() },
    );
    let mut io = aio.backend(BackendType::Checkpointer).unwrap();
    names.0.set(Arc::clone(&smgr)).ok().unwrap();
    for number in 0..100 {
        smgr.create(RelFileLocator::in_default(5, 30_000 + number), Fork::Main, false).unwrap();
        smgr.close_files();
        smgr.sync_pending(&mut io).unwrap();
    }
    assert_eq!(names.1.load(Ordering::SeqCst), 100);
    // All reserved space is free again.
    for number in 0..30 {
        smgr.create(RelFileLocator::in_default(5, 40_000 + number), Fork::Main, false).unwrap();
    }
    assert_eq!(open_below(dir.path()), 30);
}

#[test]
fn few_files_stay_open() {
    let fixture = Fixture::new(SMALL);
    let config = forebay_storage::SmgrConfig { max_open_files: 40, ..Default::default() };
    let smgr = forebay_storage::Smgr::new(Arc::clone(&fixture.aio), fixture.dir(), config);
    let open = || {
        std::fs::read_dir("/proc/self/fd")
            .unwrap()
            .filter_map(|e| std::fs::read_link(e.unwrap().path()).ok())
            .filter(|target| target.starts_with(fixture.dir()))
            .count()
    };
    for rel in 0..200 {
        smgr.create(RelFileLocator::in_default(5, 30_000 + rel), Fork::Main, false).unwrap();
        assert!(open() <= 41, "{} files are open", open());
    }
    smgr.close_files();
    assert_eq!(open(), 0);
}
