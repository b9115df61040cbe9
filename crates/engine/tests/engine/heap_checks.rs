//! `verify_heapam` of a running cluster: what it says of damaged pages is what PostgreSQL's says of
//! the same pages, word by word; and it finds nothing beside transactions that run.

use std::path::Path;
use std::sync::Arc;

use crate::check::{self, Rows, aged, with_page};
use crate::check_toast::{self, Chunks, long};
use crate::common::*;
use forebay_engine::check::Finding;
use forebay_engine::{
    Datum, EngineError, IoMethod, LockMode, Session, SkipPages, Table, TableCheckOptions,
};
use forebay_format::page::PageMut;
use forebay_format::{HeapTupleMut, PageBytes};
use forebay_testkit::peer::{Peer, Postgres};

fn table(session: &mut Session, schema: Option<&str>, name: &str) -> Arc<Table> {
    transaction(session, |s| s.open_table(schema, name, LockMode::AccessShare)).expect("a table")
}

/// What is in the file is read again.
fn evict(session: &mut Session, table: &Table) {
    transaction(session, |s| s.evict_table(table)).expect("evicted");
}

fn checked(
    session: &mut Session,
    oid: u32,
    options: &TableCheckOptions,
) -> Result<Vec<Finding>, EngineError> {
    transaction(session, |s| s.check_table(oid, options))
}

/// Findings as psql prints the rows of verify_heapam.
fn lines(findings: &[Finding]) -> Vec<String> {
    let shown = |number: Option<u16>| number.map_or(String::new(), |number| number.to_string());
    let line = |f: &Finding| {
        format!("{}|{}|{}|{}", f.block, shown(f.offset), shown(f.attribute), f.message)
    };
    findings.iter().map(line).collect()
}

/// What is done to a page.
type Change = Box<dyn Fn(&mut PageBytes)>;

/// A change of a page, and what it is expected to cause.
type Damage = (Change, &'static str);

/// The same damaged page, as both servers see it.
struct Both<'a> {
    session: &'a mut Session,
    tables: &'a [Arc<Table>],
    postgres: &'a Postgres<'a>,
    files: [&'a Path; 2],
}

impl Both<'_> {
    /// What both say: Forebay, PostgreSQL.
    fn say(&mut self, block: u32, damage: &dyn Fn(&mut PageBytes)) -> [Vec<String>; 2] {
        let [ours, theirs] = self.files;
        // PostgreSQL marks entries of chunks that it did not find: they are gone for the next one.
        // A page that it has changed is written when it is evicted, so before it is damaged.
        let name = &self.tables[1].name;
        self.postgres.query(&format!(
            "select pg_buffercache_evict_relation('pg_toast.{name}'); \
             reindex index pg_toast.{name}_index; checkpoint; \
             select pg_buffercache_evict_relation('pg_toast.{name}'), \
             pg_buffercache_evict_relation('t')"
        ));
        with_page(ours, block, damage, || {
            with_page(theirs, block, damage, || {
                for table in self.tables {
                    evict(self.session, table);
                }
                let options = TableCheckOptions { check_toast: true, ..Default::default() };
                let found = checked(self.session, self.tables[0].oid, &options).expect("a check");
                let theirs = self.postgres.query(
                    "select pg_buffercache_evict_relation(coalesce(t.oid, c.oid)) \
                     from pg_class c left join pg_class t on t.oid = c.reltoastrelid \
                     where c.relname = 't'; \
                     select pg_buffercache_evict_relation('t'); \
                     select 'f', * from verify_heapam('t', check_toast := true)",
                );
                let of_check = |line: &str| Some(line.strip_prefix("f|")?.to_owned());
                [lines(&found), theirs.lines().filter_map(of_check).collect()]
            })
        })
    }
}

/// Compares what both say of damages to one page of a file.
fn compare(
    peer: &Peer,
    (dir, file): (&Path, &Path),
    block: u32,
    damages: &[Damage],
    exactly: bool,
) -> usize {
    peer.adopt(dir, "pg");
    let postgres = peer.start("pg", "-c autovacuum=off");
    postgres.query("create extension amcheck; create extension pg_buffercache; checkpoint");
    let theirs = peer.outside("pg").join(file.strip_prefix(dir).expect("a file of it"));
    let (engine, mut session) = open_session(dir, &config(IoMethod::Sync, false));
    let name = format!("pg_toast_{}", table(&mut session, None, "t").oid);
    let tables = [table(&mut session, None, "t"), table(&mut session, Some("pg_toast"), &name)];
    let files = [file, theirs.as_path()];
    let mut both = Both { session: &mut session, tables: &tables, postgres: &postgres, files };
    let (mut count, mut differ) = (0, Vec::new());
    for (damage, expected) in damages {
        let [ours, theirs] = both.say(block, damage);
        count += theirs.len();
        // PostgreSQL has used an id for its extensions.
        let [ours, theirs] = [ours, theirs].map(|found| {
            let next = |line: String| match line.split_once("next valid transaction ID ") {
                Some((before, _)) => before.to_owned(),
                None => line,
            };
            found.into_iter().map(next).collect::<Vec<_>>()
        });
        let same = if exactly { ours == theirs } else { theirs.iter().all(|t| ours.contains(t)) };
        if !same {
            differ.push((expected, ours, theirs));
        }
    }
    assert!(differ.is_empty(), "{differ:#?}");
    assert_eq!(both.say(block, &|_| {}), [[""; 0]; 2], "restored");
    drop((session, postgres));
    check::stop(engine);
    count
}

#[test]
fn findings_in_tables_are_those_of_postgresql() {
    let Some(peer) = Peer::find("heap_checks") else { return };
    let (_scratch, dir) = aged();
    let damages: Vec<Damage> =
        [check::POINTERS, check::TUPLES, check::VALUES, check::CHAINS, check::VISIBLE]
            .concat()
            .into_iter()
            // PostgreSQL looks at such an item all the same, names the older version's place, and
            // compares with the table's oldest id before the cluster's.
            .filter(|(_, what)| {
                let others = ["begins before the items", "was updated to", "oldest valid"];
                !others.iter().any(|other| what.contains(other))
            })
            .map(|(damage, expected)| {
                let damage = move |page: &mut PageBytes| damage(&mut Rows::of(page));
                (Box::new(damage) as Change, expected)
            })
            .collect();
    let file = dir.join("base/5/16384");
    let count = compare(&peer, (&dir, &file), 1, &damages, false);
    assert!(count > 30, "{count} findings of PostgreSQL");
}

#[test]
fn findings_in_toast_tables_are_those_of_postgresql() {
    let Some(peer) = Peer::find("heap_checks_toast") else { return };
    let (_scratch, dir, [_, toast]) = long();
    let damages: Vec<Damage> = check_toast::DAMAGES
        .iter()
        // amcheck does not look into values, and knows no negative numbers.
        .filter(|(_, _, what)| !what.contains("begins with") && !what.contains("-3"))
        .map(|&(damage, _, expected)| {
            let damage = move |page: &mut PageBytes| damage(&mut Chunks(page));
            (Box::new(damage) as Change, expected)
        })
        .collect();
    let count = compare(&peer, (&dir, &toast), 0, &damages, true);
    assert!(count > 10, "{count} findings of PostgreSQL");
}

#[test]
fn blocks_and_options() {
    let (_scratch, dir) = aged();
    let (engine, mut session) = open_session(&dir, &config(IoMethod::Sync, false));
    let t = table(&mut session, None, "t");
    // The blocks in which something is wrong.
    let check = |session: &mut Session, options: TableCheckOptions| {
        checked(session, t.oid, &options).map(|found| {
            let mut blocks: Vec<u32> = found.iter().map(|finding| finding.block).collect();
            blocks.dedup();
            blocks
        })
    };
    let damage = |page: &mut PageBytes| {
        let mut page = PageMut(page);
        HeapTupleMut::new(page.item_mut(1).expect("a row")).expect("a tuple").set_hoff(80);
    };
    let file = dir.join("base/5/16384");
    with_page(&file, 0, damage, || {
        with_page(&file, 1, damage, || {
            evict(&mut session, &t);
            let all = TableCheckOptions::default();
            for (options, expected) in [
                (all, &[0, 1][..]),
                (TableCheckOptions { stop_on_error: true, ..all }, &[0]),
                (TableCheckOptions { blocks: [Some(1), None], ..all }, &[1]),
                (TableCheckOptions { blocks: [None, Some(0)], ..all }, &[0]),
                (TableCheckOptions { blocks: [Some(1), Some(0)], ..all }, &[]),
                // Block 0 is frozen.
                (TableCheckOptions { skip: SkipPages::AllFrozen, ..all }, &[1]),
                (TableCheckOptions { skip: SkipPages::AllVisible, ..all }, &[1]),
            ] {
                assert_eq!(check(&mut session, options).expect("a check"), expected);
            }
        });
    });
    evict(&mut session, &t);
    for (blocks, what) in [([Some(2), None], "starting"), ([None, Some(-1)], "ending")] {
        let options = TableCheckOptions { blocks, ..Default::default() };
        let error = check(&mut session, options).expect_err("no such block");
        let expected = format!("{what} block number must be between 0 and 1");
        assert_eq!((error.sqlstate(), error.to_string()), ("22023", expected));
    }
    drop(session);
    check::stop(engine);
}

#[test]
fn nothing_is_found_beside_transactions_that_run() {
    let (_scratch, dir, _) = long();
    let (engine, mut session) = open_session(&dir, &config(IoMethod::Sync, false));
    let t = table(&mut session, None, "t");
    let options = TableCheckOptions { check_toast: true, ..Default::default() };
    let mut other = engine.session().expect("session");
    // One that has inserted, updated and deleted, and one that looks.
    start(&mut session);
    let open = session.open_table(None, "t", LockMode::RowExclusive).expect("a table");
    let mut scan = session.scan(&open).expect("a scan");
    let mut rows = Vec::new();
    while let Some(row) = scan.next(&mut session).expect("a row") {
        rows.push(row.place());
    }
    drop(scan);
    for (n, place) in rows.into_iter().enumerate() {
        match n % 3 {
            0 => drop(session.delete_row(&open, place).expect("deleted")),
            1 => {
                let values = [Datum::Int8(n as i64), Datum::text("new")];
                drop(session.update_row(&open, place, &values).expect("updated"));
            }
            _ => {}
        }
    }
    insert_open(&mut session, &open, 1000..1200).expect("inserted");
    assert_eq!(checked(&mut other, t.oid, &options).expect("a check"), []);
    // Its own changes too, and those of a snapshot that began before they were committed.
    assert_eq!(session.check_table(t.oid, &options).expect("a check"), []);
    session.commit().expect("commit");
    assert_eq!(checked(&mut other, t.oid, &options).expect("a check"), []);
    for name in ["pg_class", "pg_attribute", "pg_proc", "pg_rewrite"] {
        let catalog = table(&mut other, Some("pg_catalog"), name).oid;
        assert_eq!(checked(&mut other, catalog, &options).expect("a check"), [], "{name}");
    }
    let error = checked(&mut other, 2662, &options).expect_err("an index");
    assert_eq!(error.to_string(), "cannot check relation \"pg_class_oid_index\"");
    drop((session, other));
    check::stop(engine);
}
