//! Memory cgroups, of version 1 or 2: a bound on the memory of a server, with the kernel's cache of
//! what it reads and writes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use forebay_testkit::process::under;
use rustix::event::{Timespec, poll};

/// Where version 1 has its memory controller, and version 2 its root.
const FIRST: &str = "/sys/fs/cgroup/memory";
const SECOND: &str = "/sys/fs/cgroup";

/// Names of groups begin so, and go on with the number of the process that makes them.
const PREFIX: &str = "forebay-measure-";

/// Moves the shell into a group and becomes the program, so that the program never runs outside.
const ENTER: &str = "echo $$ > \"$1\" && shift && exec \"$@\"";

/// How often, and with which pause, the removal of a group is tried: its last process may still be
/// ending.
const ATTEMPTS: u32 = 100;
const PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

#[derive(Clone, Copy, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// A group with a bound; removed when dropped.
pub struct Group {
    version: Version,
    folder: PathBuf,
}

/// What a group tells of its memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Bytes in use, with the kernel's cache.
    pub used: u64,
    /// How often the bound was hit.
    pub failures: u64,
    /// Processes that the kernel killed.
    pub oom_kills: u64,
    /// Bytes that were swapped out.
    pub swapped: u64,
}

impl Group {
    /// Makes a group whose processes and cached files have so many bytes together.
    ///
    /// # Errors
    /// When there is no memory controller, or it can't be used.
    pub fn make(bytes: u64) -> Result<Group, String> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let (version, parent) = controller()?;
        remove_left(&parent);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PREFIX}{}-{number}", std::process::id());
        let folder = parent.join(name);
        fs::create_dir(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        let group = Group { version, folder };
        let bound = if version == Version::One { "memory.limit_in_bytes" } else { "memory.max" };
        write(&group.folder.join(bound), &bytes.to_string())?;
        Ok(group)
    }

    /// The command, to be run in the group.
    pub fn command(&self, command: &Command) -> Command {
        let processes = self.folder.join("cgroup.procs").display().to_string();
        under(&["sh", "-c", ENTER, "sh", &processes], command)
    }

    /// Numbers of the processes in the group.
    ///
    /// # Errors
    /// When they can't be read.
    pub fn processes(&self) -> Result<Vec<u32>, String> {
        let text = self.read("cgroup.procs")?;
        Ok(text.lines().filter_map(|line| line.trim().parse().ok()).collect())
    }

    /// What it tells now.
    ///
    /// # Errors
    /// When a file of the group can't be read.
    pub fn memory(&self) -> Result<Memory, String> {
        let number = |name: &str| -> Result<u64, String> {
            let text = self.read(name)?;
            text.trim().parse().map_err(|e| format!("{name}: {text}: {e}"))
        };
        match self.version {
            Version::One => Ok(Memory {
                used: number("memory.usage_in_bytes")?,
                failures: number("memory.failcnt")?,
                oom_kills: field(&self.read("memory.oom_control")?, "oom_kill"),
                swapped: field(&self.read("memory.stat")?, "swap"),
            }),
            Version::Two => {
                let events = self.read("memory.events")?;
                Ok(Memory {
                    used: number("memory.current")?,
                    failures: field(&events, "max"),
                    oom_kills: field(&events, "oom_kill"),
                    // Not there without swap space.
                    swapped: number("memory.swap.current").unwrap_or(0),
                })
            }
        }
    }

    /// Microseconds in which something waited for memory so far: in this group, or with version 1
    /// on the whole machine. None if the kernel does not count them.
    pub fn waited(&self) -> Option<u64> {
        let file = match self.version {
            Version::One => PathBuf::from("/proc/pressure/memory"),
            Version::Two => self.folder.join("memory.pressure"),
        };
        total(&fs::read_to_string(file).ok()?)
    }

    fn read(&self, name: &str) -> Result<String, String> {
        let file = self.folder.join(name);
        fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for _ in 0..ATTEMPTS {
            if fs::remove_dir(&self.folder).is_ok() {
                return;
            }
            // A pause that is cut short costs an attempt.
            let _ = poll(&mut [], Some(&PAUSE));
        }
        println!("{} stays", self.folder.display());
    }
}

/// Finds the controller, and the folder for new groups.
fn controller() -> Result<(Version, PathBuf), String> {
    if Path::new(FIRST).join("memory.limit_in_bytes").exists() {
        return Ok((Version::One, FIRST.into()));
    }
    let root = Path::new(SECOND);
    let has = fs::read_to_string(root.join("cgroup.controllers")).unwrap_or_default();
    if !has.split_whitespace().any(|name| name == "memory") {
        return Err(format!("there is no memory controller of cgroups under {SECOND}"));
    }
    write(&root.join("cgroup.subtree_control"), "+memory")?;
    Ok((Version::Two, root.into()))
}

/// Removes the groups of runs that were killed. A group with processes can't be removed.
fn remove_left(parent: &Path) {
    let Ok(folders) = fs::read_dir(parent) else { return };
    for folder in folders.flatten() {
        let name = folder.file_name();
        let maker = name.to_str().and_then(maker);
        if maker.is_some_and(|maker| !Path::new("/proc").join(maker.to_string()).exists()) {
            // If it fails, a later run tries again.
            let _ = fs::remove_dir(folder.path());
        }
    }
}

/// The process that has made a group.
fn maker(name: &str) -> Option<u32> {
    name.strip_prefix(PREFIX)?.split_once('-')?.0.parse().ok()
}

fn write(file: &Path, text: &str) -> Result<(), String> {
    fs::write(file, text).map_err(|e| format!("{}: {e}", file.display()))
}

/// The number behind a name, in lines of a name and a number; 0 without such a line.
fn field(text: &str, name: &str) -> u64 {
    let value = |line: &str| {
        let (found, number) = line.split_once(' ')?;
        (found == name).then(|| number.trim().parse().ok())?
    };
    text.lines().find_map(value).unwrap_or(0)
}

/// The total of the line "some avg10=0.00 avg60=0.00 avg300=0.00 total=123".
fn total(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with("some "))?;
    line.rsplit_once("total=")?.1.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{Command, Group, field, maker, total};

    #[test]
    fn groups_name_their_maker() {
        assert_eq!(maker("forebay-measure-12-3"), Some(12));
        assert_eq!((maker("forebay-measure-x-3"), maker("user-12-3")), (None, None));
    }

    #[test]
    fn counters_are_found_by_their_whole_name() {
        let text = "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n";
        assert_eq!((field(text, "oom_kill"), field(text, "under_oom")), (3, 0));
        assert_eq!((field(text, "oom"), field("swap x\n", "swap")), (0, 0));
    }

    #[test]
    fn pressure_is_read() {
        let text = "some avg10=0.50 avg60=0.00 avg300=0.00 total=1234\nfull avg10=0 total=9\n";
        assert_eq!(total(text), Some(1234));
        assert_eq!((total("full total=9"), total("")), (None, None));
    }

    /// Where groups can be made, a program in one of 8 MB can't have 64 MB at once.
    #[test]
    fn a_program_is_bound() {
        let Ok(group) = Group::make(8 << 20) else {
            println!("skipped: no memory cgroup can be made here");
            return;
        };
        let small = group.command(Command::new("cat").arg("/proc/self/cgroup")).output();
        let said = String::from_utf8_lossy(&small.expect("it runs").stdout).into_owned();
        assert!(said.contains("forebay-measure-"), "{said}");
        let mut large = Command::new("sh");
        large.args(["-c", "head -c 64000000 /dev/zero | tail -c 64000000 | wc -c"]);
        let said = group.command(&large).output().expect("it runs");
        let memory = group.memory().expect("counters");
        assert!(memory.failures > 0, "{memory:?}, {said:?}");
        let folder = group.folder.clone();
        drop(group);
        assert!(!folder.exists(), "it is removed");
    }
}
