//! `forebay check`: every kind of damage that it claims to find, in files that an engine wrote, and
//! nothing in the files of healthy clusters, of PostgreSQL 15 and 18 too (FOREBAY_PG18_RUN).

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::common::*;
use forebay_engine::check::{
    CheckCounts, CheckObserver, CheckOptions, CheckedRelation, Finding, NotChecked, check,
};
use forebay_engine::{
    Datum, Engine, EngineError, Fork, IoMethod, ItemPointer, LockMode, LockStrength, RowWait,
    Session, ShutdownMode, VacuumOptions,
};
use forebay_format::checksum::page_checksum;
use forebay_format::control;
use forebay_format::page::{ItemState, PageMut};
use forebay_format::tuple::{
    HEAP_HASNULL, HEAP_HASVARWIDTH, HEAP_HOT_UPDATED, HEAP_ONLY_TUPLE, HEAP_XMAX_COMMITTED,
    HEAP_XMAX_INVALID, HEAP_XMAX_LOCK_ONLY, HEAP_XMIN_COMMITTED, HEAP_XMIN_FROZEN,
    HEAP_XMIN_INVALID,
};
use forebay_format::{BLOCK_SIZE, HeapTuple, HeapTupleMut, ItemId, Page, PageBytes};
use forebay_testkit::Dice;
use forebay_testkit::peer::{Peer, psql, query};
use forebay_testkit::process::must;

/// Also looks at the progress.
#[derive(Default)]
pub struct Seen {
    pub findings: Findings,
    /// Values that no row has, and their bytes, by TOAST table.
    pub orphans: Vec<(String, u64, u64)>,
    done: u64,
    /// It grows if something is read again.
    total: u64,
}

impl CheckObserver for Seen {
    fn found(&mut self, relation: &CheckedRelation, finding: &Finding) {
        self.findings.found(relation, finding);
    }
    fn file(&mut self, path: &Path, message: &str) {
        self.findings.file(path, message);
    }
    fn orphans(&mut self, toast: &CheckedRelation, values: u64, bytes: u64) {
        self.orphans.push((toast.name.clone(), values, bytes));
    }
    fn progress(&mut self, done: u64, total: u64) {
        assert!(self.done <= done && done <= total && self.total <= total);
        (self.done, self.total) = (done, total);
    }
}

pub fn run(dir: &Path, options: &CheckOptions) -> Result<(CheckCounts, Vec<String>), EngineError> {
    run_seen(dir, options).map(|(counts, seen)| (counts, seen.findings.0))
}

pub fn run_seen(dir: &Path, options: &CheckOptions) -> Result<(CheckCounts, Seen), EngineError> {
    let mut seen = Seen::default();
    let counts = check(dir, options, &mut seen)?;
    assert_eq!(counts.findings, seen.findings.0.len() as u64);
    assert_eq!(counts.pages * BLOCK_SIZE as u64, seen.done);
    Ok((counts, seen))
}

/// Only the table `t`.
pub fn only_t() -> CheckOptions {
    CheckOptions { relations: vec!["t".to_owned()], ..CheckOptions::default() }
}

pub fn found(dir: &Path) -> Vec<String> {
    run(dir, &only_t()).expect("a check").1
}

const FREEZE: VacuumOptions = VacuumOptions {
    freeze: true,
    disable_page_skipping: false,
    skip_locked: false,
    truncate: None,
    index_cleanup: None,
    verbose: false,
    process_main: true,
    process_toast: true,
    parallel: Some(0),
    buffer_usage_limit: None,
};

fn place(session: &mut Session, wanted: i64) -> ItemPointer {
    let table = session.open_table(None, "t", LockMode::RowExclusive).expect("table");
    let mut scan = session.scan(&table).expect("scan");
    while let Some(row) = scan.next(session).expect("row") {
        if row.decode().expect("values")[0] == Datum::Int8(wanted) {
            return row.place();
        }
    }
    panic!("there is no row {wanted}")
}

fn update(session: &mut Session, id: i64) -> Result<(), EngineError> {
    let (place, table) =
        (place(session, id), session.open_table(None, "t", LockMode::RowExclusive)?);
    let values = [Datum::Int8(id), Datum::text("new")];
    session.update_row(&table, place, &values).map(drop)
}

fn lock(session: &mut Session, id: i64) {
    let place = place(session, id);
    let table = session.open_table(None, "t", LockMode::RowShare).expect("table");
    session.lock_row(&table, place, LockStrength::KeyShare, RowWait::Wait).expect("lock");
}

/// First row of the second page, whose rows change; all others are frozen.
const UPDATED: i64 = 250;
const DELETED: i64 = 251;
const ABORTED: i64 = 252;
const LOCKED: i64 = 253;
const FRESH: i64 = 1000;

/// A directory that was shut down, with the table `t`: a page of frozen rows, and one with rows
/// that were updated, deleted, locked by two, and updated by a transaction that aborted.
pub fn aged() -> (tempfile::TempDir, PathBuf) {
    let (scratch, dir) = new_dir();
    let (engine, mut session) = open_session(&dir, &config(IoMethod::Sync, false));
    create(&mut session, "t");
    // The second page keeps so much room that a scan does not prune it.
    insert(&mut session, "t", 0..270);
    let table = transaction(&mut session, |s| s.table(None, "t")).expect("table").expect("one");
    session.vacuum(&table, &FREEZE, &mut Vec::new()).expect("vacuum");
    insert(&mut session, "t", FRESH..FRESH + 10);
    transaction(&mut session, |s| update(s, UPDATED)).expect("update");
    transaction(&mut session, |s| {
        let (place, table) = (place(s, DELETED), s.open_table(None, "t", LockMode::RowExclusive)?);
        s.delete_row(&table, place).map(drop)
    })
    .expect("delete");
    start(&mut session);
    update(&mut session, ABORTED).expect("update");
    session.abort().expect("abort");
    let mut other = engine.session().expect("session");
    start(&mut session);
    start(&mut other);
    lock(&mut session, LOCKED);
    lock(&mut other, LOCKED);
    session.commit().expect("commit");
    other.commit().expect("commit");
    drop((session, other));
    stop(engine);
    (scratch, dir)
}

pub fn stop(engine: std::sync::Arc<Engine>) {
    engine.shutdown(ShutdownMode::Fast).expect("shutdown");
}

/// The second page, with the line pointers of its rows by their ids.
pub struct Rows<'a> {
    page: &'a mut PageBytes,
    /// The oldest version of each.
    offsets: BTreeMap<i64, u16>,
}

impl Rows<'_> {
    pub fn of(page: &mut PageBytes) -> Rows<'_> {
        let mut offsets = BTreeMap::new();
        for (number, bytes) in Page::new(page).items() {
            let tuple = HeapTuple::new(bytes).expect("a tuple");
            let id = bytes[tuple.hoff()..].first_chunk().copied().map(i64::from_le_bytes);
            offsets.entry(id.expect("an id")).or_insert(number);
        }
        Rows { page, offsets }
    }

    fn offset(&self, id: i64) -> u16 {
        self.offsets[&id]
    }

    fn pointer(&mut self, id: i64, change: impl FnOnce(&mut ItemId)) {
        let number = self.offset(id);
        let mut item = Page::new(self.page).item_id(number).expect("a line pointer");
        change(&mut item);
        assert!(PageMut(self.page).set_item_id(number, item));
    }

    fn bytes(&mut self, id: i64) -> &mut [u8] {
        let number = self.offset(id);
        let id = Page::new(self.page).item_id(number).expect("a line pointer");
        &mut self.page[usize::from(id.offset)..usize::from(id.offset + id.len)]
    }

    fn tuple(&mut self, id: i64, change: impl FnOnce(&mut HeapTupleMut<'_>)) {
        change(&mut HeapTupleMut::new(self.bytes(id)).expect("a tuple"));
    }

    /// Sets and clears flags of infomask.
    fn flags(&mut self, id: i64, set: u16, clear: u16) {
        self.tuple(id, |tuple| {
            let flags = tuple.tuple().infomask();
            tuple.set_infomask(flags & !clear | set);
        });
    }

    fn flags2(&mut self, id: i64, set: u16, clear: u16) {
        self.tuple(id, |tuple| {
            let flags = tuple.tuple().infomask2();
            tuple.set_infomask2(flags & !clear | set);
        });
    }

    /// The newer version of the updated row.
    fn newer(&mut self, change: impl FnOnce(&mut HeapTupleMut<'_>)) {
        let old = HeapTuple::new(self.bytes(UPDATED)).expect("a tuple").ctid();
        change(
            &mut HeapTupleMut::new(PageMut(self.page).item_mut(old.offset).expect("it"))
                .expect("it"),
        );
    }
}

/// What is done to the second page, and a finding that it must cause.
pub type Damage = (fn(&mut Rows<'_>), &'static str);

const HEADERS: &[Damage] = &[
    (|r| r.page[10] |= 8, "page has invalid flags 0x0008"),
    (|r| PageMut(r.page).set_lower(20), "page header is damaged: lower 20,"),
    (|r| PageMut(r.page).set_lower(26), "line pointers end at 26, inside of one"),
    (|r| PageMut(r.page).set_upper(8200), "page header is damaged: lower"),
    (|r| PageMut(r.page).set_upper(0), "page is marked as new, but is not empty"),
    (|r| r.page[16..18].copy_from_slice(&8184_u16.to_le_bytes()), "special space begins at 8184"),
    (|r| r.page[18] = 3, "page has size and layout version 0x2003 instead of 0x2004"),
];

pub const POINTERS: &[Damage] = &[
    (|r| r.pointer(FRESH, |id| id.offset += 4), "is not maximally aligned"),
    (
        |r| r.pointer(FRESH, |id| id.len = 20),
        "line pointer length 20 is less than the minimum tuple",
    ),
    (|r| r.pointer(FRESH, |id| id.len = 9000), "ends beyond maximum page offset 8192"),
    (|r| r.pointer(FRESH, |id| id.offset = 16), "with length 32 begins before the items at"),
    (|r| r.pointer(FRESH, |id| id.offset += 8), "overlaps another item"),
    (|r| r.pointer(FRESH, |id| id.state = ItemState::Dead), "dead line pointer has an item of"),
    (|r| r.pointer(FRESH, |id| id.state = ItemState::Unused), "unused line pointer has an item of"),
    (|r| redirect(r, 0), "line pointer redirection to item at offset 0 precedes minimum offset 1"),
    (|r| redirect(r, 999), "line pointer redirection to item at offset 999 exceeds maximum offset"),
    (|r| redirect(r, r.offset(FRESH)), "points to another redirected line pointer at offset"),
    (
        |r| redirect(r, r.offset(FRESH + 1)),
        "redirected line pointer points to a non-heap-only tuple",
    ),
    (
        |r| {
            let target = r.offset(FRESH + 1);
            r.pointer(FRESH + 1, |id| *id = ItemId::UNUSED);
            redirect(r, target);
        },
        "redirected line pointer points to an unused item at offset",
    ),
    (
        |r| {
            let target = r.offset(FRESH + 1);
            r.pointer(FRESH + 1, |id| *id = ItemId { state: ItemState::Dead, ..ItemId::UNUSED });
            redirect(r, target);
        },
        "redirected line pointer points to a dead item at offset",
    ),
    (
        |r| {
            let mut target = 0;
            r.tuple(UPDATED, |tuple| target = tuple.tuple().ctid().offset);
            redirect(r, target);
        },
        "also points there",
    ),
];

fn redirect(rows: &mut Rows<'_>, target: u16) {
    let state = ItemState::Redirect;
    rows.pointer(FRESH, |id| *id = ItemId { offset: target, state, len: 0 });
}

pub const TUPLES: &[Damage] = &[
    (|r| r.tuple(FRESH, |t| t.set_hoff(80)), "data begins at offset 80 beyond the tuple length"),
    (
        |r| r.tuple(FRESH + 1, |t| t.set_hoff(32)),
        "tuple data should begin at byte 24, but actually begins at byte 32 (2 attributes, no",
    ),
    (
        |r| r.tuple(FRESH, |t| t.set_hoff(32)),
        "tuple data should begin at byte 24, but actually begins at byte 32 (2 attributes, has",
    ),
    (|r| r.flags(FRESH, 0, HEAP_HASNULL), "attribute with length 4294967295 ends at offset"),
    (|r| r.flags(LOCKED, HEAP_XMAX_COMMITTED, 0), "multixact should not be marked committed"),
    (
        |r| r.flags(DELETED, HEAP_XMAX_COMMITTED | HEAP_XMAX_INVALID, 0),
        "xmax is marked both committed and invalid",
    ),
    (
        |r| r.flags(DELETED, HEAP_XMAX_COMMITTED | HEAP_XMAX_LOCK_ONLY, 0),
        "xmax is marked committed, but has only locked the tuple",
    ),
    (
        |r| {
            r.flags2(FRESH + 1, HEAP_HOT_UPDATED, 0);
            r.flags(FRESH + 1, 0, HEAP_XMAX_INVALID);
        },
        "tuple has been HOT updated, but xmax is 0",
    ),
    (|r| r.flags2(FRESH + 1, HEAP_ONLY_TUPLE, 0), "tuple is heap only, but not the result of an"),
    (|r| r.tuple(FRESH + 1, |t| t.set_xmin(900)), "xmin 900 equals or exceeds next valid transact"),
    (|r| r.tuple(FRESH + 1, |t| t.set_xmin(u32::MAX)), "xmin 4294967295 precedes oldest valid"),
    (|r| r.flags(FRESH + 1, HEAP_XMIN_INVALID, 0), " is marked aborted, but has committed"),
    (
        |r| {
            r.newer(|t| {
                let flags = t.tuple().infomask();
                t.set_infomask(flags | HEAP_XMIN_COMMITTED);
                t.set_xmin(t.tuple().xmin() + 2);
            })
        },
        " is marked committed, but did not commit",
    ),
    (
        |r| r.tuple(DELETED, |t| t.set_xmax(900)),
        "xmax 900 equals or exceeds next valid transaction",
    ),
    (|r| r.tuple(DELETED, |t| t.set_xmax(u32::MAX)), "xmax 4294967295 precedes oldest valid"),
    (|r| r.flags(DELETED, HEAP_XMAX_INVALID, 0), " is marked invalid, but has committed"),
    (|r| r.flags(ABORTED, HEAP_XMAX_COMMITTED, 0), " is marked committed, but did not commit"),
    (|r| r.tuple(LOCKED, |t| t.set_xmax(0)), "multitransaction ID is invalid"),
    (
        |r| r.tuple(LOCKED, |t| t.set_xmax(77)),
        "multitransaction ID 77 equals or exceeds next valid",
    ),
    (|r| r.flags(LOCKED, 0, HEAP_XMAX_LOCK_ONLY), "update xid is invalid"),
];

pub const VALUES: &[Damage] = &[
    (|r| r.flags2(FRESH + 1, 3, 0), "number of attributes 3 exceeds maximum expected for table 2"),
    (|r| r.pointer(FRESH + 1, |id| id.len -= 8), "ends at offset"),
    (|r| r.flags2(FRESH + 1, 1, 2), "attributes end at offset 32 of total tuple length"),
    (|r| r.flags(FRESH + 1, 0, HEAP_HASVARWIDTH), "but HEAP_HASVARWIDTH not set"),
    (|r| r.bytes(FRESH + 1)[32] = 0xff, "attribute with length 4294967295 ends at offset 159"),
    (|r| r.bytes(FRESH + 1)[32..34].copy_from_slice(&[1, 3]), "unexpected TOAST tag 3"),
    (|r| r.bytes(FRESH + 1)[32..36].fill(0), "attribute has a varlena header with length 0"),
    (
        |r| r.bytes(FRESH + 1)[32..36].copy_from_slice(&[6 << 2 | 2, 0, 0, 0]),
        "compressed attribute is shorter than its header",
    ),
    (
        |r| r.bytes(FRESH + 1)[32..40].copy_from_slice(&[8 << 2 | 2, 0, 0, 0, 9, 0, 0, 0x80]),
        "compressed attribute has invalid compression method id 2",
    ),
];

pub const CHAINS: &[Damage] = &[
    (|r| r.flags2(UPDATED, 0, HEAP_HOT_UPDATED), "non-heap-only update produced a heap-only tuple"),
    (
        |r| {
            r.newer(|t| {
                let flags = t.tuple().infomask2();
                t.set_infomask2(flags & !HEAP_ONLY_TUPLE);
            })
        },
        "heap-only update produced a non-heap only tuple at offset",
    ),
    (
        |r| r.tuple(UPDATED, |t| t.set_ctid(ItemPointer::new(99, 1))),
        "but its new version is not at (99,1)",
    ),
    (
        |r| r.tuple(UPDATED, |t| t.set_ctid(ItemPointer::new(99, 1))),
        "tuple is root of chain but is marked as heap-only tuple",
    ),
    (
        |r| {
            let (mut xmax, mut to) = (0, ItemPointer::INVALID);
            r.tuple(UPDATED, |t| (xmax, to) = (t.tuple().xmax(), t.tuple().ctid()));
            r.tuple(DELETED, |t| {
                t.set_xmax(xmax);
                t.set_ctid(to);
            });
        },
        "tuple points to new version at offset",
    ),
    (
        |r| {
            // The aborted update's transaction, as the inserter of the updated row.
            let mut aborted = 0;
            r.tuple(ABORTED, |t| aborted = t.tuple().xmax());
            r.tuple(UPDATED, |t| t.set_xmin(aborted));
            r.flags(UPDATED, 0, HEAP_XMIN_FROZEN);
        },
        "was updated to produce a tuple at offset",
    ),
];

pub const VISIBLE: &[Damage] = &[
    (
        |r| PageMut(r.page).set_all_visible(true),
        "tuple is not visible to all, but its page is marked as all-visible",
    ),
    (
        |r| {
            r.pointer(FRESH, |id| *id = ItemId { state: ItemState::Dead, ..ItemId::UNUSED });
            PageMut(r.page).set_all_visible(true);
        },
        "page containing LP_DEAD items is marked as all-visible",
    ),
];

/// Changes a file, and calls `body` before it restores the file.
pub fn with_file<R>(file: &Path, damage: impl FnOnce(&mut Vec<u8>), body: impl FnOnce() -> R) -> R {
    let before = fs::read(file).expect("readable");
    let mut after = before.clone();
    damage(&mut after);
    fs::write(file, &after).expect("writable");
    let result = body();
    fs::write(file, &before).expect("writable");
    result
}

/// The same for a page, whose checksum will be right.
pub fn with_page<R>(
    file: &Path,
    block: u32,
    damage: impl FnOnce(&mut PageBytes),
    body: impl FnOnce() -> R,
) -> R {
    let change = |bytes: &mut Vec<u8>| {
        let (pages, _) = bytes.as_chunks_mut::<BLOCK_SIZE>();
        let page = &mut pages[block as usize];
        damage(page);
        let sum = page_checksum(page, block);
        PageMut(page).set_checksum(sum);
    };
    with_file(file, change, body)
}

#[test]
fn damage_of_tables_is_found() {
    let (_scratch, dir) = aged();
    assert_eq!(found(&dir), [""; 0], "undamaged");
    let file = dir.join("base/5/16384");
    let mut missed = Vec::new();
    for damages in [HEADERS, POINTERS, TUPLES, VALUES, CHAINS, VISIBLE] {
        for (damage, expected) in damages {
            let found = with_page(&file, 1, |page| damage(&mut Rows::of(page)), || found(&dir));
            let there = found.iter().any(|finding| {
                finding.starts_with("public.t: block 1") && finding.contains(expected)
            });
            if !there {
                missed.push((expected, found));
            }
        }
    }
    assert!(missed.is_empty(), "{missed:#?}");
    assert_eq!(found(&dir), [""; 0], "restored");
}

#[test]
fn damage_of_maps_and_checksums_is_found() {
    let (_scratch, dir) = aged();
    let path = |fork: Fork| dir.join(format!("base/5/16384{}", fork.suffix()));
    let damaged = |fork, at: usize, value: u8| {
        with_page(&path(fork), 0, |page| page[at] = value, || found(&dir))
    };
    let vm = |byte| damaged(Fork::Vm, 24, byte);
    // Block 0 is frozen, block 1 is not; the upper two have nothing.
    assert_eq!(fs::read(path(Fork::Vm)).expect("readable")[24], 0b0011);
    let bits = "public.t: block 1: page is not marked all-visible but visibility map bit is set";
    assert!(vm(0b0111).contains(&bits.to_owned()));
    let bits = "public.t: fork vm, block 0: all-frozen bit of block 0 is set without all-visible";
    assert!(vm(0b0010).contains(&bits.to_owned()));
    let beyond = "public.t: fork vm, block 0: bits are set of block 2, and the table has 2 blocks";
    assert_eq!(vm(0b0001_0011), [beyond]);
    // What the free-space map says of blocks is a hint.
    assert_eq!(damaged(Fork::Fsm, 28, 200), [""; 0]);
    for fork in [Fork::Vm, Fork::Fsm] {
        assert!(damaged(fork, 12, 28)[0].contains("page of a map has line pointers up to 28"));
    }

    let thaw = |page: &mut PageBytes| {
        let mut page = PageMut(page);
        let mut tuple = HeapTupleMut::new(page.item_mut(3).expect("an item")).expect("a tuple");
        let flags = tuple.tuple().infomask();
        tuple.set_infomask(flags & !HEAP_XMIN_INVALID);
    };
    let thawed = with_page(&path(Fork::Main), 0, thaw, || found(&dir));
    let expected = "public.t: block 0, offset 3: tuple is not frozen, but visibility map bit";
    assert!(thawed.iter().any(|found| found.starts_with(expected)), "{thawed:?}");

    for fork in [Fork::Main, Fork::Vm, Fork::Fsm] {
        let before = fs::read(path(fork)).expect("readable");
        let mut after = before.clone();
        after[8] ^= 1;
        fs::write(path(fork), &after).expect("writable");
        let found = found(&dir);
        assert!(found[0].contains("page verification failed, calculated checksum"), "{found:?}");
        fs::write(path(fork), &before).expect("writable");
    }
}

#[test]
fn damage_of_files_is_found() {
    let (_scratch, dir) = aged();
    let file = dir.join("base/5/16384");
    let before = fs::read(&file).expect("readable");
    fs::write(&file, &before[..BLOCK_SIZE + 100]).expect("writable");
    assert!(found(&dir)[0].ends_with("file ends inside of block 1: it has 8292 bytes"));
    fs::write(dir.join("base/5/16384.1"), &before).expect("writable");
    assert!(found(&dir).iter().any(|f| f.ends_with("file follows a segment that is not full")));
    fs::remove_file(dir.join("base/5/16384.1")).expect("removed");
    fs::remove_file(&file).expect("removed");
    assert!(found(&dir)[0].ends_with("file of relation \"t\" is missing"));
    fs::write(&file, &before).expect("writable");

    for (name, expected) in [
        ("pg_multixact/offsets/0000", "could not access the members of multitransaction ID 1"),
        ("pg_multixact/members/0000", "could not access member 1 of multitransaction ID 1"),
        ("pg_xact/0000", "could not access status of transaction"),
    ] {
        let path = dir.join(name);
        let before = fs::read(&path).expect("readable");
        fs::remove_file(&path).expect("removed");
        // Without pg_xact the catalogs' rows count by their flags alone.
        match run(&dir, &only_t()) {
            Ok((_, found)) => {
                assert!(found.iter().any(|f| f.ends_with("file is missing")), "{found:?}");
                assert!(found.iter().any(|f| f.contains(expected)), "{expected}: {found:?}");
            }
            Err(error) => assert_eq!((name, error.sqlstate()), ("pg_xact/0000", "42P01")),
        }
        fs::write(&path, &before).expect("writable");
    }
    let members = dir.join("pg_multixact/members/0000");
    for (at, value, expected) in [
        (1, 9, "multitransaction ID 1: MultiXact member 1 has the unknown status 9"),
        (1, 4, "has the update xid"),
        (9, 200, "of multitransaction ID 1 equals or exceeds next valid transaction ID"),
    ] {
        let found = with_file(&members, |bytes| bytes[at] = value, || found(&dir));
        assert!(found.iter().any(|f| f.contains(expected)), "{expected}: {found:?}");
    }
    // The first members would be a million further.
    let offsets = dir.join("pg_multixact/offsets/0000");
    let found_of_offset = with_file(&offsets, |bytes| bytes[6] = 0x10, || found(&dir));
    let missing = found_of_offset.iter().filter(|found| found.contains("file is missing"));
    assert_eq!(missing.count(), 1, "{found_of_offset:?}");
    assert_eq!(found(&dir), [""; 0]);
}

#[test]
fn refusals_and_what_is_left_out() {
    let (_scratch, dir) = aged();
    let every = |options: &CheckOptions| run(&dir, options).expect("a check");
    let (counts, found) = every(&CheckOptions::default());
    assert_eq!(found, [""; 0]);
    assert!(counts.relations > 5 && counts.pages > 10, "{counts:?}");
    for jobs in [2, 7] {
        for io_method in [IoMethod::Sync, IoMethod::Worker] {
            let options = CheckOptions { jobs, io_method, ..CheckOptions::default() };
            assert_eq!(every(&options), (counts.clone(), Vec::new()));
        }
    }
    fs::write(dir.join("base/5/4711"), [7; 8192]).expect("writable");
    let (counts, found) = every(&CheckOptions::default());
    assert_eq!((found.len(), counts.not_checked[&NotChecked::StrayFiles]), (0, 1));
    for (names, unknown) in [(&["none"][..], "none"), (&["x", "t", "public.y"], "x, public.y")] {
        let relations = names.iter().map(|name| (*name).to_owned()).collect();
        let refused = run(&dir, &CheckOptions { relations, ..CheckOptions::default() });
        let expected = format!("no relations match {unknown}");
        assert_eq!(refused.expect_err("no relation").to_string(), expected);
    }

    let (engine, mut session) = open_session(&dir, &config(IoMethod::Sync, false));
    insert(&mut session, "t", 5000..5010);
    let refused = run(&dir, &CheckOptions::default()).expect_err("it runs");
    assert_eq!(refused.to_string(), "lock file \"postmaster.pid\" already exists");
    drop(session);
    engine.shutdown(ShutdownMode::Immediate).expect("a crash");
    drop(engine);
    let refused = run(&dir, &CheckOptions::default()).expect_err("it has crashed");
    assert_eq!(refused.to_string(), "cluster must be shut down");
    let crashed = CheckOptions { crashed: true, ..CheckOptions::default() };
    let (counts, found) = every(&crashed);
    assert_eq!(found, [""; 0]);
    assert!(counts.not_checked[&NotChecked::Transactions] > 0, "{counts:?}");
}

#[test]
fn random_bytes_anywhere_never_panic() {
    let (_scratch, dir) = aged();
    let spared = |path: &Path| path.ends_with(control::PATH) || path.starts_with("pg_wal");
    let before: Vec<(PathBuf, Vec<u8>)> = contents(&dir)
        .into_iter()
        .filter(|(path, bytes)| !bytes.is_empty() && !spared(path))
        .collect();
    let mut dice = Dice::new(7);
    let (mut with_findings, mut refused) = (0, 0);
    for round in 0..40 {
        for (path, bytes) in &before {
            let mut bytes = bytes.clone();
            // Without the maps no catalog is found, and nothing is checked.
            let spared = round % 5 != 4 && path.ends_with("pg_filenode.map");
            let count = match round % 10 {
                _ if spared => 0,
                9 => bytes.len() / 20,
                _ => dice.index(8),
            };
            for _ in 0..count {
                let at = dice.index(bytes.len());
                bytes[at] = dice.any() as u8;
            }
            fs::write(dir.join(path), &bytes).expect("writable");
        }
        let options = CheckOptions { crashed: round % 4 == 3, ..CheckOptions::default() };
        match run(&dir, &options) {
            Ok((_, found)) => with_findings += usize::from(!found.is_empty()),
            Err(_) => refused += 1,
        }
    }
    assert!(with_findings > 20 && refused < 15, "{with_findings}, {refused}");
}

/// Two sessions that lock the same rows: MultiXacts with and without an updater.
const LOCKERS: [&str; 2] = [
    "BEGIN; SELECT count(*) FROM (SELECT FROM parent FOR KEY SHARE) s;
     SELECT count(*) FROM (SELECT FROM hot WHERE id < 200 FOR KEY SHARE) s;
     SELECT pg_advisory_lock(1); COMMIT",
    "BEGIN; UPDATE parent SET v = v + 1 WHERE id % 2 = 0;
     SELECT count(*) FROM (SELECT FROM parent WHERE id % 3 = 0 FOR KEY SHARE) s;
     SELECT count(*) FROM (SELECT FROM hot WHERE id < 100 FOR KEY SHARE) s; COMMIT",
];

fn healthy(peer: &Peer, unordered: u64) {
    peer.init_with("pg", &["-k"]);
    let server = peer.start("pg", "-c autovacuum=off");
    let age = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/engine/check.sql");
    must(psql(server.port).args(["-f", age]));
    // The first session holds its locks until the second one has ended.
    std::thread::scope(|scope| {
        let (port, [first, second]) = (server.port, LOCKERS);
        let mut command = psql(port);
        let holder =
            command.args(["-c", "SELECT pg_advisory_lock(1)", "-c", "SELECT pg_sleep(600)"]);
        let holder = holder.stdout(Stdio::null()).stderr(Stdio::null());
        let mut holder = holder.spawn().expect("psql");
        server
            .wait_for("SELECT count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND granted");
        let locker = scope.spawn(move || query(port, first));
        server.wait_for(
            "SELECT count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted",
        );
        server.query(second);
        server.query(
            "SELECT pg_terminate_backend(pid) FROM pg_locks \
             WHERE locktype = 'advisory' AND granted",
        );
        let _ = holder.wait();
        locker.join().expect("psql");
    });
    let question = "CREATE EXTENSION amcheck; SELECT count(*) FROM pg_class c, \
        LATERAL verify_heapam(c.oid) v WHERE relkind IN ('r', 't', 'm')";
    assert_eq!(server.query(question), "0");
    server.query(
        "SELECT bt_index_parent_check(i.indexrelid, true, true) FROM pg_index i \
         JOIN pg_class c ON c.oid = i.indexrelid AND relam = 403 WHERE indisvalid",
    );
    assert_ne!(server.query("SELECT next_multixact_id FROM pg_control_checkpoint()"), "0");
    drop(server);
    let options = CheckOptions { jobs: 2, ..CheckOptions::default() };
    let (counts, seen) = run_seen(&peer.outside("pg"), &options).expect("a check");
    assert_eq!((seen.findings.0.as_slice(), seen.orphans.len()), (&[][..], 0));
    assert!(counts.toast_values > 100, "{counts:?}");
    assert!(!counts.not_checked.contains_key(&NotChecked::ToastValues), "{counts:?}");
    assert!(counts.relations > 300 && counts.pages > 1000, "{counts:?}");
    let not_checked = |what| counts.not_checked.get(&what).copied().unwrap_or(0);
    assert_eq!(not_checked(NotChecked::Indexes), 0, "{counts:?}");
    assert_eq!(not_checked(NotChecked::IndexOrder), unordered, "{counts:?}");
    assert!(!counts.not_checked.contains_key(&NotChecked::Attributes), "{counts:?}");
}

#[test]
fn nothing_is_found_in_a_healthy_cluster_of_postgresql_18() {
    let Some(peer) = Peer::find("check_18") else { return };
    healthy(&peer, 1);
}

#[test]
fn nothing_is_found_in_a_healthy_cluster_of_postgresql_15() {
    let Some(peer) = Peer::fifteen("check_15") else { return };
    healthy(&peer, 1);
}
