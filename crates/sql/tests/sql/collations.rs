//! Collations in statements, blanks of character(n) and OIDs of rows out of subqueries, against
//! answers recorded from PostgreSQL 18; and what nothing chooses a collation for.

use crate::fixture::{open, open_made};
use crate::support;
use forebay_engine::{Engine, InitOptions};

#[test]
fn texts_are_compared_by_their_collations_as_in_postgresql() {
    let mut fixture = open("");
    let golden = include_str!("../golden/collations.txt");
    assert!(support::cases(golden).len() > 90, "too few cases were read");
    let wrong = support::differences(&mut fixture.conn, golden);
    fixture.close();
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// PostgreSQL finds most of this when it compares the first texts.
#[test]
fn columns_that_disagree_need_a_collate_clause() {
    let mut fixture = open("");
    fixture.rows("create table t (a text collate \"unicode\", b text collate \"C\")");
    for (query, sqlstate, what) in [
        ("select 1 from t where a = b", "42P22", "string comparison"),
        ("select 1 from t where a < b", "42P22", "string comparison"),
        ("select 1 from t where (a, 1) < (b, 1)", "42P22", "string comparison"),
        ("select 1 from t where a in ('x', b)", "42P22", "string comparison"),
        ("select 1 from t where a is distinct from b", "42P22", "string comparison"),
        ("select nullif(a, b) from t", "42P22", "string comparison"),
        ("select greatest(a, b) from t", "42P22", "string comparison"),
        ("select max(a || b) from t", "42P22", "string comparison"),
        ("select upper(a || b) from t", "42P22", "upper() function"),
        ("select 1 from t where a like b", "42P22", "LIKE"),
        ("select 1 from t where a ilike b", "42P22", "ILIKE"),
        ("select 1 from t order by a || b", "42P21", "\"unicode\" and \"C\""),
        ("select 1 from t group by a || b", "42P21", "\"unicode\" and \"C\""),
    ] {
        let lines = support::run(&mut fixture.conn, query);
        let begin = format!("! ERROR {sqlstate} ");
        let found = lines.iter().any(|line| line.starts_with(&begin) && line.ends_with(what));
        assert!(found, "{query}: {lines:?}");
    }
    assert!(fixture.rows("select 1 from t where a = b collate \"C\"").is_empty());
    fixture.close();
}

#[test]
fn collations_are_made_and_changed_as_postgresql_does_it() {
    let mut fixture = open("");
    let golden = include_str!("../golden/collation_ddl.txt");
    assert!(support::cases(golden).len() > 75, "too few cases were read");
    let wrong = support::differences(&mut fixture.conn, golden);
    fixture.close();
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn the_system_s_locales_become_collations_once() {
    let mut fixture = open("");
    let import = "select pg_import_system_collations(11::oid::regnamespace)";
    let made: u32 = fixture.rows(import)[0].parse().expect("a number");
    assert!(made >= 1, "every glibc has C.utf8");
    assert_eq!(fixture.rows(import), ["0"]);
    assert_eq!(fixture.rows("select 'a' < 'B' collate \"C.utf8\""), ["f"]);
    let own = "select count(*) from pg_collation where oid >= 16384 and collprovider = 'c' and \
               collcollate = collctype and collowner = 10 and collnamespace = 11";
    assert_eq!(fixture.rows(own), [made.to_string()]);
    let lines =
        support::run(&mut fixture.conn, "select pg_import_system_collations(1::oid::regnamespace)");
    assert_eq!(lines[1], "! ERROR 3F000 schema with OID 1 does not exist");
    fixture.close();
}

/// ICU's locales get their standard form; what is not deterministic is kept, and refused in use.
#[test]
fn collations_of_icu() {
    let mut fixture = open("");
    let notice =
        support::run(&mut fixture.conn, "create collation de (provider = icu, locale = 'de_DE')");
    assert_eq!(
        notice,
        [
            "~ NOTICE 00000 using standard form \"de-DE\" for ICU locale \"de_DE\"",
            "= CREATE COLLATION",
            "Z I"
        ]
    );
    assert_eq!(fixture.rows("select 'a' < 'B' collate de"), ["t"]);
    fixture.rows(
        "create collation loose (provider = icu, locale = 'und-u-ks-level2', \
         deterministic = false)",
    );
    let what = "select colllocale, collisdeterministic, collencoding from pg_collation \
                where collname = 'loose'";
    assert_eq!(fixture.rows(what), ["und-u-ks-level2\tf\t-1"]);
    let lines = support::run(&mut fixture.conn, "select 'a' = 'A' collate loose");
    assert!(
        lines[0].starts_with("! ERROR 0A000 collation \"loose\" is not supported"),
        "{lines:?}"
    );
    fixture.close();
}

/// A cluster that `forebay init` makes has them from the beginning; other objects come later.
#[test]
fn a_new_cluster_has_the_system_s_collations() {
    let mut fixture = open_made(|dir| {
        let options = InitOptions {
            wal_segment_size: 1 << 20,
            sync: false,
            system_collations: true,
            ..InitOptions::default()
        };
        Engine::init(dir, &options).expect("init");
    });
    let own = "select count(*) >= 1, min(oid), max(oid) < 16384 from pg_collation \
               where oid >= 12000";
    assert_eq!(fixture.rows(own), ["t\t12000\tt"]);
    let import = "select pg_import_system_collations(11::oid::regnamespace)";
    assert_eq!(fixture.rows(import), ["0"]);
    fixture.rows("create table t (a text collate \"C.utf8\" primary key)");
    fixture.rows("insert into t values ('b'), ('a')");
    assert_eq!(fixture.rows("select a from t order by a"), ["a", "b"]);
    assert_eq!(
        fixture.rows("select bt_index_parent_check('pg_collation_name_enc_nsp_index')"),
        [""]
    );
    fixture.close();
}
