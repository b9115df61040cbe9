//! `forebay archive-get`: a server's restore_command.

use super::options::{AskArgs, StoreArgs, Transfers, absolute, exit_code, text};
use clap::Args;
use forebay_engine::archive::resident::Answer;
use forebay_engine::archive::resident::wire::{Reply, Request};
use forebay_engine::archive::{WalName, get};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

/// The file has been restored.
const RESTORED: u8 = 0;
/// The archive does not have it. For a server that recovers, this is the end of the archive.
const ABSENT: u8 = 1;
/// Anything else. The server stops; any smaller exit code would mean the end of the archive.
const FAILED: u8 = 126;

#[derive(Debug, Args)]
pub(crate) struct GetArgs {
    /// The file's name, as restore_command's %f says it
    #[arg(value_name = "NAME")]
    name: String,
    /// Where to, as restore_command's %p says it
    #[arg(value_name = "PATH")]
    path: PathBuf,
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    ask: AskArgs,
}

/// Reports a bad command line, with an exit code that stops the server.
pub(crate) fn refuse(error: &clap::Error) -> u8 {
    let _ = error.print();
    FAILED
}

/// Runs the command.
pub(crate) fn run(args: &GetArgs) -> u8 {
    let got = catch_unwind(AssertUnwindSafe(|| {
        let found = get_file(args)?;
        if !found {
            // A server that recovers asks for files that never existed.
            tracing::debug!("\"{}\" is not in the archive", args.name);
        }
        Ok(if found { RESTORED } else { ABSENT })
    }));
    got.map_or(FAILED, |done| exit_code("archive-get", FAILED, done))
}

fn get_file(args: &GetArgs) -> Result<bool, String> {
    let name: WalName = args.name.parse().map_err(text)?;
    let request = Request::Get { name: args.name.clone(), path: absolute(&args.path)? };
    match args.ask.ask(&args.store, &args.path, &request)? {
        Answer::Reply(Reply::Done | Reply::Identical) => return Ok(true),
        Answer::Reply(Reply::Absent) => return Ok(false),
        Answer::Reply(Reply::Failed(reason)) => return Err(reason),
        Answer::Reply(Reply::Other) | Answer::Nobody(_) => {}
    }
    let mut opened = args.store.open(Transfers::One)?;
    get::get(&opened.aio, &mut opened.backend, &opened.repository, &name, &args.path).map_err(text)
}
