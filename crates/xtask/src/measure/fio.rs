//! Runs fio and reads its report.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use crate::run::output;

/// The best that fio can do: memory and files are registered, as Forebay registers its memory.
pub const REGISTERED: [&str; 2] = ["--fixedbufs=1", "--registerfiles=1"];

/// The outcome of a run.
pub struct Done {
    /// Bytes transferred.
    pub bytes: f64,
    /// Duration of the transfers, without fio's start.
    pub seconds: f64,
    /// Operations a second.
    pub operations: f64,
    /// Processor seconds of the job's process, user and system.
    pub cpu_seconds: f64,
}

impl Done {
    /// 10^6 bytes a second.
    pub fn megabytes_per_second(&self) -> f64 {
        self.bytes / 1e6 / self.seconds
    }

    /// Processor seconds per 10^9 bytes.
    pub fn cpu_per_gigabyte(&self) -> f64 {
        self.cpu_seconds / (self.bytes / 1e9)
    }
}

/// Runs one direct job on files (separated by colons), by io_uring unless the arguments say
/// otherwise.
///
/// # Errors
/// When fio fails, or prints something unknown.
pub fn run(files: &str, arguments: &[&str]) -> Result<Done, String> {
    let mut fio = Command::new("fio");
    fio.args(["--name=measure", "--direct=1", "--output-format=terse", "--ioengine=io_uring"]);
    let output = output(fio.arg(format!("--filename={files}")).args(arguments))?;
    parse(&String::from_utf8_lossy(&output.stdout))
        .ok_or_else(|| format!("fio: {}", String::from_utf8_lossy(&output.stderr)))
}

/// Terse format 3: of reads, KiB, KiB a second, operations a second and milliseconds from field 5
/// on, of writes the same from 46 on; percents of user and system time at 87 and 88. A mixed job's
/// reads and writes count together.
fn parse(text: &str) -> Option<Done> {
    let fields: Vec<&str> = text.lines().find(|line| line.starts_with("3;"))?.split(';').collect();
    let number = |index: usize| fields.get(index)?.trim_end_matches('%').parse::<f64>().ok();
    let (reads, writes) = (5, 46);
    let seconds = number(reads + 3)?.max(number(writes + 3)?) / 1e3;
    let cpu_seconds = (number(87)? + number(88)?) / 100.0 * seconds;
    let bytes = (number(reads)? + number(writes)?) * 1024.0;
    Some(Done { bytes, seconds, operations: number(reads + 2)? + number(writes + 2)?, cpu_seconds })
}

/// Writes every block of a file. A file that is only allocated would have its blocks converted by
/// the first write.
///
/// # Errors
/// When that fails.
pub fn fill(path: &Path, bytes: u64) -> Result<(), String> {
    let text = |e: std::io::Error| format!("{}: {e}", path.display());
    let mut file = File::create(path).map_err(text)?;
    let mut noise = 1_u64;
    let mut chunk = vec![0_u8; 1 << 20];
    let mut left = bytes;
    while left > 0 {
        for word in chunk.as_chunks_mut::<8>().0 {
            noise = noise
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            *word = noise.to_le_bytes();
        }
        let part = left.min(chunk.len() as u64);
        file.write_all(&chunk[..part as usize]).map_err(text)?;
        left -= part;
    }
    file.sync_all().map_err(text)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::parse;

    #[test]
    fn terse_lines_are_read() {
        let mut fields = vec!["0"; 130];
        (fields[0], fields[5], fields[7], fields[8]) = ("3", "2000000", "800", "2000");
        (fields[87], fields[88]) = ("1.5%", "8.5%");
        let done = parse(&fields.join(";")).expect("a line of fio's");
        assert_eq!((done.bytes, done.operations, done.seconds), (2_048_000_000.0, 800.0, 2.0));
        assert_eq!((done.cpu_seconds, done.megabytes_per_second()), (0.2, 1024.0));
        (fields[5], fields[8], fields[46], fields[49]) = ("0", "0", "1000", "500");
        assert_eq!(parse(&fields.join(";")).expect("writes").megabytes_per_second(), 2.048);
        (fields[5], fields[8], fields[46], fields[48]) = ("1000", "2000", "3000", "200");
        let mixed = parse(&fields.join(";")).expect("both");
        assert_eq!((mixed.bytes, mixed.operations, mixed.seconds), (4_096_000.0, 1000.0, 2.0));
        assert!(parse("fio: no such option").is_none());
    }

    #[test]
    fn files_are_written_and_not_merely_allocated() {
        let path = std::env::temp_dir().join(format!("forebay-xtask-fill-{}", std::process::id()));
        super::fill(&path, (1 << 20) + 8192).expect("written");
        let (meta, bytes) = (path.metadata().expect("there"), std::fs::read(&path).expect("read"));
        std::fs::remove_file(&path).expect("removed");
        assert_eq!(meta.len(), (1 << 20) + 8192);
        assert!(meta.blocks() * 512 >= meta.len(), "no holes");
        assert!(bytes.chunks(4096).all(|block| block.iter().any(|&byte| byte != 0)));
    }
}
