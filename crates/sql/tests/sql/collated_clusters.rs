//! Clusters of PostgreSQL 18 whose collations are libc's, ICU's and builtin: rows are in
//! PostgreSQL's order, and what each does to indexes is sound to the other.

use crate::fixture::{Fixture, open_made};
use forebay_testkit::peer::{Peer, Postgres};
use forebay_testkit::process::must;
use std::process::Command;

/// Both servers run these, in turn: the rows that one adds, the other finds.
const TABLE: &[&str] = &[
    "CREATE TABLE w (n int PRIMARY KEY, t text, v varchar(40), c char(20), x text COLLATE \"C\")",
    "INSERT INTO w SELECT g, chr(97 + g * 7 % 26) || chr(65 + g * 11 % 26) || g % 97, \
     CASE WHEN g % 5 > 0 THEN 'ä' ELSE 'Z' END || '-' || g * 31 % 1000, \
     chr(65 + g * 3 % 26) || repeat(' ', g % 4), 'é' || g FROM generate_series(1, 3000) g",
    "INSERT INTO w SELECT 3000 + g, chr(191 + g), upper(chr(191 + g)), chr(96 + g % 26), \
     chr(500 + g) FROM generate_series(1, 300) g",
    "CREATE INDEX w_t ON w (t)",
    "CREATE INDEX w_v ON w (v DESC, c)",
    "CREATE INDEX w_c ON w (c, t)",
    "CREATE INDEX w_x ON w (x)",
    "CREATE INDEX w_tc ON w (t COLLATE \"C\")",
    "CREATE UNIQUE INDEX w_u ON w (t, v, n)",
    "ANALYZE w",
];

/// Changes, after which indexes have new entries on either side.
const CHANGES: &[&str] = &[
    "INSERT INTO w SELECT n + 10000, t || 'q', v, c, x FROM w WHERE n % 3 = 0",
    "UPDATE w SET t = upper(t), c = c || 'x' WHERE n % 7 = 1",
    "DELETE FROM w WHERE n % 11 = 2",
];

/// What both servers must answer alike.
const QUERIES: &[&str] = &[
    "SELECT t, n FROM w ORDER BY t, n",
    "SELECT v, n FROM w ORDER BY v DESC, n",
    "SELECT c, n FROM w ORDER BY c, n",
    "SELECT x FROM w ORDER BY x DESC, n",
    "SELECT t, n FROM w ORDER BY t COLLATE \"C\", n",
    "SELECT n FROM w WHERE t > 'b' AND t <= 'Éa' ORDER BY t, n",
    "SELECT n FROM w WHERE v BETWEEN 'a' AND 'ä-5' ORDER BY n",
    "SELECT n FROM w WHERE c < 'c' AND t >= 'M' ORDER BY n",
    "SELECT n FROM w WHERE (c, t) > ('B', 'k') ORDER BY n",
    "SELECT n FROM w WHERE x < 'é5' ORDER BY n",
    "SELECT n FROM w WHERE t IN ('aA0', 'É', 'ß') OR t LIKE 'é%' ORDER BY n",
    "SELECT min(t), max(t), min(v), max(v), min(c), max(c), min(x), max(x) FROM w",
    "SELECT c, count(*) FROM w GROUP BY c ORDER BY c",
    "SELECT upper(t), lower(v) FROM w ORDER BY n",
    "SELECT n FROM w WHERE v ILIKE 'Ä-1%' ORDER BY n",
    "SELECT greatest(t, v), least(t, v) FROM w ORDER BY n",
    "SELECT array[t, v::text] < array[v::text, t] FROM w ORDER BY n",
    "SELECT count(*) FROM w WHERE to_jsonb(t) < to_jsonb(v)",
    "SELECT staattnum, stacoll1, stacoll2, stacoll3 FROM pg_statistic \
     WHERE starelid = 'w'::regclass ORDER BY 1",
    "SELECT attname, attcollation FROM pg_attribute WHERE attrelid = 'w'::regclass ORDER BY 1",
];

const SCANS: [[&str; 2]; 3] = [
    ["set enable_seqscan = on", "set enable_indexscan = on"],
    ["set enable_seqscan = off", "set enable_bitmapscan = off"],
    ["set enable_bitmapscan = on", "set enable_indexscan = off"],
];

/// The variable by which the C library finds locales.
const LOCALES: &str = "LOCPATH";

/// The bytes that a golden file would show escaped.
fn shown(text: &str) -> String {
    let byte = |b: u8| match b {
        b' '..=b'~' => char::from(b).to_string(),
        b => format!("\\x{b:02x}"),
    };
    text.bytes().map(byte).collect()
}

fn same_answers(ours: &mut Fixture, theirs: &Postgres<'_>) {
    for sql in QUERIES {
        let expected = theirs.query(sql);
        let expected: Vec<String> =
            expected.split('\n').filter(|line| !line.is_empty()).map(shown).collect();
        for settings in SCANS {
            for setting in settings {
                ours.rows(setting);
            }
            let found = ours.rows(sql).into_iter().map(|row| row.replace('\t', "|"));
            let found: Vec<String> = found.map(|row| row.replace("\\N", "")).collect();
            assert_eq!(found, expected, "{settings:?} {sql}");
        }
    }
}

fn check(postgres: &Postgres<'_>) {
    postgres.query("CREATE EXTENSION IF NOT EXISTS amcheck");
    let check = "SELECT bt_index_parent_check(indexrelid, true, true, indisunique) FROM pg_index \
                 WHERE indrelid = 'w'::regclass";
    postgres.query(check);
}

/// A cluster of PostgreSQL's with these options of initdb is opened, and handed back.
fn takes_turns(peer: &Peer, options: &[&str]) {
    let data = peer.inside("pg");
    let usual = ["-D", &data, "-U", "postgres", "-A", "trust", "--no-sync", "-EUTF8"];
    peer.run("initdb", &[&usual[..], options].concat());
    let postgres = peer.start("pg", "-c autovacuum=off");
    TABLE.iter().for_each(|sql| drop(postgres.query(sql)));
    check(&postgres);
    drop(postgres);

    // PostgreSQL's indexes, changed here.
    let mut ours = open_made(|dir| peer.fetch("pg", dir));
    let postgres = peer.start("pg", "-c autovacuum=off");
    same_answers(&mut ours, &postgres);
    let own = ["REINDEX TABLE w", "CREATE INDEX w_own ON w (v, t)", "ANALYZE w", "VACUUM w"];
    for sql in CHANGES.iter().chain(&own) {
        ours.rows(sql);
        postgres.query(sql);
    }
    same_answers(&mut ours, &postgres);
    for index in ["w_pkey", "w_t", "w_v", "w_c", "w_x", "w_tc", "w_u", "w_own"] {
        ours.rows(&format!("SELECT bt_index_check('{index}', true)"));
    }
    drop(postgres);

    let ours = ours.restart_after(forebay_engine::ShutdownMode::Fast, |dir| {
        peer.adopt(dir, "back");
    });
    ours.close();
    let postgres = peer.start("back", "-c autovacuum=off");
    check(&postgres);
    CHANGES[1..].iter().for_each(|sql| drop(postgres.query(sql)));
    check(&postgres);
}

/// Both C libraries read the same locale, so that their versions do not matter. It runs itself
/// again with the variable that names the locale's folder.
#[test]
fn a_cluster_by_libc_is_opened_and_handed_back() {
    let test = "a_cluster_by_libc_is_opened_and_handed_back";
    let Some(mut peer) = Peer::find(test) else { return };
    let Some(locales) = std::env::var_os(LOCALES) else {
        let folder = tempfile::tempdir().expect("a folder");
        let mut made = Command::new("localedef");
        made.args(["-i", "en_US", "-f", "UTF-8"]).arg(folder.path().join("en_US.UTF-8"));
        must(&mut made);
        let mut again = Command::new(std::env::current_exe().expect("this program"));
        must(
            again
                .args(["--exact", &format!("collated_clusters::{test}")])
                .env(LOCALES, folder.path()),
        );
        return;
    };
    peer.adopt(std::path::Path::new(&locales), "locales");
    peer.set_variable(LOCALES, peer.inside("locales"));
    takes_turns(&peer, &["--locale=en_US.UTF-8"]);
}

#[test]
fn a_cluster_by_icu_is_opened_and_handed_back() {
    let Some(peer) = Peer::find("a_cluster_by_icu_is_opened") else { return };
    takes_turns(&peer, &["--locale-provider=icu", "--icu-locale=de-AT", "--locale=C"]);
}

#[test]
fn a_cluster_by_the_builtin_provider_is_opened_and_handed_back() {
    let Some(peer) = Peer::find("a_cluster_by_the_builtin_provider_is_opened") else { return };
    takes_turns(&peer, &["--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C"]);
}
