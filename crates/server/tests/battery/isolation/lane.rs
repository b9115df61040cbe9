//! A pair of servers, and isolationtester on them.

use std::process::Command;
use std::thread;

use forebay_testkit::peer::{Peer, Postgres};
use forebay_testkit::process::feed;
use tempfile::TempDir;

use super::super::forebay::{Forebay, scratch};

const TESTER: &str = "/usr/lib/postgresql/18/lib/pgxs/src/test/isolation/isolationtester";
/// Runs the tester with both outputs in one, in their order.
const MERGED: &str = "exec \"$0\" \"$@\" 2>&1";
/// After twice as many seconds the tester cancels a step.
const PATIENCE: &str = "20";
/// The same for a specification that is not expected to pass.
const LITTLE_PATIENCE: &str = "2";
/// What a specification has left, if it was not run to its end.
const CLEAN: &str = "DROP SCHEMA public CASCADE; CREATE SCHEMA public";

/// What isolationtester has printed.
pub struct Ran {
    pub succeeded: bool,
    pub output: String,
}

impl Ran {
    /// The last error, or else the last line.
    pub fn last_error(&self) -> &str {
        let errors = self.output.lines().rfind(|line| line.contains("ERROR: "));
        errors.or_else(|| self.output.lines().last()).unwrap_or_default()
    }

    /// Whether a step has waited for too long.
    pub fn was_canceled(&self) -> bool {
        self.output.contains("isolationtester: canceling step")
    }
}

/// A specification on both servers.
pub struct Pair {
    pub forebay: Ran,
    pub postgres: Ran,
}

impl Pair {
    /// How the outputs differ; `None` if they are the same and the specification ran to its end.
    pub fn difference(&self) -> Option<String> {
        if !self.postgres.succeeded {
            return Some(format!("PostgreSQL fails: {}", self.postgres.last_error()));
        }
        if self.forebay.succeeded && self.forebay.output == self.postgres.output {
            return None;
        }
        let (ours, theirs) = (&self.forebay.output, &self.postgres.output);
        let same = ours.lines().zip(theirs.lines()).take_while(|(a, b)| a == b).count();
        let near = |text: &str| {
            text.lines().skip(same.saturating_sub(6)).take(12).collect::<Vec<_>>().join("\n    ")
        };
        let line = same + 1;
        Some(format!(
            "line {line}\n  Forebay:\n    {}\n  PostgreSQL:\n    {}",
            near(ours),
            near(theirs)
        ))
    }
}

/// A pair of servers.
pub struct Lane<'peer> {
    peer: &'peer Peer,
    postgres: Postgres<'peer>,
    folder: TempDir,
    forebay: Option<Forebay>,
    /// How many directories Forebay has had.
    directories: u32,
}

impl<'peer> Lane<'peer> {
    pub fn new(peer: &'peer Peer, number: usize) -> Lane<'peer> {
        let name = format!("lane{number}");
        peer.init(&name);
        let postgres = peer.start(&name, "-c autovacuum=off -c fsync=off");
        let folder = scratch("isolation");
        Lane { peer, postgres, folder, forebay: None, directories: 0 }
    }

    /// Runs a specification on both servers side by side.
    pub fn run(&mut self, name: &str, spec: &str) -> Pair {
        let port = self.own_port();
        let tester = |port| self.tester(name, port, PATIENCE);
        let (ours, theirs) = (tester(port), tester(self.postgres.port));
        let (forebay, postgres) = thread::scope(|scope| {
            let theirs = scope.spawn(|| run(theirs, spec));
            (run(ours, spec), theirs.join().expect("isolationtester runs"))
        });
        if !postgres.succeeded {
            self.postgres.query(CLEAN);
        }
        self.after(&forebay);
        Pair { forebay, postgres }
    }

    /// Tries a specification on Forebay alone.
    pub fn forebay(&mut self, name: &str, spec: &str) -> Ran {
        let port = self.own_port();
        let ran = run(self.tester(name, port, LITTLE_PATIENCE), spec);
        self.after(&ran);
        ran
    }

    /// The port of a Forebay without tables.
    fn own_port(&mut self) -> u16 {
        let (folder, directories) = (&self.folder, &mut self.directories);
        let forebay = self.forebay.get_or_insert_with(|| {
            *directories += 1;
            Forebay::start(&folder.path().join(directories.to_string()), &[])
        });
        forebay.port
    }

    /// What was not run to its end has left tables.
    fn after(&mut self, ran: &Ran) {
        if !ran.succeeded
            && let Some(forebay) = self.forebay.take()
        {
            let directory = forebay.directory.clone();
            forebay.kill();
            std::fs::remove_dir_all(directory).expect("it was made");
        }
    }

    fn tester(&self, name: &str, port: u16, patience: &str) -> Command {
        let server = format!("host=127.0.0.1 port={port} user=postgres dbname=postgres");
        let words = ["/bin/sh", "-c", MERGED, TESTER, &server];
        let mut tester = self.peer.command_as("postgres", &words);
        tester.env("PGAPPNAME", format!("isolation/{name}"));
        tester.env("PG_TEST_TIMEOUT_DEFAULT", patience);
        tester
    }
}

fn run(tester: Command, spec: &str) -> Ran {
    let output = feed(tester, spec.as_bytes());
    Ran {
        succeeded: output.status.success(),
        output: String::from_utf8_lossy(&output.stdout).into_owned(),
    }
}
