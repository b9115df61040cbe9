//! Clients that run their scripts until their server is gone, and what they were told; and the same
//! on the other server afterwards.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use forebay_server::client::{Client, ClientError};
use forebay_testkit::Dice;

use super::super::moment;
use super::script::Script;

/// A client that gets no answer for so long fails, so that no test hangs.
const SILENCE: Duration = Duration::from_secs(60);

/// How a transaction ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum End {
    Committed,
    RolledBack,
    /// The server was gone before it answered.
    Unknown,
}

/// A transaction, and what came of each of its statements.
pub struct Attempt {
    /// Its row in the table of marks, if it committed.
    pub mark: u64,
    pub statements: Vec<(String, Result<(), String>)>,
    pub end: End,
}

/// A client between its connections.
pub struct Owner {
    pub number: usize,
    script: Script,
    /// As it was before the attempt whose end is unknown.
    before: Script,
    dice: Dice,
    marks: u64,
    /// Since the last comparison.
    pub attempts: Vec<Attempt>,
}

impl Owner {
    pub fn new(number: usize, dice: Dice) -> Owner {
        let script = Script::new(number);
        Owner { number, before: script.clone(), script, dice, marks: 0, attempts: Vec::new() }
    }

    pub fn creation(&self) -> String {
        self.script.creation()
    }

    /// Settles the attempt whose end is unknown: whether its mark is there.
    pub fn settle(&mut self, there: impl Fn(u64) -> bool) {
        let Some(last) = self.attempts.last_mut().filter(|last| last.end == End::Unknown) else {
            return;
        };
        if there(last.mark) {
            last.end = End::Committed;
        } else {
            self.attempts.pop();
            self.script.clone_from(&self.before);
        }
    }

    fn transaction(&mut self, client: &mut Client) -> Result<(), ClientError> {
        self.before.clone_from(&self.script);
        let wanted = self.script.transaction(&mut self.dice);
        self.marks += 1;
        let mark = self.marks;
        let marked = format!("INSERT INTO marks VALUES ({}, {mark})", self.number);
        let mut statements = Vec::new();
        client.query("BEGIN")?;
        let mut failed = false;
        for statement in wanted.into_iter().chain([marked]) {
            match told(client.query(&statement)) {
                Ok(told) => {
                    failed = told.is_err();
                    statements.push((statement, told));
                }
                Err(error) => {
                    // Nothing of it is there, so it was never begun.
                    self.script.clone_from(&self.before);
                    return Err(error);
                }
            }
            if failed {
                break;
            }
        }
        let commits = !failed && !self.dice.chance(100);
        if !commits {
            self.script.clone_from(&self.before);
        }
        let end = if commits { End::Unknown } else { End::RolledBack };
        // What Forebay refuses by name is no attempt.
        let refused = |(_, told): &(String, Result<(), String>)| {
            told.as_ref().is_err_and(|error| error.starts_with("0A000"))
        };
        if let Some((statement, told)) = statements.iter().find(|told| refused(told)) {
            println!("refused: {statement}: {told:?}");
        } else {
            self.attempts.push(Attempt { mark, statements, end });
        }
        client.query(if commits { "COMMIT" } else { "ROLLBACK" })?;
        if let Some(last) = self.attempts.last_mut().filter(|_| commits) {
            last.end = End::Committed;
        }
        Ok(())
    }

    fn run(&mut self, port: u16, over: &AtomicBool, commit: &Sender<()>) -> Result<(), String> {
        let mut work = || -> Result<(), ClientError> {
            let mut client = Client::tcp(port)?;
            client.stream().set_read_timeout(Some(SILENCE))?;
            while !over.load(Ordering::Acquire) {
                self.transaction(&mut client)?;
                // The other end is dropped only after all clients have ended.
                let _ = commit.send(());
            }
            Ok(())
        };
        match work() {
            Err(error) if !over.load(Ordering::Acquire) => {
                Err(format!("client {} before the end: {error}", self.number))
            }
            _ => Ok(()),
        }
    }
}

/// What the server says to a statement. An error is one of the connection.
fn told<T>(answer: Result<T, ClientError>) -> Result<Result<(), String>, ClientError> {
    match answer {
        Ok(_) => Ok(Ok(())),
        // The server is being stopped.
        Err(error) if error.sqlstate().starts_with("57P") => Err(error),
        Err(ClientError::Server(fields)) => {
            Ok(Err(format!("{}: {}", fields.get(b'C'), fields.get(b'M'))))
        }
        Err(error) => Err(error),
    }
}

/// Lets all clients work until `enough` transactions have ended. Then calls `end`, which returns
/// when the server is gone.
///
/// # Errors
/// What has failed before.
pub fn run(
    port: u16,
    owners: &mut [Owner],
    (enough, time): (u64, Duration),
    end: impl FnOnce(),
) -> Result<(), String> {
    let over = &AtomicBool::new(false);
    let (commit, commits) = channel();
    thread::scope(|scope| {
        let mut clients = Vec::new();
        for owner in owners {
            let commit = commit.clone();
            clients.push(scope.spawn(move || owner.run(port, over, &commit)));
        }
        drop(commit);
        moment::wait(&commits, enough, time);
        over.store(true, Ordering::Release);
        end();
        let ended = clients.into_iter().map(|client| client.join().expect("no panic"));
        ended.collect::<Result<Vec<()>, String>>().map(drop)
    })
}

/// Does what a client has done on another server, and returns what differs.
pub fn replay(client: &mut Client, owner: &mut Owner) -> Vec<String> {
    let mut differing = Vec::new();
    for Attempt { statements, end, .. } in owner.attempts.drain(..) {
        assert!(end != End::Unknown, "it was settled");
        client.query("BEGIN").expect("runs");
        for (statement, expected) in &statements {
            let found = told(client.query(statement)).expect("the server is there");
            if found != *expected {
                differing.push(format!("{statement}\n  {expected:?}\n  reference: {found:?}"));
            }
        }
        client.query(if end == End::Committed { "COMMIT" } else { "ROLLBACK" }).expect("ends");
    }
    differing
}
