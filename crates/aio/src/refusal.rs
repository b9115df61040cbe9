//! Why direct I/O or io_uring can't be used here, in words for the administrator.

use std::fmt;
use std::path::PathBuf;

use crate::errno::Errno;

/// Why direct I/O can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("direct I/O is not possible in \"{}\" (file system {filesystem}): {reason}", dir.display())]
pub struct DirectRefusal {
    /// The directory or file.
    pub dir: PathBuf,
    /// The file system's name.
    pub filesystem: String,
    /// The reason.
    pub reason: String,
}

/// Why io_uring can't be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalCause {
    /// sysctl kernel.io_uring_disabled has this value (1 or 2).
    Sysctl(u32),
    /// A seccomp filter (container runtime, service manager) refuses the system call.
    Seccomp,
    /// A security module or the like refuses it; neither sysctl nor seccomp does.
    SecurityModule,
    /// RLIMIT_MEMLOCK, in bytes, is too low.
    Memlock(u64),
    /// The process has no descriptor left; the value is RLIMIT_NOFILE.
    ProcessDescriptors(u64),
    /// The process can't open a descriptor for each ring.
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
    /// The cause.
    pub cause: RefusalCause,
}

impl std::error::Error for IoUringRefusal {}

impl fmt::Display for IoUringRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "could not set up io_uring: {}", self.cause)
    }
}

impl fmt::Display for RefusalCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            RefusalCause::Sysctl(2) => {
                f.write_str("it is disabled by the kernel setting kernel.io_uring_disabled = 2")
            }
            RefusalCause::Sysctl(v) => {
                write!(
                    f,
                    "the kernel setting kernel.io_uring_disabled = {v} reserves it for the group \
                     kernel.io_uring_group"
                )
            }
            RefusalCause::Seccomp => {
                f.write_str("a seccomp filter of this process forbids the system call")
            }
            RefusalCause::SecurityModule => f.write_str(
                "the kernel denies it, although neither kernel.io_uring_disabled nor a seccomp \
                 filter does",
            ),
            RefusalCause::Memlock(n) => {
                write!(f, "the limit on locked memory (RLIMIT_MEMLOCK, {n} bytes) is too low")
            }
            RefusalCause::ProcessDescriptors(n) => {
                write!(
                    f,
                    "this process has used up its descriptors (RLIMIT_NOFILE, {n}); each backend's \
                     ring needs one"
                )
            }
            RefusalCause::TooFewDescriptors { needed, limit, in_use } => write!(
                f,
                "{needed} descriptors are needed, one for each backend's ring, and the limit \
                 (RLIMIT_NOFILE, {limit}, of which {in_use} are in use) does not leave them"
            ),
            RefusalCause::SystemDescriptors => {
                f.write_str("the system has used up its file descriptors")
            }
            RefusalCause::NotInKernel => f.write_str("this kernel does not have it"),
            RefusalCause::NotLinux => f.write_str("this operating system does not have it"),
            RefusalCause::Other(e) => write!(f, "{}", Errno(e)),
        }
    }
}

impl IoUringRefusal {
    /// What the administrator can do.
    pub fn hint(&self) -> &'static str {
        match self.cause {
            RefusalCause::Sysctl(2) => {
                "Set kernel.io_uring_disabled to 0, or use io_method = worker."
            }
            RefusalCause::Sysctl(_) => {
                "Add the server's user to the group named by kernel.io_uring_group, set \
                 kernel.io_uring_disabled to 0, or use io_method = worker."
            }
            RefusalCause::Seccomp => {
                "Run the container or service with a seccomp profile that allows io_uring_setup, \
                 io_uring_enter and io_uring_register, or use io_method = worker."
            }
            RefusalCause::SecurityModule => {
                "Look for denials of SELinux or another security module, or use io_method = worker."
            }
            RefusalCause::Memlock(_) => {
                "Raise the limit (ulimit -l, LimitMEMLOCK=), lower max_connections or \
                 io_max_concurrency, or use io_method = worker."
            }
            RefusalCause::ProcessDescriptors(_) | RefusalCause::TooFewDescriptors { .. } => {
                "Raise the limit (ulimit -n, LimitNOFILE=), lower max_connections, or use \
                 io_method = worker."
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
