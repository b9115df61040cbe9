//! `forebay bench`: figures of the machine at hand.

mod archive;
mod device;
mod pool;
mod wal;

use clap::{Args, Subcommand};
use forebay_aio::sync::Duration;
use forebay_engine::bench::{
    BenchError, ChecksumBench, IoBench, IoTable, MethodChoice, bench_checksum, bench_io,
};
use indicatif::{ProgressBar, ProgressStyle};
use std::path::PathBuf;

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
    Checksum(ChecksumArgs),
    /// A checkpoint: a pool full of dirty pages is written
    Checkpoint(pool::PoolArgs),
    /// Random pages are changed in a relation larger than the pool
    Evict(pool::EvictArgs),
    /// Reads and writes by every method: combine limits, depths, checksums, alignment of memory
    Io(IoArgs),
    /// A relation is brought into memory
    Prewarm(pool::PrewarmArgs),
    /// A relation is read through the pool, and its live tuples are counted
    Scan(pool::ScanArgs),
    /// The write-ahead log: commits by several committers, insertion alone, bulk insertion
    Wal(Box<wal::WalArgs>),
}

#[derive(Debug, Args)]
struct ChecksumArgs {
    /// Memory for the cold figures, much larger than the processor's caches [default: 1GB]
    #[arg(long, value_name = "SIZE")]
    size: Option<String>,
    /// Memory for the hot figures [default: 128kB]
    #[arg(long, value_name = "SIZE")]
    hot_size: Option<String>,
    /// How often everything is measured [default: 7]
    #[arg(long, value_name = "N")]
    rounds: Option<String>,
    /// A first impression: 256 MB, 3 rounds
    #[arg(long)]
    quick: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct IoArgs {
    /// A directory for a private file, or a file of whole pages that is only read
    #[arg(value_name = "PATH", default_value = ".")]
    path: PathBuf,
    /// Size of the private file [default: 1GB]
    #[arg(long, value_name = "SIZE")]
    size: Option<String>,
    /// Length of a run [default: 0.25]
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<String>,
    /// How often each run is made [default: 3]
    #[arg(long, value_name = "N")]
    rounds: Option<String>,
    /// A first impression: 64 MB, one round of 0.05 s
    #[arg(long)]
    quick: bool,
    /// Methods: sync, worker, io_uring, posix_aio [default: all]
    #[arg(long, value_name = "LIST")]
    io_method: Option<String>,
    /// "data": only past the kernel's page cache; "": only through it [default: both]
    #[arg(long, value_name = "LIST")]
    io_direct: Option<String>,
    /// Combine limits in blocks [default: 1,2,4,8,16,32]
    #[arg(long, value_name = "LIST")]
    io_combine_limit: Option<String>,
    /// Depths of the tables by depth [default: 1,2,4,8,16,32,64]
    #[arg(long, value_name = "LIST")]
    depths: Option<String>,
    /// Depth of the other tables [default: 32]
    #[arg(long, value_name = "N")]
    depth: Option<String>,
    /// Tables: read, read-depth, checksums, write, write-depth, alignment [default: all]
    #[arg(long, value_name = "LIST")]
    tables: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command; the process's exit code.
pub(super) fn run(args: &BenchArgs) -> u8 {
    let done = match &args.what {
        What::Archive(args) => archive::archive(args),
        What::Checksum(args) => checksum(args),
        What::Checkpoint(args) => pool::checkpoint(args),
        What::Evict(args) => pool::evict(args),
        What::Io(args) => io(args),
        What::Prewarm(args) => pool::prewarm(args),
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

fn checksum(args: &ChecksumArgs) -> Result<String, String> {
    let bench = args.plan()?;
    let report = bench_checksum(&bench).map_err(|error| error.to_string())?;
    Ok(if args.json { report.json() } else { report.text() })
}

fn io(args: &IoArgs) -> Result<String, String> {
    let bench = args.plan()?;
    let bar = bar();
    let report = bench_io(&bench, &mut |done, total| {
        bar.set_length(total);
        bar.set_position(done);
    });
    bar.finish_and_clear();
    let report = report.map_err(|error: BenchError| error.to_string())?;
    Ok(if args.json { report.json() } else { report.text() })
}

/// Nothing is drawn where there is no terminal.
fn bar() -> ProgressBar {
    let style = ProgressStyle::with_template("measuring [{bar:40}] {pos}/{len} {eta}");
    ProgressBar::new(0).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

impl ChecksumArgs {
    fn plan(&self) -> Result<ChecksumBench, String> {
        let mut bench = ChecksumBench::default();
        if self.quick {
            (bench.cold_bytes, bench.rounds, bench.hot_seconds) = (256 << 20, 3, 0.002);
        }
        if let Some(text) = &self.size {
            bench.cold_bytes = memory(text, "--size")?;
        }
        if let Some(text) = &self.hot_size {
            bench.hot_bytes = memory(text, "--hot-size")?;
        }
        if let Some(text) = &self.rounds {
            bench.rounds = count(text, "--rounds", ROUNDS)? as usize;
        }
        Ok(bench)
    }
}

impl IoArgs {
    fn plan(&self) -> Result<IoBench, String> {
        let mut bench = IoBench::new(self.path.clone());
        if self.quick {
            (bench.size, bench.rounds, bench.run_time) = (64 << 20, 1, Duration::from_millis(50));
        }
        if let Some(text) = &self.size {
            bench.size = size(text, "--size")?;
        }
        if let Some(text) = &self.seconds {
            bench.run_time = seconds(text)?;
        }
        if let Some(text) = &self.rounds {
            bench.rounds = count(text, "--rounds", ROUNDS)? as usize;
        }
        if let Some(text) = &self.io_method {
            bench.methods = list(text, method)?;
        }
        if let Some(text) = &self.io_direct {
            bench.direct = direct_modes(text)?;
        }
        if let Some(text) = &self.io_combine_limit {
            let most = u64::from(IoBench::MAX_COMBINE);
            bench.combine = list(text, |n| Ok(count(n, "--io-combine-limit", most)? as u32))?;
        }
        let most = u64::from(IoBench::MAX_DEPTH);
        if let Some(text) = &self.depths {
            bench.depths = list(text, |n| Ok(count(n, "--depths", most)? as u32))?;
        }
        if let Some(text) = &self.depth {
            bench.depth = count(text, "--depth", most)? as u32;
        }
        if let Some(text) = &self.tables {
            bench.tables = list(text, table)?;
        }
        Ok(bench)
    }
}

/// Most rounds.
const ROUNDS: u64 = 1000;

fn list<T>(text: &str, item: impl Fn(&str) -> Result<T, String>) -> Result<Vec<T>, String> {
    text.split(',').map(|part| item(part.trim())).collect()
}

fn direct_modes(text: &str) -> Result<Vec<bool>, String> {
    match text {
        "" => Ok(vec![false]),
        "data" => Ok(vec![true]),
        other => Err(format!("invalid value \"{other}\" for option --io-direct")),
    }
}

fn method(name: &str) -> Result<MethodChoice, String> {
    let found = IoBench::all_methods().into_iter().find(|method| method.name() == name);
    found.ok_or_else(|| format!("invalid value \"{name}\" for option --io-method"))
}

fn table(name: &str) -> Result<IoTable, String> {
    let found = IoTable::ALL.into_iter().find(|table| table.name() == name);
    found.ok_or_else(|| format!("invalid value \"{name}\" for option --tables"))
}

fn count(text: &str, option: &str, most: u64) -> Result<u64, String> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse() {
        Ok(value) if digits && (1..=most).contains(&value) => Ok(value),
        _ if digits => Err(format!("{option} must be in range 1..{most}")),
        _ => Err(format!("invalid value \"{text}\" for option {option}")),
    }
}

/// "64MB", as settings have it; a number alone counts bytes.
fn size(text: &str, option: &str) -> Result<u64, String> {
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(split);
    let shift = match unit.trim() {
        "" | "B" => Some(0),
        "kB" => Some(10),
        "MB" => Some(20),
        "GB" => Some(30),
        "TB" => Some(40),
        _ => None,
    };
    let bytes = shift.and_then(|shift| digits.parse::<u64>().ok()?.checked_mul(1 << shift));
    bytes.ok_or_else(|| {
        format!("invalid value \"{text}\" for option {option}: a size is a number and B, kB, MB, GB or TB")
    })
}

fn memory(text: &str, option: &str) -> Result<usize, String> {
    let too_much =
        || format!("invalid value \"{text}\" for option {option}: more than can be addressed");
    usize::try_from(size(text, option)?)
        .ok()
        .filter(|bytes| *bytes < isize::MAX as usize)
        .ok_or_else(too_much)
}

fn seconds(text: &str) -> Result<Duration, String> {
    let value: Option<f64> = text.parse().ok().filter(|value| (0.001..=3600.0).contains(value));
    let value = value.ok_or("--seconds must be a number in range 0.001..3600")?;
    Ok(Duration::from_secs_f64(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        assert_eq!(size("8192", "--size"), Ok(8192));
        assert_eq!(size("64kB", "--size"), Ok(64 << 10));
        assert_eq!(size("2 GB", "--size"), Ok(2 << 30));
        for bad in ["", "MB", "-1", "1.5GB", "1XB", "99999999999TB", "1mb"] {
            assert!(size(bad, "--size").is_err(), "{bad}");
        }
        assert!(memory("9000000TB", "--size").is_err());
    }
}
