//! Redo of what only PostgreSQL writes: hash, GIN, GiST, SP-GiST, BRIN and bloom indexes, commit
//! timestamps, replication origins, messages to logical decoding.
//!
//! `FOREBAY_KINDS` and `FOREBAY_KINDS_SEED` make longer and other runs. A run of
//! [`ALL_KINDS_SEEN`] rounds or more must have redone each kind of record that a load can make.

use std::collections::BTreeSet;

use forebay_format::wal::Rmgr;
use forebay_format::wal::desc::kind_name;
use forebay_server::client::Client;
use forebay_testkit::peer::{Peer, Postgres};
use forebay_testkit::{Dice, env};

use super::crashes::{self, Kinds, Subject};

const ROUNDS: u64 = 2;
/// Rounds after which no kind may be missing.
const ALL_KINDS_SEEN: u64 = 40;

const TABLES: [&str; 9] =
    ["hashed", "words", "lists", "shapes", "bookings", "places", "tiny", "ranges", "blooms"];

/// Small fill factors and lists of equal values, so that pages split and chain early. One row of
/// `ranges` fills most of a page.
const CREATE: [&str; 42] = [
    "CREATE EXTENSION bloom",
    "CREATE TABLE hashed (k int4, s text) WITH (autovacuum_enabled = off)",
    "CREATE INDEX hashed_k ON hashed USING hash (k)",
    "CREATE INDEX hashed_s ON hashed USING hash (s) WITH (fillfactor = 10)",
    "INSERT INTO hashed SELECT i % 20, 'row ' || i FROM generate_series(1, 3000) i",
    "CREATE TABLE words (id int4, a text[], j jsonb, t tsvector)",
    "CREATE INDEX words_a ON words USING gin (a) WITH (fastupdate = off)",
    "CREATE INDEX words_j ON words USING gin (j jsonb_path_ops)
         WITH (gin_pending_list_limit = 64)",
    "CREATE INDEX words_t ON words USING gin (t) WITH (gin_pending_list_limit = 256)",
    "CREATE TABLE lists (id int4, a int4[]) WITH (autovacuum_enabled = off)",
    "CREATE INDEX lists_a ON lists USING gin (a) WITH (fastupdate = off)",
    "INSERT INTO lists SELECT i, ARRAY[i % 2, i % 7 + 10] FROM generate_series(1, 60000) i",
    "CREATE TABLE shapes (p point, b box, r int4range, t tsvector)",
    "CREATE INDEX shapes_p ON shapes USING gist (p)",
    "CREATE INDEX shapes_b ON shapes USING gist (b) WITH (fillfactor = 50)",
    "CREATE INDEX shapes_r ON shapes USING gist (r, p)",
    "CREATE INDEX shapes_t ON shapes USING gist (t)",
    "INSERT INTO shapes SELECT point(i % 97, i), box(point(i, i), point(i + 5, i + 2)),
         int4range(i, i + i % 50), to_tsvector('simple', 'w' || i % 100 || ' v' || i % 13)
         FROM generate_series(1, 3000) i",
    "CREATE TABLE bookings (r int4range, EXCLUDE USING gist (r WITH &&))",
    "CREATE TABLE places (p point, s text, i inet, r int4range)",
    "CREATE INDEX places_q ON places USING spgist (p)",
    "CREATE INDEX places_k ON places USING spgist (p kd_point_ops)",
    "CREATE INDEX places_s ON places USING spgist (s)",
    "CREATE INDEX places_i ON places USING spgist (i) INCLUDE (s)",
    "CREATE INDEX places_r ON places USING spgist (r)",
    "CREATE TABLE tiny (s text)",
    "CREATE INDEX tiny_s ON tiny USING spgist (s)",
    "CREATE TABLE ranges (k int4, r int4range, s text)
         WITH (fillfactor = 10, autovacuum_enabled = off)",
    "ALTER TABLE ranges ALTER s SET STORAGE plain",
    "CREATE INDEX ranges_k ON ranges USING brin (k) WITH (pages_per_range = 1)",
    "CREATE INDEX ranges_r ON ranges USING brin (r) WITH (pages_per_range = 1)",
    "CREATE INDEX ranges_s ON ranges USING brin (s) WITH (pages_per_range = 1)",
    "CREATE INDEX ranges_m ON ranges USING brin (k int4_minmax_multi_ops)
         WITH (pages_per_range = 2)",
    "CREATE INDEX ranges_b ON ranges USING brin (s text_bloom_ops) WITH (pages_per_range = 4)",
    "INSERT INTO ranges SELECT i, int4range(i, i + 9), repeat('x', 20) || i
         FROM generate_series(1, 40) i",
    "CREATE TABLE blooms (a int4, b int4, s text)",
    "CREATE INDEX blooms_x ON blooms USING bloom (a, b, s)",
    "INSERT INTO blooms SELECT i, i % 7, 'row ' || i FROM generate_series(1, 2000) i",
    "SELECT pg_replication_origin_create('origin ' || i) FROM generate_series(0, 2) i",
    "ALTER DATABASE template0 ALLOW_CONNECTIONS true",
    // More transactions than a file of pg_commit_ts has.
    "DO $$BEGIN FOR i IN 1..28000 LOOP BEGIN INSERT INTO tiny VALUES ('x' || i % 10);
         EXCEPTION WHEN division_by_zero THEN NULL; END; END LOOP; END$$",
    "TRUNCATE tiny",
];

struct Others;

impl Subject for Others {
    fn name(&self) -> &'static str {
        "kinds"
    }

    fn create(&self) -> &'static [&'static str] {
        &CREATE
    }

    fn statements(&self, dice: &mut Dice, files_stay: bool) -> String {
        Statements { dice, files_stay }.statements()
    }

    fn begun(&self) -> &'static [&'static str] {
        &["rmgr: Hash", "rmgr: Gin", "rmgr: Gist", "rmgr: SPGist", "rmgr: BRIN", "rmgr: Generic"]
    }

    fn questions(&self) -> Vec<String> {
        let stamps = "SELECT count(*), coalesce(sum(hashtext(x::text)::int8), 0) FROM
            (SELECT DISTINCT xmin::text, pg_xact_commit_timestamp_origin(xmin) x FROM ";
        let stamps = ["hashed", "bookings", "places"].map(|table| format!("{stamps}{table}) t"));
        let mut questions = crashes::rows(&TABLES);
        questions.extend(stamps);
        questions.push(
            "SELECT local_id, remote_lsn FROM pg_replication_origin_status ORDER BY 1".to_owned(),
        );
        questions
    }

    fn conflicts(&self) -> &'static [&'static str] {
        &["23P01", "55006", "55000", "42704", "42710", "42P07", "42P01", "22023"]
    }

    /// Timestamps are always kept: PostgreSQL 18.6 itself looks for files that are gone if it
    /// crashes after it has stopped to keep them and then starts to keep them again.
    fn settings(&self, dice: &mut Dice, cut: bool) -> &'static str {
        match dice.below(4) {
            0 if !cut => "track_commit_timestamp=on wal_level=minimal max_wal_senders=0",
            _ => "track_commit_timestamp=on",
        }
    }

    fn before_crash(&self, peer: &Peer, server: &Postgres<'_>, dice: &mut Dice) {
        if dice.chance(300) {
            let port = server.port.to_string();
            let whom = ["-h", "127.0.0.1", "-U", "postgres", "-p", &port];
            peer.run("vacuumdb", &[&whom[..], &["--all", "--freeze", "-q"]].concat());
        }
    }

    /// Tables with such indexes can be read, not through them, and can't be changed.
    fn ask_forebay(&self, port: u16) {
        let mut client = Client::tcp(port).expect("a connection");
        for table in TABLES {
            let rows = client.query(&format!("SELECT count(*) FROM {table}"));
            assert_eq!(rows.expect("an answer").rows.len(), 1, "{table}");
            let first = table_column(table);
            for change in [
                format!("INSERT INTO {table} ({first}) VALUES (NULL)"),
                format!("UPDATE {table} SET {first} = NULL"),
                format!("DELETE FROM {table}"),
                format!("VACUUM {table}"),
            ] {
                let refused = client.query(&change).map(|_| ()).expect_err(&change);
                assert_eq!(refused.sqlstate(), "0A000", "{change}: {refused}");
            }
        }
    }

    fn check(&self, _peer: &Peer, server: &Postgres<'_>) {
        for question in INDEXED {
            let by_index = server.query(&format!("SET enable_seqscan = off; {question}"));
            let by_table = server.query(&format!(
                "SET enable_indexscan = off; SET enable_bitmapscan = off; {question}"
            ));
            assert_eq!(by_index, by_table, "{question}");
        }
    }
}

/// A column of a table.
fn table_column(table: &str) -> &'static str {
    match table {
        "hashed" | "ranges" => "k",
        "words" | "lists" => "id",
        "shapes" | "places" => "p",
        "bookings" => "r",
        "tiny" => "s",
        _ => "a",
    }
}

/// Conditions with the same rows by an index and without.
const INDEXED: [&str; 12] = [
    "SELECT count(*) FROM hashed WHERE k = 3",
    "SELECT count(*) FROM hashed WHERE s = 'row 1000'",
    "SELECT count(*) FROM words WHERE a @> ARRAY['w7']",
    "SELECT count(*) FROM words WHERE j @> '{\"k\": 3}'",
    "SELECT count(*) FROM lists WHERE a @> ARRAY[1]",
    "SELECT count(*) FROM shapes WHERE b && box(point(10, 10), point(500, 500))",
    "SELECT count(*) FROM shapes WHERE r && int4range(5, 500)",
    "SELECT count(*) FROM places WHERE p <@ box(point(100, 100), point(600, 600))",
    "SELECT count(*) FROM places WHERE s >= 'w2' AND s < 'w5'",
    "SELECT count(*) FROM places WHERE i << '10.2.0.0/16'",
    "SELECT count(*) FROM ranges WHERE k BETWEEN 10 AND 700",
    "SELECT count(*) FROM blooms WHERE a = 5 AND b = 5",
];

/// Kinds of these managers must all be redone in a long run.
const MANAGERS: [Rmgr; 8] = [
    Rmgr::HASH,
    Rmgr::GIN,
    Rmgr::GIST,
    Rmgr::SPGIST,
    Rmgr::BRIN,
    Rmgr::COMMIT_TS,
    Rmgr::ORIGIN,
    Rmgr::GENERIC,
];

/// All kinds of [`MANAGERS`] that exist, as pg_waldump names them.
fn all_kinds() -> BTreeSet<String> {
    let kinds = MANAGERS.iter().flat_map(|&rmgr| {
        (0..=0xf_u8).filter_map(move |number| {
            let kind = kind_name(rmgr, number << 4).filter(|kind| *kind != "UNKNOWN")?;
            Some(format!("{rmgr}/{kind}"))
        })
    });
    kinds.chain(["LogicalMessage/MESSAGE".to_owned(), "XLOG/PARAMETER_CHANGE".to_owned()]).collect()
}

fn report(seen: &Kinds, rounds: u64) {
    let all = all_kinds();
    let missing: Vec<_> = all.iter().filter(|kind| !seen.contains_key(*kind)).collect();
    let counted: Vec<_> = all
        .iter()
        .filter_map(|kind| seen.get(kind).map(|count| format!("{kind} {count}")))
        .collect();
    println!("battery: kinds: redone: {}; not seen: {missing:?}", counted.join(", "));
    assert!(rounds < ALL_KINDS_SEEN || missing.is_empty(), "not redone: {missing:?}");
}

#[test]
#[ignore = "a minute long; run by cargo xtask test"]
fn other_kinds_are_recovered_as_postgresql_recovers_them() {
    let name = "other_kinds_are_recovered_as_postgresql_recovers_them";
    let Some(peer) = Peer::find(name) else { return };
    let seen = crashes::run(&peer, &Others, ROUNDS);
    report(&seen, env::number("FOREBAY_KINDS").unwrap_or(ROUNDS));
}

/// Makes the statements of a client.
struct Statements<'a> {
    dice: &'a mut Dice,
    files_stay: bool,
}

impl Statements<'_> {
    fn statements(&mut self) -> String {
        if self.dice.chance(60) {
            return self.vacuum();
        }
        if !self.files_stay && self.dice.chance(12) {
            return self.rare();
        }
        match self.dice.below(10) {
            0 => format!("BEGIN; {}; {}; ROLLBACK", self.change(), self.change()),
            1 => format!("BEGIN; {}; {}; COMMIT", self.change(), self.change()),
            2 => self.replication(),
            _ => self.change(),
        }
    }

    fn vacuum(&mut self) -> String {
        let table = self.dice.pick(&TABLES);
        match self.dice.below(4) {
            0 => {
                let index = self.dice.pick(&["ranges_k", "ranges_r", "ranges_s", "ranges_m"]);
                let block = self.dice.below(60);
                format!("SELECT brin_desummarize_range('{index}', {block})")
            }
            1 => {
                let index = self.dice.pick(&["ranges_k", "ranges_r", "ranges_s", "ranges_b"]);
                format!("SELECT brin_summarize_new_values('{index}')")
            }
            _ if self.files_stay => {
                format!("VACUUM (INDEX_CLEANUP on, TRUNCATE false) {table}")
            }
            _ => format!("VACUUM (INDEX_CLEANUP on) {table}"),
        }
    }

    /// New files, and pages that are written.
    fn rare(&mut self) -> String {
        let statements = [
            "CHECKPOINT",
            "REINDEX INDEX hashed_k",
            "REINDEX INDEX words_a",
            // Never dropped: PostgreSQL 18.6 can't redo a BRIN insertion whose page is gone.
            "CREATE INDEX IF NOT EXISTS ranges_x ON ranges USING brin (k, s)
                 WITH (pages_per_range = 1)",
            "CREATE INDEX IF NOT EXISTS ranges_y ON ranges USING brin (r)
                 WITH (pages_per_range = 1)",
            "DROP INDEX IF EXISTS places_x; CREATE INDEX places_x ON places USING spgist (s)",
            "DROP TABLE IF EXISTS empty; CREATE UNLOGGED TABLE empty (k int4);
             CREATE INDEX ON empty USING hash (k); INSERT INTO empty VALUES (1)",
            // Without a log of the table, its GiST index needs positions.
            "BEGIN; DROP TABLE IF EXISTS fresh; CREATE TABLE fresh (p point);
             CREATE INDEX ON fresh USING gist (p);
             INSERT INTO fresh SELECT point(i, i) FROM generate_series(1, 2000) i; COMMIT",
            "SELECT pg_switch_wal()",
        ];
        self.dice.pick(&statements).to_owned()
    }

    /// What serves replication.
    fn replication(&mut self) -> String {
        let (origin, lsn) = (self.dice.below(3), self.dice.below(1 << 40));
        let lsn = format!("{:X}/{:X}", lsn >> 32, lsn as u32);
        let change = self.change();
        match self.dice.below(8) {
            // One at a time: the second of two gets an internal error.
            0 => format!(
                "SELECT pg_advisory_xact_lock(1); SELECT pg_replication_origin_drop('origin {origin}')"
            ),
            1 => format!("SELECT pg_replication_origin_create('origin {origin}')"),
            2 => format!("SELECT pg_replication_origin_advance('origin {origin}', '{lsn}')"),
            3 => format!("SELECT pg_logical_emit_message(true, 'kinds', '{lsn}')"),
            4 => format!("SELECT pg_logical_emit_message(false, 'kinds', '{lsn}')"),
            5 => "DO $$BEGIN FOR i IN 1..300 LOOP BEGIN INSERT INTO bookings
                 VALUES (int4range(i * 1000, i * 1000 + 1)); EXCEPTION WHEN exclusion_violation
                 THEN NULL; END; END LOOP; END$$"
                .to_owned(),
            _ => format!(
                "SELECT pg_replication_origin_session_reset()
                     WHERE pg_replication_origin_session_is_setup();
                 SELECT pg_replication_origin_session_setup('origin {origin}');
                 BEGIN; SELECT pg_replication_origin_xact_setup('{lsn}', now() - '1 day'::interval);
                 {change}; COMMIT; SELECT pg_replication_origin_session_reset()"
            ),
        }
    }

    fn change(&mut self) -> String {
        let (some, key) = (1 + self.dice.below(60), self.dice.below(1000));
        match self.dice.below(7) {
            0 => self.hashed(some, key),
            1 => self.words(some, key),
            2 => self.lists(some, key),
            3 => self.shapes(some, key),
            4 => self.places(some, key),
            5 => self.ranges(some, key),
            _ => self.blooms(some, key),
        }
    }

    fn hashed(&mut self, some: u64, key: u64) -> String {
        match self.dice.below(6) {
            0 | 1 => format!(
                "INSERT INTO hashed SELECT {key} % 20, 'row ' || {key} + i
                 FROM generate_series(1, {some} * 5) i"
            ),
            2 => format!("DELETE FROM hashed WHERE k = {key} % 20"),
            3 => format!("DELETE FROM hashed WHERE s = 'row {key}'"),
            4 => format!("UPDATE hashed SET s = s || 'x' WHERE k = {key} % 20"),
            _ => format!(
                "SELECT count(s) FROM hashed WHERE k = {key} % 20;
                 SELECT count(k) FROM hashed WHERE s = 'row {key}'"
            ),
        }
    }

    fn words(&mut self, some: u64, key: u64) -> String {
        match self.dice.below(5) {
            0..=2 => format!(
                "INSERT INTO words SELECT i, ARRAY['w' || i % 50, md5((i + {key})::text)],
                    jsonb_build_object('k', i % 9, md5(i::text || {key}), i),
                    to_tsvector('simple', 'w' || i % 30 || ' ' || md5(({key} * i)::text))
                 FROM generate_series(1, {some}) i"
            ),
            3 => format!("DELETE FROM words WHERE id % 7 = {key} % 7"),
            _ => format!("UPDATE words SET a = ARRAY['w{key}'] WHERE id = {key} % 60"),
        }
    }

    /// Many rows with few values: posting trees.
    fn lists(&mut self, some: u64, key: u64) -> String {
        match self.dice.below(6) {
            0..=2 => format!(
                "INSERT INTO lists SELECT {key} * i % 60000, ARRAY[i % 2, {key} % 7 + 10]
                 FROM generate_series(1, {some} * 20) i"
            ),
            3 => format!("DELETE FROM lists WHERE id > {key} * 60 AND id < {key} * 60 + 15000"),
            4 => format!(
                "DELETE FROM lists WHERE ctid >= '({},0)' AND ctid < '({},0)'",
                key / 4,
                key / 4 + 150
            ),
            _ => format!("DELETE FROM lists WHERE id % 50 = {key} % 50"),
        }
    }

    fn shapes(&mut self, some: u64, key: u64) -> String {
        match self.dice.below(8) {
            0..=2 => format!(
                "INSERT INTO shapes SELECT point(random() * 1000, {key} + i),
                    box(point({key}, i), point({key} + i, random() * 1000)),
                    int4range({key}, {key} + i),
                    to_tsvector('simple', 'w' || i % 100 || ' v' || {key})
                 FROM generate_series(1, {some} * 2) i"
            ),
            3 => format!(
                "DELETE FROM shapes WHERE p <@ box(point(0, {key}), point(1000, {key} + 200))"
            ),
            4 => format!("DELETE FROM shapes WHERE p[1] > {key}"),
            5 => format!(
                "UPDATE shapes SET b = box(p, point(0, {key}))
                 WHERE r && int4range({key}, {key} + 2)"
            ),
            6 => format!("INSERT INTO bookings VALUES (int4range({key}, {key} + {some} % 7 + 1))"),
            _ => format!(
                "SELECT count(r) FROM shapes WHERE p <@ box(point(0, 0), point({key}, {key}));
                 DELETE FROM bookings WHERE r && int4range({key}, {key} + 20)"
            ),
        }
    }

    fn places(&mut self, some: u64, key: u64) -> String {
        match self.dice.below(9) {
            0..=2 => format!(
                "INSERT INTO places SELECT point(random() * 1000, random() * 1000),
                    'w' || i % 7 || repeat('ab', {key} % 30) || md5(i::text || {key}),
                    ('10.' || i % 9 || '.' || {key} % 256 || '.' || i)::inet,
                    CASE WHEN i % 5 > 0 THEN int4range({key}, {key} + i) END
                 FROM generate_series(1, {some}) i"
            ),
            3 => format!(
                "INSERT INTO places SELECT point({key}, {key}), 'w{}', NULL, 'empty'
                 FROM generate_series(1, {some})",
                key % 10
            ),
            4 => "INSERT INTO places SELECT NULL, chr(32 + i) || 'w', '10.0.0.0/8', NULL
                 FROM generate_series(1, 90) i"
                .to_owned(),
            5 => format!(
                "DELETE FROM places WHERE p <@ box(point({key}, 0), point({key} + 200, 1000))"
            ),
            6 => format!("DELETE FROM places WHERE s > 'w{}' OR p IS NULL", key % 8),
            7 => format!("UPDATE places SET s = s || 'y' WHERE s < 'w{}'", key % 3),
            _ => format!(
                "INSERT INTO tiny SELECT 'x' || i FROM generate_series(1, {some} % 8) i;
                 DELETE FROM tiny WHERE s = 'x{}'",
                key % 8
            ),
        }
    }

    fn ranges(&mut self, some: u64, key: u64) -> String {
        match self.dice.below(6) {
            0..=2 => format!(
                "INSERT INTO ranges SELECT {key} + i, int4range({key}, {key} + i),
                    repeat(chr(97 + i % 20), ({key} + i) % 40 + 1)
                 FROM generate_series(1, {some} * 4) i"
            ),
            3 => format!(
                "UPDATE ranges SET k = k + 1, s = repeat('{}', {key} % 600 + 1)
                 WHERE k BETWEEN {key} AND {key} + 20",
                if key.is_multiple_of(2) { 'a' } else { 'z' }
            ),
            4 => format!("UPDATE ranges SET r = int4range(-{key}, {key}) WHERE k = {key} % 90"),
            _ => format!("DELETE FROM ranges WHERE k BETWEEN {key} AND {key} + 50"),
        }
    }

    fn blooms(&mut self, some: u64, key: u64) -> String {
        match self.dice.below(3) {
            0 => format!("DELETE FROM blooms WHERE a BETWEEN {key} AND {key} + {some}"),
            1 => format!("UPDATE blooms SET b = b + 1 WHERE a = {key}"),
            _ => format!(
                "INSERT INTO blooms SELECT {key}, i, 'row ' || i
                 FROM generate_series(1, {some}) i"
            ),
        }
    }
}
