//! `kill -9` at random moments while four clients load, in large pools and in pools of a few pages.
//! In the latter nearly every page access evicts another page, so victims, rings, the cleaner and
//! checkpoints all write at once.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Range;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use forebay_testkit::peer::psql;
use forebay_testkit::process::feed;

use super::forebay::{Forebay, scratch};

const CLIENTS: u32 = 4;
const ROUNDS: u32 = 50;
const ROWS: u32 = 2000;
/// Time in which pages that are being written again must not be taken for lost.
const VERIFIED: &str = "checkpoint_verify_writes=on";

/// The fate of a COPY, as its client knows it.
#[derive(Clone, Copy, PartialEq)]
enum Fate {
    Acknowledged,
    /// There was no answer: it is absent, or complete if its commit was durable before the kill.
    Unanswered,
}

#[test]
#[ignore = "minutes long; run by cargo xtask test"]
fn acknowledged_copies_survive_kill_9_and_no_other_one_shows_in_part() {
    // Every method, buffered and direct.
    battery("kill", ROUNDS, 20..1200, |round| {
        let method = ["io_method=sync", "io_method=worker", "io_method=io_uring"][round % 3];
        let direct = ["io_direct=", "io_direct=data,wal,wal_init"][round / 3 % 2];
        let sync = ["wal_sync_method=fdatasync", "wal_sync_method=open_datasync"][round / 6 % 2];
        let verify = ["checkpoint_verify_writes=off", VERIFIED][round / 12 % 2];
        vec![
            method,
            direct,
            sync,
            verify,
            "shared_buffers=8MB",
            "autovacuum_naptime=1s",
            "max_wal_size=64MB",
            "min_wal_size=32MB",
        ]
    });
}

#[test]
#[ignore = "half a minute long; run by cargo xtask test"]
fn acknowledged_copies_survive_kill_9_in_tiny_pools() {
    battery("kill-tiny", 8, 300..900, |round| {
        let methods =
            ["io_method=sync", "io_method=worker", "io_method=io_uring", "io_method=posix_aio"];
        let pools = [
            "shared_buffers=128kB",
            "shared_buffers=256kB",
            "shared_buffers=512kB",
            "shared_buffers=1MB",
        ];
        let cleaner = ["bgwriter_lru_maxpages=100", "bgwriter_lru_maxpages=0"];
        let (method, pool) = (methods[round % 4], pools[(round + round / 4) % 4]);
        vec![method, pool, cleaner[round / 4], VERIFIED, "io_direct=data", "bgwriter_delay=10ms"]
    });
}

/// Rounds of loading until a random moment (in milliseconds), each with its settings.
fn battery(
    name: &str,
    rounds: u32,
    moments: Range<u64>,
    settings: impl Fn(usize) -> Vec<&'static str>,
) {
    let seed = rand::rng().random::<u64>();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let folder = scratch(name);
    let directory = folder.path().join("data");
    let mut fates = BTreeMap::new();
    let batches = AtomicU32::new(1);
    let mut fresh = 1;
    let acknowledged = |fates: &BTreeMap<u32, Fate>| {
        fates.values().filter(|fate| **fate == Fate::Acknowledged).count()
    };
    // A busy machine may have done too little: it gets as many rounds again, with more time.
    let enough = |fates: &BTreeMap<u32, Fate>| acknowledged(fates) > rounds as usize;
    for round in 0..2 * rounds {
        let longer = if round < rounds { 1 } else { 10 };
        if longer > 1 && enough(&fates) {
            break;
        }
        let server = Forebay::start(&directory, &settings((round % rounds) as usize));
        if round == 0 {
            server.query("CREATE TABLE t (batch int4, line int4, filler text)");
        }
        check(&server, &mut fates, fresh);
        fresh = batches.load(Ordering::Relaxed);
        let moment = Duration::from_millis(random.random_range(moments.clone()));
        fates.extend(load_until_killed(server, moment * longer, &batches));
    }
    let server = Forebay::start(&directory, &[]);
    check(&server, &mut fates, fresh);
    let begun = batches.into_inner() - 1;
    println!("{begun} COPYs begun, {} whole at the end", acknowledged(&fates));
    assert!(enough(&fates), "too few COPYs were acknowledged for the test to say anything");
    server.stop();
}

/// Loads by four clients beside checkpoints, kills the server after `moment`, and returns the fate
/// of each COPY.
fn load_until_killed(server: Forebay, moment: Duration, batches: &AtomicU32) -> Vec<(u32, Fate)> {
    let killed = AtomicBool::new(false);
    let (done, wait) = channel::<()>();
    thread::scope(|scope| {
        let (killed, port) = (&killed, server.port);
        let checkpoints = scope.spawn(move || {
            let mut made = 0;
            while !killed.load(Ordering::Acquire) {
                let checkpoint = psql(port).args(["-c", "CHECKPOINT"]).output();
                made += u32::from(checkpoint.expect("psql runs").status.success());
            }
            made
        });
        let clients: Vec<_> = (0..CLIENTS)
            .map(|_| {
                let done = done.clone();
                scope.spawn(move || {
                    let _done = done;
                    let mut fates = Vec::new();
                    while !killed.load(Ordering::Acquire) {
                        let batch = batches.fetch_add(1, Ordering::Relaxed);
                        let output = feed(copy_command(port), &rows(batch));
                        let fate = if output.status.success() {
                            Fate::Acknowledged
                        } else {
                            Fate::Unanswered
                        };
                        fates.push((batch, fate));
                    }
                    fates
                })
            })
            .collect();
        // Nothing is ever sent: this waits for the random moment.
        assert_eq!(wait.recv_timeout(moment), Err(RecvTimeoutError::Timeout));
        server.kill();
        killed.store(true, Ordering::Release);
        println!("{} checkpoints", checkpoints.join().expect("a client does not panic"));
        clients
            .into_iter()
            .flat_map(|client| client.join().expect("a client does not panic"))
            .collect()
    })
}

fn copy_command(port: u16) -> Command {
    let mut psql = psql(port);
    psql.args(["-c", "COPY t FROM STDIN"]);
    psql
}

fn rows(batch: u32) -> Vec<u8> {
    let mut text = String::new();
    for line in 0..ROWS {
        writeln!(text, "{batch}\t{line}\tfiller of batch {batch}, line {line}")
            .expect("a string takes all");
    }
    text.into_bytes()
}

/// Compares the table with what the clients know. COPYs that are complete without an answer count
/// as acknowledged from here on: they have been seen, so they must stay.
///
/// `fresh` is the first batch of the last round; earlier ones are settled and compared by sums
/// alone.
fn check(server: &Forebay, fates: &mut BTreeMap<u32, Fate>, fresh: u32) {
    let settled = fates.range(..fresh).map(|(batch, _)| u64::from(*batch));
    let (count, sum) = settled.fold((0, 0), |(count, sum), batch| (count + 1, sum + batch));
    let expected = format!(
        "{}|{}",
        count * u64::from(ROWS),
        if count == 0 { String::new() } else { (sum * u64::from(ROWS)).to_string() }
    );
    let sums = server.query(&format!("SELECT count(*), sum(batch) FROM t WHERE batch < {fresh}"));
    assert_eq!(sums, expected, "rows and sum of batches of settled COPYs");

    let mut found: BTreeMap<u32, (u32, u64)> = BTreeMap::new();
    for row in server.query(&format!("SELECT batch, line FROM t WHERE batch >= {fresh}")).lines() {
        let (batch, line) = row.split_once('|').expect("two columns");
        let entry = found.entry(batch.parse().expect("a number")).or_default();
        entry.0 += 1;
        entry.1 += line.parse::<u64>().expect("a number");
    }
    let whole = (ROWS, u64::from(ROWS) * u64::from(ROWS - 1) / 2);
    for (batch, rows) in &found {
        assert_eq!(*rows, whole, "COPY {batch} shows in part");
        let fate = fates.get_mut(batch).expect("every row belongs to a COPY that was begun");
        *fate = Fate::Acknowledged;
    }
    for (batch, fate) in fates.range(fresh..) {
        assert!(
            *fate == Fate::Unanswered || found.contains_key(batch),
            "acknowledged COPY {batch} is lost"
        );
    }
    fates.retain(|_, fate| *fate == Fate::Acknowledged);
}
