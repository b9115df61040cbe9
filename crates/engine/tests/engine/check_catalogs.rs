//! `forebay check` of catalogs and directories: damage that hides relations from it, what it leaves
//! out and says so, and files that it can't read as it reads the others.

use std::fs;
use std::path::{Path, PathBuf};

use crate::check::{Seen, aged, found, only_t, run, stop, with_file, with_page};
use crate::common::*;
use forebay_engine::IoMethod;
use forebay_engine::check::{
    CheckObserver, CheckOptions, CheckedRelation, Finding, NotChecked, check,
};
use forebay_format::control;
use forebay_format::page::{ItemState, PageMut};
use forebay_format::{BLOCK_SIZE, HeapTuple, HeapTupleMut, ItemId, Page, PageBytes, RELSEG_BLOCKS};

/// Changes the row of a catalog's first page that begins with an OID.
fn change_row(page: &mut PageBytes, oid: u32, change: impl Fn(&mut PageMut<'_>, u16)) {
    for number in 1..=Page::new(page).item_count() {
        let found = Page::new(page).item(number).is_some_and(|bytes| {
            let tuple = HeapTuple::new(bytes).expect("a tuple");
            bytes[tuple.hoff()..].starts_with(&oid.to_le_bytes())
        });
        if found {
            change(&mut PageMut(page), number);
        }
    }
}

#[test]
fn damage_of_catalogs_is_found() {
    let (_scratch, dir) = aged();
    let all = || run(&dir, &CheckOptions::default());
    let databases = dir.join("global/1262");
    let empty: [fn(&mut Vec<u8>); 2] = [Vec::clear, |bytes| bytes.fill(0)];
    for damage in empty {
        let error = with_file(&databases, damage, all).expect_err("no databases");
        assert_eq!(error.to_string(), "pg_database has no rows");
    }
    let mut seen = Seen::default();
    let damaged = |page: &mut PageBytes| PageMut(page).set_lower(8190);
    let check_it = || check(&dir, &CheckOptions::default(), &mut seen);
    with_page(&databases, 0, damaged, check_it).expect_err("no databases");
    assert!(seen.findings.0[0].ends_with("block 0 of a catalog has a damaged header"));

    let classes = dir.join("base/5/1259");
    let (counts, found) = with_file(&classes, |bytes| bytes.fill(0), all).expect("a check");
    assert!(found.iter().any(|f| f.ends_with("pg_class has no row of itself")), "{found:?}");
    assert_eq!(counts.not_checked[&NotChecked::Databases], 1);

    type Change = fn(&mut PageMut<'_>, u16);
    let damages: [(Change, &str); 3] = [
        (
            |page, number| assert!(page.set_item_id(number, ItemId::UNUSED)),
            "pg_class has no rows of relations that have columns: 1, the first with OID 16384",
        ),
        (
            |page, number| {
                let tuple = page.item_mut(number).expect("an item");
                HeapTupleMut::new(tuple).expect("a tuple").set_hoff(248);
            },
            "row of a catalog can't be decoded",
        ),
        (
            |page, number| {
                let state = ItemState::Normal;
                assert!(page.set_item_id(number, ItemId { offset: 8184, state, len: 200 }));
            },
            "row of a catalog can't be decoded",
        ),
    ];
    let last = fs::metadata(&classes).expect("a file").len() / BLOCK_SIZE as u64 - 1;
    for (damage, expected) in damages {
        let change = |page: &mut PageBytes| change_row(page, 16_384, damage);
        let (_, found) = with_page(&classes, last as u32, change, all).expect("a check");
        assert!(found.iter().any(|f| f.ends_with(expected)), "{expected}: {found:?}");
    }
    let map = dir.join("base/5/pg_filenode.map");
    let (_, found) = with_file(&map, |bytes| bytes.resize(2000, 0), all).expect("a check");
    assert!(found[0].ends_with("pg_filenode.map\": it has 2000 bytes"), "{found:?}");
}

#[test]
fn databases_and_directories_that_are_left_out() {
    let (_scratch, dir) = aged();
    let all = || run(&dir, &CheckOptions::default()).expect("a check");
    // pg_database.datconnlimit of a database whose DROP DATABASE was interrupted.
    let limit = |page: &mut PageMut<'_>, number| {
        let tuple = page.item_mut(number).expect("an item");
        let at = HeapTuple::new(tuple).expect("a tuple").hoff() + 80;
        tuple[at..at + 4].copy_from_slice(&(-2_i32).to_le_bytes());
    };
    let change = |page: &mut PageBytes| change_row(page, 5, limit);
    let (counts, found) = with_page(&dir.join("global/1262"), 0, change, || {
        fs::rename(dir.join("base/5/1259"), dir.join("gone")).expect("renamed");
        let result = all();
        fs::rename(dir.join("gone"), dir.join("base/5/1259")).expect("renamed");
        result
    });
    assert_eq!((found.len(), counts.not_checked[&NotChecked::HalfDropped]), (0, 1));

    fs::create_dir(dir.join("base/777")).expect("a directory");
    let (counts, found) = all();
    assert_eq!((found.len(), counts.not_checked[&NotChecked::StrayDirectories]), (0, 1));
}

#[test]
fn catalogs_may_have_several_segments() {
    let (_scratch, dir) = aged();
    let path = dir.join("global/1262");
    fs::rename(&path, dir.join("global/1262.1")).expect("renamed");
    let first = fs::File::create(&path).expect("a file");
    first.set_len(u64::from(RELSEG_BLOCKS) * BLOCK_SIZE as u64).expect("a hole");
    assert_eq!(found(&dir), [""; 0]);
}

/// Replaces a file as soon as pages have been read.
struct Replace(PathBuf, Vec<u8>);

impl CheckObserver for Replace {
    fn found(&mut self, _: &CheckedRelation, _: &Finding) {}
    fn file(&mut self, _: &Path, _: &str) {}
    fn progress(&mut self, _: u64, _: u64) {
        fs::write(&self.0, &self.1).expect("writable");
    }
}

#[test]
fn a_cluster_that_changes_is_refused() {
    let (_scratch, dir) = aged();
    let path = dir.join(control::PATH);
    let older = fs::read(&path).expect("readable");
    let (engine, mut session) = open_session(&dir, &config(IoMethod::Sync, false));
    insert(&mut session, "t", 5000..5010);
    drop(session);
    stop(engine);
    let refused = check(&dir, &only_t(), &mut Replace(path, older)).expect_err("it has changed");
    assert_eq!(refused.to_string(), "cluster was changed while it was checked");
}

#[test]
fn files_that_cannot_be_read_in_the_same_way() {
    let (_scratch, dir) = aged();
    let path = dir.join("base/5/16384");
    let moved = dir.join("moved");
    fs::rename(&path, &moved).expect("renamed");
    std::os::unix::fs::symlink("16384", &path).expect("a link to itself");
    let found_of_loop = found(&dir);
    assert!(found_of_loop.iter().any(|f| f.contains("could not stat file")), "{found_of_loop:?}");
    fs::remove_file(&path).expect("removed");

    // Often a file system without direct I/O.
    let shm = Path::new("/dev/shm");
    let elsewhere = if shm.is_dir() { tempfile::tempdir_in(shm) } else { tempfile::tempdir() };
    let elsewhere = elsewhere.expect("a directory");
    fs::copy(&moved, elsewhere.path().join("t")).expect("copied");
    std::os::unix::fs::symlink(elsewhere.path().join("t"), &path).expect("a link");
    for direct in [None, Some(true), Some(false)] {
        let (counts, found) = run(&dir, &CheckOptions { direct, ..only_t() }).expect("a check");
        // The table, its TOAST table, and the index of that.
        assert_eq!((found, counts.relations), (Vec::new(), 3));
    }
}
