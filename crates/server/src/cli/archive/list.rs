//! `forebay archive-list`: what an archive holds.

use super::options::{StoreArgs, Transfers, exit_code, size, text};
use crate::terminal::say;
use clap::Args;
use forebay_engine::archive::Kind;
use forebay_engine::archive::store::{Inventory, Stored, TimelineRange};
use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};
use std::io::{Result, Write};

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// Every file, with its bytes as they are stored
    #[arg(short, long)]
    long: bool,
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn run(args: &ListArgs) -> u8 {
    let listed = args.store.open(Transfers::One).and_then(|mut opened| {
        let inventory = opened.repository.inventory(&mut opened.backend).map_err(text)?;
        Ok((opened.repository.depot().describe(""), inventory))
    });
    let done = listed.map(|(place, inventory)| {
        match args.json {
            true => say(json(&place, &inventory, args.long)),
            false => table(&place, &inventory, args.long),
        }
        0
    });
    exit_code("archive-list", 1, done)
}

fn table(place: &str, inventory: &Inventory, long: bool) {
    let system = inventory.system.map_or_else(|| "unknown".to_owned(), |system| system.to_string());
    say(format_args!(
        "archive {place}, layout {}, database system {system}",
        inventory.layout.name()
    ));
    if long {
        for stored in &inventory.files {
            let manifest = if stored.manifest.is_some() { "" } else { "  no manifest" };
            say(format_args!("{:<41} {:>11}{manifest}", stored.name.as_str(), stored.bytes()));
        }
        return;
    }
    let Some(segment) = inventory.segment_size else {
        say("no segments");
        return;
    };
    say(format_args!(
        "{:>8}  {:<24}  {:<24}  {:>8}  {:>10}",
        "timeline", "first", "last", "segments", "stored"
    ));
    for range in inventory.ranges() {
        let name = |number| segment.file_name(range.timeline, number);
        let (count, stored) = (range.last - range.first + 1, size(range.bytes));
        let (first, last) = (name(range.first), name(range.last));
        say(format_args!("{:>8}  {first}  {last}  {count:>8}  {stored:>10}", range.timeline));
    }
    for stored in inventory.files.iter().filter(|stored| stored.name.kind() != Kind::Segment) {
        say(format_args!("          {}", stored.name));
    }
}

/// The archive as JSON.
#[derive(Serialize)]
struct ListJson<'a> {
    archive: &'a str,
    layout: &'a str,
    system: Option<String>,
    segment_bytes: Option<u64>,
    ranges: Vec<RangeJson>,
    files: Vec<FileJson<'a>>,
}

#[derive(Serialize)]
struct RangeJson {
    timeline: u32,
    first: String,
    last: String,
    stored_bytes: u64,
}

#[derive(Serialize)]
struct FileJson<'a> {
    name: &'a str,
    stored_bytes: u64,
    manifest: bool,
}

fn json<'a>(place: &'a str, inventory: &'a Inventory, long: bool) -> String {
    let segment = |timeline, number| {
        inventory.segment_size.map_or_else(String::new, |size| size.file_name(timeline, number))
    };
    let range = |range: &TimelineRange| RangeJson {
        timeline: range.timeline,
        first: segment(range.timeline, range.first),
        last: segment(range.timeline, range.last),
        stored_bytes: range.bytes,
    };
    let shown = |stored: &&Stored| long || stored.name.kind() != Kind::Segment;
    let file = |stored: &'a Stored| FileJson {
        name: stored.name.as_str(),
        stored_bytes: stored.bytes(),
        manifest: stored.manifest.is_some(),
    };
    let list = ListJson {
        archive: place,
        layout: inventory.layout.name(),
        system: inventory.system.map(|system| system.to_string()),
        segment_bytes: inventory.segment_size.map(|size| size.bytes()),
        ranges: inventory.ranges().iter().map(range).collect(),
        files: inventory.files.iter().filter(shown).map(file).collect(),
    };
    let mut out = Vec::new();
    list.serialize(&mut Serializer::with_formatter(&mut out, OneLine))
        .expect("strings and numbers can be written");
    String::from_utf8(out).expect("JSON is UTF-8")
}

/// All on one line, with a space after each comma and colon.
struct OneLine;

impl Formatter for OneLine {
    fn begin_array_value<W: Write + ?Sized>(&mut self, out: &mut W, first: bool) -> Result<()> {
        out.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_key<W: Write + ?Sized>(&mut self, out: &mut W, first: bool) -> Result<()> {
        self.begin_array_value(out, first)
    }

    fn begin_object_value<W: Write + ?Sized>(&mut self, out: &mut W) -> Result<()> {
        out.write_all(b": ")
    }
}
