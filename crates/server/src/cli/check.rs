//! `forebay check`: looks for damage in the data of a cluster at rest, as pg_amcheck does in a
//! running one.

use crate::terminal::{self, Unit, say};
use clap::Args;
use forebay_engine::check::{
    CheckCounts, CheckObserver, CheckOptions, CheckedRelation, Finding, RelationKind, check,
};
use forebay_engine::{EngineError, Fork, IoDirect, IoMethod};
use indicatif::ProgressBar;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::fmt::Write;
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
pub(super) struct CheckArgs {
    /// Data directory of a PostgreSQL 15 to 18 or Forebay cluster that is shut down [default:
    /// $PGDATA]
    #[arg(short = 'D', long = "pgdata", value_name = "DIR")]
    data_dir: Option<OsString>,
    /// Only this relation, with its TOAST table; may be given several times
    #[arg(short, long = "relation", value_name = "[[DATABASE.]SCHEMA.]NAME")]
    relations: Vec<String>,
    /// Threads that check
    #[arg(short, long, value_name = "N", default_value_t = 2)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=CheckOptions::MAX_JOBS as i64))]
    jobs: u16,
    /// Print JSON: a line for each finding, and one at the end
    #[arg(long)]
    json: bool,
    /// Check a cluster that was not shut down too, as far as that is possible: recovery may mend
    /// what is found
    #[arg(long)]
    crashed: bool,
    /// sync, worker, io_uring, posix_aio, or auto: io_uring where it can be had, else worker
    #[arg(long, value_name = "METHOD", default_value = "auto", value_parser = io_method)]
    io_method: IoMethod,
    /// "data": bypass the kernel's page cache; "": do not [default: where the file system can]
    #[arg(long, value_name = "LIST", value_parser = direct)]
    io_direct: Option<bool>,
    /// Blocks in one read
    #[arg(long, value_name = "BLOCKS", default_value_t = 16)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(CheckOptions::MAX_COMBINE)))]
    io_combine_limit: u32,
}

fn io_method(text: &str) -> Result<IoMethod, String> {
    IoMethod::by_name(text).ok_or_else(|| "there is no such method".to_owned())
}

fn direct(text: &str) -> Result<bool, String> {
    let direct = IoDirect::parse(text).map_err(|error| error.to_string())?;
    if direct.wal || direct.wal_init {
        Err("Only \"data\" is read.".into())
    } else {
        Ok(direct.data)
    }
}

/// Runs the command. 0: nothing was found. 1: something was. 2: it is unknown.
pub(super) fn run(args: &CheckArgs) -> u8 {
    let given = args.data_dir.clone().or_else(|| std::env::var_os("PGDATA"));
    let Some(dir) = given.map(PathBuf::from) else {
        terminal::tell("check", "error: ", "no data directory specified");
        return 2;
    };
    let options = CheckOptions {
        relations: args.relations.clone(),
        jobs: usize::from(args.jobs),
        io_method: args.io_method,
        direct: args.io_direct,
        io_combine_limit: args.io_combine_limit,
        crashed: args.crashed,
        ..CheckOptions::default()
    };
    let mut report = Report { json: args.json, bar: terminal::bar("checking", Unit::Bytes, 0) };
    let done = check(&dir, &options, &mut report);
    report.bar.finish_and_clear();
    match done {
        Ok(counts) => {
            report.end(&counts);
            u8::from(counts.findings > 0)
        }
        Err(error) => fail(&error),
    }
}

fn fail(error: &EngineError) -> u8 {
    terminal::tell_error("check", error);
    2
}

/// Prints findings as they come.
struct Report {
    json: bool,
    bar: ProgressBar,
}

impl Report {
    fn line(&self, text: &str) {
        self.bar.suspend(|| say(text));
    }

    fn end(&self, counts: &CheckCounts) {
        let CheckCounts { relations, pages, toast_values, findings, not_checked } = counts;
        if self.json {
            let not_checked: Vec<Value> = not_checked
                .iter()
                .map(|(what, count)| json!({ "count": count, "what": what.text() }))
                .collect();
            let end = json!({
                "relations": relations, "pages": pages, "toast_values": toast_values,
                "findings": findings, "not_checked": not_checked,
            });
            return say(end);
        }
        say(format_args!(
            "{relations} relations, {pages} pages, {toast_values} values in TOAST tables: \
             {findings} findings"
        ));
        for (what, count) in not_checked {
            say(format_args!("not checked: {count} {}", what.text()));
        }
    }
}

impl CheckObserver for Report {
    fn found(&mut self, relation: &CheckedRelation, finding: &Finding) {
        let text = if self.json {
            as_json(relation, finding).to_string()
        } else {
            as_text(relation, finding)
        };
        self.line(&text);
    }

    fn file(&mut self, path: &Path, message: &str) {
        let path = path.display();
        self.line(&if self.json {
            json!({ "file": path.to_string(), "message": message }).to_string()
        } else {
            format!("file \"{path}\":\n    {message}")
        });
    }

    fn orphans(&mut self, toast: &CheckedRelation, values: u64, bytes: u64) {
        let CheckedRelation { database, schema, name, oid, .. } = toast;
        self.line(&if self.json {
            json!({
                "database": database, "schema": schema, "relation": name, "oid": oid,
                "orphan_values": values, "orphan_bytes": bytes,
            })
            .to_string()
        } else {
            let dot = if database.is_empty() { "" } else { "." };
            format!(
                "no damage, but wasted space: {values} values with {bytes} bytes in \
                 \"{database}{dot}{schema}.{name}\" belong to no row"
            )
        });
    }

    fn progress(&mut self, done: u64, total: u64) {
        terminal::advance(&self.bar, done, total);
    }
}

fn as_json(relation: &CheckedRelation, finding: &Finding) -> Value {
    let CheckedRelation { database, schema, name, oid, .. } = relation;
    let Finding { fork, block, offset, attribute, message } = finding;
    json!({
        "database": database, "schema": schema, "relation": name, "oid": oid,
        "fork": fork.name(), "block": block, "offset": offset, "attribute": attribute,
        "message": message,
    })
}

/// As pg_amcheck prints it.
fn as_text(relation: &CheckedRelation, finding: &Finding) -> String {
    let CheckedRelation { database, schema, name, kind, .. } = relation;
    let what = match kind {
        RelationKind::Heap => "heap table",
        RelationKind::Sequence => "sequence",
        RelationKind::Index => "index",
        RelationKind::Other => "table",
    };
    let fork = match finding.fork {
        Fork::Main => "",
        Fork::Fsm => "free-space map of ",
        Fork::Vm => "visibility map of ",
        Fork::Init => "init fork of ",
    };
    let dot = if database.is_empty() { "" } else { "." };
    let mut text = format!("{fork}{what} \"{database}{dot}{schema}.{name}\"");
    // Writing to a string does not fail.
    let _ = write!(text, ", block {}", finding.block);
    for (what, number) in [("offset", finding.offset), ("attribute", finding.attribute)] {
        if let Some(number) = number {
            let _ = write!(text, ", {what} {number}");
        }
    }
    let _ = write!(text, ":\n    {}", finding.message);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_look_like_those_of_pg_amcheck() {
        let relation = CheckedRelation {
            database: "postgres".to_owned(),
            schema: "public".to_owned(),
            name: "t".to_owned(),
            oid: 16_384,
            kind: RelationKind::Heap,
        };
        let finding = Finding {
            fork: Fork::Main,
            block: 7,
            offset: Some(3),
            attribute: None,
            message: "xmin 9 is wrong".to_owned(),
        };
        assert_eq!(
            as_text(&relation, &finding),
            "heap table \"postgres.public.t\", block 7, offset 3:\n    xmin 9 is wrong"
        );
        let map = Finding { fork: Fork::Vm, offset: None, ..finding };
        let shared = CheckedRelation { database: String::new(), ..relation };
        assert!(
            as_text(&shared, &map).starts_with("visibility map of heap table \"public.t\", bl")
        );
        assert_eq!(as_json(&shared, &map)["offset"], Value::Null);
    }
}
