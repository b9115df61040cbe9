//! Can io_uring be used here, and if not, what is the true cause?
//!
//! The same error number stands for different causes, and the usual hint names the wrong one. So
//! the facts around it are read too: the sysctl, the process's seccomp mode, the resource limits.

use std::fmt;

#[cfg(target_os = "linux")]
use crate::limits::{Limits, descriptors_in_use};

/// What stands in the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalCause {
    /// sysctl kernel.io_uring_disabled has this value (1 or 2).
    Sysctl(u32),
    /// A seccomp filter (container runtime, service manager) refuses the system call.
    Seccomp,
    /// A security module or the like refuses it: neither sysctl nor seccomp does.
    SecurityModule,
    /// RLIMIT_MEMLOCK, in bytes.
    Memlock(u64),
    /// The process has no descriptor left; RLIMIT_NOFILE.
    ProcessDescriptors(u64),
    /// The process could not open as many descriptors as there may be rings.
    TooFewDescriptors {
        /// Descriptors that the rings need.
        needed: u64,
        /// RLIMIT_NOFILE.
        limit: u64,
        /// Descriptors open already.
        in_use: u64,
    },
    /// The system has no descriptor left.
    SystemDescriptors,
    /// The kernel lacks io_uring.
    NotInKernel,
    /// Not Linux.
    NotLinux,
    /// Another error number.
    Other(i32),
}

/// Why io_uring can't be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoUringRefusal {
    /// The true cause.
    pub cause: RefusalCause,
}

impl std::error::Error for IoUringRefusal {}

impl fmt::Display for IoUringRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("could not set up io_uring: ")?;
        match self.cause {
            RefusalCause::Sysctl(2) => {
                f.write_str("it is disabled by the kernel setting kernel.io_uring_disabled = 2")
            }
            RefusalCause::Sysctl(v) => {
                write!(
                    f,
                    "the kernel setting kernel.io_uring_disabled = {v} reserves it for the group kernel.io_uring_group"
                )
            }
            RefusalCause::Seccomp => f.write_str("a seccomp filter of this process forbids the system call"),
            RefusalCause::SecurityModule => f.write_str(
                "the kernel denies it, although neither kernel.io_uring_disabled nor a seccomp filter does",
            ),
            RefusalCause::Memlock(n) => {
                write!(f, "the limit on locked memory (RLIMIT_MEMLOCK, {n} bytes) is too low")
            }
            RefusalCause::ProcessDescriptors(n) => {
                write!(
                    f,
                    "this process has used up its descriptors (RLIMIT_NOFILE, {n}); each backend's ring needs one"
                )
            }
            RefusalCause::TooFewDescriptors { needed, limit, in_use } => write!(
                f,
                "{needed} descriptors are needed, one for each backend's ring, and the limit (RLIMIT_NOFILE, {limit}, of which \
                 {in_use} are in use) does not leave them"
            ),
            RefusalCause::SystemDescriptors => f.write_str("the system has used up its file descriptors"),
            RefusalCause::NotInKernel => f.write_str("this kernel does not have it"),
            RefusalCause::NotLinux => f.write_str("this operating system does not have it"),
            RefusalCause::Other(e) => write!(f, "{}", crate::error::Errno(e)),
        }
    }
}

impl IoUringRefusal {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self.cause {
            RefusalCause::Sysctl(2) => {
                "Set kernel.io_uring_disabled to 0, or use io_method = worker."
            }
            RefusalCause::Sysctl(_) => {
                "Add the server's user to the group named by kernel.io_uring_group, set kernel.io_uring_disabled to 0, or use \
                 io_method = worker."
            }
            RefusalCause::Seccomp => {
                "Run the container or service with a seccomp profile that allows io_uring_setup, io_uring_enter and \
                 io_uring_register, or use io_method = worker."
            }
            RefusalCause::SecurityModule => {
                "Look for denials of SELinux or another security module, or use io_method = worker."
            }
            RefusalCause::Memlock(_) => {
                "Raise the limit (ulimit -l, LimitMEMLOCK=), lower max_connections or io_max_concurrency, or use io_method = worker."
            }
            RefusalCause::ProcessDescriptors(_) | RefusalCause::TooFewDescriptors { .. } => {
                "Raise the limit (ulimit -n, LimitNOFILE=), lower max_connections, or use io_method = worker."
            }
            RefusalCause::SystemDescriptors => {
                "Raise the kernel setting fs.file-max, or use io_method = worker."
            }
            RefusalCause::NotInKernel | RefusalCause::NotLinux | RefusalCause::Other(_) => {
                "Use io_method = worker."
            }
        }
    }
}

/// What is known beside the error number.
#[derive(Clone, Copy, Debug, Default)]
struct Surroundings {
    /// kernel.io_uring_disabled; None: the kernel does not have the setting.
    disabled: Option<u32>,
    /// A seccomp filter is in force.
    seccomp: bool,
    /// RLIMIT_MEMLOCK, where it holds.
    memlock: Option<u64>,
    /// RLIMIT_NOFILE.
    descriptors: u64,
}

fn cause(errno: i32, s: Surroundings) -> RefusalCause {
    match errno {
        libc::EPERM | libc::EACCES => match s.disabled {
            Some(v) if v > 0 => RefusalCause::Sysctl(v),
            _ if s.seccomp => RefusalCause::Seccomp,
            _ => RefusalCause::SecurityModule,
        },
        // Some filters pretend that the call does not exist; the setting's presence gives them
        // away.
        libc::ENOSYS if s.seccomp && s.disabled.is_some() => RefusalCause::Seccomp,
        libc::ENOSYS => RefusalCause::NotInKernel,
        // Without a limit, memory itself was short.
        libc::ENOMEM => s.memlock.map_or(RefusalCause::Other(errno), RefusalCause::Memlock),
        libc::EMFILE => RefusalCause::ProcessDescriptors(s.descriptors),
        libc::ENFILE => RefusalCause::SystemDescriptors,
        e => RefusalCause::Other(e),
    }
}

/// The refusal behind a failed set-up.
#[cfg(target_os = "linux")]
pub(crate) fn setup_refusal(errno: i32) -> IoUringRefusal {
    IoUringRefusal { cause: cause(errno, surroundings()) }
}

/// Why a ring that could be set up refuses to register something. The sysctl is not it, and what
/// the kernel does not know is EINVAL.
#[cfg(target_os = "linux")]
pub(crate) fn registration_refusal(errno: i32) -> RefusalCause {
    match errno {
        libc::EINVAL => RefusalCause::NotInKernel,
        errno => cause(errno, Surroundings { disabled: Some(0), ..surroundings() }),
    }
}

#[cfg(target_os = "linux")]
fn surroundings() -> Surroundings {
    let limits = Limits::now();
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let status = read("/proc/self/status");
    let mode = status.lines().find_map(|l| l.strip_prefix("Seccomp:")).map_or("0", str::trim);
    Surroundings {
        disabled: read("/proc/sys/kernel/io_uring_disabled").trim().parse().ok(),
        seccomp: mode != "0",
        memlock: limits.locked_memory,
        descriptors: limits.descriptors,
    }
}

/// Sets up a small ring, sends a no-op through it, and if that fails says why.
#[cfg(target_os = "linux")]
pub fn probe_io_uring() -> Result<(), IoUringRefusal> {
    let refuse = |e: std::io::Error| setup_refusal(e.raw_os_error().unwrap_or(libc::EIO));
    let mut ring = io_uring::IoUring::new(8).map_err(refuse)?;
    // SAFETY: a no-op uses no memory.
    unsafe { ring.submission().push(&io_uring::opcode::Nop::new().build()) }
        .expect("a new ring has room");
    loop {
        match ring.submit_and_wait(1) {
            Ok(_) => return Ok(()),
            Err(e) if e.raw_os_error() == Some(libc::EINTR) => {}
            Err(e) => return Err(refuse(e)),
        }
    }
}

/// Can io_uring be had, with a ring for each of `backends`?
#[cfg(target_os = "linux")]
pub(crate) fn probe_io_uring_for(backends: usize) -> Result<(), IoUringRefusal> {
    probe_io_uring()?;
    let needed = backends as u64 + 1; // one more holds the registered buffers
    let limit = Limits::now().descriptors;
    let in_use = descriptors_in_use().unwrap_or(0);
    if limit.saturating_sub(in_use) < needed {
        return Err(IoUringRefusal {
            cause: RefusalCause::TooFewDescriptors { needed, limit, in_use },
        });
    }
    Ok(())
}

/// Not Linux: no.
#[cfg(not(target_os = "linux"))]
pub(crate) fn probe_io_uring_for(_backends: usize) -> Result<(), IoUringRefusal> {
    probe_io_uring()
}

/// Not Linux: no.
#[cfg(not(target_os = "linux"))]
pub fn probe_io_uring() -> Result<(), IoUringRefusal> {
    let _ = cause(0, Surroundings::default());
    Err(IoUringRefusal { cause: RefusalCause::NotLinux })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cause_is_told_by_the_surroundings() {
        let plain = Surroundings {
            disabled: Some(0),
            seccomp: false,
            memlock: Some(65536),
            descriptors: 1024,
        };
        let filtered = Surroundings { seccomp: true, ..plain };
        let cases = [
            (libc::EPERM, Surroundings { disabled: Some(2), ..plain }, RefusalCause::Sysctl(2)),
            (libc::EPERM, Surroundings { disabled: Some(1), ..filtered }, RefusalCause::Sysctl(1)),
            (libc::EPERM, filtered, RefusalCause::Seccomp),
            (libc::EPERM, Surroundings { disabled: None, ..filtered }, RefusalCause::Seccomp),
            (libc::EPERM, plain, RefusalCause::SecurityModule),
            (libc::ENOSYS, filtered, RefusalCause::Seccomp),
            (libc::ENOSYS, Surroundings { disabled: None, ..filtered }, RefusalCause::NotInKernel),
            (libc::ENOSYS, plain, RefusalCause::NotInKernel),
            (libc::ENOMEM, plain, RefusalCause::Memlock(65536)),
            (
                libc::ENOMEM,
                Surroundings { memlock: None, ..plain },
                RefusalCause::Other(libc::ENOMEM),
            ),
            (libc::EMFILE, plain, RefusalCause::ProcessDescriptors(1024)),
            (libc::ENFILE, plain, RefusalCause::SystemDescriptors),
            (libc::EINVAL, plain, RefusalCause::Other(libc::EINVAL)),
        ];
        for (errno, surroundings, expected) in cases {
            assert_eq!(cause(errno, surroundings), expected, "{errno} with {surroundings:?}");
        }
    }

    #[test]
    fn the_message_names_cause_and_way_out() {
        let refusal = IoUringRefusal { cause: RefusalCause::Sysctl(2) };
        assert!(refusal.to_string().contains("kernel.io_uring_disabled = 2"));
        let refusal = IoUringRefusal { cause: RefusalCause::Memlock(65536) };
        assert!(refusal.to_string().contains("RLIMIT_MEMLOCK, 65536 bytes"));
        assert!(refusal.hint().contains("LimitMEMLOCK"));
    }
}
