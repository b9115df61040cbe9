//! `forebay archive-verify`: gaps, damage, foreign files.

use super::options::{StoreArgs, Transfers, exit_code, size, text};
use crate::terminal::{Unit, advance, bar, say};
use clap::Args;
use forebay_engine::archive::store::verify::VerifyOptions;

#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// Look at names and manifests alone, read no file
    #[arg(long)]
    quick: bool,
    /// Threads that read
    #[arg(short = 'j', long, value_name = "N", default_value_t = 2)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=64))]
    jobs: u16,
}

/// Runs the command. 0: the archive is complete. 1: WAL is missing or damaged. 2: it is unknown.
pub(crate) fn run(args: &VerifyArgs) -> u8 {
    exit_code("archive-verify", 2, verify(args).map(|complete| u8::from(!complete)))
}

fn verify(args: &VerifyArgs) -> Result<bool, String> {
    let opened = args.store.open(Transfers::Many)?;
    let options = VerifyOptions { threads: usize::from(args.jobs), quick: args.quick };
    let bar = bar("verifying", Unit::Bytes, 0);
    let progress = |done, total| advance(&bar, done, total);
    let found = opened.repository.verify(&opened.aio, &options, &progress);
    bar.finish_and_clear();
    let found = found.map_err(text)?;
    for problem in &found.problems {
        say(format_args!("{}: {problem}", if problem.is_serious() { "error" } else { "note" }));
    }
    let serious = found.problems.iter().filter(|problem| problem.is_serious()).count();
    let notes = found.problems.len() - serious;
    let what = if args.quick { "looked at" } else { "read" };
    say(format_args!(
        "{} files, {} {what}: {serious} errors, {notes} notes",
        found.files,
        size(found.bytes)
    ));
    Ok(serious == 0)
}
