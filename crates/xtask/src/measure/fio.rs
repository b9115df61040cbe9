//! fio, and what it says of a run.

use std::process::Command;

/// What a run gave.
pub struct Done {
    /// Transferred.
    pub bytes: f64,
    /// How long the transfers took, without fio's own start.
    pub seconds: f64,
    /// A second.
    pub operations: f64,
    /// Of the job's process, user and system.
    pub cpu_seconds: f64,
}

impl Done {
    /// 10^6 bytes a second.
    pub fn megabytes_per_second(&self) -> f64 {
        self.bytes / 1e6 / self.seconds
    }

    /// Processor seconds for 10^9 bytes.
    pub fn cpu_per_gigabyte(&self) -> f64 {
        self.cpu_seconds / (self.bytes / 1e9)
    }
}

/// Runs one direct job on files (separated by colons), by io_uring unless the arguments say otherwise.
///
/// # Errors
/// When fio fails, or says something unknown.
pub fn run(files: &str, arguments: &[&str]) -> Result<Done, String> {
    let mut fio = Command::new("fio");
    fio.args(["--name=measure", "--direct=1", "--output-format=terse", "--ioengine=io_uring"]);
    let output = fio.arg(format!("--filename={files}")).args(arguments).output();
    let output = output.map_err(|e| format!("fio: {e}"))?;
    parse(&String::from_utf8_lossy(&output.stdout))
        .ok_or_else(|| format!("fio: {}", String::from_utf8_lossy(&output.stderr)))
}

/// Terse format 3: of reads, KiB, KiB a second, operations a second and milliseconds from field 5 on, of writes the same from 46
/// on; percents of user and system time at 87 and 88. A mixed job's reads and writes count together.
fn parse(text: &str) -> Option<Done> {
    let fields: Vec<&str> = text.lines().find(|line| line.starts_with("3;"))?.split(';').collect();
    let number = |index: usize| fields.get(index)?.trim_end_matches('%').parse::<f64>().ok();
    let (reads, writes) = (5, 46);
    let seconds = number(reads + 3)?.max(number(writes + 3)?) / 1e3;
    let cpu_seconds = (number(87)? + number(88)?) / 100.0 * seconds;
    let bytes = (number(reads)? + number(writes)?) * 1024.0;
    Some(Done { bytes, seconds, operations: number(reads + 2)? + number(writes + 2)?, cpu_seconds })
}

#[cfg(test)]
mod tests {
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
}
