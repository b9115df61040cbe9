//! Statements that define and change tables, roles, schemas, collations, tablespaces and databases:
//! the messages and the rows of the catalogs are PostgreSQL's for the same statements, and so is
//! what pg_dump prints.

use forebay_testkit::made::CATALOGS;
use forebay_testkit::peer::{Peer, Postgres};

use super::clusters::told;
use super::forebay::{Forebay, scratch};

/// A statement a line.
const STATEMENTS: &str = include_str!("ddl.sql");
/// The same of objects that are no tables.
const OBJECTS: &str = include_str!("objects.sql");

/// What PostgreSQL has made before: privileges, a publication.
const MADE: [&str; 15] = [
    "create role p1; create role p2; create role p3",
    "create schema ps; grant all on schema ps to p1 with grant option",
    "grant usage on schema ps to p2, public; grant create on schema ps to p3",
    "set role p1; grant create on schema ps to p2",
    "create table ps.t (a int, b int, c serial); grant select, update on ps.t to p1, p2",
    "grant select (a), update (b) on ps.t to p2; grant select (a) on ps.t to p3",
    "create materialized view ps.m as select 1 as a; grant select on ps.m to p2",
    "grant select (a) on ps.m to p1; create sequence ps.s; grant usage on sequence ps.s to p1",
    "create database pd",
    "grant connect, temporary on database pd to p1 with grant option; \
     grant connect on database pd to p2",
    "create tablespace pt location ''",
    "grant create on tablespace pt to p2",
    "grant p1 to p2 with admin option; grant p1 to p3 granted by p2",
    "create type ps.ty as (a int)",
    "create table ps.published (a int); create publication p for table ps.published",
];

/// What the catalogs say of objects that all databases share, without OIDs and random salts, and of
/// schemas and tablespaces of relations.
const SHARED: [(&str, &str); 9] = [
    (
        "pg_namespace",
        "select nspname, nspowner::regrole, nspacl from pg_namespace
         where nspname not like 'pg\\_t%' order by nspname",
    ),
    (
        "pg_class.reltablespace",
        "select regexp_replace(relname, 'pg_toast_[0-9]+', 'pg_toast_N'), spcname
         from pg_class c join pg_tablespace t on t.oid = reltablespace
         where c.oid >= 16384 order by 1, 2",
    ),
    (
        "pg_authid",
        "select rolname, rolsuper, rolinherit, rolcreaterole, rolcreatedb, rolcanlogin,
             rolreplication, rolbypassrls, rolconnlimit, substr(rolpassword, 1, 18), rolvaliduntil
         from pg_authid where oid >= 16384 order by rolname",
    ),
    (
        "pg_auth_members",
        "select roleid::regrole, member::regrole, grantor::regrole, admin_option, inherit_option,
             set_option
         from pg_auth_members where oid >= 16384 order by 1, 2, 3",
    ),
    (
        "pg_shdepend",
        "select d.datname, classid::regclass, pg_describe_object(classid, objid, objsubid),
             refclassid::regclass, pg_describe_object(refclassid, refobjid, 0), deptype
         from pg_shdepend left join pg_database d on d.oid = dbid
         where dbid in (0, 5) order by 1, 2, 3, 4, 5, 6",
    ),
    (
        "pg_db_role_setting",
        "select datname, case setrole when 0 then '-' else setrole::regrole::text end, setconfig
         from pg_db_role_setting left join pg_database d on d.oid = setdatabase order by 1, 2",
    ),
    (
        "pg_database",
        "select datname, datdba::regrole, encoding, datlocprovider, datistemplate, datallowconn,
             dathasloginevt, datconnlimit, spcname, datcollate, datctype, datlocale, daticurules,
             datcollversion, datacl
         from pg_database join pg_tablespace t on t.oid = dattablespace order by datname",
    ),
    (
        "pg_tablespace",
        "select spcname, spcowner::regrole, spcacl, spcoptions,
             regexp_replace(pg_tablespace_location(oid), '[0-9]+', 'N')
         from pg_tablespace order by spcname",
    ),
    (
        "pg_shdescription",
        "select classoid::regclass, pg_describe_object(classoid, objoid, 0), description
         from pg_shdescription order by 1, 2",
    ),
];

/// The definitions of all relations and their rows.
fn dumped(peer: &Peer, server: &Postgres<'_>) -> String {
    let port = server.port.to_string();
    let of = ["-h", "127.0.0.1", "-p", &port, "-U", "postgres"];
    peer.run("pg_dump", &[&of[..], &["--inserts", "--restrict-key=x", "postgres"]].concat())
}

fn differences(what: &str, ours: &str, theirs: &str) -> Vec<String> {
    let lines = |text: &str, other: &str, mark: &str| {
        let only = text.lines().filter(|line| !other.lines().any(|known| known == *line));
        only.map(|line| format!("{what} {mark} {line}")).collect::<Vec<_>>()
    };
    [lines(ours, theirs, "has  "), lines(theirs, ours, "lacks")].concat()
}

#[test]
#[ignore = "a minute long; run by cargo xtask test"]
fn tables_are_defined_as_postgresql_defines_them() {
    let Some(peer) = Peer::find("tables_are_defined_as_postgresql_defines_them") else { return };
    let folder = scratch("ddl");
    let data = folder.path().join("data");
    peer.init("made");
    peer.fetch("made", &data);
    let ours = Forebay::start(&data, &["autovacuum=off"]);
    peer.init("theirs");
    let theirs = peer.start("theirs", "-c autovacuum=off -c fsync=off");
    let mut differing = Vec::new();
    for sql in STATEMENTS.lines() {
        let [ours, theirs] =
            [ours.port, theirs.port].map(|port| told(peer.psql(port), "postgres", sql));
        if ours != theirs {
            differing.push(format!("{sql}\n--- Forebay:\n{ours}--- PostgreSQL:\n{theirs}"));
        }
    }
    // A clean stop: after a crash sequences would go on behind the values that are logged ahead.
    ours.stop();
    peer.adopt(&data, "ours");
    let ours = peer.start("ours", "-c autovacuum=off");
    for (catalog, query) in CATALOGS {
        // PostgreSQL counts no rows where autovacuum is off, and a table that it writes anew gets
        // another TOAST table.
        let query = query.replace("relpages, reltuples, ", "").replace("relfilenode = oid, ", "");
        let [ours, theirs] = [&ours, &theirs].map(|server| server.query(&query));
        differing.extend(differences(catalog, &ours, &theirs));
    }
    let [dump, expected] = [&ours, &theirs].map(|server| dumped(&peer, server));
    differing.extend(differences("pg_dump", &dump, &expected));
    assert!(differing.is_empty(), "{}", differing.join("\n"));
    // Rows may lie in another order.
    let in_order = |dump: &str| -> Vec<String> {
        dump.lines().filter(|line| !line.starts_with("INSERT ")).map(str::to_owned).collect()
    };
    assert_eq!(in_order(&dump), in_order(&expected));
    let port = ours.port.to_string();
    let of = ["-h", "127.0.0.1", "-p", &port, "-U", "postgres", "-d", "postgres"];
    peer.run("pg_amcheck", &[&of[..], &["--install-missing", "--heapallindexed"]].concat());
}

#[test]
#[ignore = "a minute long; run by cargo xtask test"]
fn objects_are_defined_as_postgresql_defines_them() {
    let Some(peer) = Peer::find("objects_are_defined_as_postgresql_defines_them") else { return };
    let folder = scratch("objects");
    let data = folder.path().join("data");
    let options = "-c autovacuum=off -c fsync=off -c allow_in_place_tablespaces=on";
    for name in ["made", "theirs"] {
        peer.init(name);
        let server = peer.start(name, options);
        MADE.iter().for_each(|sql| drop(server.query(sql)));
    }
    peer.fetch("made", &data);
    let ours = Forebay::start(&data, &["autovacuum=off", "allow_in_place_tablespaces=on"]);
    let theirs = peer.start("theirs", options);
    let mut differing = Vec::new();
    // More objects than a message lists.
    let many: String = (0..103).map(|n| format!("create schema z{n} authorization z;")).collect();
    let many = [String::from("create role z"), many, String::from("drop role z")];
    for sql in OBJECTS.lines().chain(many.iter().map(String::as_str)) {
        let [ours, theirs] =
            [ours.port, theirs.port].map(|port| told(peer.psql(port), "postgres", sql));
        if ours != theirs {
            differing.push(format!("{sql}\n--- Forebay:\n{ours}--- PostgreSQL:\n{theirs}"));
        }
    }
    ours.kill();
    peer.adopt(&data, "ours");
    let ours = peer.start("ours", options);
    for (catalog, query) in SHARED.iter().chain(&CATALOGS) {
        // OIDs differ, since they are used up otherwise.
        let query = query
            .replace("relpages, reltuples, ", "")
            .replace("relfilenode = oid, reltablespace,", "")
            .replace("relowner,", "relowner::regrole,")
            .replace("typowner,", "typowner::regrole,")
            .replace("collowner,", "collowner::regrole,");
        let [ours, theirs] = [&ours, &theirs].map(|server| server.query(&query));
        differing.extend(differences(catalog, &ours, &theirs));
    }
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}
