//! Redo of B-trees: keys of several columns, many equal ones, long texts, page deletions by vacuum.
//! Logs are mostly cut off behind the first record of a split or of a page's deletion.
//!
//! `FOREBAY_TREES` and `FOREBAY_TREES_SEED` make longer and other runs.

use forebay_testkit::Dice;
use forebay_testkit::peer::{Peer, Postgres};

use super::crashes::{self, Subject};

const ROUNDS: u64 = 4;

const TABLES: [&str; 3] = ["wide", "dups", "queue"];

/// Long keys, so that trees grow high; equal keys, so that there are posting lists; keys that come
/// at one end and go at the other.
const CREATE: [&str; 13] = [
    "CREATE EXTENSION amcheck",
    "CREATE SEQUENCE ids",
    "CREATE TABLE wide (id int8 PRIMARY KEY, k int4, s text)",
    "CREATE INDEX wide_k ON wide (k) INCLUDE (id)",
    "CREATE INDEX wide_s ON wide (s, k DESC)",
    "CREATE UNIQUE INDEX wide_u ON wide ((id * 7919 % 1000003)) WHERE k % 2 = 0",
    "CREATE TABLE dups (a int4, b int4, c text)",
    "CREATE INDEX dups_a ON dups (a)",
    "CREATE INDEX dups_b ON dups (b DESC NULLS FIRST, a)",
    "CREATE INDEX dups_c ON dups (c)",
    "CREATE TABLE queue (id int8 PRIMARY KEY DEFAULT nextval('ids'), payload int4)",
    "CREATE INDEX queue_p ON queue (payload) WITH (deduplicate_items = off)",
    "INSERT INTO queue (payload) SELECT i FROM generate_series(1, 3000) i",
];

struct Trees;

impl Subject for Trees {
    fn name(&self) -> &'static str {
        "trees"
    }

    fn create(&self) -> &'static [&'static str] {
        &CREATE
    }

    fn statements(&self, dice: &mut Dice, files_stay: bool) -> String {
        Statements { dice, files_stay }.statements()
    }

    fn begun(&self) -> &'static [&'static str] {
        &["desc: SPLIT_", "desc: MARK_PAGE_HALFDEAD", "desc: UNLINK_PAGE"]
    }

    fn questions(&self) -> Vec<String> {
        crashes::rows(&TABLES)
    }

    fn check(&self, peer: &Peer, server: &Postgres<'_>) {
        let port = server.port.to_string();
        let whom = ["-h", "127.0.0.1", "-U", "postgres", "-d", "postgres", "-p", &port];
        let checks = ["--heapallindexed", "--parent-check", "--rootdescend", "--checkunique"];
        peer.run("pg_amcheck", &[&whom[..], &checks].concat());
    }
}

#[test]
#[ignore = "half a minute long; run by cargo xtask test"]
fn trees_are_recovered_as_postgresql_recovers_them() {
    let Some(peer) = Peer::find("trees_are_recovered_as_postgresql_recovers_them") else { return };
    crashes::run(&peer, &Trees, ROUNDS);
}

/// Makes the statements of a client.
struct Statements<'a> {
    dice: &'a mut Dice,
    files_stay: bool,
}

impl Statements<'_> {
    fn statements(&mut self) -> String {
        if self.dice.chance(30) {
            let table = self.dice.pick(&TABLES);
            return match self.files_stay {
                true => format!("VACUUM (INDEX_CLEANUP on, TRUNCATE false) {table}"),
                false => format!("VACUUM (INDEX_CLEANUP on) {table}"),
            };
        }
        if !self.files_stay && self.dice.chance(8) {
            return self.rare();
        }
        match self.dice.below(10) {
            0 => format!("BEGIN; {}; {}; ROLLBACK", self.change(), self.change()),
            1 => format!("BEGIN; {}; {}; COMMIT", self.change(), self.change()),
            _ => self.change(),
        }
    }

    /// New files, and pages that are written.
    fn rare(&mut self) -> String {
        let statements = [
            "CHECKPOINT",
            "CHECKPOINT",
            "REINDEX INDEX wide_s",
            "REINDEX INDEX dups_a",
            "TRUNCATE queue",
            "DROP INDEX IF EXISTS dups_x; CREATE INDEX dups_x ON dups (c, b)",
        ];
        self.dice.pick(&statements).to_owned()
    }

    fn change(&mut self) -> String {
        let (some, key) = (1 + self.dice.below(60), self.dice.below(1000));
        match self.dice.below(16) {
            0..3 => format!(
                "INSERT INTO wide SELECT nextval('ids'), random() * 1000,
                    repeat(md5(random()::text), 1 + (random() * 6)::int)
                 FROM generate_series(1, {some})"
            ),
            3 => format!(
                "INSERT INTO wide SELECT nextval('ids'), {key}, string_agg(md5(random()::text), '')
                 FROM generate_series(1, {})",
                1 + key % 75
            ),
            4..7 => format!(
                "INSERT INTO dups SELECT random() * 20, nullif((random() * 5)::int, 0),
                    'value ' || (random() * 3)::int FROM generate_series(1, {})",
                some * 4
            ),
            7 => format!("INSERT INTO queue (payload) SELECT {key} FROM generate_series(1, 300)"),
            8 if key % 8 == 0 => "DELETE FROM queue".to_owned(),
            8 => format!("DELETE FROM queue WHERE id < (SELECT min(id) + {key} FROM queue)"),
            9 => format!("UPDATE wide SET k = k + 1 WHERE k BETWEEN {key} AND {key} + 10"),
            10 => format!("UPDATE dups SET b = {} WHERE a = {}", key % 5, key % 21),
            11 => format!("UPDATE queue SET payload = payload + 1 WHERE payload = {key}"),
            12 => format!("DELETE FROM wide WHERE k BETWEEN {key} AND {key} + {some}"),
            13 => format!("DELETE FROM dups WHERE a = {} AND b = {}", key % 21, key % 6),
            14 => format!(
                "SELECT count(s) FROM wide WHERE k > {key}; SELECT count(a) FROM dups WHERE a >= 0"
            ),
            _ => {
                "SELECT count(*) FROM queue WHERE id > 0; SELECT setval('ids', nextval('ids') + 1)"
                    .to_owned()
            }
        }
    }
}
