//! `cargo xtask watch` on programs that print as test binaries do and hang: they are named, shown
//! and ended.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A folder with a program of tests.
struct Fake(PathBuf);

impl Fake {
    fn new(name: &str, script: &str) -> Fake {
        let folder =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        fs::write(folder.join("tests.sh"), script).expect("a script");
        Fake(folder)
    }

    /// Runs it under watch, with a bound of so many seconds; the script finds its folder in $1.
    fn watch(&self, bounds: &[&str]) -> Output {
        let mut xtask = Command::new(env!("CARGO_BIN_EXE_xtask"));
        xtask
            .arg("watch")
            .args(bounds)
            .args(["--", "sh"])
            .arg(self.0.join("tests.sh"))
            .arg(&self.0);
        xtask.output().expect("xtask runs")
    }

    /// Whether the process that has written its number into a file of the folder has not ended.
    /// (One that nobody has waited for yet has.)
    fn alive(&self, file: &str) -> bool {
        let pid = fs::read_to_string(self.0.join(file)).expect("it has written its number");
        let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn said(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// A server that detaches itself as PostgreSQL's do, and keeps the output open.
const DETACHED: &str = "(setsid sh -c 'echo $$ > \"$0\"; exec sleep 1000' \"$1/detached\" & )\n\
                        while ! test -s \"$1/detached\"; do :; done\n";

#[test]
fn tests_that_hang_are_named_shown_and_ended() {
    let script = format!(
        "echo 'running 3 tests'\necho 'test a ... ok'\n{DETACHED}\
         echo 'test b::hangs has been running for over 60 seconds'\nprintf 'test c::too ... '\n\
         sh -c 'echo $$ > \"$0\"; exec sleep 1001' \"$1/child\"\n"
    );
    let fake = Fake::new("hang", &script);
    let output = fake.watch(&["--idle", "15"]);
    let said = said(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("hangs: it has done nothing for 15s"), "{said}");
    for expected in
        ["test b::hangs has not ended", "it has begun: test c::too ...", "1 of 3 tests have ended"]
    {
        assert!(said.contains(expected), "{expected}: {said}");
    }
    assert!(
        said.contains("sleep 1001") && said.contains("waits in "),
        "its processes are shown: {said}"
    );
    assert!(said.contains("sleep 1000"), "and one that has detached itself: {said}");
    assert!(!fake.alive("child") && !fake.alive("detached"), "{said}");
}

#[test]
fn tests_that_are_busy_for_ever_are_ended() {
    let busy = Fake::new("busy", "echo 'running 1 test'\nwhile :; do :; done\n");
    for (bound, why) in
        [("--silent", "it has printed nothing for 1s"), ("--total", "it has not ended after 1s")]
    {
        let output = busy.watch(&[bound, "1"]);
        assert_eq!(output.status.code(), Some(1));
        assert!(said(&output).contains(why), "{}", said(&output));
    }
}

#[test]
fn what_a_test_leaves_behind_is_named_and_ended() {
    let script = format!("{DETACHED}echo 'test result: ok. 2 passed; 0 failed'\n");
    // The output is held open.
    let fake = Fake::new("left", &script);
    let output = fake.watch(&["--idle", "15"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        said(&output).contains("its output is held open") && !fake.alive("detached"),
        "{}",
        said(&output)
    );
    // The output is not.
    let fake = Fake::new("left-closed", &script.replace("exec sleep", "exec >&- 2>&-; exec sleep"));
    let output = fake.watch(&[]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(said(&output).contains("2 passed, 0 failed"), "{}", said(&output));
    assert!(
        said(&output).contains("left behind, and killed: ") && !fake.alive("detached"),
        "{}",
        said(&output)
    );
}

#[test]
fn what_ends_the_task_ends_everything_below_it() {
    let fake = Fake::new("ended", &format!("{DETACHED}echo $$ > \"$1/tests\"\nsleep 1002\n"));
    let mut xtask = Command::new(env!("CARGO_BIN_EXE_xtask"));
    xtask
        .args(["watch", "--", "sh"])
        .arg(fake.0.join("tests.sh"))
        .arg(&fake.0)
        .stdout(Stdio::null());
    let mut xtask = xtask.spawn().expect("xtask starts");
    while !fs::read_to_string(fake.0.join("tests")).is_ok_and(|text| text.ends_with('\n')) {
        assert!(xtask.try_wait().expect("a child").is_none(), "it has ended");
        std::thread::yield_now();
    }
    let kill = Command::new("kill").arg(xtask.id().to_string()).status();
    assert!(kill.expect("kill runs").success());
    assert_eq!(xtask.wait().expect("it ends").code(), Some(128 + 15));
    assert!(!fake.alive("tests") && !fake.alive("detached"));
}

/// Signals that a shell lets its background jobs ignore.
#[test]
fn tests_get_signals_that_were_ignored() {
    let fake = Fake::new("ignored", "kill -INT $$\necho 'it lives'\n");
    let mut shell = Command::new("sh");
    let script = "trap '' INT; exec \"$0\" watch -- sh \"$1\"";
    shell.args(["-c", script, env!("CARGO_BIN_EXE_xtask")]).arg(fake.0.join("tests.sh"));
    let output = shell.output().expect("runs");
    assert!(
        said(&output).contains("signal: 2") && !said(&output).contains("it lives"),
        "{}",
        said(&output)
    );
}
