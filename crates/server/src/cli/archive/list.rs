//! `forebay archive-list`: what an archive holds.

use super::options::{StoreArgs, Transfers, exit_code, size, text};
use crate::terminal::say;
use clap::Args;
use forebay_engine::archive::Kind;
use forebay_engine::archive::store::{Inventory, Stored, TimelineRange};

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

fn json(place: &str, inventory: &Inventory, long: bool) -> serde_json::Value {
    let segment = |timeline, number| {
        inventory.segment_size.map_or_else(String::new, |size| size.file_name(timeline, number))
    };
    let range = |range: &TimelineRange| {
        serde_json::json!({
            "timeline": range.timeline,
            "first": segment(range.timeline, range.first),
            "last": segment(range.timeline, range.last),
            "stored_bytes": range.bytes,
        })
    };
    let shown = |stored: &&Stored| long || stored.name.kind() != Kind::Segment;
    let file = |stored: &Stored| {
        serde_json::json!({
            "name": stored.name.as_str(),
            "stored_bytes": stored.bytes(),
            "manifest": stored.manifest.is_some(),
        })
    };
    serde_json::json!({
        "archive": place,
        "layout": inventory.layout.name(),
        "system": inventory.system.map(|system| system.to_string()),
        "segment_bytes": inventory.segment_size.map(|size| size.bytes()),
        "ranges": inventory.ranges().iter().map(range).collect::<Vec<_>>(),
        "files": inventory.files.iter().filter(shown).map(file).collect::<Vec<_>>(),
    })
}
