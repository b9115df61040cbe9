//! `forebay archive-list`: what an archive holds.

use super::options::{StoreArgs, Transfers, say, size, tell, text};
use clap::Args;
use forebay_engine::archive::Kind;
use forebay_engine::archive::store::Inventory;

const COMMAND: &str = "archive-list";

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
    match listed {
        Ok((place, inventory)) if args.json => say(json(&place, &inventory, args.long)),
        Ok((place, inventory)) => table(&place, &inventory, args.long),
        Err(message) => {
            tell(COMMAND, "error: ", message);
            return 1;
        }
    }
    0
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

fn json(place: &str, inventory: &Inventory, long: bool) -> String {
    let quoted = |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
    let segment =
        |timeline, number| inventory.segment_size.map(|size| size.file_name(timeline, number));
    let ranges: Vec<String> = inventory
        .ranges()
        .iter()
        .map(|range| {
            let name = |number| quoted(&segment(range.timeline, number).unwrap_or_default());
            let (first, last) = (name(range.first), name(range.last));
            let (timeline, bytes) = (range.timeline, range.bytes);
            format!(
                "{{\"timeline\": {timeline}, \"first\": {first}, \"last\": {last}, \
                 \"stored_bytes\": {bytes}}}"
            )
        })
        .collect();
    let files: Vec<String> = inventory
        .files
        .iter()
        .filter(|stored| long || stored.name.kind() != Kind::Segment)
        .map(|stored| {
            let (name, manifest) = (quoted(stored.name.as_str()), stored.manifest.is_some());
            format!(
                "{{\"name\": {name}, \"stored_bytes\": {}, \"manifest\": {manifest}}}",
                stored.bytes()
            )
        })
        .collect();
    let system =
        inventory.system.map_or_else(|| "null".to_owned(), |system| quoted(&system.to_string()));
    let bytes =
        inventory.segment_size.map_or_else(|| "null".to_owned(), |size| size.bytes().to_string());
    format!(
        "{{\"archive\": {}, \"layout\": {}, \"system\": {system}, \"segment_bytes\": {bytes}, \
         \"ranges\": [{}], \"files\": [{}]}}",
        quoted(place),
        quoted(inventory.layout.name()),
        ranges.join(", "),
        files.join(", ")
    )
}
