//! `forebay backup` and `forebay restore`: base backups, and data directories made of them.

mod report;
mod source;

use crate::serve::DEFAULT_DIR;
use crate::terminal::{say, tell, tell_error};
use clap::Args;
use forebay_engine::archive::backup::{
    BackupOptions, BackupState, ChecksumKind, RecoveryTarget, RestoreOptions, Target, TargetAction,
};
use forebay_engine::{EngineError, IoMethod, Lsn, backup};
use report::Report;
use source::{Address, Server};
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
pub(super) struct BackupArgs {
    /// Data directory of a PostgreSQL 15 to 18 or Forebay cluster [default: that of --connection,
    /// or ./forebay-data]
    #[arg(short = 'D', long = "pgdata", value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// How to reach the server: "host=... port=... user=... dbname=..." [default: as the data
    /// directory's postmaster.pid tells]
    #[arg(short = 'd', long, value_name = "STRING")]
    connection: Option<String>,
    /// The archive's directory [default: $FOREBAY_ARCHIVE]
    #[arg(long, value_name = "DIR")]
    archive: Option<PathBuf>,
    /// Show the archive's backups instead of making one
    #[arg(long)]
    list: bool,
    /// The backup's name [default: the time]
    #[arg(long)]
    name: Option<String>,
    /// The backup's label
    #[arg(short, long, default_value = "forebay backup")]
    label: String,
    /// The checkpoint it begins with: fast or spread
    #[arg(short, long, value_name = "HOW", default_value = "fast")]
    #[arg(value_parser = ["fast", "spread"])]
    checkpoint: String,
    /// Threads that copy
    #[arg(short, long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=64))]
    jobs: u16,
    /// Checksums in the manifest: none, crc32c or sha256
    #[arg(long, value_name = "KIND", default_value = "sha256", value_parser = checksum_kind)]
    manifest_checksums: ChecksumKind,
    /// Do not verify the checksums of pages
    #[arg(long)]
    no_verify_checksums: bool,
    /// Keep a backup with damaged pages, marked as such
    #[arg(long)]
    allow_damaged: bool,
    /// Bring the WAL along that the backup needs, even if the server archives it
    #[arg(long)]
    with_wal: bool,
    /// Do not wait until the WAL that the backup needs is archived
    #[arg(long)]
    no_wait: bool,
    #[command(flatten)]
    key: KeyArgs,
    #[command(flatten)]
    io: IoArgs,
}

#[derive(Debug, Args)]
struct KeyArgs {
    /// Base backups are not encrypted: do it although FOREBAY_ARCHIVE_KEY is set
    #[arg(long)]
    accept_unencrypted: bool,
}

impl KeyArgs {
    /// Refuses a backup if the environment asks for encryption, which base backups do not have.
    fn check(&self) -> Result<(), EngineError> {
        let asked = std::env::var_os("FOREBAY_ARCHIVE_KEY").is_some_and(|file| !file.is_empty());
        if !asked || self.accept_unencrypted {
            return Ok(());
        }
        let message = "base backups can't be encrypted, and FOREBAY_ARCHIVE_KEY is set";
        let hint = "Anybody who can write to the archive could change one. \
                    Use --accept-unencrypted to go on.";
        Err(EngineError::statement("0A000", message).with_hint(hint))
    }
}

#[derive(Debug, Args)]
struct IoArgs {
    /// Through the kernel's page cache
    #[arg(long)]
    no_direct: bool,
    /// sync, worker, io_uring, posix_aio, or auto: io_uring where it can be had, else worker
    #[arg(long, value_name = "METHOD", default_value = "auto", value_parser = io_method)]
    io_method: IoMethod,
    /// Show progress
    #[arg(short = 'P', long)]
    progress: bool,
}

#[derive(Debug, Args)]
pub(super) struct RestoreArgs {
    /// Where to: a directory that is empty or not there
    #[arg(short = 'D', long = "pgdata", value_name = "DIR")]
    data_dir: PathBuf,
    /// The archive's directory [default: $FOREBAY_ARCHIVE]
    #[arg(long, value_name = "DIR")]
    archive: Option<PathBuf>,
    /// The backup's name [default: the latest from which the target is reached]
    #[arg(long, value_name = "NAME")]
    backup: Option<String>,
    /// As soon as the backup is consistent
    #[arg(long, group = "target")]
    target_immediate: bool,
    /// Up to a time: "2026-11-21 01:21:39+00"
    #[arg(long, value_name = "TIME", group = "target")]
    target_time: Option<String>,
    /// Up to a position of the log
    #[arg(long, value_name = "LSN", group = "target")]
    target_lsn: Option<Lsn>,
    /// Up to a restore point
    #[arg(long, value_name = "NAME", group = "target")]
    target_name: Option<String>,
    /// Up to a transaction
    #[arg(long, value_name = "XID", group = "target")]
    target_xid: Option<u64>,
    /// Stop just before the target
    #[arg(long, requires = "target")]
    target_exclusive: bool,
    /// A timeline's number, "current" or "latest" [default: latest]
    #[arg(long, value_name = "TIMELINE")]
    target_timeline: Option<String>,
    /// What happens at the target: pause, promote or shutdown
    #[arg(long, value_name = "ACTION", default_value = "promote", value_parser = action)]
    target_action: TargetAction,
    /// What fetches WAL [default: forebay archive-get from the same archive]
    #[arg(long, value_name = "COMMAND")]
    restore_command: Option<String>,
    /// No recovery from the archive: only by the WAL that the backup brought along
    #[arg(long, conflicts_with_all = ["target", "target_timeline", "restore_command"])]
    standalone: bool,
    /// A tablespace's directory, and the one it gets
    #[arg(short = 'T', long, value_name = "OLD=NEW", value_parser = mapping)]
    tablespace_mapping: Vec<(PathBuf, PathBuf)>,
    /// Restore a backup although pages in it are damaged
    #[arg(long)]
    allow_damaged: bool,
    /// Threads that copy
    #[arg(short, long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=64))]
    jobs: u16,
    #[command(flatten)]
    key: KeyArgs,
    #[command(flatten)]
    io: IoArgs,
}

fn checksum_kind(text: &str) -> Result<ChecksumKind, &'static str> {
    ChecksumKind::by_name(text).ok_or("it must be none, crc32c or sha256")
}

fn io_method(text: &str) -> Result<IoMethod, &'static str> {
    IoMethod::by_name(text).ok_or("it must be sync, worker, io_uring, posix_aio or auto")
}

fn action(text: &str) -> Result<TargetAction, &'static str> {
    TargetAction::by_name(text).ok_or("it must be pause, promote or shutdown")
}

fn mapping(text: &str) -> Result<(PathBuf, PathBuf), String> {
    let (old, new) = text.split_once('=').ok_or("it must be of the form OLD=NEW")?;
    Ok((PathBuf::from(old), PathBuf::from(new)))
}

/// Runs `forebay backup`; the process's exit code.
pub(super) fn run_backup(args: &BackupArgs) -> u8 {
    let mut report = Report::new("backup", args.io.progress);
    let done = if args.list { list(args) } else { take(args, &mut report) };
    finish(report, done)
}

/// Runs `forebay restore`; the process's exit code.
pub(super) fn run_restore(args: &RestoreArgs) -> u8 {
    let mut report = Report::new("restore", args.io.progress);
    let done = restore(args, &mut report);
    finish(report, done)
}

fn finish(mut report: Report, done: Result<(), EngineError>) -> u8 {
    report.end();
    match done {
        Ok(()) => 0,
        Err(error) => {
            tell_error(report.command(), &error);
            1
        }
    }
}

fn take(args: &BackupArgs, report: &mut Report) -> Result<(), EngineError> {
    args.key.check()?;
    let archive = archive_of(args.archive.as_ref())?;
    let address = match &args.connection {
        Some(text) => Some(Address::parse(text)?),
        None => running(args.data_dir.as_deref().unwrap_or(Path::new(DEFAULT_DIR)))?,
    };
    let mut server = address.as_ref().map(Server::connect).transpose()?;
    let data = match (&args.data_dir, &mut server) {
        (Some(dir), _) => dir.clone(),
        (None, Some(server)) if args.connection.is_some() => server.data_directory()?,
        (None, _) => PathBuf::from(DEFAULT_DIR),
    };
    let data = data.canonicalize().unwrap_or(absolute(&data)?);
    if let Some(server) = &mut server {
        server.check_primary()?;
    }
    let options = BackupOptions {
        name: args.name.clone(),
        label: args.label.clone(),
        fast: args.checkpoint == "fast",
        jobs: usize::from(args.jobs),
        checksums: args.manifest_checksums,
        verify_pages: !args.no_verify_checksums,
        allow_damaged: args.allow_damaged,
        with_wal: args.with_wal,
        wait_for_archive: !args.no_wait,
        direct: !args.io.no_direct,
    };
    let source = server.as_mut().map(Server::as_source);
    let about = backup::backup(&data, &archive, source, &options, args.io.io_method, report)?;
    report.end();
    say(format_args!(
        "backup {}: {} files, {} bytes, {} pages verified, WAL from {} to {} on timeline {}{}",
        about.name,
        about.files,
        about.bytes,
        about.pages,
        about.start,
        about.stop.unwrap_or_default(),
        about.timeline,
        if about.has_wal { ", which it has" } else { "" }
    ));
    if about.damaged > 0 {
        tell("backup", "warning: ", format_args!("{} pages are damaged", about.damaged));
    }
    Ok(())
}

/// How to reach the server that runs on a data directory.
fn running(data: &Path) -> Result<Option<Address>, EngineError> {
    Ok(backup::running_server(data)?.map(|server| Address::of(&server)))
}

/// The archive of the command line, or else of the environment.
fn archive_of(named: Option<&PathBuf>) -> Result<PathBuf, EngineError> {
    let named = named.cloned().or_else(|| std::env::var_os("FOREBAY_ARCHIVE").map(PathBuf::from));
    let named = named.ok_or_else(|| {
        EngineError::statement("22023", "no archive specified").with_hint(
            "Name its directory with --archive, or in the environment variable FOREBAY_ARCHIVE.",
        )
    })?;
    if named.to_string_lossy().contains("://") {
        return Err(EngineError::statement("0A000", "base backups are kept in directories only"));
    }
    absolute(&named)
}

fn absolute(path: &Path) -> Result<PathBuf, EngineError> {
    std::path::absolute(path).map_err(|error| {
        EngineError::statement(
            "58P01",
            format!("could not find directory \"{}\": {error}", path.display()),
        )
    })
}

fn restore(args: &RestoreArgs, report: &mut Report) -> Result<(), EngineError> {
    args.key.check()?;
    let (archive, to) = (archive_of(args.archive.as_ref())?, absolute(&args.data_dir)?);
    let target = match args {
        RestoreArgs { target_immediate: true, .. } => Target::Immediate,
        RestoreArgs { target_time: Some(time), .. } => Target::Time(time.clone()),
        RestoreArgs { target_lsn: Some(lsn), .. } => Target::Lsn(*lsn),
        RestoreArgs { target_name: Some(name), .. } => Target::Name(name.clone()),
        RestoreArgs { target_xid: Some(xid), .. } => Target::Xid(*xid),
        _ => Target::Latest,
    };
    let recovery = RecoveryTarget {
        restore_command: match &args.restore_command {
            Some(command) => command.clone(),
            None => archive_get(&archive)?,
        },
        // PostgreSQL refuses an action without a target.
        action: (target != Target::Latest).then_some(args.target_action),
        target,
        inclusive: args.target_exclusive.then_some(false),
        timeline: args.target_timeline.clone(),
    };
    let options = RestoreOptions {
        backup: args.backup.clone(),
        recovery: (!args.standalone).then_some(recovery),
        tablespaces: args.tablespace_mapping.clone(),
        allow_damaged: args.allow_damaged,
        jobs: usize::from(args.jobs),
        direct: !args.io.no_direct,
    };
    let restored = backup::restore(&archive, &to, &options, args.io.io_method, report)?;
    report.end();
    say(format_args!(
        "restored backup {} into {}: {} files, {} bytes",
        restored.about.name,
        to.display(),
        restored.files,
        restored.bytes
    ));
    Ok(())
}

/// This program's restore_command.
fn archive_get(archive: &Path) -> Result<String, EngineError> {
    let program = std::env::current_exe().map_err(|error| {
        EngineError::statement("58P01", format!("could not find this program: {error}"))
            .with_hint("Name what fetches WAL with --restore-command.")
    })?;
    let quoted = |path: &Path| for_shell(&path.to_string_lossy());
    Ok(format!("{} archive-get --archive {} %f %p", quoted(&program), quoted(archive)))
}

/// Quotes a word for the shell, and for restore_command, in which % begins a placeholder.
fn for_shell(word: &str) -> String {
    let word = word.replace('%', "%%");
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+,:@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

fn list(args: &BackupArgs) -> Result<(), EngineError> {
    say("NAME\tSTATE\tTIMELINE\tSTART\tSTOP\tBYTES\tDAMAGED\tCLUSTER\tLABEL");
    for backup in backup::list(&archive_of(args.archive.as_ref())?)? {
        let state = match backup.state {
            BackupState::Complete => "complete",
            BackupState::InProgress => "in progress",
            BackupState::Abandoned => "abandoned",
        };
        let Some(about) = backup.about else {
            let name = backup.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            say(format_args!("{name}\t{state}"));
            continue;
        };
        let stop = about.stop.map_or_else(|| "-".to_owned(), |stop| stop.to_string());
        say(format_args!(
            "{}\t{state}\t{}\t{}\t{stop}\t{}\t{}\t{}\t{}",
            about.name,
            about.timeline,
            about.start,
            about.bytes,
            about.damaged,
            about.system_id,
            about.label
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_for_the_shell() {
        assert_eq!(for_shell("/srv/wal"), "/srv/wal");
        assert_eq!(for_shell("/srv/my wal's 100%"), "'/srv/my wal'\\''s 100%%'");
        assert_eq!(for_shell(""), "''");
    }

    #[test]
    fn mappings() {
        assert_eq!(mapping("/a=/b"), Ok((PathBuf::from("/a"), PathBuf::from("/b"))));
        assert!(mapping("/a").is_err());
    }
}
