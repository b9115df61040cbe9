//! What the catalogs say of columns: how their values are stored, and their statistics. PostgreSQL
//! and Forebay answer the same on copies of one directory, and PostgreSQL reads what Forebay wrote.

use super::harness::Server;
use super::long_values::answer;
use forebay_testkit::peer::Peer;
use std::sync::Arc;
use tempfile::TempDir;

/// Tables whose statistics have all kinds: common values, some of them so long that they are moved
/// to the TOAST table of pg_statistic, histograms, elements of arrays, ranges.
const ANALYZED: &[&str] = &[
    "CREATE TABLE a (i int4, t text, f float8, b bool, n numeric, z timestamptz, w text, l int4[], \
     r int4range, o oid)",
    "INSERT INTO a SELECT g, CASE g % 9 WHEN 0 THEN NULL WHEN 1 THEN '' WHEN 2 THEN 'a b' \
     WHEN 3 THEN 'q\"\\\\x' WHEN 4 THEN 'null' WHEN 5 THEN '{ä,}' ELSE 'v' || g % 40 END, \
     g / 7.0, g % 3 = 0, g % 50 / 4.0, '2020-01-01'::timestamptz + g % 70 * interval '1 hour', \
     repeat(md5((g % 60)::text), 20), ARRAY[g % 5, g % 7], int4range(g, g + g % 9), g % 4 \
     FROM generate_series(1, 3000) g",
    "ANALYZE a",
];

const STATS: &str = "SELECT attname, inherited, null_frac, avg_width, n_distinct, \
     most_common_vals, most_common_freqs, histogram_bounds, correlation, most_common_elems, \
     most_common_elem_freqs, elem_count_histogram, range_length_histogram, range_empty_frac \
     FROM pg_stats WHERE tablename = 'a' AND attname <> 'l' ORDER BY attname";

/// Of arrays all but their own values, which are only carried.
const OF_ARRAYS: &str = "SELECT attname, null_frac, n_distinct, most_common_freqs, correlation, \
     most_common_elems, most_common_elem_freqs, elem_count_histogram \
     FROM pg_stats WHERE tablename = 'a' AND attname = 'l'";

#[test]
fn statistics_are_shown_as_postgresql_shows_them() {
    let Some(peer) = Peer::find("column_stats") else { return };
    peer.init("pg");
    let postgres = peer.start("pg", "-c autovacuum=off");
    ANALYZED.iter().for_each(|sql| drop(postgres.query(sql)));
    let theirs = answer(&peer, postgres.port, STATS);
    assert!(theirs.lines().count() == 9 && theirs.contains("{\"\",\"a b\""), "{theirs}");
    let of_arrays = answer(&peer, postgres.port, OF_ARRAYS);
    assert!(of_arrays.contains("{0,1,2,3,4,5,6}"), "{of_arrays}");
    drop(postgres);
    let folder = Arc::new(TempDir::new().expect("a folder"));
    peer.fetch("pg", &folder.path().join("data"));
    let server = Server::on(folder, &[]);
    assert_eq!(answer(&peer, server.port, STATS), theirs);
    assert_eq!(answer(&peer, server.port, OF_ARRAYS), of_arrays);
    let columns = "SELECT * FROM pg_stats WHERE false";
    let all = answer(&peer, server.port, columns);
    // What Forebay stores is shown by both.
    for sql in [
        "CREATE TABLE own (i int4, t text, f float8)",
        "INSERT INTO own SELECT g, 'v' || g % 300, g / 7.0::float8 FROM generate_series(1, 2000) g",
        "ANALYZE own",
    ] {
        assert_eq!(answer(&peer, server.port, sql), "");
    }
    let own = STATS.replace("'a'", "'own'");
    let ours = answer(&peer, server.port, &own);
    assert_eq!(ours.lines().count(), 3, "{ours}");
    let folder = server.stop();
    peer.adopt(&folder.path().join("data"), "back");
    let postgres = peer.start("back", "-c autovacuum=off");
    assert_eq!(answer(&peer, postgres.port, &own), ours);
    assert_eq!(answer(&peer, postgres.port, columns), all);
}

/// Statements whose answers must be the same. Rows are long enough to be stored out of line.
const STORAGE: &[&str] = &[
    "CREATE TABLE s (a int4, x text STORAGE EXTERNAL, m text STORAGE main COMPRESSION lz4 NOT \
     NULL, d text STORAGE DEFAULT COMPRESSION default, p text COMPRESSION pglz)",
    "CREATE TABLE plain (a int4 STORAGE PLAIN, x text STORAGE PLAIN)",
    "CREATE TABLE bad (a int4 STORAGE external)",
    "CREATE TABLE bad (a int4 COMPRESSION pglz)",
    "CREATE TABLE bad (a int4 COMPRESSION default, b text STORAGE large)",
    "CREATE TABLE bad (b text COMPRESSION zstd)",
    "CREATE INDEX ON s (p)",
    "ALTER TABLE s ALTER d SET STORAGE EXTENDED, ALTER COLUMN p SET COMPRESSION lz4",
    "ALTER TABLE s ALTER p SET STORAGE main",
    "ALTER TABLE s ALTER a SET STORAGE main",
    "ALTER TABLE s ALTER nothing SET STORAGE main",
    "ALTER TABLE s ALTER x SET COMPRESSION bzip2",
    "ALTER TABLE IF EXISTS nothing ALTER x SET STORAGE main",
    "BEGIN; ALTER TABLE s ALTER x SET STORAGE PLAIN; ROLLBACK",
    "SELECT relname, reltoastrelid = 0 FROM pg_class WHERE relname IN ('s') ORDER BY relname",
    "SELECT relname, reltoastrelid = 0 FROM pg_class WHERE relname = 'plain'",
    "INSERT INTO plain VALUES (1, repeat('x', 9000))",
    "ALTER TABLE plain ALTER x SET STORAGE external",
    "SELECT relname, reltoastrelid = 0 FROM pg_class WHERE relname = 'plain'",
    "INSERT INTO plain VALUES (1, repeat('x', 9000))",
    "INSERT INTO s SELECT g, repeat('x', 5000), repeat('m', 9000 + g), repeat('d', 5000), \
     repeat('p', 500) FROM generate_series(1, 50) g",
    "SELECT attname, attstorage, attcompression FROM pg_attribute \
     WHERE attrelid = 's'::regclass::oid AND attnum > 0 ORDER BY attnum",
    "SELECT attname, attstorage, attcompression FROM pg_attribute \
     WHERE attrelid = 's_p_idx'::regclass::oid AND attnum > 0 ORDER BY attnum",
];

#[test]
fn storage_of_columns_is_that_of_postgresql() {
    let Some(peer) = Peer::find("column_storage") else { return };
    peer.init("pg");
    let folder = Arc::new(TempDir::new().expect("a folder"));
    peer.fetch("pg", &folder.path().join("data"));
    let server = Server::on(folder, &[]);
    let postgres = peer.start("pg", "-c autovacuum=off");
    for sql in STORAGE {
        let (ours, theirs) = (answer(&peer, server.port, sql), answer(&peer, postgres.port, sql));
        assert_eq!(ours, theirs, "{sql}");
    }
    drop(postgres);
    let folder = server.stop();
    peer.adopt(&folder.path().join("data"), "back");
    let postgres = peer.start("back", "-c autovacuum=off");
    postgres.query("CREATE EXTENSION amcheck");
    let check = "SELECT v.* FROM pg_class c, LATERAL verify_heapam(c.oid, check_toast := true) v \
                 WHERE relkind IN ('r', 't')";
    assert_eq!(postgres.query(check), "");
    let methods = "SELECT DISTINCT pg_column_compression(x), pg_column_compression(m), \
                   pg_column_compression(d), pg_column_compression(p), pg_column_size(x) FROM s";
    assert_eq!(postgres.query(methods), "|lz4|pglz||5000");
    assert_eq!(
        postgres.query("SELECT count(DISTINCT length(m)), max(length(x)) FROM s"),
        "50|5000"
    );
}
