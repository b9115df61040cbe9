//! Indexes that PostgreSQL 18 built are read here, and indexes that were filled here are checked by
//! its amcheck.

use std::collections::{HashMap, HashSet};
use std::fs;

use forebay_format::checksum::page_checksum;
use forebay_format::nbtree::{self as nb, HALF_DEAD, HIGH_KEY};
use forebay_format::{BLOCK_SIZE, BlockNumber, Lsn, PageBytes, PageMut};
use forebay_storage::WriteScope;
use forebay_testkit::peer::{Peer, Postgres};
use forebay_types::{SqlType, text_in};

use super::checker::{Pages, pages_of};
use super::*;

const SETTINGS: &str = "-c autovacuum=off -c fsync=off -c full_page_writes=off";

/// An index of the test's table: its name, its definition, its columns (type, number among those
/// of [`COLUMNS`]), how it is ordered in SQL, and its shape apart from its columns.
struct Tested {
    name: &'static str,
    definition: &'static str,
    columns: &'static [(Oid, usize)],
    order: &'static str,
    shape: fn(&mut IndexShape),
}

/// The columns of the table, as text; the first is the row's place.
const COLUMNS: &str = "ctid, id, coalesce(a::text, '~'), coalesce(s, '~'), coalesce(n::text, '~')";

const INDEXES: [Tested; 5] = [
    Tested {
        name: "t_id",
        definition: "UNIQUE INDEX t_id ON t (id)",
        columns: &[(oids::INT8, 0)],
        order: "id, ctid",
        shape: |_| {},
    },
    Tested {
        name: "t_a",
        definition: "INDEX t_a ON t (a)",
        columns: &[(oids::INT4, 1)],
        order: "a, ctid",
        shape: |_| {},
    },
    Tested {
        name: "t_sa",
        definition: "INDEX t_sa ON t (s NULLS FIRST, a DESC)",
        columns: &[(oids::TEXT, 2), (oids::INT4, 1)],
        order: "s NULLS FIRST, a DESC, ctid",
        shape: |shape| {
            shape.keys[0].nulls_first = true;
            (shape.keys[1].descending, shape.keys[1].nulls_first) = (true, true);
        },
    },
    Tested {
        name: "t_n",
        definition: "INDEX t_n ON t (n, a)",
        columns: &[(oids::NUMERIC, 3), (oids::INT4, 1)],
        order: "n, a, ctid",
        shape: |_| {},
    },
    Tested {
        name: "t_ai",
        definition: "INDEX t_ai ON t (a) INCLUDE (s)",
        columns: &[(oids::INT4, 1), (oids::TEXT, 2)],
        order: "a, ctid",
        shape: |shape| shape.keys.truncate(1),
    },
];

impl Tested {
    fn shape(&self) -> IndexShape {
        let types: Vec<Oid> = self.columns.iter().map(|column| column.0).collect();
        let mut shape = IndexShape { name: self.name.to_owned(), ..shape(&types) };
        (self.shape)(&mut shape);
        shape
    }

    /// The values of a row.
    fn values(&self, row: &Row) -> Vec<Datum<'static>> {
        self.columns
            .iter()
            .map(|&(oid, number)| match row.values[number].as_str() {
                "~" => Datum::Null,
                text => text_in(text, SqlType::of(oid)).unwrap().into_owned(),
            })
            .collect()
    }

    /// Where its file is in the cluster.
    fn path(&self, server: &Postgres<'_>) -> String {
        server.query(&format!("SELECT pg_relation_filepath('{}')", self.name))
    }

    /// The places of all rows, in the index's order.
    fn places(&self, server: &Postgres<'_>) -> Vec<ItemPointer> {
        let rows = server.query(&format!("SELECT ctid FROM t ORDER BY {}", self.order));
        rows.lines().map(place).collect()
    }
}

/// A row of the table, its values as text.
struct Row {
    place: ItemPointer,
    values: Vec<String>,
}

fn rows(server: &Postgres<'_>) -> Vec<Row> {
    let rows = server.query(&format!("SELECT {COLUMNS} FROM t"));
    let row = |line: &str| {
        let mut fields = line.split('|');
        let place = place(fields.next().unwrap());
        Row { place, values: fields.map(str::to_owned).collect() }
    };
    rows.lines().map(row).collect()
}

/// Reads "(block,number)".
fn place(text: &str) -> ItemPointer {
    let numbers = text.trim_matches(['(', ')']).split_once(',').unwrap();
    ItemPointer::new(numbers.0.parse().unwrap(), numbers.1.parse().unwrap())
}

/// Rows with many duplicates, NULLs and long values.
fn add_rows(server: &Postgres<'_>, from: u32, to: u32) {
    server.query(&format!(
        "INSERT INTO t SELECT i * 7919 % 1000003, nullif(i * 31 % 97, 5), \
         CASE i % 11 WHEN 0 THEN NULL WHEN 1 THEN repeat('long', i % 200) \
         ELSE md5((i % 900)::text) END, nullif(i % 40, 7) / 4.0 \
         FROM generate_series({from}, {to}) i"
    ));
}

fn amcheck(server: &Postgres<'_>) {
    for index in &INDEXES {
        let name = index.name;
        server.query(&format!("SELECT bt_index_parent_check('{name}', true, true)"));
    }
}

/// Writes pages for somebody else's log, which has not come so far as they have.
fn write_pages(path: &std::path::Path, pages: &mut [PageBytes]) {
    for (block, page) in (0..).zip(&mut *pages) {
        PageMut(page).set_lsn(Lsn(0));
        let checksum = page_checksum(page, block);
        PageMut(page).set_checksum(checksum);
    }
    fs::write(path, pages.as_flattened()).unwrap();
}

/// Makes a file of PostgreSQL's that of the index.
fn take_over(fixture: &Fixture, from: &std::path::Path) {
    let mut file = fs::read(from).unwrap();
    let pages = file.as_chunks_mut::<BLOCK_SIZE>().0;
    write_pages(&fixture.dir.path().join(INDEX.path(Fork::Main)), pages);
}

/// The index over a file of its own. PostgreSQL's log knows nothing of its changes.
fn open(fixture: &Fixture, tested: &Tested, from: Option<&std::path::Path>) -> Index {
    let shape = tested.shape();
    match from {
        Some(from) => take_over(fixture, from),
        None => fixture.pool.smgr().create(INDEX, Fork::Main, true).unwrap(),
    }
    let index = Index { logged: false, ..super::open(fixture, shape) };
    if from.is_none() {
        index.create(&mut fixture.backend()).unwrap();
    }
    index
}

fn scan_places(index: &Index, backend: &mut Backend, to: Direction) -> Vec<ItemPointer> {
    let mut cursor = IndexCursor::new(index.scan(Vec::new(), BatchOptions::default()));
    std::iter::from_fn(|| cursor.next(backend, to).unwrap()).collect()
}

/// The orders that are known here have the support functions of PostgreSQL's default operator
/// classes.
fn check_orders(server: &Postgres<'_>) {
    let classes = server.query(
        "SELECT c.opcintype, p.amproc::oid, i.amproc IS NOT NULL FROM pg_opclass c \
         JOIN pg_amproc p ON p.amprocfamily = c.opcfamily AND p.amprocnum = 1 \
         AND p.amproclefttype = c.opcintype AND p.amprocrighttype = c.opcintype \
         LEFT JOIN pg_amproc i ON i.amprocfamily = c.opcfamily AND i.amprocnum = 4 \
         AND i.amproclefttype = c.opcintype AND i.amprocrighttype = c.opcintype \
         WHERE c.opcmethod = 403 AND c.opcdefault",
    );
    let (mut known, c) = (0, std::sync::Arc::new(forebay_collation::Collation::c()));
    for line in classes.lines() {
        let fields: Vec<&str> = line.split('|').collect();
        let [type_oid, function] = [fields[0], fields[1]].map(|oid| oid.parse::<Oid>().unwrap());
        let Some(order) = KeyOrder::of_type(type_oid) else { continue };
        assert_eq!(order.is_equal_image(), fields[2] == "t", "type {type_oid}");
        assert_eq!(KeyOrder::of_support(function, &c), Some(order), "type {type_oid}");
        known += 1;
    }
    assert!(known > 15, "{classes}");
}

#[test]
fn indexes_that_postgresql_built_and_aged_are_read() {
    let Some(peer) = Peer::find("indexes_that_postgresql_built_and_aged_are_read") else { return };
    peer.init("data");
    let server = peer.start("data", SETTINGS);
    check_orders(&server);
    server.query("CREATE TABLE t (id int8, a int4, s text, n numeric)");
    add_rows(&server, 1, 4000);
    for tested in &INDEXES {
        server.query(&format!("CREATE {}", tested.definition));
    }
    add_rows(&server, 4001, 12_000);
    server.query("DELETE FROM t WHERE id % 5 = 0 OR id BETWEEN 100000 AND 400000");
    server.query("VACUUM t");
    add_rows(&server, 12_001, 15_000);
    let mut wanted = HashMap::new();
    let mut paths = HashMap::new();
    for tested in &INDEXES {
        wanted.insert(tested.name, tested.places(&server));
        paths.insert(tested.name, tested.path(&server));
    }
    drop(server);
    for tested in &INDEXES {
        let fixture = Fixture::new();
        let mut backend = fixture.backend();
        let file = peer.outside("data").join(&paths[tested.name]);
        let index = open(&fixture, tested, Some(&file));
        let wanted = &wanted[tested.name];
        assert_eq!(&scan_places(&index, &mut backend, Direction::Forward), wanted);
        let mut backward = scan_places(&index, &mut backend, Direction::Backward);
        backward.reverse();
        assert_eq!(&backward, wanted);
        pages_of(&index, &mut backend).check();
    }
}

/// Fills one of the indexes, or builds it, in the place of a file of PostgreSQL's, and vacuums it:
/// all rows come, and some of them are live in the end. Returns the number of deleted pages.
fn fill(
    tested: &Tested,
    number: usize,
    path: &std::path::Path,
    all: &[Row],
    live: &HashSet<ItemPointer>,
) -> u32 {
    let fixture = Fixture::new();
    let mut backend = fixture.backend();
    let old = path.with_extension("old");
    let index = match number {
        1 => {
            fixture.pool.smgr().create(INDEX, Fork::Main, true).unwrap();
            let index = Index { logged: false, ..super::open(&fixture, tested.shape()) };
            let tuple =
                |row: &Row| form_index_tuple(&index.shape, &tested.values(row), row.place).unwrap();
            building::build(&index, &mut backend, all.iter().map(tuple).collect());
            index
        }
        _ => open(&fixture, tested, (number > 0).then_some(old.as_path())),
    };
    let present = scan_places(&index, &mut backend, Direction::Forward);
    let present: HashSet<_> = present.into_iter().collect();
    let mut order: Vec<_> = all.iter().filter(|row| !present.contains(&row.place)).collect();
    order.sort_by_key(|row| (row.place.offset.wrapping_mul(40_503), row.place));
    for row in order {
        insert(&index, &mut backend, &tested.values(row), row.place);
    }
    pages_of(&index, &mut backend).check();
    let mut deleted = 0;
    // Entries of dead rows go here, or are left to PostgreSQL.
    if number != 2 {
        let stats = vacuuming::vacuum(&index, &mut backend, &|place| !live.contains(&place));
        assert_eq!(stats.rows, live.len() as u64);
        vacuuming::check(&index, &mut backend, live.len());
        deleted = stats.newly_deleted;
    }
    fixture.pool.write_dirty(&mut backend, WriteScope::All).unwrap();
    assert!(fixture.failures.all().is_empty());
    fs::copy(fixture.dir.path().join(INDEX.path(Fork::Main)), path).unwrap();
    fs::remove_file(old).unwrap();
    deleted
}

#[test]
fn amcheck_finds_nothing_in_indexes_that_were_filled_here() {
    let Some(peer) = Peer::find("amcheck_finds_nothing_in_indexes_that_were_filled_here") else {
        return;
    };
    peer.init("data");
    let server = peer.start("data", SETTINGS);
    server.query("CREATE EXTENSION amcheck");
    server.query("CREATE TABLE t (id int8, a int4, s text, n numeric)");
    add_rows(&server, 1, 3000);
    for tested in &INDEXES {
        server.query(&format!("CREATE {}", tested.definition));
    }
    server.query("CHECKPOINT");
    let paths: Vec<String> = INDEXES.iter().map(|tested| tested.path(&server)).collect();
    for path in &paths {
        fs::copy(peer.outside("data").join(path), peer.outside("data").join(format!("{path}.old")))
            .unwrap();
    }
    add_rows(&server, 3001, 12_000);
    let all = rows(&server);
    server.query("DELETE FROM t WHERE id % 7 = 3 OR id BETWEEN 200000 AND 600000 OR a > 60");
    let live: HashSet<_> = rows(&server).iter().map(|row| row.place).collect();
    server.query("CHECKPOINT");
    drop(server);
    let mut deleted = 0;
    // One is filled from nothing, one is built; the others are filled up.
    for (number, (tested, path)) in INDEXES.iter().zip(&paths).enumerate() {
        let path = peer.outside("data").join(path);
        deleted += fill(tested, number, &path, &all, &live);
    }
    assert!(deleted > 50);
    peer.give_to_postgres();
    let server = peer.start("data", SETTINGS);
    amcheck(&server);
    // PostgreSQL goes on with them.
    server.query("VACUUM t");
    amcheck(&server);
    add_rows(&server, 12_001, 16_000);
    server.query("DELETE FROM t WHERE a % 3 = 0");
    server.query("VACUUM t");
    add_rows(&server, 16_001, 18_000);
    amcheck(&server);
}

/// The half-dead leaves of an index, and whether each has a branch above it.
fn half_dead(pages: &Pages) -> Vec<bool> {
    let blocks = 0..pages.pages.len() as BlockNumber;
    let half_dead = blocks.filter(|&block| pages.opaque(block).has(HALF_DEAD));
    let has_branch = |block| {
        let high_key = nb::item(pages.page(block), HIGH_KEY).unwrap();
        nb::Tuple::new(high_key).unwrap().top_parent().is_some()
    };
    half_dead.map(has_branch).collect()
}

#[test]
fn postgresql_completes_the_deletion_of_a_leaf() {
    let Some(peer) = Peer::find("postgresql_completes_the_deletion_of_a_leaf") else { return };
    complete_a_deletion(&peer, false);
}

#[test]
fn postgresql_completes_the_deletion_of_a_branch() {
    let Some(peer) = Peer::find("postgresql_completes_the_deletion_of_a_branch") else { return };
    complete_a_deletion(&peer, true);
}

/// A vacuum here ends in the deletion of a page, and PostgreSQL's goes on.
fn complete_a_deletion(peer: &Peer, of_branch: bool) {
    peer.init("data");
    let server = peer.start("data", SETTINGS);
    server.query("CREATE EXTENSION amcheck");
    server.query("CREATE TABLE t (k text)");
    server.query("ALTER TABLE t ALTER k SET STORAGE PLAIN");
    let key = "to_char(i, 'FM00000') || repeat('x', 900)";
    server.query(&format!("INSERT INTO t SELECT {key} FROM generate_series(1, 1500) i"));
    server.query("CREATE INDEX t_k ON t (k)");
    let path = server.query("SELECT pg_relation_filepath('t_k')");
    server.query("DELETE FROM t WHERE k BETWEEN '00100' AND '01400'");
    let live: HashSet<_> = server.query("SELECT ctid FROM t").lines().map(place).collect();
    server.query("CHECKPOINT");
    drop(server);

    let file = peer.outside("data").join(&path);
    let fixture = Fixture::new();
    take_over(&fixture, &file);
    let index = super::open(&fixture, shape(&[oids::TEXT]));
    let from = fixture.wal.insert_lsn();
    vacuuming::vacuum(&index, &mut fixture.backend(), &|place| !live.contains(&place));
    let mut found = None;
    recovery::after_each_record(&fixture, from, |_, pages| {
        let pages = Pages { shape: (*index.shape).clone(), pages };
        found = (half_dead(&pages) == [of_branch]).then_some(pages.pages);
        found.is_none()
    });
    write_pages(&file, &mut found.unwrap());
    peer.give_to_postgres();
    let server = peer.start("data", SETTINGS);
    server.query("SELECT bt_index_check('t_k', true)");
    server.query("VACUUM t");
    server.query("SELECT bt_index_parent_check('t_k', true, true)");
    server.query("CHECKPOINT");
    drop(server);
    let pages = fs::read(&file).unwrap();
    let pages = pages.as_chunks::<BLOCK_SIZE>().0.to_vec();
    let pages = Pages { shape: (*index.shape).clone(), pages };
    assert!(half_dead(&pages).is_empty());
    assert_eq!(pages.check().1.len(), live.len());
}
