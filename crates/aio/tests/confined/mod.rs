//! Runs a test's body in a child process with fewer rights. The child is this test program again;
//! an environment variable tells it to run the body.

use std::os::unix::process::CommandExt;
use std::process::Command;

const MARK: &str = "FOREBAY_AIO_CONFINED";
const NOBODY: u32 = 65534;

/// The restriction of the child.
#[derive(Clone, Copy, Default)]
pub struct Confined {
    descriptors: Option<(u64, u64)>,
    locked_memory: Option<u64>,
    unprivileged: bool,
    /// A system call, its second argument if only that value is meant, and the error with which it
    /// fails.
    forbidden: Option<(libc::c_long, Option<u32>, i32)>,
}

#[allow(dead_code)]
impl Confined {
    /// Soft and hard limit on descriptors.
    pub fn descriptors(self, soft: u64, hard: u64) -> Confined {
        Confined { descriptors: Some((soft, hard)), ..self }
    }

    /// The maximum locked memory in bytes, and no capability to exceed it.
    pub fn locked_memory(self, bytes: u64) -> Confined {
        Confined { locked_memory: Some(bytes), unprivileged: true, ..self }
    }

    /// A system call that a seccomp filter fails, always or for one value of its second argument.
    pub fn forbid(self, call: libc::c_long, second: Option<u32>, errno: i32) -> Confined {
        Confined { forbidden: Some((call, second, errno)), ..self }
    }
}

/// Runs `body` in a child; `test` is the name of the calling test.
pub fn confined(test: &str, how: Confined, body: impl FnOnce()) {
    if std::env::var_os(MARK).is_some() {
        return body();
    }
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", test, "--nocapture", "--test-threads=1"]).env(MARK, "1");
    // SAFETY: geteuid has no preconditions.
    if how.unprivileged && unsafe { libc::geteuid() } == 0 {
        child.uid(NOBODY).gid(NOBODY).current_dir("/");
    }
    // SAFETY: between fork and exec only system calls are made, on values made before.
    unsafe { child.pre_exec(move || restrict(how)) };
    let out = child.output().unwrap();
    let said = String::from_utf8_lossy(&out.stdout);
    let complained = String::from_utf8_lossy(&out.stderr);
    assert!(
        out.status.success() && said.contains("1 passed"),
        "in the child:\n{said}\n{complained}"
    );
    said.lines().filter(|line| line.starts_with("skipped")).for_each(|line| println!("{line}"));
}

fn restrict(how: Confined) -> std::io::Result<()> {
    let set = |resource, soft, hard| {
        let limit = libc::rlimit { rlim_cur: soft, rlim_max: hard };
        // SAFETY: the structure lives during the call.
        check(unsafe { libc::setrlimit(resource, &limit) })
    };
    if let Some((soft, hard)) = how.descriptors {
        set(libc::RLIMIT_NOFILE, soft, hard)?;
    }
    if let Some(bytes) = how.locked_memory {
        set(libc::RLIMIT_MEMLOCK, bytes, bytes)?;
    }
    how.forbidden.map_or(Ok(()), |(call, second, errno)| filter(call, second, errno))
}

fn check(rc: libc::c_int) -> std::io::Result<()> {
    if rc == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

/// Installs a filter under which one call fails.
fn filter(call: libc::c_long, second: Option<u32>, errno: i32) -> std::io::Result<()> {
    const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    // Of seccomp_data: the call's number, and the low half of its second argument (little endian).
    const NUMBER: u32 = 0;
    const SECOND: u32 = 24;
    let step = |code, k, jt, jf| libc::sock_filter { code, jt, jf, k };
    let allow = step(RETURN, libc::SECCOMP_RET_ALLOW, 0, 0);
    let deny = step(RETURN, libc::SECCOMP_RET_ERRNO | errno as u32, 0, 0);
    // Without a second argument, the call's number is compared twice.
    let (field, value) = second.map_or((NUMBER, call as u32), |v| (SECOND, v));
    let mut program = [
        step(LOAD, NUMBER, 0, 0),
        step(EQUAL, call as u32, 0, 3),
        step(LOAD, field, 0, 0),
        step(EQUAL, value, 0, 1),
        deny,
        allow,
    ];
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: plain numbers.
    check(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) })?;
    // SAFETY: the program lives during the call, which copies it.
    check(unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program) })
}
