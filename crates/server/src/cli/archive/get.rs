//! `forebay archive-get`: a server's restore_command.

use super::{AskArgs, Door, StoreArgs, absolute, tell};
use clap::Args;
use forebay_engine::archive::resident::Answer;
use forebay_engine::archive::resident::wire::{Reply, Request};
use forebay_engine::archive::{WalName, get};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

const COMMAND: &str = "archive-get";

/// The file is there now.
const RESTORED: u8 = 0;
/// The archive does not have it: for a server that recovers, the end of what there is.
const ABSENT: u8 = 1;
/// Anything else: a server stops, where it would take any smaller number for the end of what there
/// is.
const FAILED: u8 = 126;

#[derive(Debug, Args)]
pub(in crate::cli) struct GetArgs {
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

/// A command line that makes no sense must not end a recovery either.
pub(in crate::cli) fn refuse(error: &clap::Error) -> u8 {
    let _ = error.print();
    FAILED
}

/// Runs the command.
pub(in crate::cli) fn run(args: &GetArgs) -> u8 {
    match catch_unwind(AssertUnwindSafe(|| get_file(args))) {
        Ok(Ok(true)) => RESTORED,
        Ok(Ok(false)) => {
            // A server that recovers asks for many a file that never was.
            tracing::debug!("\"{}\" is not in the archive", args.name);
            ABSENT
        }
        Ok(Err(message)) => {
            tell(COMMAND, "error: ", message);
            FAILED
        }
        Err(_) => FAILED,
    }
}

fn get_file(args: &GetArgs) -> Result<bool, String> {
    let name: WalName = args.name.parse().map_err(super::text)?;
    let request = Request::Get { name: args.name.clone(), path: absolute(&args.path)? };
    match args.ask.ask(&args.store, &args.path, &request)? {
        Answer::Reply(Reply::Done | Reply::Identical) => return Ok(true),
        Answer::Reply(Reply::Absent) => return Ok(false),
        Answer::Reply(Reply::Failed(reason)) => return Err(reason),
        Answer::Reply(Reply::Other) | Answer::Nobody(_) => {}
    }
    let mut opened = args.store.open(Door::One)?;
    get::get(&opened.aio, &mut opened.be, &opened.repository, &name, &args.path)
        .map_err(super::text)
}
