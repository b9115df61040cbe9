//! archive-push of a real PostgreSQL's segments, beside pgBackRest's (Debian's package), inside the
//! peer's tree.
//!
//! Both store the same segments, uncompressed, in a directory on the same disk, one call a segment,
//! as archive_command makes them. Each works alone, or lets a daemon store ahead: pgBackRest with
//! `archive-async` and two processes, Forebay with an archiverd and two transfers. Then all are
//! pushed again.

use std::path::Path;
use std::process::{Command, Stdio};

use super::super::servers::Subject;
use super::super::table::{Mark, Table};
use crate::peers::Peer;
use crate::run::{output, run as command};

/// Rows of a table that makes about a gigabyte of log.
const ROWS: u32 = 900_000;
/// The size of a segment.
const SEGMENT: f64 = 16.0 * 1024.0 * 1024.0;

const RATE: usize = 0;
const AGAIN: usize = 1;
const PART: usize = 2;

/// A way to push.
struct Way {
    name: &'static str,
    /// Shell commands before and after the calls.
    before: &'static str,
    after: &'static str,
    /// The call, without the file's name.
    call: &'static str,
    /// The way it is compared with.
    beside: Option<usize>,
}

const FOREBAY: &str = "/x/forebay archive-push --archive /x/measure/archive";
const BACKREST: &str = "pgbackrest --config=/x/measure/backrest.conf --stanza=m";

const WAYS: [Way; 4] = [
    Way {
        name: "pgBackRest, by itself",
        before: "echo archive-async=n >> ../backrest.conf; $BACKREST --no-online stanza-create >&2",
        after: ":",
        call: "$BACKREST archive-push",
        beside: None,
    },
    Way {
        name: "Forebay, by itself",
        before: "mkdir ../archive",
        after: ":",
        call: "$FOREBAY --no-daemon",
        beside: Some(0),
    },
    Way {
        name: "pgBackRest, ahead",
        before: "printf 'archive-async=y\\nprocess-max=2\\n' >> ../backrest.conf; \
                 $BACKREST --no-online stanza-create >&2",
        after: ":",
        call: "$BACKREST archive-push",
        beside: None,
    },
    Way {
        name: "Forebay, archiverd",
        before: "mkdir ../archive; /x/forebay archiverd -D . --archive /x/measure/archive \
                 --transfers 2 --socket /x/measure/socket >&2 & pid=$!; \
                 while ! [ -S /x/measure/socket ]; do kill -0 $pid || exit 1; done",
        after: "kill -TERM $pid; wait $pid",
        call: "$FOREBAY --socket /x/measure/socket",
        beside: Some(2),
    },
];

/// pgBackRest's settings, except for archive-async.
const SETTINGS: &str = "[global]\nrepo1-path=/x/measure/backrest\nlog-level-console=error\n\
    log-level-file=off\ncompress-type=none\nlock-path=/x/measure/lock\n\
    spool-path=/x/measure/spool\n[m]\npg1-path=/x/measure/data\n[global:archive-push]\n";

/// The segments of a stopped cluster.
pub struct Segments<'p> {
    peer: &'p Peer,
    subject: Subject,
    count: u32,
}

impl Drop for Segments<'_> {
    fn drop(&mut self) {
        self.subject.remove();
    }
}

/// The table to fill.
pub fn table() -> Table {
    Table::marked(
        "archive-push of PostgreSQL's segments, one call each",
        &["MB/s", "ms a call when pushed again", "part of pgBackRest's time"],
    )
}

impl Segments<'_> {
    /// Lets PostgreSQL write a gigabyte of log, and installs pgBackRest in its tree.
    ///
    /// # Errors
    /// When something can't be installed, made or run.
    pub fn make<'p>(root: &Path, peer: &'p Peer) -> Result<Segments<'p>, String> {
        let install = "command -v pgbackrest > /dev/null || \
            DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends pgbackrest";
        let as_root = |script: &str| {
            command(
                Command::new(&peer.runner).args(["root", "sh", "-c", script]).stdout(Stdio::null()),
            )
        };
        as_root(install).or_else(|_| as_root("apt-get update").and_then(|()| as_root(install)))?;
        let (program, shared) =
            (root.join("target/release/forebay"), peer.runner.with_file_name("x").join("forebay"));
        std::fs::copy(&program, &shared).map_err(|e| format!("{}: {e}", program.display()))?;
        let subject = Subject::postgres(peer)?;
        let running = subject.start(&["wal_keep_size=8GB", "max_wal_size=8GB"])?;
        running.query(&format!(
            "CREATE TABLE t AS SELECT n, repeat('x', 1000) FROM generate_series(1, {ROWS}) n"
        ))?;
        let last = running.query("SELECT pg_walfile_name(pg_switch_wal())")?;
        drop(running);
        let mut segments = Segments { peer, subject, count: 0 };
        let upto = format!(
            "ls pg_wal | grep -x '[0-9A-F]*' | awk '$1 <= \"{last}\"' | tee ../names | wc -l"
        );
        segments.count = segments
            .shell(&upto)?
            .trim()
            .parse()
            .map_err(|_| "no number of segments".to_owned())?;
        Ok(segments)
    }

    /// Runs a round of all ways.
    ///
    /// # Errors
    /// When a push fails.
    pub fn push(&self, table: &mut Table) -> Result<(), String> {
        let mut seconds = Vec::new();
        for way in &WAYS {
            let (first, again) = self.run(way)?;
            let bytes = f64::from(self.count) * SEGMENT;
            if way.beside.is_some() {
                table.mark(way.name, &[Mark::at_most(PART, 1.0)]);
            }
            table.add(way.name, RATE, bytes / first / 1e6);
            table.add(way.name, AGAIN, again / f64::from(self.count) * 1e3);
            if let Some(&theirs) = way.beside.and_then(|n| seconds.get(n)) {
                table.add(way.name, PART, first / theirs);
            }
            seconds.push(first);
        }
        Ok(())
    }

    /// Seconds for the segments, and for the same ones again.
    fn run(&self, way: &Way) -> Result<(f64, f64), String> {
        let push = format!("for name in $names; do {} pg_wal/$name 1>&2 || exit 1; done", way.call);
        let said = self.shell(&format!(
            "FOREBAY='{FOREBAY}'; BACKREST='{BACKREST}'
             names=$(cat ../names); status=pg_wal/archive_status
             cd ..; rm -rf archive backrest lock spool socket; mkdir lock spool
             printf '{settings}' > backrest.conf; cd data
             rm -f $status/*; for name in $names; do : > $status/$name.ready; done; sync
             {before}
             date +%s.%N; {push}; date +%s.%N; {push}; date +%s.%N
             {after}",
            settings = SETTINGS.replace('\n', "\\n"),
            before = way.before,
            after = way.after,
        ))?;
        let times: Vec<f64> = said.lines().filter_map(|line| line.parse().ok()).collect();
        match times[..] {
            [begin, between, end] => Ok((between - begin, end - between)),
            _ => Err(format!("{}: {said}", way.name)),
        }
    }

    /// Runs a script beside the cluster, as its owner, and returns its output.
    fn shell(&self, script: &str) -> Result<String, String> {
        let script = format!("cd /x/measure/data && {script}");
        let output =
            output(Command::new(&self.peer.runner).args(["postgres", "sh", "-c", &script]))?;
        if !output.status.success() {
            return Err(format!(
                "{script}: {}\n{}",
                output.status,
                String::from_utf8_lossy(&output.stderr)
            ));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}
