//! pg_prewarm and pg_buffercache, against answers recorded from PostgreSQL 18 with both extensions;
//! and what Forebay adds.

use crate::fixture::open;
use crate::support;

#[test]
fn answers_as_postgresql_does() {
    let mut fixture = open("");
    let golden = include_str!("../golden/buffers.txt");
    assert!(support::cases(golden).len() > 70, "too few cases were read");
    let wrong = support::differences(&mut fixture.conn, golden);
    fixture.close();
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn pages_are_marked_dirty_and_their_checksums_are_taken() {
    let mut fixture = open("");
    fixture.rows("create table t (a int)");
    fixture.rows("insert into t select generate_series from generate_series(1, 1000)");
    fixture.rows("checkpoint");
    let dirty =
        "select count(*) from pg_buffercache where isdirty and relfilenode = 't'::regclass::oid";
    assert_eq!(fixture.rows(dirty), ["0"]);
    assert_eq!(fixture.rows("select * from pg_buffercache_mark_dirty_relation('t')"), ["5\t0\t0"]);
    assert_eq!(fixture.rows("select * from pg_buffercache_mark_dirty_relation('t')"), ["0\t5\t0"]);
    assert_eq!(fixture.rows(dirty), ["5"]);
    let one = "select pg_buffercache_mark_dirty(bufferid) from pg_buffercache \
               where relblocknumber = 3 and \
               relfilenode = 't'::regclass::oid";
    assert_eq!(fixture.rows(one), ["(f,t)"]);
    let checks = "select buffers_compared > 4, buffers_computed > 4, failures, total_time > 0 from \
                  pg_buffercache_checksums()";
    // Pages of the catalogs that it needs are read before all pages are dirty.
    fixture.rows(checks);
    assert_eq!(fixture.rows("select buffers_skipped from pg_buffercache_mark_dirty_all()"), ["0"]);
    assert_eq!(fixture.rows(checks), ["f\tt\t0\tt"]);
    fixture.rows("checkpoint");
    assert_eq!(fixture.rows(checks), ["t\tt\t0\tt"]);
    assert_eq!(fixture.rows(dirty), ["0"]);
    fixture.close();
}

#[test]
fn under_direct_io_the_kernel_caches_nothing() {
    let probed = forebay_aio::probe_direct(std::path::Path::new(env!("CARGO_TARGET_TMPDIR")));
    for (direct, cached) in [("", "t"), ("data", "f")] {
        if let (true, Err(why)) = (direct == "data", &probed) {
            println!("direct I/O is left out: {why}");
            continue;
        }
        let mut fixture = open(direct);
        fixture.rows("create table t (a int)");
        fixture.rows("insert into t select generate_series from generate_series(1, 1000)");
        fixture.rows("checkpoint");
        fixture.rows(
            "select pg_buffercache_evict_relation('t'), pg_prewarm('t', 'read'), pg_prewarm('t')",
        );
        let of = "select fork, segment, os_pages, os_pages_cached > 0 \
                  from pg_relation_kernel_cache('t')";
        assert_eq!(fixture.rows(of), [format!("main\t0\t10\t{cached}")]);
        assert!(fixture.rows("select * from pg_relation_kernel_cache(null)").is_empty());
        fixture.close();
    }
}

#[test]
fn indexes_are_prewarmed_too() {
    let mut fixture = open("");
    fixture.rows("create table t (a int primary key)");
    fixture.rows("insert into t select generate_series from generate_series(1, 10000)");
    let blocks = fixture.rows("select pg_relation_size('t_pkey') / 8192");
    assert_eq!(blocks, ["30"]);
    for mode in ["buffer", "read", "prefetch"] {
        assert_eq!(fixture.rows(&format!("select pg_prewarm('t_pkey', '{mode}')")), blocks);
    }
    let part = "select pg_prewarm('t_pkey', 'buffer', 'main', 3, 7)";
    assert_eq!(fixture.rows(part), ["5"]);
    let lines = support::run(&mut fixture.conn, "select pg_prewarm('t_pkey', 'read', 'vm')");
    assert_eq!(lines[1], "! ERROR 22023 fork \"vm\" does not exist for this relation");
    fixture.close();
}
