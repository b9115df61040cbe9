//! The files of PostgreSQL's regression test, run as its own driver runs them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::thread;

use forebay_testkit::peer::Peer;

/// The folder of the files among those that a test shares with PostgreSQL.
const FOLDER: &str = "regress";
/// So many files of a group run at a time.
const LANES: usize = 3;
/// A file may take as many seconds.
const PATIENCE: u32 = 120;
/// As many lines of a difference are shown.
const SHOWN: usize = 40;

/// What the driver sets for all of its sessions.
const SESSION: [(&str, &str); 4] = [
    ("PGTZ", "America/Los_Angeles"),
    ("PGDATESTYLE", "Postgres, MDY"),
    ("LC_MESSAGES", "C"),
    ("PGOPTIONS", "-c intervalstyle=postgres_verbose"),
];

/// The files.
pub struct Suite {
    source: PathBuf,
    /// A copy in a folder that belongs to PostgreSQL, whoever serves the data directory.
    peer: Peer,
}

/// The server to run files on.
#[derive(Clone, Copy)]
pub struct Server<'a> {
    /// The folder of its sockets, as PostgreSQL's programs see it.
    pub sockets: &'a str,
    pub port: u16,
}

/// A file that was run.
pub struct Ran {
    pub name: String,
    /// How its output differs from the nearest one that is expected.
    pub difference: Option<String>,
    /// In how many lines.
    pub lines: usize,
}

impl Suite {
    /// The files, or `None` after saying that `test` was skipped.
    pub fn find(test: &str) -> Option<Suite> {
        let Some(source) = std::env::var_os("FOREBAY_PG18_REGRESS").map(PathBuf::from) else {
            println!("skipped: {test} needs PostgreSQL's regression tests (cargo xtask peers)");
            return None;
        };
        let peer = Peer::find(test)?;
        peer.adopt(&source, FOLDER);
        let results = peer.outside(FOLDER).join("results");
        fs::create_dir_all(results).expect("a folder for the outputs");
        peer.give_to_postgres();
        Some(Suite { source, peer })
    }

    /// The schedule: files of a group may run side by side.
    pub fn groups(&self) -> Vec<Vec<String>> {
        let schedule = self.source.join("parallel_schedule");
        let schedule = fs::read_to_string(schedule).expect("the schedule is there");
        let group = |line: &str| line.split_whitespace().map(str::to_owned).collect();
        schedule.lines().filter_map(|line| line.strip_prefix("test:")).map(group).collect()
    }

    /// Runs all files in the order of the schedule.
    pub fn run_all(&self, server: Server<'_>) -> Vec<Ran> {
        let mut all = Vec::new();
        for group in self.groups() {
            let queue = Mutex::new(group.iter());
            let next = || queue.lock().expect("no panic").next();
            let lane =
                || std::iter::from_fn(next).map(|name| self.run(server, name)).collect::<Vec<_>>();
            thread::scope(|scope| {
                let lanes: Vec<_> = (0..LANES).map(|_| scope.spawn(lane)).collect();
                for lane in lanes {
                    all.extend(lane.join().expect("psql runs"));
                }
            });
        }
        all
    }

    /// Runs a file on a server.
    pub fn run(&self, server: Server<'_>, name: &str) -> Ran {
        let peer = &self.peer;
        let (folder, psql) = (peer.inside(FOLDER), peer.program("psql"));
        let script = format!(
            "cd {folder} && exec timeout {PATIENCE} {psql} -X -a -q -d regression \
             -v HIDE_TABLEAM=on -v HIDE_TOAST_COMPRESSION=on \
             < sql/{name}.sql > results/{name}.out 2>&1"
        );
        let mut psql = peer.command_as("postgres", &["/bin/sh", "-c", &script]);
        psql.envs(SESSION).env("PGHOST", server.sockets).env("PGPORT", server.port.to_string());
        psql.env("PGUSER", "postgres").env("PG_DLSUFFIX", ".so");
        psql.env("PG_LIBDIR", format!("{folder}/lib"));
        psql.env("PG_ABS_SRCDIR", &folder).env("PG_ABS_BUILDDIR", &folder);
        // A script that ends with an error says so in its output.
        psql.status().expect("psql runs");
        let found = peer.outside(FOLDER).join(format!("results/{name}.out"));
        let difference = self.difference(name, &found);
        let lines = difference.as_deref().unwrap_or_default();
        let lines = lines.lines().filter(|line| line.starts_with(['<', '>'])).count();
        let shown = |text: String| text.lines().take(SHOWN).collect::<Vec<_>>().join("\n");
        Ran { name: name.to_owned(), difference: difference.map(shown), lines }
    }

    /// How an output differs from NAME.out, NAME_1.out and so on: the shortest difference.
    fn difference(&self, name: &str, found: &Path) -> Option<String> {
        let numbered = (0..10).map(|n| format!("{name}_{n}.out"));
        let expected = std::iter::once(format!("{name}.out")).chain(numbered);
        let expected = expected.map(|file| self.source.join("expected").join(file));
        let differences = expected.filter(|file| file.is_file()).map(|file| {
            let output = Command::new("diff").arg("-a").arg(file).arg(found).output();
            let output = output.expect("diff runs");
            assert!(output.status.code().is_some_and(|code| code < 2), "diff: {name}");
            String::from_utf8_lossy(&output.stdout).into_owned()
        });
        let nearest = differences.min_by_key(String::len).expect("an expected output");
        Some(nearest).filter(|difference| !difference.is_empty())
    }
}
