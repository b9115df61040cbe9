//! Servers that have the same memory, each with the settings that are best for it.

use super::cgroup::Group;
use super::servers::{Running, Subject, WITHOUT_AUTOVACUUM};

/// Names of the columns.
pub const CONTENDERS: [&str; 3] = ["Forebay", "PostgreSQL 18, buffered", "PostgreSQL 18, direct"];

/// Percentage of the memory for a pool that is the only cache.
const ALONE: u64 = 75;
/// Percentage for a pool with the kernel's cache behind it.
const BEFORE_KERNEL: u64 = 25;

/// Of each.
const COMMON: [&str; 9] = [
    "io_method=io_uring",
    "wal_sync_method=fdatasync",
    "effective_io_concurrency=32",
    "maintenance_io_concurrency=32",
    "max_connections=40",
    "checkpoint_timeout=300",
    "checkpoint_completion_target=0.9",
    "random_page_cost=1.1",
    WITHOUT_AUTOVACUUM,
];

/// How the memory is shared out.
#[derive(Clone)]
pub struct Sizes {
    /// MB of the cgroup.
    pub memory: u64,
    /// Forebay's shared_buffers.
    pub forebay_buffers: String,
}

/// A server with its settings.
pub struct Contender<'s> {
    /// The server.
    pub subject: &'s Subject,
    /// The column of tables that it fills.
    pub column: usize,
    settings: Vec<String>,
}

impl Sizes {
    /// Bytes of the cgroup.
    pub fn bytes(&self) -> u64 {
        self.memory << 20
    }

    /// Forebay with direct I/O, PostgreSQL with the kernel's cache behind its pool, and PostgreSQL
    /// with direct I/O.
    pub fn contenders<'s>(&self, forebay: &'s Subject, peer: &'s Subject) -> [Contender<'s>; 3] {
        let megabytes = |percentage| format!("{}MB", self.memory * percentage / 100);
        let own = self.forebay_buffers.clone();
        let ways = [
            (forebay, own, Some("io_direct")),
            (peer, megabytes(BEFORE_KERNEL), None),
            (peer, megabytes(ALONE), Some("debug_io_direct")),
        ];
        let mut column = 0;
        ways.map(|(subject, pool, direct)| {
            let mut settings: Vec<String> = COMMON.map(str::to_owned).into();
            settings.push(format!("shared_buffers={pool}"));
            settings.push(format!("effective_cache_size={}", megabytes(ALONE)));
            settings.extend(direct.map(|name| format!("{name}=data,wal,wal_init")));
            column += 1;
            Contender { subject, column: column - 1, settings }
        })
    }
}

impl<'s> Contender<'s> {
    /// Its name.
    pub fn name(&self) -> &'static str {
        CONTENDERS[self.column]
    }

    /// Starts it in a cgroup.
    ///
    /// # Errors
    /// When it does not start.
    pub fn start(&self, group: &Group, more: &[&str]) -> Result<Running<'s>, String> {
        let settings: Vec<&str> = self.settings.iter().map(String::as_str).collect();
        self.subject.start_in(Some(group), &[&settings[..], more].concat())
    }
}

/// Each round begins with another one, so that drift falls on all.
pub fn in_turn<T>(all: &[T], round: usize) -> impl Iterator<Item = &T> {
    all.iter().cycle().skip(round % all.len().max(1)).take(all.len())
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::{Sizes, Subject, in_turn};

    #[test]
    fn all_take_turns() {
        let turn = |round| in_turn(&["a", "b", "c"], round).copied().collect::<String>();
        assert_eq!([turn(0), turn(1), turn(5)], ["abc", "bca", "cab"]);
    }

    #[test]
    fn pools_are_parts_of_the_memory() {
        let forebay = Subject::Forebay { program: PathBuf::new(), data: PathBuf::new() };
        let (runner, outside) = (PathBuf::new(), PathBuf::new());
        let peer = Subject::Postgres { runner, outside, inside: String::new() };
        let sizes = Sizes { memory: 2048, forebay_buffers: "auto".to_owned() };
        let setting = |sizes: &Sizes, column: usize, setting: &str| {
            let contenders = sizes.contenders(&forebay, &peer);
            assert_eq!(contenders[column].column, column);
            contenders[column].settings.iter().any(|found| found == setting)
        };
        assert!(setting(&sizes, 0, "shared_buffers=auto"));
        assert!(setting(&sizes, 0, "io_direct=data,wal,wal_init"));
        assert!(setting(&sizes, 1, "shared_buffers=512MB"));
        assert!(!setting(&sizes, 1, "debug_io_direct=data,wal,wal_init"));
        assert!(setting(&sizes, 1, "effective_cache_size=1536MB"));
        assert!(setting(&sizes, 2, "shared_buffers=1536MB"));
    }
}
