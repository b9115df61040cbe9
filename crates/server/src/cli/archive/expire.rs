//! `forebay archive-expire`: removes WAL that no base backup needs.

use super::options::{Opened, StoreArgs, Transfers, exit_code, size, text};
use crate::terminal::{Unit, advance, bar, say};
use clap::Args;
use forebay_engine::archive::store::expire::{Expired, NeededFrom};
use forebay_engine::archive::{WalName, backup};
use std::path::Path;

#[derive(Debug, Args)]
pub(crate) struct ExpireArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// What lies before this segment goes; a .backup file's name says as well that this base backup
    /// is the oldest there is [default: what no base backup in the archive needs]
    #[arg(long, value_name = "NAME")]
    before: Option<String>,
    /// Say what would go, remove nothing
    #[arg(short = 'n', long)]
    dry_run: bool,
}

/// Runs the command.
pub(crate) fn run(args: &ExpireArgs) -> u8 {
    let done = expire(args).map(|expired| {
        let (count, bytes) = (expired.files.len(), size(expired.bytes));
        let before = if expired.before.is_empty() { "anything" } else { &expired.before };
        let done = if args.dry_run { "would be removed" } else { "removed" };
        if args.dry_run {
            expired.files.iter().for_each(say);
        }
        say(format_args!("{count} files, {bytes}, before {before} {done}"));
        0
    });
    exit_code("archive-expire", 1, done)
}

fn expire(args: &ExpireArgs) -> Result<Expired, String> {
    let before = args.before.as_deref().map(str::parse::<WalName>).transpose().map_err(text)?;
    let mut opened = args.store.open(Transfers::One)?;
    let needed = needed(args, &mut opened)?;
    let bar = bar("removing", Unit::Steps, 0);
    let mut progress = |done, total| advance(&bar, done, total);
    let expired = opened.repository.expire(
        &mut opened.backend,
        before.as_ref(),
        &needed,
        args.dry_run,
        &mut progress,
    );
    bar.finish_and_clear();
    expired.map_err(text)
}

/// The oldest WAL that the archive's base backups need.
fn needed(args: &ExpireArgs, opened: &mut Opened) -> Result<Vec<NeededFrom>, String> {
    let location = args.store.location()?;
    let dir = match location.split_once("://") {
        None => location.as_str(),
        Some(("file", dir)) => dir,
        // Base backups exist only in directories.
        Some(_) => return Ok(Vec::new()),
    };
    backup::needed(&mut opened.backend, Path::new(dir)).map_err(text)
}
