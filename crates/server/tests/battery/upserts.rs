//! INSERT ... ON CONFLICT under load on a cluster that PostgreSQL made, by Forebay and PostgreSQL
//! 18 in turn, each until it crashes. The other one recovers: no acknowledged statement is lost, no
//! key is there twice, and amcheck finds each row in each index.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use forebay_server::client::{Client, ClientError};
use forebay_testkit::peer::{Peer, Postgres};

use super::forebay::Forebay;
use super::moment;

const CLIENTS: u64 = 4;
const TURNS: u64 = 4;
/// Statements of a turn.
const ENOUGH: u64 = 1500;
/// The data directory, in the folder that both servers see.
const DATA: &str = "data";
/// A client that gets no answer for so long fails, so that no test hangs.
const SILENCE: Duration = Duration::from_secs(60);
/// The other index may have a key first.
const TAKEN: &str = "23505";

/// Counts in few rows, until the server is gone. Returns how often that was acknowledged.
fn count(port: u16, own: u64, over: &AtomicBool, done: &Sender<()>) -> Result<u64, ClientError> {
    let mut client = Client::tcp(port)?;
    client.stream().set_read_timeout(Some(SILENCE))?;
    let mut counted = 0;
    for round in own.. {
        let (key, target) = (round * 7 % 11, if round % 2 == 0 { "(a)" } else { "(b)" });
        let upsert = format!(
            "INSERT INTO t VALUES ({key}, {key}000, 1)
             ON CONFLICT {target} DO UPDATE SET n = t.n + excluded.n"
        );
        let once = format!(
            "INSERT INTO t VALUES ({}, NULL, 0) ON CONFLICT DO NOTHING;
             DELETE FROM t WHERE a = {}",
            100 + round % 5,
            100 + (round + 1) % 5
        );
        let counts = match client.query(&upsert) {
            Ok(_) => 1,
            Err(error) if error.sqlstate() == TAKEN => 0,
            Err(_) if over.load(Ordering::Acquire) => break,
            Err(error) => return Err(error),
        };
        counted += counts;
        // The receiver goes away once there are enough.
        let _ = done.send(());
        match client.query(&once) {
            Err(error) if !over.load(Ordering::Acquire) => return Err(error),
            _ => {}
        }
    }
    Ok(counted)
}

/// A server under load until it crashes. Returns how many statements were acknowledged.
fn load(port: u16, crash: impl FnOnce()) -> u64 {
    let over = &AtomicBool::new(false);
    let (done, statements) = channel();
    let counted: Vec<Result<u64, ClientError>> = thread::scope(|scope| {
        let clients = (0..CLIENTS).map(|own| {
            let done = done.clone();
            scope.spawn(move || count(port, own, over, &done))
        });
        let clients: Vec<_> = clients.collect();
        drop(done);
        moment::wait(&statements, ENOUGH, Duration::ZERO);
        over.store(true, Ordering::Release);
        crash();
        clients.into_iter().map(|c| c.join().expect("a client does not panic")).collect()
    });
    counted.into_iter().map(|counted| counted.expect("no errors but the crash")).sum()
}

/// Checks what the crash has left. Returns the sum of the counters.
fn check(server: &Postgres<'_>, from: u64, acknowledged: u64) -> u64 {
    assert_eq!(server.query("SELECT * FROM verify_heapam('t')"), "");
    for index in ["t_pkey", "t_b_key"] {
        server.query(&format!("SELECT bt_index_check('{index}', true)"));
    }
    let keys = "SELECT count(*) = count(DISTINCT a) AND count(b) = count(DISTINCT b) FROM t";
    assert_eq!(server.query(keys), "t");
    let sum: u64 = server.query("SELECT sum(n) FROM t").parse().expect("a number");
    let least = from + acknowledged;
    // Of each client's last statement nothing is known.
    assert!((least..=least + CLIENTS).contains(&sum), "{sum}, not {least} or a little more");
    sum
}

#[test]
#[ignore = "half a minute long; run by cargo xtask test"]
fn upserts_survive_crashes_of_both_servers() {
    let Some(peer) = Peer::find("upserts_survive_crashes_of_both_servers") else { return };
    let options = "-c autovacuum=off -c deadlock_timeout=20ms";
    peer.init(DATA);
    let server = peer.start(DATA, options);
    server.query("CREATE EXTENSION amcheck");
    server.query("CREATE TABLE t (a int PRIMARY KEY, b int8 UNIQUE, n int)");
    drop(server);
    let mut sum = 0;
    for turn in 0..TURNS {
        let acknowledged = if turn % 2 == 0 {
            peer.take_back();
            let server = Forebay::start(&peer.outside(DATA), &["shared_buffers=8MB"]);
            load(server.port, || server.kill())
        } else {
            peer.give_to_postgres();
            let server = peer.start(DATA, options);
            let acknowledged = load(server.port, || server.crash());
            // Forebay recovers, PostgreSQL checks.
            peer.take_back();
            Forebay::start(&peer.outside(DATA), &[]).stop();
            acknowledged
        };
        peer.give_to_postgres();
        let server = peer.start(DATA, options);
        sum = check(&server, sum, acknowledged);
        drop(server);
    }
    assert!(sum > 0, "nothing was counted");
}
