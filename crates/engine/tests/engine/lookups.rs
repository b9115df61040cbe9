//! Rows of the catalogs that are looked up through the catalogs' own indexes: what a transaction
//! has changed, what was rolled back, rows of which there are several versions.

use std::path::Path;

use crate::check::with_page;
use crate::common::*;
use forebay_engine::{IoMethod, LockMode, Session, ShutdownMode};
use forebay_format::nbtree::Opaque;
use forebay_format::page::ItemState;
use forebay_format::{BLOCK_SIZE, Page, PageBytes, RelFileLocator};
use forebay_testkit::peer::Peer;

/// The OID of a table and its file, which its name and its OID lead to.
fn find(session: &mut Session, name: &str) -> Option<(u32, RelFileLocator)> {
    let found = session.table(None, name).expect("by name")?;
    let again = session.table_by_oid(found.oid).expect("by OID").expect("the same table");
    assert_eq!((found.name.as_str(), &again.name), (name, &found.name));
    assert_eq!((again.locator, &again.columns), (found.locator, &found.columns));
    Some((found.oid, found.locator))
}

fn committed(session: &mut Session, name: &str) -> Option<(u32, RelFileLocator)> {
    transaction(session, |s| Ok(find(s, name))).expect("a look-up")
}

fn truncate(session: &mut Session, name: &str) {
    let table = session.open_table(None, name, LockMode::AccessExclusive).expect("table");
    session.truncate(&table).expect("truncated");
    session.start_command().expect("command");
}

fn drop_table(session: &mut Session, name: &str) {
    let table = session.open_table(None, name, LockMode::AccessExclusive).expect("table");
    session.drop_table(&table).expect("dropped");
    session.start_command().expect("command");
}

/// Each TRUNCATE makes a version of the row of pg_class with entries of its own, as the file's
/// number is in an index.
fn versions(session: &mut Session, other: &mut Session) {
    create(session, "v");
    let mut before = committed(session, "v").expect("made");
    for round in 0..10 {
        start(session);
        truncate(session, "v");
        let own = find(session, "v").expect("its own version");
        assert_eq!(own.0, before.0);
        assert_ne!(own.1, before.1);
        let seen = transaction(other, |s| s.table_by_oid(before.0)).expect("a look-up");
        assert_eq!(seen.expect("what is committed").locator, before.1);
        if round % 2 == 0 {
            session.abort().expect("abort");
        } else {
            session.commit().expect("commit");
            before = own;
        }
        assert_eq!(committed(session, "v"), Some(before));
        assert_eq!(committed(other, "v"), Some(before));
    }
}

/// So many tables that indexes of the catalogs get new pages.
fn many(session: &mut Session) {
    let name = |n: i32| format!("many_{n}");
    let found = |session: &mut Session| -> Vec<i32> {
        (0..120).filter(|n| find(session, &name(*n)).is_some()).collect()
    };
    for commit in [false, true] {
        start(session);
        for n in 0..120 {
            session.create_table(None, &name(n), &columns()).expect("made");
        }
        session.start_command().expect("command");
        assert_eq!(found(session).len(), 120);
        (0..120).step_by(2).for_each(|n| drop_table(session, &name(n)));
        assert!(found(session).iter().all(|n| n % 2 == 1));
        session.create_table(None, &name(0), &columns()).expect("the name is free again");
        session.start_command().expect("command");
        assert_eq!(found(session).len(), 61);
        if commit {
            session.commit().expect("commit");
        } else {
            session.abort().expect("abort");
        }
        let left = transaction(session, |s| Ok(found(s).len())).expect("look-ups");
        assert_eq!(left, if commit { 61 } else { 0 });
    }
}

fn look_up(dir: &Path) {
    let (engine, mut session) = open_session(dir, &config(IoMethod::Sync, false));
    let mut other = engine.session().expect("session");
    versions(&mut session, &mut other);
    many(&mut session);
    drop((session, other));
    engine.shutdown(ShutdownMode::Immediate).expect("stop");
    // Recovery makes the indexes what they were.
    let (engine, mut session) = open_session(dir, &config(IoMethod::Sync, false));
    assert!(committed(&mut session, "v").is_some());
    let left = (0..120).filter(|n| committed(&mut session, &format!("many_{n}")).is_some());
    assert_eq!(left.count(), 61);
    drop(session);
    engine.shutdown(ShutdownMode::Fast).expect("stop");
}

#[test]
fn look_ups_find_the_versions_that_are_seen() {
    let (_scratch, dir) = new_dir();
    look_up(&dir);
}

#[test]
fn look_ups_find_what_postgresql_has_changed() {
    let Some(peer) = Peer::find("look_ups_find_what_postgresql_has_changed") else { return };
    peer.init("data");
    let server = peer.start("data", "-c autovacuum=off");
    server.query(
        "create schema s; create table s.t (a int4 primary key, b text default 'x'); \
         alter table s.t add column c int4 default 7; alter table s.t rename to u; \
         alter table s.u rename to t; truncate s.t; create table d (a int4); drop table d",
    );
    // Catalogs and their indexes move to other files.
    for statement in ["reindex system postgres", "vacuum full pg_class", "vacuum full pg_depend"] {
        server.query(statement);
    }
    drop(server);
    let scratch = scratch();
    let dir = scratch.path().join("data");
    peer.fetch("data", &dir);
    let (engine, mut session) = open_session(&dir, &config(IoMethod::Sync, false));
    let open = |s: &mut Session| s.open_table(Some("s"), "t", LockMode::AccessShare);
    let table = transaction(&mut session, open).expect("the table");
    assert_eq!((table.columns.len(), table.indexes.len()), (3, 1));
    assert!(table.columns.last().is_some_and(|column| column.missing.is_some()));
    assert_eq!(committed(&mut session, "d"), None);
    let gone = |s: &mut Session| s.open_table(Some("s"), "u", LockMode::AccessShare);
    assert_eq!(state(transaction(&mut session, gone)), "42P01");
    drop(session);
    engine.shutdown(ShutdownMode::Fast).expect("stop");
    look_up(&dir);
    peer.adopt(&dir, "back");
    let server = peer.start("back", "-c autovacuum=off");
    assert_eq!(server.query("select count(*) from pg_class where relname like 'many_%'"), "61");
}

/// The number of items of an index's leaves that are not killed.
fn live_items(dir: &Path, index: &str) -> usize {
    let bytes = std::fs::read(dir.join("base/5").join(index)).expect("readable");
    let pages = bytes.as_chunks::<BLOCK_SIZE>().0.iter().map(Page::new);
    let leaves = pages.filter(|page| Opaque::of(*page).is_ok_and(|opaque| opaque.is_leaf()));
    let live = |page: Page<'_>| {
        let items = (1..=page.item_count()).filter_map(|number| page.item_id(number));
        items.filter(|id| id.state == ItemState::Normal).count()
    };
    leaves.map(live).sum()
}

#[test]
fn look_ups_kill_entries_of_tables_that_came_and_went() {
    const TABLES: usize = 500;
    /// pg_class_oid_index
    const INDEX: &str = "2662";
    let (_scratch, dir) = new_dir();
    let (engine, mut session) = open_session(&dir, &config(IoMethod::Sync, false));
    session.checkpoint().expect("checkpoint");
    let before = live_items(&dir, INDEX);
    for _ in 0..TABLES {
        create(&mut session, "t");
        let dropped = transaction(&mut session, |s| {
            drop_table(s, "t");
            Ok(())
        });
        dropped.expect("dropped");
    }
    session.checkpoint().expect("checkpoint");
    // A table, its TOAST table and the index of that had an entry each. Insertions remove those
    // that are killed.
    let left = live_items(&dir, INDEX) - before;
    assert!(left < 3 * TABLES * 4 / 5, "{left} entries of {TABLES} tables are left");
    drop(session);
    engine.shutdown(ShutdownMode::Fast).expect("stop");
}

#[test]
fn a_key_of_a_catalog_that_is_there_twice_is_refused() {
    let (_scratch, dir) = new_dir();
    let (engine, mut session) = open_session(&dir, &config(IoMethod::Sync, false));
    create(&mut session, "t_1");
    create(&mut session, "t_2");
    drop(session);
    engine.shutdown(ShutdownMode::Fast).expect("stop");
    // The entry of the second name gets the first one.
    let names = dir.join("base/5/2663");
    let bytes = std::fs::read(&names).expect("readable");
    let block = bytes.as_chunks::<BLOCK_SIZE>().0.iter().position(|page| place(page).is_some());
    let rename = |page: &mut PageBytes| {
        let at = place(page).expect("the name");
        page[at + 2] = b'1';
    };
    with_page(&names, block.expect("a page with the name") as u32, rename, || {
        let (engine, mut session) = open_session(&dir, &config(IoMethod::Sync, false));
        let error = transaction(&mut session, |s| s.table(None, "t_1")).expect_err("two rows");
        let message = error.to_string();
        assert_eq!(error.sqlstate(), "XX001", "{message}");
        assert!(message.starts_with("pg_class has two rows with the key ["), "{message}");
        assert!(message.ends_with(" of pg_class_relname_nsp_index"), "{message}");
        drop(session);
        engine.shutdown(ShutdownMode::Immediate).expect("stop");
    });
}

/// Where a page has the name of the second table.
fn place(page: &PageBytes) -> Option<usize> {
    page.windows(4).position(|bytes| bytes == b"t_2\0")
}
