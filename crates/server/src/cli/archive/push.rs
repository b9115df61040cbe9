//! `forebay archive-push`: a server's archive_command.

use super::options::{AskArgs, StoreArgs, Transfers, absolute, exit_code, text};
use clap::Args;
use forebay_engine::archive::resident::Answer;
use forebay_engine::archive::resident::wire::{Reply, Request};
use forebay_engine::archive::{Archived, SourceOptions, push};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct PushArgs {
    /// The file, as archive_command's %p says it
    #[arg(value_name = "PATH")]
    path: PathBuf,
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    ask: AskArgs,
}

/// Runs the command. 0: the archive has the file, durably. 1: it does not; the server tries again.
pub(crate) fn run(args: &PushArgs) -> u8 {
    let done = push_file(args).map(|archived| {
        if archived == Archived::Identical {
            tracing::debug!("\"{}\" is in the archive already", args.path.display());
        }
        0
    });
    exit_code("archive-push", 1, done)
}

fn push_file(args: &PushArgs) -> Result<Archived, String> {
    let request = Request::Push { path: absolute(&args.path)? };
    match args.ask.ask(&args.store, &args.path, &request)? {
        Answer::Reply(Reply::Done) => return Ok(Archived::Stored),
        Answer::Reply(Reply::Identical) => return Ok(Archived::Identical),
        Answer::Reply(Reply::Failed(reason)) => return Err(reason),
        Answer::Reply(Reply::Absent | Reply::Other) | Answer::Nobody(_) => {}
    }
    let mut opened = args.store.open(Transfers::One)?;
    let options = SourceOptions { direct: args.store.direct, ..SourceOptions::default() };
    let repository = opened.repository.cleaning_first();
    push::push(&opened.aio, &mut opened.backend, &repository, &args.path, &options).map_err(text)
}
