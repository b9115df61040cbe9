//! `forebay check` of values out of line: every kind of damage that it claims to find, at the row
//! that has the value.

use std::path::{Path, PathBuf};

use crate::check::{found, only_t, run, run_seen, stop, with_page};
use crate::common::*;
use forebay_engine::check::{CheckOptions, NotChecked};
use forebay_engine::{Datum, IoMethod, LockMode, RowBatch, Session};
use forebay_format::page::{ItemId, PageMut};
use forebay_format::tuple::{HEAP_XMAX_COMMITTED, HEAP_XMAX_INVALID};
use forebay_format::{BLOCK_SIZE, HeapTupleMut, Page, PageBytes};
use forebay_testkit::Dice;

/// Bytes of a chunk.
const CHUNK: usize = 1996;

/// A text that does not get shorter.
fn noise(dice: &mut Dice, len: usize) -> String {
    (0..len).map(|_| char::from(33 + dice.index(90) as u8)).collect()
}

/// Rows with texts of 3 chunks, of 3 chunks compressed, of 2 chunks, and short ones.
fn fill(session: &mut Session) {
    let mut dice = Dice::new(3);
    transaction(session, |s| {
        let table = s.open_table(None, "t", LockMode::RowExclusive)?;
        let mut batch = RowBatch::new(&table);
        for id in 0..60 {
            let text = match id % 4 {
                0 => noise(&mut dice, 2 * CHUNK + 100),
                1 => "long ".repeat(1000) + &noise(&mut dice, 2 * CHUNK),
                2 => noise(&mut dice, 2 * CHUNK - 12),
                _ => "short".to_owned(),
            };
            batch.push(&[Datum::Int8(id), Datum::text(&text)])?;
            s.insert_batch(&table, &mut batch)?;
        }
        Ok(())
    })
    .expect("rows");
}

/// A directory that was shut down, with the table `t`, the files of it and of its TOAST table.
pub fn long() -> (tempfile::TempDir, PathBuf, [PathBuf; 2]) {
    let (scratch, dir) = new_dir();
    let (engine, mut session) = open_session(&dir, &config(IoMethod::Sync, false));
    create(&mut session, "t");
    fill(&mut session);
    let files = transaction(&mut session, |s| {
        let table = s.open_table(None, "t", LockMode::AccessShare)?;
        let name = format!("pg_toast_{}", table.oid);
        let toast = s.open_table(Some("pg_toast"), &name, LockMode::AccessShare)?;
        Ok([table, toast].map(|table| dir.join(format!("base/5/{}", table.locator.rel))))
    })
    .expect("files");
    drop(session);
    stop(engine);
    (scratch, dir, files)
}

/// The first page of the TOAST table, with its chunks.
pub struct Chunks<'a>(pub &'a mut PageBytes);

impl Chunks<'_> {
    fn bytes(&mut self, n: u16) -> &mut [u8] {
        let id = Page::new(self.0).item_id(n).expect("a chunk");
        &mut self.0[usize::from(id.offset)..usize::from(id.offset + id.len)]
    }

    fn value(&mut self, n: u16, value: u32) {
        self.bytes(n)[24..28].copy_from_slice(&value.to_le_bytes());
    }

    fn number(&mut self, n: u16, number: i32) {
        self.bytes(n)[28..32].copy_from_slice(&number.to_le_bytes());
    }

    /// Sets the header of the data.
    fn header(&mut self, n: u16, header: u32) {
        self.bytes(n)[32..36].copy_from_slice(&header.to_le_bytes());
    }

    fn lose(&mut self, n: u16) {
        assert!(PageMut(self.0).set_item_id(n, ItemId::UNUSED));
    }
}

/// What is done to the page that begins with the chunks of the rows 0 and 1, and a finding that it
/// must cause at that row.
pub type Damage = (fn(&mut Chunks<'_>), u16, &'static str);

pub const DAMAGES: &[Damage] = &[
    (|c| c.lose(1), 1, " lacks chunk 0 of 3"),
    (|c| c.lose(2), 1, " lacks chunk 1 of 3"),
    (|c| c.lose(3), 1, " was expected to end at chunk 2, but ended while expecting chunk 2"),
    (|c| [1, 2].into_iter().for_each(|n| c.lose(n)), 1, " lacks chunks 0 to 1 of 3"),
    (|c| (1..=3).for_each(|n| c.lose(n)), 1, " not found in toast table"),
    (|c| c.number(2, 0), 1, " has chunk 0 more than once"),
    (|c| c.number(2, 0), 1, " lacks chunk 1 of 3"),
    (|c| c.number(3, 1), 1, " chunk 1 has size 100, but expected size 1996"),
    (|c| (c.number(1, 2), c.number(3, 0)).0, 1, " chunk 2 has size 1996, but expected size 100"),
    (|c| c.number(3, 3), 1, " chunk 3 follows last expected chunk 2"),
    (|c| c.number(3, -3), 1, " has a chunk with number -3"),
    (|c| c.value(2, 4711), 1, " lacks chunk 1 of 3"),
    (|c| c.header(2, (CHUNK as u32 + 4) << 2 | 2), 1, " chunk 1 has invalid varlena header 1f42"),
    (|c| c.header(3, (90 + 4) << 2), 1, " chunk 2 has size 90, but expected size 100"),
    (|c| c.bytes(4)[36] ^= 1, 2, " begins with raw size and method 0x"),
    (|c| c.bytes(4)[39] ^= 0x40, 2, " begins with raw size and method 0x"),
    (delete, 1, " lacks chunk 1 of 3 (but rows of it that are deleted)"),
];

/// Deletes a chunk, in the name of the transaction that inserted it.
fn delete(chunks: &mut Chunks<'_>) {
    let mut tuple = HeapTupleMut::new(chunks.bytes(2)).expect("a tuple");
    let (flags, xmin) = (tuple.tuple().infomask(), tuple.tuple().xmin());
    tuple.set_xmax(xmin);
    tuple.set_infomask(flags & !HEAP_XMAX_INVALID | HEAP_XMAX_COMMITTED);
}

/// What a check finds of values of the table.
fn of_values(found: &[String]) -> Vec<&String> {
    found.iter().filter(|found| found.contains(", attribute 1: toast value ")).collect()
}

#[test]
fn damage_of_values_out_of_line_is_found() {
    let (_scratch, dir, [table, toast]) = long();
    let (counts, found_of_sound) = run(&dir, &only_t()).expect("a check");
    assert_eq!((found_of_sound, counts.toast_values), (Vec::new(), 45));
    assert!(counts.not_checked.is_empty(), "{counts:?}");
    let mut missed = Vec::new();
    for (damage, row, expected) in DAMAGES {
        let found = with_page(&toast, 0, |page| damage(&mut Chunks(page)), || found(&dir));
        let place = format!("public.t: block 0, offset {row}, attribute 1: toast value ");
        let all = of_values(&found);
        let is_it = |found: &&&String| found.starts_with(&place) && found.contains(expected);
        // And nothing of other rows.
        if !all.iter().any(|found| is_it(&found)) || !all.iter().all(|f| f.starts_with(&place)) {
            missed.push((expected, found));
        }
    }
    assert!(missed.is_empty(), "{missed:#?}");

    // The pointer of the first row: raw size, stored size, value.
    let pointer = |change: fn(&mut [u8])| {
        let change = |page: &mut PageBytes| {
            let at = usize::from(Page::new(page).item_id(1).expect("a row").offset) + 34;
            change(&mut page[at..at + 12]);
        };
        with_page(&table, 0, change, || found(&dir))
    };
    let found_of_pointer = pointer(|p| p[1] = 0x20);
    assert!(found_of_pointer[0].contains(" begins with raw size and"), "{found_of_pointer:?}");
    let found_of_pointer = pointer(|p| p[..8].copy_from_slice(&[4, 16, 0, 0, 0, 16, 0, 0]));
    let expected = " chunk 2 has size 100, but expected size 104";
    assert!(found_of_pointer[0].contains(expected), "{found_of_pointer:?}");
    let found_of_pointer = pointer(|p| p[8] += 1);
    let expected = ["offset 2, attribute 1: toast value", " is that of the row at (0,1) too"];
    let is_it = |found: &String| expected.iter().all(|part| found.contains(part));
    assert!(found_of_pointer.iter().any(is_it), "{found_of_pointer:?}");
    assert_eq!(found(&dir), [""; 0], "restored");
}

#[test]
fn values_of_no_row_are_no_damage() {
    let (_scratch, dir, [table, toast]) = long();
    let lost = |page: &mut PageBytes| Chunks(page).value(4, 4711);
    // The row's value is NULL after that: its own chunks remain.
    let seen = with_page(&toast, 0, lost, || run_seen(&dir, &only_t()).expect("a check").1);
    let (_, values, bytes) = &seen.orphans[0];
    assert_eq!((*values, *bytes), (1, CHUNK as u64), "{:?}", seen.orphans);
    let gone = |page: &mut PageBytes| assert!(PageMut(page).set_item_id(1, ItemId::UNUSED));
    let (counts, seen) = with_page(&table, 0, gone, || run_seen(&dir, &only_t()).expect("a check"));
    assert_eq!((seen.findings.0.len(), counts.toast_values), (0, 44));
    assert_eq!((seen.orphans[0].1, seen.orphans[0].2), (1, 2 * CHUNK as u64 + 100));
    // A damaged row may have any value.
    let damaged = |page: &mut PageBytes| {
        assert!(PageMut(page).set_item_id(1, ItemId { len: 20, ..ItemId::UNUSED }));
    };
    let seen = with_page(&table, 0, damaged, || run_seen(&dir, &only_t()).expect("a check").1);
    assert_eq!((seen.findings.0.len(), seen.orphans.len()), (1, 0));
}

#[test]
fn values_are_compared_with_their_table_alone() {
    let (_scratch, dir, [_, toast]) = long();
    let name = transaction_name(&dir);
    let only = CheckOptions { relations: vec![name], ..CheckOptions::default() };
    let (counts, found_of_toast) = run(&dir, &only).expect("a check");
    assert_eq!((found_of_toast.len(), counts.toast_values), (0, 0));
    assert_eq!(counts.not_checked[&NotChecked::ToastValues], 1);
    // Many threads find the same.
    let lose = |page: &mut PageBytes| (1..=3).for_each(|n| Chunks(page).lose(n));
    let mut expected = None;
    with_page(&toast, 1, lose, || {
        for (jobs, memory) in [(1, 1 << 30), (1, 1), (4, 1), (8, 1 << 30)] {
            let options = CheckOptions { jobs, memory, io_combine_limit: 1, ..only_t() };
            let mut found = run(&dir, &options).expect("a check").1;
            found.sort();
            assert!(!of_values(&found).is_empty(), "{found:?}");
            assert_eq!(expected.get_or_insert_with(|| found.clone()), &found, "{jobs} {memory}");
        }
    });
}

/// The name of the TOAST table.
fn transaction_name(dir: &Path) -> String {
    let seen = run_seen(dir, &only_t()).expect("a check");
    assert_eq!(seen.1.orphans.len(), 0);
    let (engine, mut session) = open_session(dir, &config(IoMethod::Sync, false));
    let table = transaction(&mut session, |s| s.open_table(None, "t", LockMode::AccessShare));
    let name = format!("pg_toast_{}", table.expect("a table").oid);
    drop(session);
    stop(engine);
    name
}

#[test]
fn random_bytes_in_toast_tables_never_panic() {
    let (_scratch, dir, files) = long();
    let mut dice = Dice::new(19);
    for round in 0..100 {
        let file = &files[usize::from(round % 4 > 0)];
        let blocks = std::fs::metadata(file).expect("a file").len() as usize / BLOCK_SIZE;
        let damage = |page: &mut PageBytes| {
            for _ in 0..=dice.index(4) {
                let n = 1 + dice.index(usize::from(Page::new(page).item_count().max(1))) as u16;
                let id = Page::new(page).item_id(n).unwrap_or(ItemId::UNUSED);
                let at = usize::from(id.offset) + dice.index(44);
                page[at % BLOCK_SIZE] = dice.any() as u8;
            }
        };
        let options = CheckOptions { jobs: 1 + round % 3, memory: 1, ..only_t() };
        let block = (round * 7 % blocks) as u32;
        with_page(file, block, damage, || run(&dir, &options)).expect("a check");
    }
    assert_eq!(found(&dir), [""; 0], "restored");
}
