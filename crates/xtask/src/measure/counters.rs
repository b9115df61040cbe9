//! What a run has read: from the device, and into the pool.

use std::fs;

use super::processor;
use super::servers::Running;

const BLOCK: f64 = 8192.0;

/// Bytes that a process has had read from the device so far, with its children, those that have
/// ended too. What the kernel's cache had does not count, and no other program's reads.
///
/// # Errors
/// When the system does not tell.
pub fn bytes_read(process: u32) -> Result<f64, String> {
    let read = |process: u32| {
        let file = format!("/proc/{process}/io");
        let text = fs::read_to_string(&file).map_err(|e| format!("{file}: {e}"))?;
        read_bytes(&text).ok_or_else(|| format!("{file}: {text}"))
    };
    let mut bytes = read(process)?;
    for child in processor::children(process)? {
        // One that has ended meanwhile counts at its parent.
        bytes += read(child).unwrap_or(0.0);
    }
    Ok(bytes)
}

/// "rchar" has what the process asked for, "read_bytes" what was read for it.
fn read_bytes(text: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix("read_bytes:"))?.trim().parse().ok()
}

/// Blocks that were asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Blocks {
    /// Found in the pool.
    pub hit: f64,
    /// Read into it.
    pub read: f64,
}

/// Which blocks are counted.
#[derive(Clone, Copy)]
pub enum Counted {
    /// Of all sessions and their workers.
    All,
    /// Only those of look-ups: none of large scans and loads, which both servers count apart.
    LookUps,
}

impl Blocks {
    /// What pg_stat_io counts so far.
    ///
    /// # Errors
    /// The server's error.
    pub fn count(server: &Running<'_>, counted: Counted) -> Result<Blocks, String> {
        let which = match counted {
            Counted::All => "backend_type IN ('client backend', 'background worker')",
            Counted::LookUps => "backend_type = 'client backend' AND context = 'normal'",
        };
        let said = server.query(&format!(
            "SELECT coalesce(sum(hits), 0), coalesce(sum(read_bytes), 0) FROM pg_stat_io \
             WHERE object = 'relation' AND {which}"
        ))?;
        Blocks::parse(&said).ok_or_else(|| format!("pg_stat_io: {said}"))
    }

    fn parse(said: &str) -> Option<Blocks> {
        let (hit, bytes) = said.split_once('|')?;
        let number = |text: &str| text.trim().parse::<f64>().ok();
        Some(Blocks { hit: number(hit)?, read: number(bytes)? / BLOCK })
    }

    /// Percentage of the blocks since then that were found in the pool; none if there were none.
    pub fn hits_since(self, before: Blocks) -> Option<f64> {
        let (hit, read) = (self.hit - before.hit, self.read - before.read);
        (hit + read > 0.0).then(|| 100.0 * hit / (hit + read))
    }
}

#[cfg(test)]
mod tests {
    use super::{Blocks, bytes_read, read_bytes};

    #[test]
    fn what_was_read_is_found() {
        let text = "rchar: 900\nread_bytes: 4096\nwrite_bytes: 8192\n";
        assert_eq!((read_bytes(text), read_bytes("rchar: 900\n")), (Some(4096.0), None));
        assert!(bytes_read(std::process::id()).is_ok() && bytes_read(u32::MAX).is_err());
    }

    #[test]
    fn hits_are_a_part_of_what_was_asked_for() {
        let before = Blocks::parse("100|8192").expect("numbers");
        let after = Blocks::parse("190|90112").expect("numbers");
        assert_eq!((before.read, after.hits_since(before)), (1.0, Some(90.0)));
        assert_eq!((before.hits_since(before), Blocks::parse("1")), (None, None));
    }
}
