//! Tables that VACUUM FULL rewrites: what PostgreSQL finds in them, what older snapshots see, and
//! what a full disk or a crash leaves.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use crate::common::*;
use crate::full_disk::Life;
use crate::kept_indexes::made_by;
use crate::row_fixture::{
    committed, delete, joined, make_table, opened, place, row, seen, set, waiting,
};
use forebay_engine::types::oids;
use forebay_engine::{
    ColumnDef, Datum, EngineError, IndexCheckOptions, IndexDef, IndexKey, IoMethod, Isolation,
    ItemPointer, LockMode, OnCommit, Session, ShutdownMode, Table, TableCheckOptions, Told,
    VacuumOptions,
};
use forebay_testkit::Dice;
use forebay_testkit::peer::Peer;

/// A table with a dropped column, one that is younger than most rows, values compressed and out of
/// line, and dead rows.
const TABLE: &str = "create table t (id int4 primary key, gone text, x text, e text, l text \
     compression lz4, n int4, k text) with (fillfactor = 70); \
     alter table t alter e set storage external; create index t_k on t (k) include (n); \
     insert into t select g, repeat('gone' || g, 300), repeat(md5(g::text), g * 20), \
     (select string_agg(md5((g * i)::text), '') from generate_series(1, g * 2) i), \
     repeat('lz4' || g, g * 100), 0, 'key ' || g % 50 from generate_series(1, 300) g; \
     alter table t drop column gone; alter table t add column young text default 'the same', \
     add column more int8 default 42; \
     update t set x = null where id % 7 = 0; update t set n = n + 1 where id % 2 = 0; \
     delete from t where id % 3 = 0; insert into t select g, null, 'e', 'l', g, 'k' from \
     generate_series(1000, 1100) g";

/// All that PostgreSQL reads in the table.
const ROWS: &str = "select md5(string_agg(t::text, ';' order by id)), count(*), \
     sum(length(x) + length(e) + length(l)) from t";
/// What of the files and the catalogs does not depend on OIDs, where both servers rewrote it.
const SIZES: &str = "select pg_relation_size('t'), pg_relation_size('t_pkey'), \
     pg_relation_size('t_k'), relpages, reltuples, relallvisible from pg_class where relname = 't'";
/// The pages of the TOAST table, which may be fewer here: chunks are put where there is room.
const TOAST_PAGES: &str = "select pg_relation_size(reltoastrelid) / 8192 from pg_class where \
     relname = 't'";
/// Nothing else may be found than what these say.
const CHECKS: [(&str, &str); 6] = [
    (
        "select bt_index_parent_check('t_pkey', true, true), \
         bt_index_parent_check('t_k', true, true)",
        "|",
    ),
    (
        "select count(bt_index_parent_check(indexrelid, true, true)) from pg_index where \
         indrelid = (select reltoastrelid from pg_class where relname = 't')",
        "1",
    ),
    ("select * from verify_heapam('t', check_toast := true)", ""),
    ("select v from pg_class, verify_heapam(reltoastrelid) v where relname = 't'", ""),
    ("select count(*) from pg_attribute where attrelid = 't'::regclass and atthasmissing", "0"),
    (
        "select relfrozenxid = (select relfrozenxid from pg_class o where o.oid = c.reltoastrelid) \
         from pg_class c where relname = 't'",
        "t",
    ),
];

fn rewrite(session: &mut Session, name: &str) -> Result<Vec<Told>, EngineError> {
    let table = transaction(session, |s| s.table(None, name))?.expect("a table");
    let options = VacuumOptions { verbose: true, ..VacuumOptions::default() };
    let mut told = Vec::new();
    session.vacuum_full(&table, &options, &mut told).map(|()| told)
}

fn table(session: &mut Session, name: &str) -> Arc<Table> {
    transaction(session, |s| s.table(None, name)).expect("look").expect("a table")
}

/// The names of the database's files with their sizes.
fn files(dir: &Path) -> BTreeSet<(String, u64)> {
    let files = std::fs::read_dir(dir.join("base/5")).expect("base/5");
    let file = |entry: std::io::Result<std::fs::DirEntry>| {
        let entry = entry.expect("entry");
        let len = entry.metadata().expect("metadata").len();
        (entry.file_name().into_string().expect("a name"), len)
    };
    files.map(file).filter(|(_, len)| *len > 0).collect()
}

#[test]
fn postgresql_finds_a_rewritten_table_as_its_own_vacuum_full_leaves_it() {
    let name = "postgresql_finds_a_rewritten_table_as_its_own_vacuum_full_leaves_it";
    let Some(peer) = Peer::find(name) else { return };
    let (_scratch, dir) = made_by(&peer, TABLE);
    let server = peer.start("data", "-c autovacuum=off");
    let rows = server.query(ROWS);
    server.query("vacuum full t");
    let sizes = server.query(SIZES);
    let toast_pages: u32 = server.query(TOAST_PAGES).parse().expect("a number");
    drop(server);
    for (name, stop) in [("stopped", ShutdownMode::Fast), ("crashed", ShutdownMode::Immediate)] {
        let (engine, mut session) = open_session(&dir, &config(IoMethod::Sync, false));
        let before = table(&mut session, "t");
        let told = rewrite(&mut session, "t").expect("vacuum full");
        assert_eq!(told[0].message, "vacuuming \"public.t\"");
        assert!(told[1].message.starts_with("\"public.t\": found "), "{told:?}");
        let after = table(&mut session, "t");
        assert_ne!(after.locator, before.locator);
        assert_eq!(after.oid, before.oid);
        engine.shutdown(stop).expect("stop");
        drop((session, engine));
        peer.adopt(&dir, name);
        let server = peer.start(name, "-c autovacuum=off");
        for (check, expected) in CHECKS {
            assert_eq!(server.query(check), expected, "{name}: {check}");
        }
        assert_eq!(server.query(ROWS), rows, "{name}");
        assert_eq!(server.query(SIZES), sizes, "{name}");
        let pages: u32 = server.query(TOAST_PAGES).parse().expect("a number");
        assert!((toast_pages - 2..=toast_pages).contains(&pages), "{pages} of {toast_pages}");
        for plan in ["seqscan", "indexscan"] {
            let sql = format!("set enable_{plan} = off; select count(*) from t where k > 'key 2'");
            assert_eq!(
                server.query(&sql),
                server.query("select count(*) from t where k > 'key 2'")
            );
        }
        // What one has made the other one changes.
        server.query("update t set x = e, young = 'not the same' where id % 5 = 0");
        server.query("vacuum t");
        assert_eq!(server.query(CHECKS[2].0), "");
    }
}

#[test]
fn older_snapshots_see_their_rows_in_the_new_file() {
    let (_scratch, engine) = fresh();
    let mut sessions = [(); 2].map(|()| engine.session().expect("session"));
    let [old, new] = &mut sessions;
    make_table(new, 1..=600);
    transaction(new, |s| {
        let table = s.open_table(None, "v", LockMode::Share)?;
        s.create_index(&table, &by_id())
    })
    .expect("index");
    // Its snapshot comes before the changes, its lock of the table after them.
    make_other(new);
    old.begin().expect("begin");
    old.set_isolation(Isolation::RepeatableRead).expect("nothing was read");
    old.start_command().expect("command");
    let other = old.open_table(None, "t", LockMode::AccessShare).expect("table");
    assert_eq!(old.count_rows(&other).expect("count"), 1);

    for id in 1..=50 {
        set(new, id, 1);
        new.commit().expect("commit");
        set(new, id, 2);
        new.commit().expect("commit");
    }
    for id in 51..=100 {
        delete(new, id).expect("delete");
        new.commit().expect("commit");
    }
    let told = rewrite(new, "v").expect("vacuum full");
    let detail = told[1].detail.as_deref().expect("a detail");
    assert!(told[1].message.contains("found 0 removable, 700 nonremovable"), "{told:?}");
    assert!(detail.starts_with("150 dead row versions cannot be removed yet."), "{detail}");

    let expected: Vec<(i64, i64)> = (1..=600).map(|id| (id, 10 * id)).collect();
    old.start_command().expect("command");
    let seen_by_old = opened(old);
    let found = seen(old, &seen_by_old).into_iter().map(|(id, (n, _))| (id, n));
    assert_eq!(found.collect::<Vec<_>>(), expected);
    // The chain of an old version leads to the newest one.
    let first = place(old, &seen_by_old, 7);
    let error = old.update_row(&seen_by_old, first, &row(7, 3)).expect_err("it was updated");
    assert_eq!(error.sqlstate(), "40001", "{error}");
    old.abort().expect("abort");
    let table = opened(new);
    let newest = new.newest_row(&table, first).expect("the chain").expect("a version");
    assert_eq!(newest.place(), place(new, &table, 7));
    new.commit().expect("commit");

    let now = |id: i64| if id <= 50 { 2 } else { 10 * id };
    let left = (1..=600).filter(|id| !(51..=100).contains(id));
    assert_eq!(committed(new), left.map(|id| (id, now(id))).collect::<Vec<_>>());
    assert_sound(new, "v_id_idx");
    let told = rewrite(new, "v").expect("vacuum full");
    assert!(told[1].message.contains("found 150 removable, 550 nonremovable"), "{told:?}");
    assert_sound(new, "v_id_idx");
    engine.shutdown(ShutdownMode::Fast).expect("stop");
}

/// Nobody sees a version whose successor is dead for all, although its own deleter is younger than
/// a transaction that runs.
#[test]
fn versions_whose_successors_are_dead_are_dropped() {
    for successor_first in [false, true] {
        let (_scratch, engine) = fresh();
        let mut sessions = [(); 4].map(|()| engine.session().expect("session"));
        let [deleter, running, updater, other] = &mut sessions;
        make_other(other);
        make_table(other, 1..=3);
        if successor_first {
            delete(other, 1).expect("delete");
            other.commit().expect("commit");
            let table = table(other, "v");
            other.vacuum(&table, &VacuumOptions::default(), &mut Vec::new()).expect("vacuum");
        }
        // The deleter's id is older than that of a transaction that runs, the updater's is younger.
        for session in [&mut *deleter, running] {
            session.begin().expect("begin");
            session.start_command().expect("command");
            let table = session.open_table(None, "t", LockMode::RowExclusive).expect("table");
            session.insert_row(&table, &[Datum::Int8(1), Datum::Null]).expect("insert");
        }
        set(updater, 2, 7);
        let (table, old) = (opened(updater), ItemPointer::new(0, 2));
        assert_eq!(place(updater, &table, 2) < old, successor_first);
        updater.commit().expect("commit");
        delete(deleter, 2).expect("delete");
        deleter.commit().expect("commit");
        let kept = if successor_first { 1 } else { 2 };
        let told = rewrite(other, "v").expect("vacuum full");
        let expected = format!("found 2 removable, {kept} nonremovable row versions");
        assert!(told[1].message.contains(&expected), "{told:?}");
        let detail = told[1].detail.as_deref().expect("a detail");
        assert!(detail.starts_with("0 dead row versions"), "{detail}");
        running.commit().expect("commit");
        assert_eq!(committed(other).len(), kept);
        drop(sessions);
        engine.shutdown(ShutdownMode::Fast).expect("stop");
    }
}

/// Its id is older than those of others that end while it waits for its lock.
#[test]
fn a_temporary_table_is_not_older_than_the_transaction_that_rewrites_it() {
    let (_scratch, engine) = fresh();
    let mut sessions = [(); 3].map(|()| engine.session().expect("session"));
    let [owner, holder, other] = &mut sessions;
    make_other(other);
    let columns = [ColumnDef::new("n", oids::INT8), ColumnDef::new("t", oids::TEXT)];
    let mut dice = Dice::new(1);
    let text: String = (0..20_000).map(|_| char::from(b'a' + dice.below(26) as u8)).collect();
    let own = transaction(owner, |s| {
        s.create_temp_table("w", &columns, OnCommit::PreserveRows)?;
        s.start_command()?;
        let table = s.open_table(None, "w", LockMode::RowExclusive)?;
        s.insert_row(&table, &[Datum::Int8(1), Datum::text(&text)])?;
        Ok(table)
    })
    .expect("a table");
    holder.begin().expect("begin");
    holder.start_command().expect("command");
    let seen = holder.open_table(Some(&own.schema), "w", LockMode::AccessShare).expect("table");
    assert_eq!(seen.oid, own.oid);
    let [owner, mut holder, mut other] = sessions;
    let rewriter = waiting(&engine, 1, owner, |session| rewrite(session, "w"));
    insert(&mut other, "t", 1..2);
    holder.commit().expect("commit");
    let (mut owner, told) = joined(rewriter);
    told.expect("vacuum full");
    let toast = table(&mut owner, "w").toasting.relation.expect("a TOAST table");
    for oid in [own.oid, toast] {
        let options = TableCheckOptions { check_toast: oid == own.oid, ..Default::default() };
        let found = transaction(&mut owner, |s| s.check_table(oid, &options)).expect("a check");
        assert!(found.is_empty(), "{found:?}");
    }
    drop((owner, holder, other));
    engine.shutdown(ShutdownMode::Fast).expect("stop");
}

/// CREATE TABLE t, with a row.
fn make_other(session: &mut Session) {
    create(session, "t");
    insert(session, "t", 0..1);
}

/// CREATE INDEX … (id)
fn by_id() -> IndexDef {
    IndexDef { keys: vec![IndexKey::new(1)], ..IndexDef::default() }
}

pub fn assert_sound(session: &mut Session, index: &str) {
    let options = IndexCheckOptions { parents: true, all_rows: true, distinct: true };
    transaction(session, |s| {
        let oid = s.index_named(None, index)?.expect("an index");
        s.check_index(oid, options)
    })
    .expect("the index");
}

#[test]
fn a_full_disk_leaves_the_table_as_it_was() {
    for grown in 0..3 {
        let mut life = Life::new();
        create(&mut life.session, "t");
        insert(&mut life.session, "t", 0..20_000);
        transaction(&mut life.session, |s| {
            let table = s.open_table(None, "t", LockMode::Share)?;
            s.create_index(&table, &by_id())
        })
        .expect("index");
        life.session.checkpoint().expect("checkpoint");
        let before = files(&life.dir);
        let place = table(&mut life.session, "t").locator;
        let fault = life.fill_after("base/5/", 1 + 2 * grown);
        crate::full_disk::is_full(rewrite(&mut life.session, "t"));
        assert!(life.plan.fired(fault) > 0);
        life.mend();
        life.session.checkpoint().expect("checkpoint");
        assert_eq!(files(&life.dir), before, "{grown}");
        assert_eq!(table(&mut life.session, "t").locator, place);
        assert_eq!(count(&mut life.session, "t").expect("count"), 20_000);
        rewrite(&mut life.session, "t").expect("vacuum full");
        assert_sound(&mut life.session, "t_id_idx");
        let (_scratch, mut session) = life.reopened();
        assert_eq!(count(&mut session, "t").expect("count"), 20_000);
        assert_sound(&mut session, "t_id_idx");
    }
}
