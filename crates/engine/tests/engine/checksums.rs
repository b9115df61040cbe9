//! Checking, enabling and disabling the checksums of a directory at rest.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{is_direct, scratch, ways};
use forebay_engine::checksums::{
    BadBlock, ChecksumCounts, ChecksumMode, ChecksumObserver, ChecksumOptions, SyncMethod,
    checksums,
};
use forebay_engine::{Engine, EngineError, InitOptions};
use forebay_testkit::files::flip;

const BLOCK: usize = 8192;

#[derive(Default)]
struct Seen {
    bad: Vec<BadBlock>,
    files: u64,
    done: u64,
}

impl ChecksumObserver for Seen {
    fn bad_block(&mut self, block: &BadBlock) {
        self.bad.push(block.clone());
    }
    fn file_done(&mut self, _path: &Path) {
        self.files += 1;
    }
    fn progress(&mut self, done: u64, total: u64) {
        assert!(self.done <= done && done <= total);
        self.done = done;
    }
}

/// Makes a cluster with one database.
fn init(dir: &Path) {
    let small = InitOptions { wal_segment_size: 1 << 20, sync: false, ..InitOptions::default() };
    Engine::init(dir, &InitOptions { templates: false, ..small }).expect("init");
}

/// A directory with a relation of 100 pages in two segments' worth of names, some of them new.
fn cluster(dir: &Path) -> PathBuf {
    init(dir);
    let mut bytes = vec![0; 100 * BLOCK];
    for (n, page) in bytes.chunks_mut(BLOCK).enumerate() {
        if n % 7 != 0 {
            page[..].fill(n as u8 + 1);
        }
    }
    let base = dir.join("base/5");
    fs::write(base.join("77777"), &bytes).expect("written");
    fs::write(base.join("77777.1"), &bytes[..3 * BLOCK]).expect("written");
    fs::write(base.join("77777_vm"), []).expect("written");
    fs::write(base.join("pg_internal.init"), b"no pages").expect("written");
    base
}

fn run(dir: &Path, options: &ChecksumOptions) -> Result<(ChecksumCounts, Seen), EngineError> {
    let mut seen = Seen::default();
    checksums(dir, options, &mut seen).map(|counts| (counts, seen))
}

fn message(dir: &Path, mode: ChecksumMode) -> String {
    match run(dir, &ChecksumOptions::new(mode)) {
        Err(error) => error.to_string(),
        Ok((counts, _)) => panic!("it should be refused: {counts:?}"),
    }
}

#[test]
fn all_ways_find_the_same() {
    for (way, config) in ways() {
        for io_combine_limit in [1, 16, ChecksumOptions::MAX_COMBINE] {
            let folder = scratch();
            let dir = folder.path().join("data");
            let base = cluster(&dir);
            let with = |mode| ChecksumOptions {
                io_method: config.io_method,
                direct: is_direct(&config),
                io_combine_limit,
                sync: (io_combine_limit > 1).then_some(if io_combine_limit == 16 {
                    SyncMethod::Fsync
                } else {
                    SyncMethod::SyncFs
                }),
                ..ChecksumOptions::new(mode)
            };
            let (damaged, seen) = run(&dir, &with(ChecksumMode::Check)).expect("checks");
            let expected = (0..100).filter(|n| n % 7 != 0).count() as u64 + 2;
            assert_eq!(damaged.bad_blocks, expected, "{way}");
            assert_eq!(
                (seen.bad.len() as u64, seen.files),
                (expected, damaged.files_scanned),
                "{way}"
            );
            assert_eq!(seen.done, damaged.blocks_scanned * BLOCK as u64);

            run(&dir, &with(ChecksumMode::Disable)).expect("disables");
            assert_eq!(
                message(&dir, ChecksumMode::Check),
                "data checksums are not enabled in cluster"
            );
            let (enabled, _) = run(&dir, &with(ChecksumMode::Enable)).expect("enables");
            assert_eq!((enabled.files_written, enabled.blocks_written), (2, expected), "{way}");
            let (good, _) = run(&dir, &with(ChecksumMode::Check)).expect("checks");
            let counts = (good.bad_blocks, good.blocks_scanned, good.files_scanned);
            assert_eq!(counts, (0, damaged.blocks_scanned, damaged.files_scanned), "{way}");

            flip(&base.join("77777"), 50 * BLOCK + 4000);
            flip(&base.join("77777.1"), 2 * BLOCK + 24);
            let (bad, seen) = run(&dir, &with(ChecksumMode::Check)).expect("checks");
            let places: Vec<_> = seen.bad.iter().map(|bad| (bad.path.clone(), bad.block)).collect();
            assert_eq!(places, [(base.join("77777"), 50), (base.join("77777.1"), 2)], "{way}");
            assert_eq!(bad.bad_blocks, 2);
            let one =
                ChecksumOptions { filenode: Some("77777".into()), ..with(ChecksumMode::Check) };
            assert_eq!(run(&dir, &one).expect("checks").0.files_scanned, 3);
        }
    }
}

#[test]
fn an_engine_opens_what_was_enabled_and_disabled() {
    let folder = scratch();
    let dir = folder.path().join("data");
    init(&dir);
    for mode in [ChecksumMode::Disable, ChecksumMode::Enable, ChecksumMode::Check] {
        let (counts, _) = run(&dir, &ChecksumOptions::new(mode)).expect("works");
        assert_eq!(counts.bad_blocks, 0);
        let engine =
            Engine::open(&dir, crate::common::config(Default::default(), false)).expect("opens");
        assert_eq!(message(&dir, ChecksumMode::Check), "cluster must be shut down");
        engine.shutdown(forebay_engine::ShutdownMode::Fast).expect("stops");
    }
}

/// Whatever is refused leaves every byte as it was.
#[test]
fn bad_input_is_refused_by_name_and_nothing_is_written() {
    type Damage = fn(&Path);
    let control = |dir: &Path| dir.join("global/pg_control");
    let cases: [(&str, Damage); 9] = [
        ("global/pg_control\" for reading: No such file", |dir| {
            fs::remove_file(dir.join("global/pg_control")).expect("removed");
        }),
        ("pg_control CRC value is incorrect", |dir| flip(&dir.join("global/pg_control"), 100)),
        ("cluster is not compatible with this version", |dir| {
            flip(&dir.join("global/pg_control"), 8)
        }),
        ("global/pg_control\": read 100 of 296", |dir| {
            let bytes = fs::read(dir.join("global/pg_control")).expect("readable");
            fs::write(dir.join("global/pg_control"), &bytes[..100]).expect("writable");
        }),
        ("global/pg_control\": Is a directory", |dir| {
            fs::remove_file(dir.join("global/pg_control")).expect("removed");
            fs::create_dir(dir.join("global/pg_control")).expect("made");
        }),
        ("could not read block 1 in file", |dir| {
            fs::write(dir.join("base/5/99999"), vec![1; BLOCK + 100]).expect("written");
        }),
        ("invalid segment number 99999999999 in file name", |dir| {
            fs::write(dir.join("base/5/1259.99999999999"), []).expect("written");
        }),
        ("base/5/dangling\": No such file", |dir| {
            std::os::unix::fs::symlink("nowhere", dir.join("base/5/dangling")).expect("linked");
        }),
        ("pg_tblspc/16500/PG_18_202506291\": No such file", |dir| {
            fs::create_dir(dir.join("pg_tblspc/16500")).expect("made");
        }),
    ];
    for (expected, damage) in cases {
        let folder = scratch();
        let dir = folder.path().join("data");
        let base = cluster(&dir);
        run(&dir, &ChecksumOptions::new(ChecksumMode::Disable)).expect("disables");
        damage(&dir);
        let before = (fs::read(base.join("77777")).ok(), fs::read(control(&dir)).ok());
        let said = message(&dir, ChecksumMode::Enable);
        assert!(said.contains(expected), "{said:?} should contain {expected:?}");
        assert!(
            (fs::read(base.join("77777")).ok(), fs::read(control(&dir)).ok()) == before,
            "{expected}"
        );
    }
    assert!(
        message(Path::new("/nowhere/at/all"), ChecksumMode::Check)
            .contains("/nowhere/at/all/global/pg_control")
    );
}
