//! What a snapshot costs: with idle sessions, with running transactions, and after each end of one.
//!
//! `cargo run --release -p forebay-txn --example snapshots`

#![allow(dead_code, reason = "the fixture is that of the tests")]

#[path = "../tests/txn/fixture.rs"]
mod fixture;

use std::hint::black_box;

use fixture::Fixture;
use forebay_aio::sync::{Duration, Instant};
use forebay_txn::{LastRunning, Transaction};

const ROUNDS: u32 = 20_000;

fn main() {
    for (idle, running) in [(0, 0), (100, 0), (0, 100), (100, 100)] {
        let fixture = Fixture::new();
        let mut backend = fixture.backend();
        let xacts = &fixture.xacts;
        let sessions: Vec<(Transaction, LastRunning)> =
            (0..idle).map(|_| Default::default()).collect();
        let mut writers = Vec::new();
        for _ in 0..running {
            let mut tx = Transaction::new();
            xacts.assign(&mut backend.io, &mut tx).expect("an id");
            writers.push(tx);
        }
        let reader = Transaction::new();
        let mut last = LastRunning::default();
        let started = Instant::now();
        for _ in 0..ROUNDS {
            black_box(xacts.snapshot_since(&reader, &mut last));
        }
        let quiet = started.elapsed() / ROUNDS;

        // Each end makes the next snapshot look anew.
        let (mut looking, mut ends) = (Duration::ZERO, 0);
        for _ in 0..ROUNDS / 10 {
            let mut tx = Transaction::new();
            xacts.assign(&mut backend.io, &mut tx).expect("an id");
            xacts.abort(&mut backend.io, &mut tx).expect("aborted");
            let started = Instant::now();
            black_box(xacts.snapshot_since(&reader, &mut last));
            looking += started.elapsed();
            ends += 1;
        }
        let anew = looking / ends;
        println!("{idle:3} idle, {running:3} running: {quiet:?} a snapshot, {anew:?} after an end");
        black_box(sessions);
        for mut tx in writers {
            xacts.abort(&mut backend.io, &mut tx).expect("aborted");
        }
    }
}
