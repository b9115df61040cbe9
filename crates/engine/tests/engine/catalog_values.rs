//! Long values in rows of the catalogs of PostgreSQL: statistics in pg_statistic's TOAST table,
//! access lists that are compressed. What is changed keeps them, and takes their chunks along.

use crate::common::*;
use crate::kept_indexes::made_by;
use forebay_engine::{AnalyzeOptions, IoMethod, LockMode, ShutdownMode};
use forebay_testkit::peer::{Peer, Postgres};

/// Tables with values so wide that their statistics are out of line, and one that many may read.
const TABLES: &str = "create table dropped (x text); create table analyzed (x text); \
     create table kept (x text); create table granted (x text); \
     insert into dropped select (select string_agg(md5((g * i)::text), '') \
         from generate_series(1, 28) i) from generate_series(1, 300) g; \
     insert into analyzed select * from dropped; insert into kept select * from dropped; \
     analyze dropped, analyzed, kept; \
     do $$ begin for i in 1..300 loop\n execute format('create role r%s', i);\n \
         execute format('grant select on granted to r%s', i);\n end loop;\n end $$";

const GRANTS: &str = "select md5(relacl::text), pg_column_compression(relacl) from pg_class \
     where relname = 'granted'";
const FILE: &str = "select pg_relation_filenode('granted')";
/// The ids of values of pg_statistic that are out of line, with the tables that they are about.
fn values() -> String {
    let slots = (1..=5).map(|slot| {
        format!(
            "select starelid, pg_column_toast_chunk_id(stavalues{slot}) as id from pg_statistic"
        )
    });
    format!("({}) as v", slots.collect::<Vec<_>>().join(" union all "))
}

fn number(server: &Postgres<'_>, sql: &str) -> u64 {
    server.query(sql).trim().parse().expect("a number")
}

#[test]
fn values_of_catalogs_go_and_stay_with_their_rows() {
    let Some(peer) = Peer::find("values_of_catalogs_go_and_stay") else { return };
    let (_scratch, dir) = made_by(&peer, TABLES);
    let server = peer.start("data", "-c autovacuum=off");
    let lost = format!(
        "select count(*) from pg_toast.pg_toast_2619 where chunk_id not in \
         (select id from {} where id is not null)",
        values()
    );
    let wide = format!(
        "select count(distinct starelid) from {} where id is not null \
         and starelid in ('dropped'::regclass, 'analyzed'::regclass)",
        values()
    );
    assert_eq!((number(&server, &wide), number(&server, &lost)), (2, 0));
    let file = number(&server, FILE);
    let grants = server.query(GRANTS);
    assert!(grants.contains("pglz"), "{grants}");
    drop(server);

    let (engine, mut session) = open_session(&dir, &config(IoMethod::Sync, false));
    transaction(&mut session, |s| {
        let table = s.open_table(None, "dropped", LockMode::AccessExclusive)?;
        s.drop_table(&table)?;
        let table = s.open_table(None, "granted", LockMode::AccessExclusive)?;
        s.truncate(&table)?;
        let table = s.open_table(None, "analyzed", LockMode::ShareUpdateExclusive)?;
        s.analyze(&table, None, &AnalyzeOptions::default(), &mut Vec::new())
    })
    .expect("changed");
    engine.shutdown(ShutdownMode::Immediate).expect("stop");
    drop((session, engine));

    peer.adopt(&dir, "after");
    let server = peer.start("after", "-c autovacuum=off");
    assert_eq!(number(&server, &lost), 0, "chunks without a row");
    assert_ne!(number(&server, FILE), file, "its row of pg_class was replaced");
    assert_eq!(server.query(GRANTS), grants);
    assert_eq!(number(&server, "select count(*) from pg_stats where tablename = 'analyzed'"), 1);
    for sql in ["pg_statistic", "pg_toast.pg_toast_2619", "pg_class"] {
        let sql = format!("select * from verify_heapam('{sql}', check_toast := true)");
        assert_eq!(server.query(&sql), "", "{sql}");
    }
}
