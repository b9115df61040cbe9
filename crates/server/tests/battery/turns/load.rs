//! Clients that change rows until their server is gone.

use std::fmt;
use std::ops::AddAssign;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use forebay_server::client::{Client, ClientError};
use forebay_testkit::Dice;

use super::super::moment;
use super::automatic::{self, Automatic};
use super::model::{HOT, Model, Owner, State, Table, halves, text_of};

/// A client that gets no answer for so long fails, so that no test hangs.
const SILENCE: Duration = Duration::from_secs(60);
/// How deep savepoints are nested.
const DEPTH: u32 = 4;
/// What a client may be told in the usual course: another one was in its way.
const CONFLICTS: [&str; 3] = ["40001", "40P01", "55P03"];

/// What was done.
#[derive(Default)]
pub struct Done {
    pub commits: u64,
    rollbacks: u64,
    conflicts: u64,
    vacuums: u64,
    checkpoints: u64,
    /// By the server itself.
    pub automatic: Automatic,
}

impl AddAssign for Done {
    fn add_assign(&mut self, other: Done) {
        self.commits += other.commits;
        self.rollbacks += other.rollbacks;
        self.conflicts += other.conflicts;
        self.vacuums += other.vacuums;
        self.checkpoints += other.checkpoints;
        self.automatic += other.automatic;
    }
}

impl fmt::Display for Done {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Done { commits, rollbacks, conflicts, vacuums, checkpoints, automatic } = self;
        write!(f, "{commits} commits, {rollbacks} rollbacks, {conflicts} conflicts, ")?;
        write!(f, "{vacuums} vacuums, {checkpoints} checkpoints, {automatic}")
    }
}

/// Loads until `enough` commits were acknowledged, autovacuum has run if `automatic` says so, and a
/// moment has passed. Then calls `crash`, which returns when the server is gone.
///
/// # Errors
/// What has failed before the crash.
pub fn run(
    port: u16,
    model: &mut Model,
    dice: &mut Dice,
    (enough, automatic): (u64, bool),
    crash: impl FnOnce(),
) -> Result<Done, String> {
    let moment = Duration::from_millis(dice.below(50));
    let over = &AtomicBool::new(false);
    let (commit, commits) = channel();
    let tables = model.tables;
    let (ran, outcomes): (_, Vec<Result<Done, String>>) = thread::scope(|scope| {
        let mut clients = Vec::new();
        for owner in &mut model.owners {
            let (dice, commit) = (Dice::new(dice.any()), commit.clone());
            let worker = Worker { owner, tables, dice, done: Done::default(), commit };
            clients.push(scope.spawn(move || worker.run(port, over)));
        }
        drop(commit);
        moment::wait(&commits, enough, Duration::ZERO);
        let ran = automatic::wait(port, tables, &commits, automatic);
        moment::wait(&commits, 0, moment);
        over.store(true, Ordering::Release);
        crash();
        let ended = clients.into_iter().map(|c| c.join().expect("a client does not panic"));
        (ran, ended.collect())
    });
    let mut done = Done::default();
    for outcome in outcomes {
        done += outcome?;
    }
    done.automatic = ran?;
    Ok(done)
}

struct Worker<'a> {
    owner: &'a mut Owner,
    tables: &'static [Table],
    dice: Dice,
    done: Done,
    commit: Sender<()>,
}

impl Worker<'_> {
    /// Runs transactions until the server is gone. An error before that is one.
    fn run(mut self, port: u16, over: &AtomicBool) -> Result<Done, String> {
        let failed = match self.transactions(port) {
            Ok(never) => match never {},
            Err(error) => error,
        };
        match over.load(Ordering::Acquire) {
            true => Ok(self.done),
            false => Err(format!("owner {} before the crash: {failed}", self.owner.number)),
        }
    }

    fn transactions(&mut self, port: u16) -> Result<std::convert::Infallible, ClientError> {
        let mut client = Client::tcp(port)?;
        client.stream().set_read_timeout(Some(SILENCE))?;
        loop {
            match self.dice.below(100) {
                0 => self.vacuum(&mut client)?,
                1 => {
                    client.query("CHECKPOINT")?;
                    self.done.checkpoints += 1;
                }
                _ => self.transaction(&mut client)?,
            }
        }
    }

    fn vacuum(&mut self, client: &mut Client) -> Result<(), ClientError> {
        let options = self.dice.pick(&["", "(FREEZE)", "(TRUNCATE FALSE)", "(INDEX_CLEANUP ON)"]);
        let table = self.tables[self.dice.index(self.tables.len())].name;
        client.query(&format!("VACUUM {options} {table}"))?;
        self.done.vacuums += 1;
        Ok(())
    }

    fn transaction(&mut self, client: &mut Client) -> Result<(), ClientError> {
        let mut after = self.owner.settled.clone();
        let level = self.dice.pick(&["", "", "", " ISOLATION LEVEL REPEATABLE READ"]);
        client.query(&format!("BEGIN{level}"))?;
        let worked = self.work(client, &mut after, 0);
        if self.conflict(worked)? || self.dice.chance(150) {
            client.query("ROLLBACK")?;
            self.done.rollbacks += 1;
            return Ok(());
        }
        after.mark += 1;
        let (number, mark) = (self.owner.number, after.mark);
        client.query(&format!("INSERT INTO marks VALUES ({number}, {mark})"))?;
        self.owner.in_doubt = Some(after);
        client.query("COMMIT")?;
        self.owner.settled = self.owner.in_doubt.take().expect("set above");
        self.done.commits += 1;
        // The receiver goes away once there are enough.
        let _ = self.commit.send(());
        Ok(())
    }

    /// Whether another client was in the way.
    fn conflict(&mut self, outcome: Result<(), ClientError>) -> Result<bool, ClientError> {
        match outcome {
            Ok(()) => Ok(false),
            Err(error) if CONFLICTS.contains(&error.sqlstate()) => {
                self.done.conflicts += 1;
                Ok(true)
            }
            Err(error) => Err(error),
        }
    }

    fn work(
        &mut self,
        client: &mut Client,
        after: &mut State,
        depth: u32,
    ) -> Result<(), ClientError> {
        for _ in 0..=self.dice.below(4) {
            if depth < DEPTH && self.dice.chance(200) {
                self.savepoint(client, after, depth)?;
            } else {
                self.step(client, after)?;
            }
        }
        Ok(())
    }

    fn savepoint(
        &mut self,
        client: &mut Client,
        after: &mut State,
        depth: u32,
    ) -> Result<(), ClientError> {
        let before = after.clone();
        client.query(&format!("SAVEPOINT s{depth}"))?;
        let worked = self.work(client, after, depth + 1);
        if self.conflict(worked)? || self.dice.chance(400) {
            client.query(&format!("ROLLBACK TO s{depth}"))?;
            *after = before;
        } else if self.dice.chance(500) {
            client.query(&format!("RELEASE s{depth}"))?;
        }
        Ok(())
    }

    fn step(&mut self, client: &mut Client, after: &mut State) -> Result<(), ClientError> {
        let table = self.dice.index(self.tables.len());
        match self.dice.below(20) {
            0..5 if after.rows[table].len() < self.tables[table].most => {
                self.insert(client, after, table)
            }
            0..7 => self.delete(client, after, table),
            7..14 => self.update(client, after, table),
            14..16 => self.add(client, after),
            16..19 => self.lock(client, table),
            _ => self.read(client, after, table),
        }
    }

    fn insert(
        &mut self,
        client: &mut Client,
        after: &mut State,
        table: usize,
    ) -> Result<(), ClientError> {
        let rows: Vec<_> =
            (0..=self.dice.below(12)).map(|_| self.owner.new_row(&mut self.dice)).collect();
        client.query(&self.tables[table].insert(self.owner.number, &rows))?;
        after.rows[table].extend(rows);
        Ok(())
    }

    /// Some of the client's rows that follow each other, and a condition that selects them.
    fn some(&mut self, after: &State, table: usize) -> (Vec<i64>, String) {
        let rows = &after.rows[table];
        let most = if self.dice.chance(700) { 1 } else { 12 };
        let count = 1 + self.dice.index(most);
        let first = self.dice.index(rows.len().max(1));
        let ids: Vec<i64> = rows.keys().skip(first).take(count).copied().collect();
        let (low, high) = (ids.first().unwrap_or(&0), ids.last().unwrap_or(&0));
        let owner = self.owner.number;
        let condition = match low == high {
            true => format!("id = {low}"),
            false => format!("id BETWEEN {low} AND {high} AND owner = {owner}"),
        };
        (ids, condition)
    }

    fn update(
        &mut self,
        client: &mut Client,
        after: &mut State,
        table: usize,
    ) -> Result<(), ClientError> {
        let (ids, condition) = self.some(after, table);
        let value = self.dice.below(1000) as i32;
        let Table { name, has_text, .. } = self.tables[table];
        let kind = self.dice.below(if has_text { 6 } else { 4 });
        let set = match kind {
            0 => "v = NULL".to_owned(),
            1 => format!("v = {}", halves(value)),
            2 => "v = v + 0.5".to_owned(),
            3 => "n = n + 1".to_owned(),
            _ => format!("t = '{}'", text_of(value as u32)),
        };
        self.change(client, &format!("UPDATE {name} SET {set} WHERE {condition}"), ids.len())?;
        for id in ids {
            let row = after.rows[table].get_mut(&id).expect("one of its rows");
            match kind {
                0 => row.v = None,
                1 => row.v = Some(value),
                2 => row.v = row.v.map(|v| v + 1),
                3 => row.n += 1,
                _ => row.text = value as u32,
            }
        }
        Ok(())
    }

    fn delete(
        &mut self,
        client: &mut Client,
        after: &mut State,
        table: usize,
    ) -> Result<(), ClientError> {
        let (ids, condition) = self.some(after, table);
        let name = self.tables[table].name;
        self.change(client, &format!("DELETE FROM {name} WHERE {condition}"), ids.len())?;
        after.rows[table].retain(|id, _| !ids.contains(id));
        Ok(())
    }

    /// A statement that changes so many rows.
    fn change(&self, client: &mut Client, sql: &str, rows: usize) -> Result<(), ClientError> {
        let tags = client.query(sql)?.tags;
        assert!(tags[0].ends_with(&format!(" {rows}")), "{sql}: {tags:?}, not {rows} rows");
        Ok(())
    }

    /// Changes a row that others change too.
    fn add(&mut self, client: &mut Client, after: &mut State) -> Result<(), ClientError> {
        let (row, number) = (self.dice.index(HOT), self.dice.below(10) as i64);
        let sql = format!("UPDATE hot SET n = n + {number} WHERE id = {row}");
        self.change(client, &sql, 1)?;
        after.hot[row] += number;
        Ok(())
    }

    /// Locks rows of anybody.
    fn lock(&mut self, client: &mut Client, table: usize) -> Result<(), ClientError> {
        let strength = self.dice.pick(&["KEY SHARE", "SHARE", "NO KEY UPDATE", "UPDATE"]);
        let wait = self.dice.pick(&["", " NOWAIT", " SKIP LOCKED"]);
        let (name, ids) = match self.dice.chance(300) {
            true => ("hot", HOT as u64),
            false => (self.tables[table].name, 3000),
        };
        let first = self.dice.below(ids);
        let range = format!("id BETWEEN {first} AND {}", first + self.dice.below(10));
        let sql = format!("SELECT id FROM {name} WHERE {range} FOR {strength}{wait}");
        client.query(&sql).map(drop)
    }

    /// Reads the client's rows, with its own changes.
    fn read(&self, client: &mut Client, after: &State, table: usize) -> Result<(), ClientError> {
        let (of, owner) = (&self.tables[table], self.owner.number);
        let sql = format!("SELECT * FROM {} WHERE owner = {owner} ORDER BY id", of.name);
        let rows = after.rows[table].iter();
        let expected: Vec<_> = rows.map(|(id, row)| of.values(*id, owner, *row)).collect();
        let found = client.query(&sql)?.rows;
        assert!(found == expected, "owner {owner} reads {found:?}, not {expected:?}");
        Ok(())
    }
}
