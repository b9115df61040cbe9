//! The command line of `forebay bench`.

mod archive;
mod checksum;
mod io;
mod options;
mod pool;
mod replacement;
mod wal;

use clap::{Args, Subcommand};

#[derive(Debug, Args)]
pub(super) struct BenchArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// The archiver: many files that wait at a start, segments stored in a directory
    Archive(archive::ArchiveArgs),
    /// Page checksums by every variant, and CRC-32C, beside reading memory alone
    Checksum(checksum::ChecksumArgs),
    /// A checkpoint: a pool full of dirty pages is written
    Checkpoint(pool::PoolArgs),
    /// Random pages are changed in a relation larger than the pool
    Evict(pool::EvictArgs),
    /// Reads and writes by every method: combine limits, depths, checksums, alignment of memory
    Io(io::IoArgs),
    /// A relation is brought into memory
    Prewarm(pool::PrewarmArgs),
    /// Policies of page replacement, replaying traces: no I/O is done
    Replacement(replacement::ReplacementArgs),
    /// A relation is read through the pool, and its live tuples are counted
    Scan(pool::ScanArgs),
    /// The write-ahead log: commits by several committers, insertion alone, bulk insertion
    Wal(Box<wal::WalArgs>),
}

/// Runs the command; the process's exit code.
pub(super) fn run(args: &BenchArgs) -> u8 {
    let done = match &args.what {
        What::Archive(args) => archive::archive(args),
        What::Checksum(args) => checksum::checksum(args),
        What::Checkpoint(args) => pool::checkpoint(args),
        What::Evict(args) => pool::evict(args),
        What::Io(args) => io::io(args),
        What::Prewarm(args) => pool::prewarm(args),
        What::Replacement(args) => replacement::replacement(args),
        What::Scan(args) => pool::scan(args),
        What::Wal(args) => wal::wal(args),
    };
    match done {
        Ok(text) => {
            println!("{}", text.trim_end());
            0
        }
        Err(message) => {
            eprintln!("forebay bench: error: {message}");
            1
        }
    }
}
