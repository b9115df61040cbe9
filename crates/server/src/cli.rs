//! The command line.

mod archive;
mod backup;
mod bench;
mod check;
mod checksums;

use crate::demo::{self, DemoOptions};
use crate::log::{self, Verbosity};
use crate::serve::{self, DEFAULT_DIR, ServeOptions};
use clap::{Args, Parser, Subcommand, ValueEnum};
use forebay_engine::{InitOptions, LocaleOptions};
use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::ExitCode;

/// A PostgreSQL-compatible database server that does its own I/O.
#[derive(Debug, Parser)]
#[command(name = "forebay", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make a data directory
    Init(InitArgs),
    /// Run the server; makes the data directory if there is none
    Serve(ServeArgs),
    /// Show what the server does: load, cold scans by every I/O method, kill -9, recovery
    Demo(DemoOptions),
    /// Check, enable or disable the page checksums of a cluster that is shut down
    Checksums(checksums::ChecksumsArgs),
    /// Look for damage in the tables of a cluster that is shut down: pages, rows, maps,
    /// transactions
    Check(check::CheckArgs),
    /// Copy a data directory into an archive: a base backup
    Backup(backup::BackupArgs),
    /// Make a data directory of a base backup, to be recovered from the archive
    Restore(backup::RestoreArgs),
    /// Measure checksums or I/O on this machine
    Bench(bench::BenchArgs),
    /// Store a WAL file in an archive: a server's archive_command is `forebay archive-push %p`
    ArchivePush(archive::PushArgs),
    /// Restore a WAL file from an archive: a server's restore_command is
    /// `forebay archive-get %f %p`
    ArchiveGet(archive::GetArgs),
    /// Stay, and store and fetch ahead of archive-push and archive-get
    Archiverd(archive::DaemonArgs),
    /// Look for gaps, damage and foreign files in an archive
    ArchiveVerify(archive::VerifyArgs),
    /// Show what an archive holds
    ArchiveList(archive::ListArgs),
    /// Remove WAL that no base backup needs from an archive
    ArchiveExpire(archive::ExpireArgs),
}

#[derive(Debug, Args)]
struct InitArgs {
    /// Data directory
    #[arg(short = 'D', value_name = "DIR", default_value = DEFAULT_DIR)]
    data_dir: PathBuf,
    /// Size of a WAL segment in megabytes: a power of two from 1 to 1024
    #[arg(long, value_name = "MB", default_value_t = 16)]
    wal_segsize: u32,
    /// Do not wait for the files to be on disk (for tests)
    #[arg(long)]
    no_sync: bool,
    /// Locale of the databases, for the order of texts and the cases of letters [default: C]
    #[arg(long, value_name = "LOCALE")]
    locale: Option<String>,
    /// The same as --locale=C
    #[arg(long, conflicts_with = "locale")]
    no_locale: bool,
    /// LC_COLLATE of the databases
    #[arg(long, value_name = "LOCALE")]
    lc_collate: Option<String>,
    /// LC_CTYPE of the databases
    #[arg(long, value_name = "LOCALE")]
    lc_ctype: Option<String>,
    /// What orders texts
    #[arg(long, value_name = "PROVIDER", value_parser = ["builtin", "libc", "icu"])]
    locale_provider: Option<String>,
    /// Locale of the builtin provider: C, C.UTF-8 or PG_UNICODE_FAST
    #[arg(long, value_name = "LOCALE")]
    builtin_locale: Option<String>,
    /// Locale of ICU: a language tag
    #[arg(long, value_name = "LOCALE")]
    icu_locale: Option<String>,
    /// Encoding of the databases
    #[arg(short = 'E', long, default_value = "UTF8", ignore_case = true)]
    encoding: Encoding,
}

/// An encoding that databases can have.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Encoding {
    #[value(name = "UTF8", alias = "UTF-8")]
    Utf8,
    #[value(name = "SQL_ASCII", alias = "SQLASCII")]
    SqlAscii,
}

impl InitArgs {
    /// The locale of the databases.
    fn locale(&self) -> LocaleOptions {
        let none = self.no_locale.then(|| "C".to_owned());
        LocaleOptions {
            encoding: match self.encoding {
                Encoding::Utf8 => forebay_engine::Encoding::Utf8,
                Encoding::SqlAscii => forebay_engine::Encoding::SqlAscii,
            },
            provider: self
                .locale_provider
                .as_ref()
                .and_then(|name| name.bytes().next())
                .map(|letter| if letter == b'l' { b'c' } else { letter }),
            locale: self.locale.clone().or(none),
            collate: self.lc_collate.clone(),
            ctype: self.lc_ctype.clone(),
            builtin_locale: self.builtin_locale.clone(),
            icu_locale: self.icu_locale.clone(),
        }
    }
}

#[derive(Debug, Args)]
struct ServeArgs {
    /// Data directory
    #[arg(short = 'D', value_name = "DIR", default_value = DEFAULT_DIR)]
    data_dir: PathBuf,
    /// TCP port on the loopback addresses, and number of the Unix socket [default: 5432]
    #[arg(short = 'p', value_name = "PORT")]
    port: Option<String>,
    /// A setting; it wins over postgresql.conf
    #[arg(short = 'c', value_name = "NAME=VALUE", value_parser = assignment)]
    settings: Vec<(String, String)>,
}

fn assignment(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("it must be of the form NAME=VALUE")?;
    Ok((name.trim().replace('-', "_"), value.to_owned()))
}

impl Command {
    /// Scripts that read pg_checksums' stderr read that of `checksums`: no LOG lines there.
    fn verbosity(&self) -> Verbosity {
        match self {
            Command::Checksums(_) | Command::Check(_) => Verbosity::Warnings,
            _ => Verbosity::Log,
        }
    }
}

/// Runs the program.
pub fn run() -> ExitCode {
    let command = match Cli::try_parse() {
        Ok(cli) => cli.command,
        Err(error) if error.use_stderr() => {
            match std::env::args_os().nth(1).as_deref().and_then(OsStr::to_str) {
                // pg_checksums' exit code, which is not clap's.
                Some("checksums") => return ExitCode::from(checksums::refuse(&error)),
                // A small exit code would tell a server that recovers that the file does not exist.
                Some("archive-get") => return ExitCode::from(archive::refuse_get(&error)),
                _ => error.exit(),
            }
        }
        Err(error) => error.exit(),
    };
    log::install(command.verbosity());
    ExitCode::from(match command {
        Command::Init(args) => init(&args),
        Command::Checksums(args) => checksums::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Backup(args) => backup::run_backup(&args),
        Command::Restore(args) => backup::run_restore(&args),
        Command::Bench(args) => bench::run(&args),
        Command::ArchivePush(args) => archive::push(&args),
        Command::ArchiveGet(args) => archive::get(&args),
        Command::Archiverd(args) => archive::archiverd(&args),
        Command::ArchiveVerify(args) => archive::verify(&args),
        Command::ArchiveList(args) => archive::list(&args),
        Command::ArchiveExpire(args) => archive::expire(&args),
        Command::Serve(args) => {
            let mut settings = args.settings;
            settings.extend(args.port.map(|port| ("port".to_owned(), port)));
            serve::serve(&ServeOptions { data_dir: args.data_dir, settings })
        }
        Command::Demo(options) => demo::run(&options),
    })
}

fn init(args: &InitArgs) -> u8 {
    let options = InitOptions {
        wal_segment_size: args.wal_segsize << 20,
        sync: !args.no_sync,
        locale: args.locale(),
        system_collations: true,
        ..InitOptions::default()
    };
    let made = match args.wal_segsize {
        1..=1024 if args.wal_segsize.is_power_of_two() => serve::init(&args.data_dir, &options),
        _ => Err("argument of --wal-segsize must be a power of two between 1 and 1024".to_owned()),
    };
    if let Err(message) = made {
        log::line("FATAL", None, &message);
        return 1;
    }
    let dir = args.data_dir.display();
    println!(
        "The data directory is in {dir}. Start the server with:\n\n    forebay serve -D {dir}\n"
    );
    0
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
        let cli = Cli::try_parse_from([
            "forebay",
            "serve",
            "-p",
            "5433",
            "-c",
            "io-method=sync",
            "-cport=1",
        ]);
        let Command::Serve(args) = cli.expect("parses").command else { panic!("not serve") };
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(args.settings, [pair("io_method", "sync"), pair("port", "1")]);
        assert!(Cli::try_parse_from(["forebay", "serve", "-c", "x"]).is_err());
    }
}
