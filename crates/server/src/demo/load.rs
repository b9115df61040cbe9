//! Loads by COPY, and counts what was acknowledged.

use super::child::Failure;
use crate::client::Client;
use forebay_aio::sync::{Duration, Instant};
use indicatif::ProgressBar;
use std::fmt::Write;

/// Bytes of a CopyData message, about.
const CHUNK: usize = 64 * 1024;
/// Rows of one COPY.
const ROWS: u64 = 100_000;
/// COPYs acknowledged before the kill.
pub(super) const CRASH_COPIES: usize = 8;

/// Loads the table, and counts the rows that must be in it.
#[derive(Debug)]
pub(super) struct Loader {
    client: Client,
    copies: u64,
    next_id: u64,
    /// Number, sum of the COPY numbers and sum of the ids of the acknowledged rows.
    acknowledged: [u128; 3],
    next_copy: u64,
}

/// The result of a load.
pub(super) struct Loaded {
    pub rows: u64,
    pub bytes: u64,
    pub took: Duration,
}

impl Loader {
    /// Makes the table.
    pub(super) fn new(mut client: Client, megabytes: u64) -> Result<Loader, Failure> {
        client.query("CREATE TABLE demo (copy int4, id int8, filler text)")?;
        let copies = (megabytes << 20).div_ceil(row_bytes() * ROWS).max(1);
        Ok(Loader { client, copies, next_id: 1, acknowledged: [0; 3], next_copy: 1 })
    }

    /// Continues over another connection.
    pub(super) fn reconnect(&mut self, client: Client) {
        self.client = client;
    }

    /// Bytes that `load` will send, about.
    pub(super) fn total_bytes(&self) -> u64 {
        self.copies * ROWS * row_bytes()
    }

    /// Rows of acknowledged COPYs.
    pub(super) fn acknowledged_rows(&self) -> u64 {
        u64::try_from(self.acknowledged[0]).unwrap_or(u64::MAX)
    }

    /// What count(*), sum(copy) and sum(id) must give.
    pub(super) fn expected_sums(&self) -> [u128; 3] {
        self.acknowledged
    }

    /// Loads everything.
    pub(super) fn load(&mut self, progress: &ProgressBar) -> Result<Loaded, Failure> {
        let started = Instant::now();
        let mut bytes = 0;
        for _ in 0..self.copies {
            bytes += self.one_copy(progress)?;
        }
        progress.finish_and_clear();
        Ok(Loaded { rows: self.acknowledged_rows(), bytes, took: started.elapsed() })
    }

    /// Loads some COPYs that are acknowledged, and half of another one. Returns how many were
    /// acknowledged.
    pub(super) fn load_some_and_half(&mut self, progress: &ProgressBar) -> Result<u64, Failure> {
        for _ in 0..CRASH_COPIES {
            self.one_copy(&ProgressBar::hidden())?;
            progress.inc(1);
        }
        progress.finish_and_clear();
        self.client.start_copy("COPY demo FROM STDIN")?;
        self.send_rows(ROWS / 2, &ProgressBar::hidden())?;
        Ok(CRASH_COPIES as u64)
    }

    fn one_copy(&mut self, progress: &ProgressBar) -> Result<u64, Failure> {
        let first = self.next_id;
        self.client.start_copy("COPY demo FROM STDIN")?;
        let bytes = self.send_rows(ROWS, progress)?;
        self.client.finish_copy()?;
        // The COPY is acknowledged: its rows must not be lost.
        let (rows, copy) = (u128::from(ROWS), u128::from(self.next_copy));
        let ids = u128::from(first) + u128::from(self.next_id - 1);
        self.acknowledged[0] += rows;
        self.acknowledged[1] += rows * copy;
        self.acknowledged[2] += ids * rows / 2;
        self.next_copy += 1;
        Ok(bytes)
    }

    fn send_rows(&mut self, rows: u64, progress: &ProgressBar) -> Result<u64, Failure> {
        let mut chunk = String::with_capacity(CHUNK + 256);
        let mut sent = 0;
        for _ in 0..rows {
            write_row(&mut chunk, self.next_copy, self.next_id);
            self.next_id += 1;
            if chunk.len() >= CHUNK {
                self.client.copy_data(chunk.as_bytes())?;
                progress.inc(chunk.len() as u64);
                sent += chunk.len() as u64;
                chunk.clear();
            }
        }
        self.client.copy_data(chunk.as_bytes())?;
        progress.inc(chunk.len() as u64);
        Ok(sent + chunk.len() as u64)
    }
}

fn write_row(out: &mut String, copy: u64, id: u64) {
    // Writing to a string can't fail.
    let _ = writeln!(
        out,
        "{copy}\t{id}\tA forebay is the pool of water held just ahead of the turbines: {id:012}"
    );
}

fn row_bytes() -> u64 {
    let mut row = String::new();
    write_row(&mut row, 10, 1_000_000);
    row.len() as u64
}
