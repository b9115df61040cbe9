//! What Linux tells of memory: /proc/meminfo, the limits of control groups (versions 1 and 2), and
//! pressure (memory.pressure of the process's own group, else /proc/pressure/memory). On other
//! systems nothing is known.

use std::path::{Path, PathBuf};

use forebay_aio::SystemFile;

use super::Readings;

/// Where the hierarchies of control groups usually are.
const GROUPS: &str = "/sys/fs/cgroup";

/// Reads all. None if even the machine's memory is not told.
pub(crate) fn read() -> Option<Readings> {
    Gauge::open()?.read()
}

/// The files that tell of memory, open, to be read often.
pub(crate) struct Gauge {
    meminfo: SystemFile,
    pressure: Option<SystemFile>,
    groups: Vec<Group>,
}

impl Gauge {
    /// Opens the files, those of the groups in which the process is now. None if even the machine's
    /// memory is not told.
    pub(crate) fn open() -> Option<Gauge> {
        Gauge::under(Path::new("/"))
    }

    /// The same, of files below another root.
    fn under(root: &Path) -> Option<Gauge> {
        let open = |path: &str| SystemFile::open(&root.join(path));
        let meminfo = open("proc/meminfo")?;
        let groups = open("proc/self/cgroup").and_then(|file| file.text()).unwrap_or_default();
        let pressure = own_pressure(root, &groups).or_else(|| open("proc/pressure/memory"));
        Some(Gauge { meminfo, pressure, groups: groups_of(root, &groups) })
    }

    /// Reads all.
    pub(crate) fn read(&self) -> Option<Readings> {
        let meminfo = self.meminfo.text()?;
        let kilobytes = |name: &str| number_after(&meminfo, name).map(|n| n << 10);
        let pressure = self.pressure.as_ref().and_then(SystemFile::text);
        let mut readings = Readings {
            total: kilobytes("MemTotal:")?,
            room: kilobytes("MemAvailable:")?,
            stalled: pressure.and_then(|text| stalled(&text)).unwrap_or(0.0),
        };
        for (limit, left) in self.groups.iter().filter_map(Group::limit) {
            readings.total = readings.total.min(limit);
            readings.room = readings.room.min(left);
        }
        Some(readings)
    }
}

/// The number in the line that begins with this word.
fn number_after(text: &str, word: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(word))?;
    rest.split_whitespace().next()?.parse().ok()
}

/// `some avg10=1.23 ...`: percent of the last ten seconds.
fn stalled(text: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix("some "))?;
    line.split_whitespace().find_map(|word| word.strip_prefix("avg10="))?.parse().ok()
}

/// Where the process's own group of version 2 tells of pressure.
fn own_pressure(root: &Path, groups: &str) -> Option<SystemFile> {
    let group = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let base = root.join(GROUPS.trim_start_matches('/'));
    SystemFile::open(&base.join(group).join("memory.pressure"))
}

/// The names of the files of one version.
struct Version {
    limit: &'static str,
    usage: &'static str,
    /// Fields of memory.stat: the page cache, which the kernel takes back before it kills.
    cache: [&'static str; 2],
}

const V1: Version = Version {
    limit: "memory.limit_in_bytes",
    usage: "memory.usage_in_bytes",
    cache: ["total_inactive_file ", "total_active_file "],
};
const V2: Version = Version {
    limit: "memory.max",
    usage: "memory.current",
    cache: ["inactive_file ", "active_file "],
};

/// The process's groups that can have limits, with those above them.
fn groups_of(root: &Path, groups: &str) -> Vec<Group> {
    let mut found = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let base = root.join(GROUPS.trim_start_matches('/'));
        let (version, base) = if controllers.is_empty() {
            (&V2, base)
        } else if controllers.split(',').any(|name| name == "memory") {
            (&V1, base.join("memory"))
        } else {
            continue;
        };
        // In a container the group's own directory may be the top of what is seen.
        let mut at: PathBuf = base.join(path.trim_start_matches('/'));
        while at.starts_with(&base) {
            found.extend(Group::open(&at, version));
            if !at.pop() {
                break;
            }
        }
    }
    found
}

/// A control group.
struct Group {
    limit: SystemFile,
    usage: SystemFile,
    stat: Option<SystemFile>,
    version: &'static Version,
}

impl Group {
    /// None if it is one that can't have a limit.
    fn open(dir: &Path, version: &'static Version) -> Option<Group> {
        let open = |name: &str| SystemFile::open(&dir.join(name));
        let (limit, usage) = (open(version.limit)?, open(version.usage)?);
        Some(Group { limit, usage, stat: open("memory.stat"), version })
    }

    /// Its limit, and what that leaves. None if it has none.
    fn limit(&self) -> Option<(u64, u64)> {
        let limit: u64 = self.limit.text()?.trim().parse().ok()?;
        let usage: u64 = self.usage.text()?.trim().parse().ok()?;
        let stat = self.stat.as_ref().and_then(SystemFile::text).unwrap_or_default();
        let names = self.version.cache.iter();
        let cache: u64 = names.filter_map(|name| number_after(&stat, name)).sum();
        Some((limit, limit.saturating_sub(usage.saturating_sub(cache))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1 << 20;

    /// A machine of 8 GB, of which 4 GB are available.
    fn machine(files: &[(&str, &str)]) -> Option<Readings> {
        let dir = tempfile::tempdir().expect("a directory");
        let memory = "MemTotal:        8388608 kB\nMemFree: 1 kB\nMemAvailable:    4194304 kB\n";
        for (path, text) in [("proc/meminfo", memory)].iter().chain(files) {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
            std::fs::write(path, text).expect("a file");
        }
        Gauge::under(dir.path())?.read()
    }

    fn room(files: &[(&str, &str)]) -> (u64, u64) {
        let found = machine(files).expect("told");
        (found.total / MB, found.room / MB)
    }

    #[test]
    fn the_machine_is_the_limit_without_groups() {
        assert_eq!(room(&[]), (8192, 4096));
        assert_eq!(room(&[("proc/self/cgroup", "damaged\n0::\n::::\n")]), (8192, 4096));
        assert_eq!(machine(&[("proc/meminfo", "MemTotal: x kB\n")]), None);
    }

    #[test]
    fn limits_of_version_2_count_with_those_above() {
        let own = "sys/fs/cgroup/a/b";
        let group = |name: &str| format!("{own}/{name}");
        let (max, current, stat) =
            (group("memory.max"), group("memory.current"), group("memory.stat"));
        let files = [
            ("proc/self/cgroup", "0::/a/b\n"),
            (max.as_str(), "1073741824\n"),
            (current.as_str(), "524288000\n"),
            (stat.as_str(), "anon 1\ninactive_file 104857600\nactive_file 104857600\n"),
        ];
        assert_eq!(room(&files), (1024, 1024 - 500 + 200));
        let above = [
            ("sys/fs/cgroup/a/memory.max", "536870912\n"),
            ("sys/fs/cgroup/a/memory.current", "535822336\n"),
        ];
        assert_eq!(room(&[&files[..], &above].concat()), (512, 1));
        let none = [(max.as_str(), "max\n")];
        assert_eq!(room(&[&files[..], &none].concat()), (8192, 4096));
    }

    #[test]
    fn limits_of_version_1_are_found() {
        let files = [
            ("proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/outer/own\n0::/\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "2147483648\n"),
            ("sys/fs/cgroup/memory/memory.usage_in_bytes", "1048576000\n"),
            ("sys/fs/cgroup/memory/memory.stat", "cache 5\ntotal_inactive_file 1048576\n"),
        ];
        assert_eq!(room(&files), (2048, 2048 - 1000 + 1), "of the top, as in a container");
        let unlimited = ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
        assert_eq!(room(&[&files[..], &[unlimited]].concat()), (8192, 4096));
    }

    #[test]
    fn stalls_are_read() {
        let pressure = "some avg10=12.50 avg60=1.00 avg300=0.00 total=9\nfull avg10=1.00\n";
        let found = machine(&[("proc/pressure/memory", pressure)]).expect("told");
        assert!((found.stalled - 12.5).abs() < 1e-9);
        assert!(machine(&[]).is_some_and(|found| found.stalled == 0.0));
        let own = [
            ("proc/pressure/memory", pressure),
            ("proc/self/cgroup", "4:memory:/x\n0::/a/b\n"),
            ("sys/fs/cgroup/a/b/memory.pressure", "some avg10=3.00 avg60=1.00\n"),
        ];
        let found = machine(&own).expect("told");
        assert!((found.stalled - 3.0).abs() < 1e-9, "of the own group: {}", found.stalled);
    }
}
