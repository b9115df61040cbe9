//! `forebay archiverd`: a daemon that stores ahead of archive-push and fetches ahead of
//! archive-get.

use super::options::{Opened, StoreArgs, Transfers, absolute, exit_code, given, text};
use crate::log;
use clap::Args;
use forebay_engine::archive::SourceOptions;
use forebay_engine::archive::resident::{self, ResidentOptions};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
pub(crate) struct DaemonArgs {
    /// Data directory of the server whose archive-push and archive-get are served [default:
    /// $PGDATA]
    #[arg(short = 'D', long = "pgdata", value_name = "DIR")]
    data_dir: Option<PathBuf>,
    #[command(flatten)]
    store: StoreArgs,
    /// Its socket [default: forebay-archiverd.sock in the data directory; $FOREBAY_ARCHIVE_SOCKET]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Files stored at once, ahead of the server; 0: none is stored before the server asks
    #[arg(long, value_name = "N", default_value_t = 4)]
    #[arg(value_parser = clap::value_parser!(u16).range(0..=64))]
    transfers: u16,
    /// Segments fetched ahead of a server that recovers; 0: none
    #[arg(long, value_name = "N", default_value_t = 8)]
    #[arg(value_parser = clap::value_parser!(u16).range(0..=1024))]
    prefetch: u16,
    /// Most megabytes of them kept in memory
    #[arg(long, value_name = "MB", default_value_t = 256)]
    prefetch_memory: u32,
}

/// Runs until it is told to stop.
pub(crate) fn run(args: &DaemonArgs) -> u8 {
    exit_code("archiverd", 1, stay(args).map(|()| 0))
}

fn stay(args: &DaemonArgs) -> Result<(), String> {
    let variable = || given(None, "PGDATA").map(PathBuf::from);
    let dir = args.data_dir.clone().or_else(variable);
    let dir = absolute(&dir.ok_or("no data directory was given: use -D or set PGDATA")?)?;
    let identity = args.store.identity()?;
    let location = args.store.location()?;
    let mut opened = args.store.open(Transfers::Many)?;
    check_owner(&opened, &dir)?;
    match opened.repository.clean(&mut opened.backend) {
        Ok(0) => {}
        Ok(n) => log::log(format!("removed {n} temporary files that were left in \"{location}\"")),
        // A later request reports the error.
        Err(error) => tracing::debug!("could not look for temporary files: {error}"),
    }
    let socket =
        args.socket.clone().or_else(|| given(None, "FOREBAY_ARCHIVE_SOCKET").map(PathBuf::from));
    let socket = match socket {
        Some(socket) => absolute(&socket)?,
        None => dir.join(resident::SOCKET),
    };
    let mut signals = Signals::new([SIGINT, SIGTERM])
        .map_err(|error| format!("could not watch signals: {error}"))?;
    let options = ResidentOptions {
        socket: socket.clone(),
        archive: identity,
        transfers: usize::from(args.transfers),
        prefetch: usize::from(args.prefetch),
        prefetch_bytes: u64::from(args.prefetch_memory) << 20,
        source: SourceOptions { direct: args.store.direct, ..SourceOptions::default() },
    };
    let mut server = resident::serve(&opened.aio, opened.repository, options).map_err(text)?;
    let method = opened.aio.method_name();
    log::log(format!("archiverd serves \"{location}\" on \"{}\" with {method}", socket.display()));
    let signal = signals.forever().next();
    log::log(format!("archiverd stops on signal {}", signal.unwrap_or_default()));
    server.stop();
    Ok(())
}

/// Refuses a data directory of another user, who would own the restored files.
fn check_owner(opened: &Opened, dir: &Path) -> Result<(), String> {
    let stat = opened.aio.namespace().stat(dir).map_err(text)?;
    let stat =
        stat.ok_or_else(|| format!("data directory \"{}\" does not exist", dir.display()))?;
    let ours = rustix::process::geteuid().as_raw();
    if stat.uid != ours {
        let (dir, owner) = (dir.display(), stat.uid);
        return Err(format!(
            "data directory \"{dir}\" is user {owner}'s: archiverd must be run by that user, \
             not by {ours}"
        ));
    }
    Ok(())
}
