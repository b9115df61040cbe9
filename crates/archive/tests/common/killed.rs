//! A child process that kills itself at one of its file system calls. The child is an ignored test
//! of the same program.

use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use forebay_aio::fault::{Effect, FaultPlan, Ops, Rule};
use forebay_aio::sync::Arc;
use forebay_aio::sync::atomic::{AtomicU64, Ordering};
use forebay_aio::{Aio, AioConfig, Errno, MethodKind, PosixNamespace};

const AT: &str = "FOREBAY_TEST_KILLED_AT";

/// In the child: an Aio that kills the process at the call that its parent has chosen. None: the
/// test was not started by [`runs_to_its_end`].
pub fn lethal_aio() -> Option<Arc<Aio>> {
    let at: u64 = std::env::var(AT).ok()?.parse().unwrap();
    let (plan, calls) = (FaultPlan::new(), AtomicU64::new(0));
    let rule = Rule::on(Ops::ALL).when(move |_| {
        if calls.fetch_add(1, Ordering::SeqCst) == at {
            let own = rustix::process::getpid();
            let _ = rustix::process::kill_process(own, rustix::process::Signal::KILL);
        }
        false
    });
    plan.add(rule, Effect::Fail(Errno::IO));
    let (names, config) = (Arc::new(PosixNamespace), AioConfig::default());
    Some(plan.open(names, MethodKind::Sync, config).unwrap())
}

/// Runs the ignored test `test` in a child that is killed at its call number `at`. False: it was
/// killed; true: it ended before that call.
pub fn runs_to_its_end(test: &str, at: u64, variables: &[(&str, &str)]) -> bool {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--ignored", "--nocapture"])
        .env(AT, at.to_string())
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    let ended = child.status.success();
    assert!(ended || child.status.signal() == Some(9), "{child:?}");
    ended
}
