//! What PostgreSQL's regression tests have left, in the hands of Forebay, and back.

use std::collections::BTreeMap;
use std::net::TcpStream;
use std::time::Duration;

use forebay_server::client::{Client, ClientError};
use forebay_server::wire::stream::Stream;
use forebay_testkit::peer::{Peer, Postgres};

use super::super::forebay::Forebay;
use super::cluster::{self, DATA};

/// A client that gets no answer for so long fails.
const SILENCE: Duration = Duration::from_secs(120);

/// Relations that have rows. A session's temporary ones are its own.
const RELATIONS: &str = "
    SELECT quote_ident(nspname) || '.' || quote_ident(relname), relpersistence, relkind
    FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
    WHERE relpersistence <> 't' AND (relkind IN ('r', 'p', 'm', 't', 'S', 'f')
        OR relkind = 'v' AND nspname NOT IN ('pg_catalog', 'information_schema'))
    ORDER BY 1";

/// What Forebay does in the database of the tests.
const WORK: &[&str] = &[
    "CREATE SCHEMA forebay",
    "CREATE TABLE forebay.made (a int PRIMARY KEY, b text, c numeric DEFAULT 1.5 CHECK (c > 0))",
    "INSERT INTO forebay.made (a, b)
     SELECT n, repeat('row ', n % 9) || n FROM generate_series(1, 2000) AS n",
    "CREATE INDEX ON forebay.made (b, c)",
    "UPDATE forebay.made SET c = c + a WHERE a % 3 = 0",
    "DELETE FROM forebay.made WHERE a % 5 = 0",
    "ALTER TABLE forebay.made ADD d bigint DEFAULT 7",
    "CREATE TABLE forebay.copied AS SELECT unique1, stringu1 FROM onek WHERE unique1 < 500",
    "ALTER TABLE forebay.copied ADD PRIMARY KEY (unique1)",
    "CREATE SEQUENCE forebay.numbers",
    "SELECT nextval('forebay.numbers')",
    "VACUUM forebay.made",
];

/// What PostgreSQL must find of that.
const WORKED: &str = "SELECT count(*), sum(c), sum(d), min(b), max(b) FROM forebay.made";

struct Relation {
    name: String,
    unlogged: bool,
    kind: String,
    /// PostgreSQL's count, or the SQLSTATE of its error.
    count: Result<String, String>,
}

/// What the tests have left.
pub struct Left {
    databases: BTreeMap<String, Vec<Relation>>,
    dump: String,
}

fn connect(port: u16, database: &str) -> Client {
    let stream = Stream::Tcp(TcpStream::connect(("127.0.0.1", port)).expect("it listens"));
    let who = [("user", "postgres"), ("database", database)];
    let client = Client::start(stream, &who).expect("a session");
    client.stream().set_read_timeout(Some(SILENCE)).expect("a socket");
    client
}

fn count(client: &mut Client, relation: &str) -> Result<String, String> {
    match client.query(&format!("SELECT count(*) FROM {relation}")) {
        Ok(answer) => Ok(answer.value().expect("a count").to_owned()),
        Err(error @ ClientError::Server(_)) => Err(error.sqlstate().to_owned()),
        Err(error) => panic!("{relation}: {error}"),
    }
}

/// The names in the first column of an answer.
fn names(client: &mut Client, sql: &str) -> Vec<String> {
    let rows = client.query(sql).expect("names").rows;
    rows.into_iter().filter_map(|row| row.into_iter().next().flatten()).collect()
}

/// Runs a program of PostgreSQL on a server.
fn run_on(peer: &Peer, port: u16, program: &str, arguments: &[&str]) -> String {
    let port = port.to_string();
    let whom = ["-h", "127.0.0.1", "-U", "postgres", "-p", &port];
    peer.run(program, &[&whom[..], arguments].concat())
}

/// All definitions but Forebay's own.
fn dump(peer: &Peer, port: u16) -> String {
    let key = "--restrict-key=regress";
    let database = ["--schema-only", key, "--exclude-schema=forebay", "regression"];
    run_on(peer, port, "pg_dump", &database)
        + &run_on(peer, port, "pg_dumpall", &["--globals-only", key])
}

impl Left {
    /// Notes what there is.
    pub fn find(peer: &Peer, server: &Postgres<'_>) -> Left {
        // The catalogs' rows are counted too, so nobody may analyze tables from here on.
        server.query("ALTER SYSTEM SET autovacuum = off");
        server.query("SELECT pg_reload_conf()");
        server.wait_for(
            "SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type ~ '^autovacuum'",
        );
        // Forebay refuses definitions where they would fire event triggers.
        let mut client = connect(server.port, "regression");
        let triggers = "SELECT quote_ident(evtname) FROM pg_event_trigger";
        for trigger in names(&mut client, triggers) {
            client.query(&format!("DROP EVENT TRIGGER {trigger}")).expect("it is there");
        }
        // It makes its extension first: that adds rows.
        run_on(peer, server.port, "pg_amcheck", &["--all", "--install-missing"]);
        let mut client = connect(server.port, "postgres");
        let databases = "SELECT datname FROM pg_database WHERE datallowconn ORDER BY 1";
        let databases = names(&mut client, databases);
        let databases = databases.into_iter().map(|database| {
            let mut client = connect(server.port, &database);
            let rows = client.query(RELATIONS).expect("the relations").rows;
            let relations = rows.into_iter().map(|row| {
                let mut row = row.into_iter().map(Option::unwrap_or_default);
                let mut next = || row.next().expect("a column");
                let (name, unlogged, kind) = (next(), next() == "u", next());
                let count = count(&mut client, &name);
                Relation { name, unlogged, kind, count }
            });
            let relations = relations.collect();
            (database, relations)
        });
        Left { databases: databases.collect(), dump: dump(peer, server.port) }
    }

    /// Lets Forebay serve the directory after such a stop of PostgreSQL, and PostgreSQL again.
    pub fn hand_over(&self, peer: &Peer, stop: &str) {
        peer.take_back();
        let forebay = Forebay::start(&peer.outside(DATA), &[]);
        let wrong = self.compare(forebay.port);
        assert!(wrong.is_empty(), "Forebay after {stop} stop:\n{}", wrong.join("\n"));
        let mut client = connect(forebay.port, "regression");
        for sql in WORK {
            client.query(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
        }
        let worked = client.query(WORKED).expect("its own rows");
        drop(client);
        if stop == "clean" {
            forebay.stop();
        } else {
            forebay.kill();
        }
        peer.give_to_postgres();
        let server = cluster::start(peer);
        let mut client = connect(server.port, "regression");
        assert_eq!(client.query(WORKED).expect("Forebay's rows"), worked, "after {stop} stop");
        let wrong = self.compare_again(server.port);
        assert!(wrong.is_empty(), "PostgreSQL after {stop} stop:\n{}", wrong.join("\n"));
        run_on(peer, server.port, "pg_amcheck", &["--all", "--heapallindexed"]);
        let found = dump(peer, server.port);
        let differ = found.lines().zip(self.dump.lines()).find(|(found, left)| found != left);
        assert!(found == self.dump, "after {stop} stop, the dumps differ: {differ:?}");
    }

    /// What Forebay does not count as PostgreSQL did, and does not refuse by name.
    fn compare(&self, port: u16) -> Vec<String> {
        let (mut wrong, mut same, mut refused) = (Vec::new(), 0, BTreeMap::new());
        for (database, relations) in &self.databases {
            let mut client = connect(port, database);
            for relation in relations {
                let found = count(&mut client, &relation.name);
                match (&found, relation.after_crash()) {
                    (Ok(found), Ok(left)) if *found == left => same += 1,
                    (Err(_), Err(_)) => same += 1,
                    (Err(state), Ok(_)) if state == "0A000" => {
                        *refused.entry(relation.kind.clone()).or_insert(0) += 1;
                    }
                    (_, left) => {
                        wrong.push(format!("{database} {}: {found:?}, {left:?}", relation.name));
                    }
                }
            }
        }
        println!("battery: regress: {same} relations counted, refused by kind: {refused:?}");
        wrong
    }

    /// What PostgreSQL does not count as before. Forebay has added rows to the catalogs.
    fn compare_again(&self, port: u16) -> Vec<String> {
        let mut wrong = Vec::new();
        for (database, relations) in &self.databases {
            let mut client = connect(port, database);
            // Some views are over catalogs, too.
            let kept = |r: &&Relation| r.kind != "v" && !r.name.starts_with("pg_catalog.");
            let kept = relations.iter().filter(kept);
            for relation in kept {
                let (found, left) = (count(&mut client, &relation.name), relation.after_crash());
                if found != left {
                    wrong.push(format!("{database} {}: {found:?}, {left:?}", relation.name));
                }
            }
        }
        wrong
    }
}

impl Relation {
    /// The count after the crash: unlogged relations are empty, but a sequence keeps its row.
    fn after_crash(&self) -> Result<String, String> {
        if self.unlogged && self.kind != "S" { Ok("0".to_owned()) } else { self.count.clone() }
    }
}
