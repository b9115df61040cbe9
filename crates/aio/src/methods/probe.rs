//! Finds out whether io_uring can be used, and if not, why.
//!
//! The same error number has different causes, and the usual hint names the wrong one. So the
//! sysctl, the process's seccomp mode and the resource limits are read too.

#[cfg(target_os = "linux")]
use crate::limits::{Limits, descriptors_in_use};
use crate::refusal::{IoUringRefusal, RefusalCause};

/// What is known besides the error number.
#[derive(Clone, Copy, Debug, Default)]
struct Surroundings {
    /// kernel.io_uring_disabled; None if the kernel does not have the setting.
    disabled: Option<u32>,
    /// Whether a seccomp filter is active.
    seccomp: bool,
    /// RLIMIT_MEMLOCK, if it applies.
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
        // Some filters pretend that the call does not exist; the setting shows that it does.
        libc::ENOSYS if s.seccomp && s.disabled.is_some() => RefusalCause::Seccomp,
        libc::ENOSYS => RefusalCause::NotInKernel,
        // Without a limit, the memory itself ran out.
        libc::ENOMEM => s.memlock.map_or(RefusalCause::Other(errno), RefusalCause::Memlock),
        libc::EMFILE => RefusalCause::ProcessDescriptors(s.descriptors),
        libc::ENFILE => RefusalCause::SystemDescriptors,
        e => RefusalCause::Other(e),
    }
}

/// The cause of a failed set-up.
#[cfg(target_os = "linux")]
pub(crate) fn setup_refusal(errno: i32) -> IoUringRefusal {
    IoUringRefusal { cause: cause(errno, surroundings()) }
}

/// Why a ring refuses to register something. The sysctl is not the cause, since the ring was set
/// up. EINVAL means that the kernel does not have the operation.
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

/// Sets up a small ring and executes a no-op; the error tells why that failed.
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

/// Whether io_uring can be used with a ring for each of `backends`.
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

/// Other operating systems: never.
#[cfg(not(target_os = "linux"))]
pub(crate) fn probe_io_uring_for(_backends: usize) -> Result<(), IoUringRefusal> {
    probe_io_uring()
}

/// Other operating systems: never.
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
