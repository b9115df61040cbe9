//! Databases, roles, schemas, comments and settings: the messages and the rows of the catalogs are
//! PostgreSQL's, for the same statements; and PostgreSQL runs on the directory afterwards.

use std::path::Path;
use std::process::Command;

use forebay_testkit::peer::{Peer, Postgres};

use super::forebay::{Forebay, forebay, scratch};

/// Statements in their databases. What both servers print must be the same.
const SCRIPT: &[(&str, &str)] = &[
    ("postgres", "create role boss superuser login"),
    ("postgres", "create role boss"),
    ("postgres", "create user joe connection limit 3 valid until '2030-01-02 03:04:05+00'"),
    ("postgres", "create role pg_x"),
    ("postgres", "create role \"public\""),
    ("postgres", "create group staff role joe admin boss"),
    ("postgres", "create role crew in role staff noinherit createdb createrole"),
    ("postgres", "create role x nosuchoption"),
    ("postgres", "create role x login nologin"),
    ("postgres", "grant staff to joe"),
    ("postgres", "grant staff to crew with admin true, inherit false"),
    ("postgres", "grant crew to staff"),
    ("postgres", "revoke admin option for staff from crew"),
    ("postgres", "revoke crew from joe"),
    ("postgres", "alter role joe createdb connection limit -1"),
    ("postgres", "alter role joe rename to jane"),
    ("postgres", "alter role nobody superuser"),
    ("postgres", "drop role nobody"),
    ("postgres", "drop role if exists nobody"),
    ("postgres", "alter role jane set work_mem = '3MB'"),
    ("postgres", "alter role jane set search_path = a, \"B\""),
    ("postgres", "alter role jane set work_mem = 'nonsense'"),
    ("postgres", "alter role all set lock_timeout = '5s'"),
    ("postgres", "alter role all reset lock_timeout"),
    ("postgres", "create database shop owner boss connection limit 7"),
    ("postgres", "create database shop"),
    ("postgres", "create database x template nope"),
    ("postgres", "create database x strategy nope"),
    ("postgres", "create database x nope 3"),
    ("postgres", "create database copied strategy file_copy template shop is_template true"),
    ("postgres", "drop database copied"),
    ("postgres", "alter database copied is_template false"),
    ("postgres", "drop database copied"),
    ("postgres", "drop database copied"),
    ("postgres", "drop database if exists copied"),
    ("postgres", "drop database postgres"),
    ("postgres", "alter database shop rename to store"),
    ("postgres", "alter database store set work_mem to '2MB'"),
    ("postgres", "alter role jane in database store set work_mem to '1MB'"),
    ("postgres", "alter database store allow_connections false"),
    ("store", "select 1"),
    ("postgres", "alter database store allow_connections true"),
    ("postgres", "alter database nope allow_connections true"),
    ("store", "show work_mem"),
    ("store", "select current_database(), current_user"),
    ("store", "create schema one"),
    ("store", "create schema one"),
    ("store", "create schema if not exists one"),
    ("store", "create schema pg_one"),
    ("store", "create schema authorization boss"),
    ("store", "create schema two authorization jane"),
    ("store", "create table one.t (a int primary key, b text)"),
    ("store", "create table two.u (a int)"),
    ("store", "drop schema one"),
    ("store", "drop schema one, two cascade"),
    ("store", "create schema two"),
    ("store", "create table two.u (a int primary key, b text)"),
    ("store", "create table two.v (a int)"),
    ("store", "set search_path = two, public; create table w (a int); select count(*) from u"),
    ("store", "alter schema two rename to three"),
    ("store", "alter schema three owner to jane"),
    ("store", "alter schema nope owner to jane"),
    ("store", "comment on table three.u is 'a table'"),
    ("store", "comment on column three.u.b is 'a column'"),
    ("store", "comment on column three.u.nope is 'a column'"),
    ("store", "comment on schema three is 'a schema'"),
    ("store", "comment on schema three is 'another text'"),
    ("store", "comment on role jane is 'a role'"),
    ("store", "comment on database store is 'a database'"),
    ("store", "comment on table three.v is 'gone'"),
    ("store", "comment on table three.v is null"),
    ("postgres", "drop role boss"),
    ("postgres", "drop role jane"),
    ("postgres", "drop role staff"),
    ("postgres", "drop role crew"),
];

/// Rows of the catalogs, without OIDs.
const QUESTIONS: &[(&str, &str)] = &[
    (
        "postgres",
        "select rolname, rolsuper, rolinherit, rolcreaterole, rolcreatedb, rolcanlogin, \
         rolreplication, rolbypassrls, rolconnlimit, rolpassword, rolvaliduntil at time zone 'UTC' \
         from pg_authid order by 1",
    ),
    (
        "postgres",
        "select roleid::regrole, member::regrole, grantor::regrole, admin_option, inherit_option, \
         set_option from pg_auth_members order by 1::text, 2::text",
    ),
    (
        "postgres",
        "select d.datname, r.rolname, setconfig from pg_db_role_setting left join pg_database d on \
         d.oid = setdatabase left join pg_authid r on r.oid = setrole order by 1, 2",
    ),
    (
        "postgres",
        "select datname, datdba::regrole, encoding, datlocprovider, datistemplate, datallowconn, \
         dathasloginevt, datconnlimit, dattablespace, datcollate, datctype, datlocale, \
         daticurules, datcollversion, datacl from pg_database order by 1",
    ),
    (
        "postgres",
        "select d.datname, classid::regclass, refclassid::regclass, refobjid::regrole, deptype, \
         count(*) from pg_shdepend left join pg_database d on d.oid = dbid group by 1, 2, 3, 4, 5 \
         order by 1, 2::text, 4::text",
    ),
    (
        "postgres",
        "select classoid::regclass, description from pg_shdescription where objoid > 16383 \
         order by 1::text, 2",
    ),
    (
        "store",
        "select nspname, nspowner::regrole, nspacl from pg_namespace where nspname <> \
         'information_schema' order by 1",
    ),
    (
        "store",
        "select relname, relnamespace::regnamespace, relowner::regrole, relkind from pg_class \
         where oid > 16383 and relkind <> 't' and relname not like 'pg_toast%' order by 1",
    ),
    (
        "store",
        "select classoid::regclass, objsubid, description from pg_description where objoid > 16383 \
         order by 1::text, 2, 3",
    ),
    (
        "store",
        "select classid::regclass, refclassid::regclass, deptype, count(*) from pg_depend where \
         objid > 16383 group by 1, 2, 3 order by 1::text, 2::text, 3",
    ),
];

/// The directory of `forebay init`, before it is served.
const MADE: &str = "made";

/// What psql prints, errors and notices included.
pub(super) fn told(mut psql: Command, database: &str, sql: &str) -> String {
    let output = psql.args(["-d", database, "-c", sql]).output().expect("psql");
    let (out, log) = (&output.stdout, &output.stderr);
    let log = String::from_utf8_lossy(log);
    let connection = log.split_once("FATAL:").map(|(_, what)| format!("FATAL:{what}"));
    format!("{}{}", String::from_utf8_lossy(out), connection.unwrap_or_else(|| log.into_owned()))
}

fn answer(peer: &Peer, server: &Postgres<'_>, database: &str, sql: &str) -> String {
    told(peer.psql(server.port), database, sql)
}

/// Runs PostgreSQL's own scripts in single-user mode on a directory of `forebay init`, as initdb
/// does.
pub fn run_scripts(peer: &Peer, directory: &str) {
    for database in ["template1", "postgres"] {
        for script in ["system_functions.sql", "system_views.sql", "information_schema.sql"] {
            let script = format!("/usr/share/postgresql/18/{script}");
            run_script(peer, directory, database, &script);
        }
    }
}

/// Runs a script in single-user mode; its path is PostgreSQL's, and an empty line ends a statement.
pub(super) fn run_script(peer: &Peer, directory: &str, database: &str, script: &str) {
    let (postgres, data) = (peer.program("postgres"), peer.inside(directory));
    let command = format!(
        "{postgres} --single -F -O -j -c search_path=pg_catalog -c exit_on_error=true \
         -D {data} {database} < {script} > /dev/null"
    );
    let output = peer.command_as("postgres", &["/bin/sh", "-c", &command]).output();
    let output = output.expect("a shell");
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !log.contains("ERROR"), "{script}: {log}");
}

fn compare_catalogs(peer: &Peer, ours: &Postgres<'_>, theirs: &Postgres<'_>) {
    for (database, question) in QUESTIONS {
        let [ours, theirs] = [ours, theirs].map(|server| {
            let answer = answer(peer, server, database, question);
            let mut rows: Vec<String> = answer.lines().map(str::to_owned).collect();
            rows.sort();
            rows
        });
        assert_eq!(ours, theirs, "{question}");
    }
}

/// PostgreSQL's checks and dumps work on the directory.
fn postgresql_goes_on(peer: &Peer) {
    let server = peer.start("ours", "-c autovacuum=off");
    let sql = "create table made (a int primary key, b text); insert into made select n, n from \
               generate_series(1, 1000) n; create database another";
    for statement in sql.split("; ") {
        answer(peer, &server, "store", statement);
    }
    assert_eq!(answer(peer, &server, "store", "select count(*) from made").trim(), "1000");
    let port = server.port.to_string();
    let host = ["-h", "127.0.0.1", "-p", &port, "-U", "postgres"];
    peer.run(
        "pg_amcheck",
        &[&host[..], &["--all", "--install-missing", "--heapallindexed"]].concat(),
    );
    peer.run("pg_dumpall", &[&host[..], &["--schema-only"]].concat());
}

#[test]
#[ignore = "minutes long; run by cargo xtask test"]
fn clusters_are_administered_as_postgresql_s() {
    let Some(peer) = Peer::find("clusters_are_administered_as_postgresql_s") else { return };
    let folder = scratch("clusters");
    let [made, data] = ["made", "data"].map(|name| folder.path().join(name));
    forebay(&["init", "-D", path(&made), "--no-sync"]);
    // PostgreSQL's scripts come first, as in initdb: pg_dump knows what they make by its OIDs.
    peer.adopt(&made, MADE);
    run_scripts(&peer, MADE);
    peer.fetch(MADE, &data);
    let ours = Forebay::start(&data, &[]);
    peer.init("theirs");
    let theirs = peer.start("theirs", "-c autovacuum=off -c fsync=off");
    let mut differing = Vec::new();
    for (database, sql) in SCRIPT {
        let [ours, theirs] =
            [ours.port, theirs.port].map(|port| told(peer.psql(port), database, sql));
        if ours != theirs {
            differing.push(format!("{sql}\n--- Forebay:\n{ours}--- PostgreSQL:\n{theirs}"));
        }
    }
    assert!(differing.is_empty(), "{}", differing.join("\n"));
    ours.kill();
    peer.adopt(&data, "ours");
    let ours = peer.start("ours", "-c autovacuum=off");
    compare_catalogs(&peer, &ours, &theirs);
    drop((ours, theirs));
    postgresql_goes_on(&peer);
}

fn path(path: &Path) -> &str {
    path.to_str().expect("it is UTF-8")
}
