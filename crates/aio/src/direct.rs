//! Direct I/O: which files bypass the kernel's page cache (io_direct), and whether the files of a
//! directory can.

use std::fmt;
use std::path::Path;

#[cfg(target_os = "linux")]
use crate::error::Errno;
#[cfg(target_os = "linux")]
use crate::memory::IO_ALIGN;
use crate::refusal::DirectRefusal;

/// Which files bypass the kernel's page cache: the io_direct list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct IoDirect {
    /// Relation files.
    pub data: bool,
    /// WAL segments.
    pub wal: bool,
    /// The first filling of WAL segments with zeros.
    pub wal_init: bool,
}

impl IoDirect {
    /// No file.
    pub const NONE: IoDirect = IoDirect { data: false, wal: false, wal_init: false };
    /// All files.
    pub const ALL: IoDirect = IoDirect { data: true, wal: true, wal_init: true };
    /// Whether this crate can do direct I/O on this operating system.
    const SUPPORTED: bool = cfg!(target_os = "linux");

    /// Parses a list by the rules of PostgreSQL's lists of names: commas between names, blanks
    /// ignored, optional double quotes, upper and lower case equal. A missing name is an error.
    pub fn parse(list: &str) -> Result<IoDirect, BadIoDirect> {
        let direct = split_list(list)?.iter().try_fold(IoDirect::NONE, |mut direct, name| {
            match name.to_ascii_lowercase().as_str() {
                "data" => direct.data = true,
                "wal" => direct.wal = true,
                "wal_init" => direct.wal_init = true,
                _ => return Err(BadIoDirect::Option(name.clone())),
            }
            Ok(direct)
        })?;
        if direct != IoDirect::NONE && !IoDirect::SUPPORTED {
            return Err(BadIoDirect::Unsupported);
        }
        Ok(direct)
    }
}

/// The list, as SHOW prints it.
impl fmt::Display for IoDirect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = [(self.data, "data"), (self.wal, "wal"), (self.wal_init, "wal_init")];
        let names: Vec<&str> = names.iter().filter(|(on, _)| *on).map(|(_, name)| *name).collect();
        f.write_str(&names.join(", "))
    }
}

/// Why a text is no io_direct list, worded as PostgreSQL's check of debug_io_direct.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadIoDirect {
    /// It is not a list of names.
    #[error("Invalid list syntax in parameter \"io_direct\".")]
    Syntax,
    /// It has an unknown name.
    #[error("Invalid option \"{0}\".")]
    Option(String),
    /// The operating system has no direct I/O.
    #[error("\"io_direct\" is not supported on this platform.")]
    Unsupported,
}

/// Splits a list into names without quotes.
fn split_list(list: &str) -> Result<Vec<String>, BadIoDirect> {
    let mut names = Vec::new();
    let mut rest = list.trim_start();
    if rest.is_empty() {
        return Ok(names);
    }
    loop {
        let (name, after) = match rest.strip_prefix('"') {
            Some(quoted) => quoted_name(quoted)?,
            None => {
                let end =
                    rest.find(|c: char| c == ',' || c.is_ascii_whitespace()).unwrap_or(rest.len());
                let (name, after) = rest.split_at(end);
                (name.to_owned(), after)
            }
        };
        if name.is_empty() && !rest.starts_with('"') {
            return Err(BadIoDirect::Syntax);
        }
        names.push(name);
        let after = after.trim_start();
        if after.is_empty() {
            return Ok(names);
        }
        rest = after.strip_prefix(',').ok_or(BadIoDirect::Syntax)?.trim_start();
    }
}

/// Parses a name up to its closing quote, and returns what follows. A doubled quote stands for a
/// quote.
fn quoted_name(mut rest: &str) -> Result<(String, &str), BadIoDirect> {
    let mut name = String::new();
    loop {
        let (part, after) = rest.split_once('"').ok_or(BadIoDirect::Syntax)?;
        name.push_str(part);
        match after.strip_prefix('"') {
            Some(more) => {
                name.push('"');
                rest = more;
            }
            None => return Ok((name, after)),
        }
    }
}

/// The alignment that direct I/O needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectAlignment {
    /// Alignment of memory, in bytes.
    pub memory: usize,
    /// Alignment of offset and length, in bytes.
    pub offset: usize,
    /// The name of the file system.
    pub filesystem: String,
    /// A warning for the administrator: btrfs silently buffers files with checksums.
    pub note: Option<String>,
}

fn refusal(dir: &Path, reason: impl Into<String>) -> DirectRefusal {
    DirectRefusal {
        dir: dir.to_path_buf(),
        filesystem: filesystem_name(dir),
        reason: reason.into(),
    }
}

/// open(2) refused O_DIRECT with EINVAL.
pub(crate) fn refused_at_open(path: &Path) -> DirectRefusal {
    refusal(path, "the file system does not support it (open reports EINVAL)")
}

/// The probe's file on file systems without unnamed files. A crash may leave it: PostgreSQL's tools
/// skip names that begin like this, and the next probe removes it.
pub const PROBE: &str = "pgsql_tmp.direct-io-probe";

/// Finds out the alignment of direct I/O in `dir`, with a temporary file that is unnamed if
/// possible.
#[cfg(target_os = "linux")]
pub fn probe_direct(dir: &Path) -> Result<DirectAlignment, DirectRefusal> {
    use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags, open, statx};
    let refuse = |reason: String| refusal(dir, reason);
    let mode = Mode::RUSR | Mode::WUSR;
    let base = OFlags::RDWR | OFlags::CLOEXEC;
    let name = dir.join(PROBE);
    let mut named = false;
    let fd = match open(dir, base | OFlags::TMPFILE | OFlags::DIRECT, mode) {
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::ISDIR | rustix::io::Errno::NOENT) => {
            named = true;
            // Not truncated: another process may probe with the same file.
            open(&name, base | OFlags::CREATE | OFlags::DIRECT, mode)
        }
        other => other,
    };
    let fd = match fd {
        Ok(fd) => fd,
        Err(e) => {
            let _ = rustix::fs::unlink(&name);
            return Err(match e {
                rustix::io::Errno::INVAL => refuse("the file system does not support it".into()),
                e => {
                    refuse(format!("a file for the probe could not be opened: {}", Errno::from(e)))
                }
            });
        }
    };
    let told = statx(&fd, c"", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN);
    let trial = trial_io(&fd);
    // New files inherit the directory's attributes. Without copy-on-write there are no checksums.
    let without_checksums = rustix::fs::ioctl_getflags(&fd)
        .is_ok_and(|flags| flags.contains(rustix::fs::IFlags::NOCOW));
    if named {
        let _ = rustix::fs::unlink(&name);
    }
    let filesystem = filesystem_name(dir);
    let (memory, offset) = match told {
        Ok(st) if st.stx_mask & StatxFlags::DIOALIGN.bits() != 0 => {
            (st.stx_dio_mem_align as usize, st.stx_dio_offset_align as usize)
        }
        // The kernel (before Linux 6.1) or the file system does not tell: the trial decides.
        _ => (IO_ALIGN, IO_ALIGN),
    };
    if memory == 0 || offset == 0 {
        return Err(refuse(
            "the file system says that its files can't do it (statx reports no alignment)".into(),
        ));
    }
    if memory > IO_ALIGN || offset > IO_ALIGN {
        return Err(refuse(format!(
            "it needs an alignment of {} bytes, and only {IO_ALIGN} are guaranteed",
            memory.max(offset)
        )));
    }
    trial.map_err(|e| refuse(format!("a trial read and write of {IO_ALIGN} bytes failed: {e}")))?;
    let note = (filesystem == "btrfs" && !without_checksums).then(|| {
        "btrfs falls back to buffered I/O for files with checksums; disable copy-on-write \
         (chattr +C) on the directory"
            .into()
    });
    Ok(DirectAlignment { memory, offset, filesystem, note })
}

/// Other operating systems: not supported.
#[cfg(not(target_os = "linux"))]
pub fn probe_direct(dir: &Path) -> Result<DirectAlignment, DirectRefusal> {
    Err(refusal(dir, "not supported on this operating system"))
}

#[cfg(target_os = "linux")]
fn trial_io(fd: &std::os::fd::OwnedFd) -> Result<(), String> {
    let mut buf = crate::memory::AlignedBuf::zeroed(IO_ALIGN).map_err(|e| e.to_string())?;
    let wrote = rustix::io::pwrite(fd, &buf, 0).map_err(|e| Errno::from(e).to_string())?;
    let read = rustix::io::pread(fd, &mut buf[..], 0).map_err(|e| Errno::from(e).to_string())?;
    if (wrote, read) == (IO_ALIGN, IO_ALIGN) { Ok(()) } else { Err("it was short".into()) }
}

/// The name of the file system that holds `path`.
pub fn filesystem_name(path: &Path) -> String {
    #[cfg(target_os = "linux")]
    {
        let known = rustix::fs::statfs(path)
            .or_else(|_| rustix::fs::statfs(path.parent().unwrap_or(Path::new("."))));
        let Ok(st) = known else { return "unknown".into() };
        let magic = st.f_type as u32;
        let name = match magic {
            0xEF53 => "ext4",
            0x5846_5342 => "xfs",
            0x9123_683E => "btrfs",
            0x0102_1994 => "tmpfs",
            0x794C_7630 => "overlayfs",
            0x6969 => "nfs",
            0x2FC1_2FC1 => "zfs",
            0xF2F5_2010 => "f2fs",
            0x6573_5546 => "fuse",
            0x8584_58F6 => "ramfs",
            0x0102_1997 => "9p",
            0xCA45_1A4E => "bcachefs",
            _ => return format!("of type {magic:#x}"),
        };
        name.into()
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = path;
        "unknown".into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_as_postgresql_reads_them() {
        for (list, shown) in [
            ("", ""),
            ("  ", ""),
            ("data", "data"),
            ("wal_init,DATA", "data, wal_init"),
            (" data ,\twal, \"Wal_Init\" ", "data, wal, wal_init"),
            ("data,data", "data"),
        ] {
            let direct = IoDirect::parse(list).unwrap_or_else(|e| panic!("{list:?}: {e}"));
            assert_eq!(direct.to_string(), shown, "{list:?}");
            assert_eq!(IoDirect::parse(shown), Ok(direct));
        }
        assert_eq!(IoDirect::parse("data, wal, wal_init"), Ok(IoDirect::ALL));
        let syntax = "Invalid list syntax in parameter \"io_direct\".";
        for (list, message) in [
            ("data wal", syntax),
            ("data,", syntax),
            (",data", syntax),
            ("data,,wal", syntax),
            (",", syntax),
            ("\"data", syntax),
            ("\"data\"wal", syntax),
            ("data, Wall", "Invalid option \"Wall\"."),
            ("\"\"", "Invalid option \"\"."),
            ("on", "Invalid option \"on\"."),
            ("\"da\"\"ta\"", "Invalid option \"da\"ta\"."),
        ] {
            let e = IoDirect::parse(list).expect_err(list);
            assert_eq!(e.to_string(), message, "{list:?}");
        }
    }
}
