//! Eight clients, and the fate of each transaction as they know it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use forebay_server::client::{Client, ClientError};
use forebay_testkit::Dice;

use super::super::moment;

const CLIENTS: u64 = 8;
/// A client that gets no answer for so long fails, so that no test hangs.
const SILENCE: Duration = Duration::from_secs(60);

/// The fate of a batch of rows or of a table, as its client knows it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Acknowledged,
    /// There was no answer: it is complete or absent.
    Unanswered,
    /// It was rolled back, or dropped: it must be absent.
    Gone,
}

/// What was sent and acknowledged, outside of the server.
#[derive(Default)]
pub struct Ledger {
    /// The table's number: a new one every few rounds.
    table: u32,
    /// Rows and fate of each batch.
    batches: BTreeMap<u32, (u32, Fate)>,
    next: u32,
    /// Batches before this one are settled: compared by sums alone.
    fresh: u32,
    /// Tables that are created and dropped beside it.
    small: BTreeMap<u32, Fate>,
    next_small: u32,
    /// Commits acknowledged so far.
    pub acknowledged: u64,
}

fn connect(port: u16) -> Result<Client, ClientError> {
    let client = Client::tcp(port)?;
    client.stream().set_read_timeout(Some(SILENCE))?;
    Ok(client)
}

fn filler(batch: u32, line: u32) -> String {
    let len = (batch.wrapping_mul(31) + line * 17) % 400;
    format!("batch {batch} line {line} {}", "f".repeat(len as usize))
}

/// The result of a statement.
fn fate(outcome: Result<impl Sized, ClientError>) -> Result<Fate, ClientError> {
    outcome.map(|_| Fate::Acknowledged)
}

impl Ledger {
    fn name(&self) -> String {
        format!("t{}", self.table)
    }

    /// Drops the table, if there is one, and makes the next one.
    pub fn new_table(&mut self, port: u16) -> Result<(), String> {
        let failed = |e: ClientError| format!("a new table: {e}");
        let mut client = connect(port).map_err(failed)?;
        if self.table > 0 {
            client.query(&format!("DROP TABLE {}", self.name())).map_err(failed)?;
        }
        self.table += 1;
        let create = format!("CREATE TABLE {} (batch int4, line int4, filler text)", self.name());
        client.query(&create).map_err(failed)?;
        self.batches.clear();
        self.fresh = self.next;
        Ok(())
    }

    /// Loads until `enough` commits were acknowledged and a moment has passed, then calls `cut`,
    /// which returns when no client gets an answer any more.
    pub fn load<T>(
        &mut self,
        port: u16,
        dice: &mut Dice,
        enough: u64,
        cut: impl FnOnce() -> T,
    ) -> Result<T, String> {
        let moment = Duration::from_millis(dice.below(50));
        let with_checkpoints = dice.chance(500);
        let batches = AtomicU32::new(self.next);
        let over = AtomicBool::new(false);
        let (commit, commits) = channel::<()>();
        let small = self.small.clone();
        let first_small = self.next_small;
        let table = self.name();
        let (known, small, outcome) = thread::scope(|scope| {
            let (batches, over, table) = (&batches, &over, &table);
            let clients: Vec<_> = (0..CLIENTS)
                .map(|_| {
                    let (seed, commit) = (dice.any(), commit.clone());
                    scope.spawn(move || {
                        let client = Loader { table, batches, dice: Dice::new(seed), commit };
                        client.run(port, over)
                    })
                })
                .collect();
            let tables = scope.spawn(move || come_and_go(port, small, first_small, over));
            let checkpoints = scope.spawn(move || match connect(port) {
                Ok(mut client) if with_checkpoints => while client.query("CHECKPOINT").is_ok() {},
                _ => {}
            });
            drop(commit);
            moment::wait(&commits, enough, moment);
            over.store(true, Ordering::Release);
            let outcome = cut();
            checkpoints.join().expect("a client does not panic");
            let known: Vec<_> =
                clients.into_iter().map(|c| c.join().expect("a client does not panic")).collect();
            (known, tables.join().expect("a client does not panic"), outcome)
        });
        self.next = batches.into_inner();
        for client in known {
            let client = client?;
            self.acknowledged +=
                client.iter().filter(|(.., fate)| *fate == Fate::Acknowledged).count() as u64;
            self.batches
                .extend(client.into_iter().map(|(batch, rows, fate)| (batch, (rows, fate))));
        }
        (self.small, self.next_small) = small?;
        Ok(outcome)
    }

    /// Compares what the server shows with what is known. What was found counts as acknowledged
    /// from here on.
    pub fn verify(&mut self, port: u16) -> Result<(), String> {
        let mut problems = Vec::new();
        self.compare(port, &mut problems)
            .unwrap_or_else(|e| problems.push(format!("a query fails: {e}")));
        if problems.is_empty() { Ok(()) } else { Err(problems.join("\n")) }
    }

    fn compare(&mut self, port: u16, problems: &mut Vec<String>) -> Result<(), ClientError> {
        let mut client = connect(port)?;
        let table = self.name();
        let settled: Vec<(u32, u32)> =
            self.batches.range(..self.fresh).map(|(batch, (rows, _))| (*batch, *rows)).collect();
        let rows: u64 = settled.iter().map(|(_, rows)| u64::from(*rows)).sum();
        let sum: u64 =
            settled.iter().map(|(batch, rows)| u64::from(*batch) * u64::from(*rows)).sum();
        let fresh = self.fresh;
        let sums = client
            .query(&format!("SELECT count(*), sum(batch) FROM {table} WHERE batch < {fresh}"))?;
        let expected = vec![Some(rows.to_string()), (rows > 0).then(|| sum.to_string())];
        if sums.rows != [expected.clone()] {
            problems.push(format!("settled rows: {expected:?} expected, {:?} found", sums.rows));
        }
        let found = client
            .query(&format!("SELECT batch, line, filler FROM {table} WHERE batch >= {fresh}"))?;
        self.compare_batches(&found.rows, problems);
        self.compare_tables(&mut client, problems)?;
        self.fresh = self.next;
        Ok(())
    }

    fn compare_batches(&mut self, rows: &[Vec<Option<String>>], problems: &mut Vec<String>) {
        let mut found: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for row in rows {
            let [Some(batch), Some(line), Some(text)] = &row[..] else {
                problems.push(format!("a row that was never sent: {row:?}"));
                continue;
            };
            let (batch, line) =
                (batch.parse().unwrap_or(u32::MAX), line.parse().unwrap_or(u32::MAX));
            if *text != filler(batch, line) {
                problems.push(format!("line {line} of batch {batch} has another text: {text:?}"));
            }
            found.entry(batch).or_default().push(line);
        }
        for (batch, lines) in &mut found {
            lines.sort_unstable();
            match self.batches.get_mut(batch) {
                None => problems.push(format!("batch {batch} was never sent")),
                Some((_, Fate::Gone)) => {
                    problems.push(format!("batch {batch} was rolled back, and is there"))
                }
                Some((rows, _)) if !lines.iter().copied().eq(0..*rows) => {
                    problems.push(format!("batch {batch} of {rows} rows shows lines {lines:?}"));
                }
                Some((_, fate)) => *fate = Fate::Acknowledged,
            }
        }
        for (batch, (rows, fate)) in self.batches.range(self.fresh..) {
            if *fate == Fate::Acknowledged && !found.contains_key(batch) {
                problems.push(format!("acknowledged batch {batch} of {rows} rows is lost"));
            }
        }
        self.batches.retain(|_, (_, fate)| *fate == Fate::Acknowledged);
    }

    fn compare_tables(
        &mut self,
        client: &mut Client,
        problems: &mut Vec<String>,
    ) -> Result<(), ClientError> {
        for (number, fate) in &mut self.small {
            let there = match client.query(&format!("SELECT n FROM s{number}")) {
                Ok(answer) => Some(answer.rows),
                Err(e) if e.sqlstate() == "42P01" => None,
                Err(e) => return Err(e),
            };
            let whole = [vec![Some(number.to_string())]];
            match (&there, *fate) {
                (Some(_), Fate::Gone) => {
                    problems.push(format!("table s{number} was dropped, and is there"))
                }
                (None, Fate::Acknowledged) => {
                    problems.push(format!("acknowledged table s{number} is lost"))
                }
                (Some(rows), _) if *rows != whole => {
                    problems.push(format!("table s{number} holds {rows:?}"))
                }
                _ => {}
            }
            *fate = if there.is_some() { Fate::Acknowledged } else { Fate::Gone };
        }
        self.small.retain(|_, fate| *fate != Fate::Gone);
        let before = format!("t{}", self.table - 1);
        match client.query(&format!("SELECT count(*) FROM {before}")) {
            Err(e) if e.sqlstate() == "42P01" => {}
            other => problems
                .push(format!("table {before} was dropped, and a query of it gives {other:?}")),
        }
        Ok(())
    }
}

/// A client that loads.
struct Loader<'a> {
    table: &'a str,
    batches: &'a AtomicU32,
    dice: Dice,
    commit: Sender<()>,
}

impl Loader<'_> {
    /// Batches with their rows and fates, until the power is cut. An error before that is one.
    fn run(mut self, port: u16, over: &AtomicBool) -> Result<Vec<(u32, u32, Fate)>, String> {
        let failed = |e: ClientError, what: &str| {
            if over.load(Ordering::Acquire) {
                Ok(())
            } else {
                Err(format!("{what} before the cut: {e}"))
            }
        };
        let mut known = Vec::new();
        let mut client = match connect(port) {
            Ok(client) => client,
            Err(e) => return failed(e, "connect").map(|()| known),
        };
        loop {
            let batch = self.batches.fetch_add(1, Ordering::Relaxed);
            let kind = self.dice.below(20);
            let rows = match kind {
                0..10 => 1,
                10..17 => 2 + self.dice.below(30) as u32,
                _ => 100 + self.dice.below(900) as u32,
            };
            match self.send(&mut client, batch, rows, kind) {
                Ok(fate) => known.push((batch, rows, fate)),
                Err(e) => {
                    known.push((batch, rows, Fate::Unanswered));
                    return failed(e, "a transaction fails").map(|()| known);
                }
            }
            // The receiver goes away once there are enough.
            let _ = self.commit.send(());
        }
    }

    fn send(
        &mut self,
        client: &mut Client,
        batch: u32,
        rows: u32,
        kind: u64,
    ) -> Result<Fate, ClientError> {
        let insert = |lines: std::ops::Range<u32>| {
            let mut sql = format!("INSERT INTO {} VALUES ", self.table);
            for line in lines.clone() {
                let comma = if line == lines.start { "" } else { ", " };
                write!(sql, "{comma}({batch}, {line}, '{}')", filler(batch, line))
                    .expect("a string takes all");
            }
            sql
        };
        match kind {
            0..13 => fate(client.query(&insert(0..rows))),
            13..17 => {
                client.query("BEGIN")?;
                client.query(&insert(0..1))?;
                client.query(&insert(1..rows))?;
                let gone = kind == 13;
                client.query(if gone { "ROLLBACK" } else { "COMMIT" })?;
                Ok(if gone { Fate::Gone } else { Fate::Acknowledged })
            }
            _ => {
                let mut text = String::new();
                for line in 0..rows {
                    writeln!(text, "{batch}\t{line}\t{}", filler(batch, line))
                        .expect("a string takes all");
                }
                client.start_copy(&format!("COPY {} FROM STDIN", self.table))?;
                client.copy_data(text.as_bytes())?;
                fate(client.finish_copy())
            }
        }
    }
}

type Tables = (BTreeMap<u32, Fate>, u32);

/// A client that drops the tables there are and makes others, until the power is cut.
fn come_and_go(
    port: u16,
    known: BTreeMap<u32, Fate>,
    first: u32,
    over: &AtomicBool,
) -> Result<Tables, String> {
    let mut tables = (known, first);
    let outcome = connect(port).and_then(|mut client| {
        loop {
            make_and_drop(&mut client, &mut tables)?;
        }
    });
    match outcome {
        Ok(()) => Ok(tables),
        Err(_) if over.load(Ordering::Acquire) => Ok(tables),
        Err(e) => Err(format!("making or dropping a table fails before the cut: {e}")),
    }
}

fn make_and_drop(client: &mut Client, (known, next): &mut Tables) -> Result<(), ClientError> {
    let number = *next;
    *next += 1;
    known.insert(number, Fate::Unanswered);
    client.query(&format!(
        "BEGIN; CREATE TABLE s{number} (n int4); INSERT INTO s{number} VALUES ({number}); COMMIT"
    ))?;
    known.insert(number, Fate::Acknowledged);
    let old: Vec<u32> = known
        .iter()
        .filter(|(_, fate)| **fate != Fate::Gone)
        .map(|(n, _)| *n)
        .rev()
        .skip(2)
        .collect();
    for number in old {
        known.insert(number, Fate::Unanswered);
        client.query(&format!("DROP TABLE s{number}"))?;
        known.insert(number, Fate::Gone);
    }
    Ok(())
}
