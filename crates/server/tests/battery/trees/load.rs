//! Clients that change tables with indexes until their server is to crash.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use forebay_server::client::{Client, ClientError};
use forebay_testkit::Dice;
use forebay_testkit::peer::Postgres;

use super::super::moment;

const CLIENTS: usize = 4;
/// A client that gets no answer for so long fails, so that no test hangs.
const SILENCE: Duration = Duration::from_secs(60);
/// What a client may be told in the usual course: another one was in its way, or has the key.
const CONFLICTS: [&str; 4] = ["40001", "40P01", "23505", "55P03"];

const TABLES: [&str; 3] = ["wide", "dups", "queue"];

/// Long keys, so that trees grow high; equal keys, so that there are posting lists; keys that come
/// at one end and go at the other.
const CREATE: [&str; 12] = [
    "CREATE SEQUENCE ids",
    "CREATE TABLE wide (id int8 PRIMARY KEY, k int4, s text)",
    "CREATE INDEX wide_k ON wide (k) INCLUDE (id)",
    "CREATE INDEX wide_s ON wide (s, k DESC)",
    "CREATE UNIQUE INDEX wide_u ON wide ((id * 7919 % 1000003)) WHERE k % 2 = 0",
    "CREATE TABLE dups (a int4, b int4, c text)",
    "CREATE INDEX dups_a ON dups (a)",
    "CREATE INDEX dups_b ON dups (b DESC NULLS FIRST, a)",
    "CREATE INDEX dups_c ON dups (c)",
    "CREATE TABLE queue (id int8 PRIMARY KEY DEFAULT nextval('ids'), payload int4)",
    "CREATE INDEX queue_p ON queue (payload) WITH (deduplicate_items = off)",
    "INSERT INTO queue (payload) SELECT i FROM generate_series(1, 3000) i",
];

pub fn create(server: &Postgres<'_>) {
    CREATE.iter().for_each(|statement| drop(server.query(statement)));
}

/// Number and hash of each table's rows.
pub fn rows(server: &Postgres<'_>) -> Vec<String> {
    let hash = "count(*), coalesce(sum(hashtext(t::text)::int8), 0)";
    TABLES.iter().map(|table| server.query(&format!("SELECT {hash} FROM {table} t"))).collect()
}

/// A load of a server.
pub struct Load {
    pub port: u16,
    /// Whether statements are left out that cut, replace or remove files.
    pub files_stay: bool,
    /// Statements to wait for.
    pub enough: u64,
}

impl Load {
    /// Loads until there were `enough` statements and a moment has passed, then calls `crash`,
    /// which returns when the server is gone. Returns the number of statements.
    ///
    /// # Errors
    /// What has failed before.
    pub fn run(
        &self,
        dice: &mut Dice,
        time: Duration,
        crash: impl FnOnce(),
    ) -> Result<u64, String> {
        let over = &AtomicBool::new(false);
        let (done, statements) = channel();
        let outcomes: Vec<Result<u64, ClientError>> = thread::scope(|scope| {
            let mut clients = Vec::new();
            for _ in 0..CLIENTS {
                let worker = Worker { load: self, dice: Dice::new(dice.any()), done: done.clone() };
                clients.push(scope.spawn(move || worker.run(over)));
            }
            drop(done);
            moment::wait(&statements, self.enough, time);
            over.store(true, Ordering::Release);
            crash();
            clients.into_iter().map(|c| c.join().expect("a client does not panic")).collect()
        });
        let mut count = 0;
        for outcome in outcomes {
            count += outcome.map_err(|error| error.to_string())?;
        }
        Ok(count)
    }
}

/// Executes statements; a transaction that meets a conflict is rolled back.
fn execute(client: &mut Client, sql: &str) -> Result<(), ClientError> {
    match client.query(sql) {
        Err(error) if CONFLICTS.contains(&error.sqlstate()) => client.query("ROLLBACK").map(drop),
        other => other.map(drop),
    }
}

struct Worker<'a> {
    load: &'a Load,
    dice: Dice,
    done: Sender<()>,
}

impl Worker<'_> {
    /// Runs statements until the server is gone. An error before that is one.
    fn run(mut self, over: &AtomicBool) -> Result<u64, ClientError> {
        let mut client = Client::tcp(self.load.port)?;
        client.stream().set_read_timeout(Some(SILENCE))?;
        // Index scans, which mark items as killed.
        client.query("SET enable_seqscan = off; SET enable_bitmapscan = off")?;
        let mut count = 0;
        loop {
            let sql = self.statements();
            match execute(&mut client, &sql) {
                Ok(()) => count += 1,
                Err(_) if over.load(Ordering::Acquire) => return Ok(count),
                Err(error) => return Err(error),
            }
            // The receiver goes away once there are enough.
            let _ = self.done.send(());
        }
    }

    fn statements(&mut self) -> String {
        if self.dice.chance(30) {
            let table = self.dice.pick(&TABLES);
            return match self.load.files_stay {
                true => format!("VACUUM (INDEX_CLEANUP on, TRUNCATE false) {table}"),
                false => format!("VACUUM (INDEX_CLEANUP on) {table}"),
            };
        }
        if !self.load.files_stay && self.dice.chance(8) {
            return self.rare();
        }
        match self.dice.below(10) {
            0 => format!("BEGIN; {}; {}; ROLLBACK", self.change(), self.change()),
            1 => format!("BEGIN; {}; {}; COMMIT", self.change(), self.change()),
            _ => self.change(),
        }
    }

    /// New files, and pages that are written.
    fn rare(&mut self) -> String {
        let statements = [
            "CHECKPOINT",
            "CHECKPOINT",
            "REINDEX INDEX wide_s",
            "REINDEX INDEX dups_a",
            "TRUNCATE queue",
            "DROP INDEX IF EXISTS dups_x; CREATE INDEX dups_x ON dups (c, b)",
        ];
        self.dice.pick(&statements).to_owned()
    }

    fn change(&mut self) -> String {
        let (some, key) = (1 + self.dice.below(60), self.dice.below(1000));
        match self.dice.below(16) {
            0..3 => format!(
                "INSERT INTO wide SELECT nextval('ids'), random() * 1000,
                    repeat(md5(random()::text), 1 + (random() * 6)::int)
                 FROM generate_series(1, {some})"
            ),
            3 => format!(
                "INSERT INTO wide SELECT nextval('ids'), {key}, string_agg(md5(random()::text), '')
                 FROM generate_series(1, {})",
                1 + key % 75
            ),
            4..7 => format!(
                "INSERT INTO dups SELECT random() * 20, nullif((random() * 5)::int, 0),
                    'value ' || (random() * 3)::int FROM generate_series(1, {})",
                some * 4
            ),
            7 => format!("INSERT INTO queue (payload) SELECT {key} FROM generate_series(1, 300)"),
            8 if key % 8 == 0 => "DELETE FROM queue".to_owned(),
            8 => format!("DELETE FROM queue WHERE id < (SELECT min(id) + {key} FROM queue)"),
            9 => format!("UPDATE wide SET k = k + 1 WHERE k BETWEEN {key} AND {key} + 10"),
            10 => format!("UPDATE dups SET b = {} WHERE a = {}", key % 5, key % 21),
            11 => format!("UPDATE queue SET payload = payload + 1 WHERE payload = {key}"),
            12 => format!("DELETE FROM wide WHERE k BETWEEN {key} AND {key} + {some}"),
            13 => format!("DELETE FROM dups WHERE a = {} AND b = {}", key % 21, key % 6),
            14 => format!(
                "SELECT count(s) FROM wide WHERE k > {key}; SELECT count(a) FROM dups WHERE a >= 0"
            ),
            _ => {
                "SELECT count(*) FROM queue WHERE id > 0; SELECT setval('ids', nextval('ids') + 1)"
                    .to_owned()
            }
        }
    }
}
