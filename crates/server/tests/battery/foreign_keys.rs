//! Foreign keys and deferrable keys: the messages and the rows of the catalogs are PostgreSQL's,
//! for the same statements; PostgreSQL enforces a key that Forebay made, and Forebay one that
//! PostgreSQL made.

use std::process::Command;

use forebay_testkit::peer::{Peer, Postgres};

use super::forebay::{Forebay, scratch};

/// Keys of all kinds.
const TABLES: &[&str] = &[
    "create table pk (a int primary key, b int, c text unique, unique (a, b))",
    "create table cascading (a int references pk on delete cascade on update cascade, n text)",
    "create table setting (a int default 1 references pk on delete set default, b int, d int, \
     constraint both foreign key (d, b) references pk (a, b) on delete set null (b) on update set \
     null)",
    "create table restricting (c text references pk (c) on delete restrict on update restrict)",
    "create table full_match (a int, b int, foreign key (a, b) references pk (a, b) match full)",
    "create table late (a int references pk deferrable initially deferred, b int unique \
     deferrable, c int primary key deferrable initially deferred)",
    "create table tree (id int primary key, parent int references tree)",
    "create table unchecked (a int, b bigint)",
    "alter table unchecked add constraint lazy foreign key (a) references pk not valid",
    "alter table unchecked add constraint lax foreign key (b) references pk not enforced",
    "create table dropped (a int references pk)",
    "alter table dropped drop constraint dropped_a_fkey",
];

/// What is done to them. What is printed must be the same, whoever made the keys.
const CHANGES: &[&str] = &[
    "insert into pk values (1, 1, 'one'), (2, 2, 'two'), (3, 3, 'three'), (4, 4, 'four')",
    "insert into cascading values (1, 'a'), (2, 'b'), (2, 'c'), (null, 'd')",
    "insert into cascading values (9, 'x')",
    "insert into setting values (2, 2, 2), (3, 3, 3)",
    "insert into setting values (3, 2, 3)",
    "insert into restricting values ('four')",
    "insert into full_match values (1, 1), (null, null)",
    "insert into full_match values (1, null)",
    "insert into late values (1, 1, 1), (2, 2, 2)",
    "insert into late values (8, 3, 3)",
    "insert into late values (1, 2, 4)",
    "update late set b = b + 1, c = c + 1",
    "begin; insert into late values (7, 7, 7); insert into pk values (7, 7, 'seven'); commit",
    "begin; set constraints all immediate; insert into late values (8, 8, 8); commit",
    "insert into late values (1, 50, 2)",
    "insert into tree values (1, null), (2, 1), (3, 2)",
    "delete from tree where id = 2",
    "insert into unchecked values (1, 99)",
    "insert into unchecked values (99, 1)",
    "insert into dropped values (99)",
    "update pk set a = 20 where a = 2",
    "update pk set a = 40, c = 'vier' where a = 4",
    "delete from pk where a = 20",
    "delete from pk where a = 3",
    "delete from pk where a = 1",
    "truncate pk",
    "select a, n from cascading order by n",
    "select a, b, d from setting order by d",
    "select a, b, c from late order by c",
    "select a, b, c from pk order by a",
    "drop table pk",
    "begin; drop table pk cascade; rollback",
];

/// Rows of the catalogs, without OIDs.
const QUESTIONS: &[&str] = &[
    "select conname, connamespace::regnamespace, contype, condeferrable, condeferred, \
     conenforced, convalidated, conrelid::regclass, contypid, conindid::regclass, conparentid, \
     confrelid::regclass, confupdtype, confdeltype, confmatchtype, conislocal, coninhcount, \
     connoinherit, conperiod, conkey, confkey, conpfeqop, conppeqop, conffeqop, confdelsetcols, \
     pg_get_constraintdef(oid) from pg_constraint where oid > 16383",
    "select tgrelid::regclass, tgparentid, regexp_replace(tgname, '[0-9]+', 'N'), \
     tgname ~ ('_' || oid || '$'), tgfoid::regproc, tgtype, tgenabled, tgisinternal, \
     tgconstrrelid::regclass, tgconstrindid::regclass, conname, tgdeferrable, tginitdeferred, \
     tgnargs, tgattr, tgargs, tgqual, tgoldtable, tgnewtable from pg_trigger t join pg_constraint \
     c on c.oid = tgconstraint",
    "select relname, relhastriggers, relchecks from pg_class where oid > 16383 and relkind = 'r'",
    "select indexrelid::regclass, indisunique, indisprimary, indimmediate from pg_index where \
     indexrelid > 16383 and indrelid::regclass::text not like '%toast%'",
    "select classid::regclass, refclassid::regclass, case when classid = 'pg_constraint'::regclass \
     then (select conname from pg_constraint where oid = objid) end, case when refclassid = \
     'pg_class'::regclass then refobjid::regclass::text end, objsubid, refobjsubid, deptype, \
     count(*) from pg_depend where objid > 16383 and classid in ('pg_constraint'::regclass, \
     'pg_trigger'::regclass) group by 1, 2, 3, 4, 5, 6, 7",
];

/// What psql prints, errors and notices included.
fn told(mut psql: Command, sql: &str) -> String {
    let output = psql.args(["-d", "postgres", "-c", sql]).output().expect("psql");
    let [out, log] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    format!("{out}{log}")
}

/// Statements in which two servers differ.
fn differing(peer: &Peer, statements: &[&str], ours: u16, theirs: u16) -> Vec<String> {
    let mut differing = Vec::new();
    for sql in statements {
        let [ours, theirs] = [ours, theirs].map(|port| told(peer.psql(port), sql));
        if ours != theirs {
            differing.push(format!("{sql}\n--- ours:\n{ours}--- theirs:\n{theirs}"));
        }
    }
    differing
}

fn rows(peer: &Peer, server: &Postgres<'_>, question: &str) -> Vec<String> {
    let answer = told(peer.psql(server.port), question);
    let mut rows: Vec<String> = answer.lines().map(str::to_owned).collect();
    rows.sort();
    rows
}

/// What pg_dump prints, without what differs from run to run.
fn dump(peer: &Peer, server: &Postgres<'_>) -> String {
    let port = server.port.to_string();
    let whom = ["-h", "127.0.0.1", "-U", "postgres", "-p", &port, "--restrict-key=x", "postgres"];
    let output = peer.command("pg_dump").args(whom).output().expect("pg_dump");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
#[ignore = "half a minute long; run by cargo xtask test"]
fn keys_are_enforced_as_by_postgresql_whoever_made_them() {
    let Some(peer) = Peer::find("keys_are_enforced_as_by_postgresql") else { return };
    let folder = scratch("foreign_keys");
    let [made, given] = ["made", "given"].map(|name| folder.path().join(name));
    let settings = "-c autovacuum=off -c fsync=off";
    for name in ["ours", "theirs", "given"] {
        peer.init(name);
    }
    // Keys that Forebay makes and PostgreSQL enforces.
    peer.fetch("ours", &made);
    let ours = Forebay::start(&made, &[]);
    let theirs = peer.start("theirs", settings);
    let wrong = differing(&peer, TABLES, ours.port, theirs.port);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    ours.kill();
    peer.adopt(&made, "made");
    let ours = peer.start("made", settings);
    for question in QUESTIONS {
        let [ours, theirs] = [&ours, &theirs].map(|server| rows(&peer, server, question));
        assert_eq!(ours, theirs, "{question}");
    }
    assert_eq!(dump(&peer, &ours), dump(&peer, &theirs));
    let wrong = differing(&peer, CHANGES, ours.port, theirs.port);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    drop((ours, theirs));
    // Keys that PostgreSQL makes and Forebay enforces: the second cluster has done it already.
    let maker = peer.start("given", settings);
    TABLES.iter().for_each(|sql| drop(told(peer.psql(maker.port), sql)));
    drop(maker);
    peer.fetch("given", &given);
    let forebay = Forebay::start(&given, &[]);
    let again = peer.start("given", settings);
    let wrong = differing(&peer, CHANGES, forebay.port, again.port);
    forebay.kill();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// pgbench's own foreign keys, and its transactions under them.
#[test]
#[ignore = "half a minute long; run by cargo xtask test"]
fn pgbench_works_with_foreign_keys() {
    let Some(peer) = Peer::find("pgbench_works_with_foreign_keys") else { return };
    let folder = scratch("pgbench_keys");
    let data = folder.path().join("data");
    peer.init("pgbench");
    peer.fetch("pgbench", &data);
    let server = Forebay::start(&data, &[]);
    let port = server.port.to_string();
    let whom = ["-h", "127.0.0.1", "-U", "postgres", "-p", &port];
    for _ in 0..2 {
        let options = ["-i", "-q", "--foreign-keys", "postgres"];
        peer.run("pgbench", &[&whom[..], &options].concat());
    }
    peer.run("pgbench", &[&whom[..], &["-n", "-c", "4", "-t", "100", "postgres"]].concat());
    let sql = "insert into pgbench_history (tid, bid, aid, delta) values (0, 1, 1, 1)";
    let answer = told(peer.psql(server.port), sql);
    assert!(answer.contains("violates foreign key constraint"), "{answer}");
    server.kill();
}
