//! Clients that execute a load's statements until their server is to crash.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use forebay_server::client::{Client, ClientError};
use forebay_testkit::Dice;

use super::super::moment;
use super::Subject;

const CLIENTS: usize = 4;
/// A client that gets no answer for so long fails, so that no test hangs. A busy machine may take
/// minutes for a statement that waits for others.
const SILENCE: Duration = Duration::from_secs(600);
/// What a client may be told in the usual course: another one was in its way, or has the key.
const CONFLICTS: [&str; 4] = ["40001", "40P01", "23505", "55P03"];

/// A load of a server.
pub struct Load<'a> {
    pub port: u16,
    pub subject: &'a dyn Subject,
    /// Whether statements are left out that cut, replace or remove files.
    pub files_stay: bool,
    /// Statements to wait for.
    pub enough: u64,
}

impl Load<'_> {
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

struct Worker<'a> {
    load: &'a Load<'a>,
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
            let sql = self.load.subject.statements(&mut self.dice, self.load.files_stay);
            match self.execute(&mut client, &sql) {
                Ok(()) => count += 1,
                Err(_) if over.load(Ordering::Acquire) => return Ok(count),
                Err(error) => return Err(error),
            }
            // The receiver goes away once there are enough.
            let _ = self.done.send(());
        }
    }

    /// Executes statements; a transaction that meets a conflict is rolled back.
    fn execute(&self, client: &mut Client, sql: &str) -> Result<(), ClientError> {
        match client.query(sql) {
            Err(error) if self.expects(error.sqlstate()) => client.query("ROLLBACK").map(drop),
            other => other.map(drop),
        }
    }

    fn expects(&self, sqlstate: &str) -> bool {
        CONFLICTS.iter().chain(self.load.subject.conflicts()).any(|known| *known == sqlstate)
    }
}
