//! The archive's commands, run as by a server's shell and by an administrator.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Instant;

use forebay_format::wal::page_header::{LongHeader, PageHeader};
use forebay_format::{Lsn, SegmentSize};
use tempfile::TempDir;

use forebay_testkit::process::Child;

const SYSTEM: u64 = 7_418_000_000_000_000_001;

/// A data directory and an archive.
pub(crate) struct Fixture(TempDir);

impl Fixture {
    pub(crate) fn new() -> Fixture {
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
        for name in ["data/pg_wal/archive_status", "data/global", "archive"] {
            fs::create_dir_all(dir.path().join(name)).expect("a directory");
        }
        let control =
            [SYSTEM.to_le_bytes().as_slice(), &1800_u32.to_le_bytes(), &[0; 100]].concat();
        fs::write(dir.path().join("data/global/pg_control"), control).expect("written");
        Fixture(dir)
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.0.path().join("data")
    }

    fn archive(&self) -> PathBuf {
        self.0.path().join("archive")
    }

    pub(crate) fn segment(&self, number: u64) -> String {
        let size = SegmentSize::new(1 << 20).expect("a size");
        let mut bytes: Vec<u8> = (0..size.bytes()).map(|n| (n * number / 7) as u8).collect();
        let long = LongHeader { system_id: SYSTEM, segment_size: size.get(), block_size: 8192 };
        let page_addr = Lsn(number * size.bytes());
        PageHeader { info: 0, timeline: 1, page_addr, rem_len: 0, long: Some(long) }
            .encode(&mut bytes);
        let name = size.file_name(1, number);
        fs::write(self.data().join("pg_wal").join(&name), bytes).expect("written");
        name
    }

    /// A command in the data directory, where the server runs it.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
        command.args(words).current_dir(self.data()).env("FOREBAY_ARCHIVE", self.archive());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn run(&self, words: &[&str]) -> Output {
        self.command(words).output().expect("it runs")
    }

    fn push(&self, name: &str, options: &[&str]) -> Output {
        let path = format!("pg_wal/{name}");
        self.run(&[&["archive-push", path.as_str()], options].concat())
    }

    fn get(&self, name: &str, options: &[&str]) -> Output {
        self.run(&[&["archive-get", name, "pg_wal/RECOVERYXLOG"], options].concat())
    }

    fn archiverd(&self, options: &[&str]) -> Archiverd {
        let data = self.data();
        let data = data.to_string_lossy();
        let mut command = self.command(&[&["archiverd", "-D", &data], options].concat());
        let started = Child::spawn(&mut command);
        started
            .wait_for_line("archiverd serves")
            .unwrap_or_else(|log| panic!("archiverd ended: {log}"));
        Archiverd(started)
    }
}

struct Archiverd(Child);

impl Archiverd {
    fn kill(mut self, signal: &str) -> bool {
        self.0.signal(signal);
        self.0.wait().success()
    }
}

pub(crate) fn code(output: &Output) -> i32 {
    output.status.code().unwrap_or_else(|| panic!("{}", text(output)))
}

pub(crate) fn text(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

#[test]
fn a_segment_is_stored_and_restored() {
    let fixture = Fixture::new();
    let name = fixture.segment(3);
    for _ in 0..2 {
        let pushed = fixture.push(&name, &["--compress", "zstd"]);
        assert_eq!((code(&pushed), text(&pushed).as_str()), (0, ""));
    }
    assert!(fixture.archive().join(format!("{name}.zst")).exists());
    let restored = fixture.get(&name, &[]);
    assert_eq!((code(&restored), text(&restored).as_str()), (0, ""));
    let wal = fixture.data().join("pg_wal");
    assert!(fs::read(wal.join("RECOVERYXLOG")).unwrap() == fs::read(wal.join(&name)).unwrap());
}

#[test]
fn exit_codes_that_recovery_depends_on() {
    let fixture = Fixture::new();
    let name = fixture.segment(3);
    assert_eq!(code(&fixture.get(&name, &[])), 126, "there is no archive yet");
    assert_eq!(code(&fixture.push(&name, &[])), 0);
    let absent = fixture.get("000000010000000000000004", &[]);
    assert_eq!(
        (code(&absent), text(&absent).as_str()),
        (1, ""),
        "a server asks for many a file that never was"
    );
    let absent = fixture.get("00000002.history", &[]);
    assert_eq!((code(&absent), text(&absent).as_str()), (1, ""));
    assert!(!fixture.data().join("pg_wal/RECOVERYXLOG").exists());
    for words in [
        vec!["archive-get", &name],
        vec!["archive-get", &name, "pg_wal/RECOVERYXLOG", "--nonsense"],
        vec!["archive-get", "junk", "pg_wal/RECOVERYXLOG"],
        vec!["archive-get", &name, "pg_wal/RECOVERYXLOG", "--archive", "/nowhere/at/all"],
        vec!["archive-get", &name, "pg_wal/RECOVERYXLOG", "--archive", "ftp://host/prefix"],
        vec!["archive-get", &name, "pg_wal/RECOVERYXLOG", "--encrypt", "/nowhere/key"],
        vec!["archive-get", &name, "nowhere/RECOVERYXLOG"],
        vec!["archive-get", &name, "pg_wal/RECOVERYXLOG", "--layout", "hashed"],
    ] {
        let output = fixture.run(&words);
        assert_eq!(code(&output), 126, "{words:?}: {}", text(&output));
        assert!(!output.stderr.is_empty(), "{words:?}");
    }
    let unset = fixture
        .command(&["archive-get", &name, "pg_wal/RECOVERYXLOG"])
        .env_remove("FOREBAY_ARCHIVE")
        .output();
    assert_eq!(code(&unset.expect("it runs")), 126);
}

#[test]
fn archive_push_fails_with_1_and_says_why() {
    let fixture = Fixture::new();
    let name = fixture.segment(3);
    assert_eq!(code(&fixture.push(&name, &[])), 0);
    let path = fixture.data().join("pg_wal").join(&name);
    let mut bytes = fs::read(&path).unwrap();
    bytes[10_000] ^= 1;
    fs::write(&path, bytes).unwrap();
    let pushed = fixture.push(&name, &[]);
    assert_eq!(code(&pushed), 1);
    assert!(text(&pushed).contains("already exists with different contents"), "{}", text(&pushed));
    let pushed = fixture.push("xlogtemp.5", &[]);
    assert_eq!(code(&pushed), 1, "{}", text(&pushed));
    let pushed = fixture.push(&name, &["--archive", "/nowhere/at/all"]);
    assert_eq!(code(&pushed), 1, "{}", text(&pushed));
}

#[test]
fn a_key_that_others_can_read_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let fixture = Fixture::new();
    let name = fixture.segment(3);
    let key = fixture.0.path().join("key");
    fs::write(&key, "5a".repeat(32)).unwrap();
    let path = key.to_string_lossy().into_owned();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    let pushed = fixture.push(&name, &["--encrypt", &path]);
    assert_eq!(code(&pushed), 1);
    assert!(text(&pushed).contains("can be read by others"), "{}", text(&pushed));
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(code(&fixture.push(&name, &["--encrypt", &path])), 0);
    assert!(fixture.archive().join(format!("{name}.enc")).exists());
    assert_eq!(code(&fixture.get(&name, &[])), 126, "without the key");
    assert_eq!(code(&fixture.get(&name, &["--encrypt", &path])), 0);
}

#[test]
fn with_a_key_an_unencrypted_archive_must_be_accepted() {
    use std::os::unix::fs::PermissionsExt;
    let fixture = Fixture::new();
    let name = fixture.segment(3);
    assert_eq!(code(&fixture.push(&name, &[])), 0);
    let key = fixture.0.path().join("key");
    fs::write(&key, "5a".repeat(32)).unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    let path = key.to_string_lossy().into_owned();
    let refused = fixture.get(&name, &["--encrypt", &path]);
    assert_eq!(code(&refused), 126);
    assert!(
        text(&refused).contains("is not authenticated, though a key was given"),
        "{}",
        text(&refused)
    );
    assert_eq!(code(&fixture.get(&name, &["--encrypt", &path, "--accept-unencrypted"])), 0);
}

#[test]
fn archiverd_serves_and_its_end_does_no_harm() {
    let fixture = Fixture::new();
    let names: Vec<String> = (3..8).map(|number| fixture.segment(number)).collect();
    for name in &names {
        fs::write(fixture.data().join(format!("pg_wal/archive_status/{name}.ready")), "").unwrap();
    }
    let archiverd = fixture.archiverd(&[]);
    assert!(fixture.data().join("forebay-archiverd.sock").exists());
    for name in &names {
        let pushed = fixture.push(name, &[]);
        assert_eq!(code(&pushed), 0, "{}", text(&pushed));
        assert!(fixture.archive().join(format!("{name}.manifest")).exists());
    }
    assert_eq!(code(&fixture.get(&names[0], &[])), 0);
    assert_eq!(code(&fixture.get(&names[1], &[])), 0);
    assert_eq!(code(&fixture.get("000000010000000000000077", &[])), 1);
    // After a kill its socket is left, nobody answers, and the commands do the work.
    archiverd.kill("-KILL");
    let more = fixture.segment(9);
    assert_eq!(code(&fixture.push(&more, &[])), 0);
    assert_eq!(code(&fixture.get(&more, &[])), 0);
    // Another one takes over, and ends when told to.
    let archiverd = fixture.archiverd(&["--transfers", "0"]);
    assert_eq!(code(&fixture.push(&more, &[])), 0);
    assert!(archiverd.kill("-TERM"), "it ends with 0");
    assert!(!fixture.data().join("forebay-archiverd.sock").exists());
}

#[test]
fn an_archive_is_listed_verified_and_expired() {
    let fixture = Fixture::new();
    let names: Vec<String> =
        [3, 4, 5, 7].into_iter().map(|number| fixture.segment(number)).collect();
    for name in &names {
        assert_eq!(code(&fixture.push(name, &["--layout", "hashed", "--compress", "lz4"])), 0);
    }
    let listed = fixture.run(&["archive-list"]);
    assert_eq!(code(&listed), 0, "{}", text(&listed));
    assert!(
        text(&listed).contains("layout hashed") && text(&listed).contains(&names[2]),
        "{}",
        text(&listed)
    );
    let json = fixture.run(&["archive-list", "--json", "--long"]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).expect("it is JSON");
    assert_eq!(json["ranges"].as_array().map(Vec::len), Some(2));
    assert_eq!(json["files"].as_array().map(Vec::len), Some(4));
    let verified = fixture.run(&["archive-verify"]);
    assert_eq!(code(&verified), 1);
    assert!(
        text(&verified).contains("error: 000000010000000000000006 is missing"),
        "{}",
        text(&verified)
    );
    let name = fixture.segment(6);
    assert_eq!(code(&fixture.push(&name, &[])), 0);
    let verified = fixture.run(&["archive-verify", "-j", "3"]);
    assert_eq!(code(&verified), 0, "{}", text(&verified));
    assert_eq!(code(&fixture.run(&["archive-verify", "--archive", "/nowhere/at/all"])), 2);
    let refused = fixture.run(&["archive-expire"]);
    assert_eq!(code(&refused), 1, "{}", text(&refused));
    let tried = fixture.run(&["archive-expire", "--before", &names[2], "--dry-run"]);
    assert!(
        text(&tried).contains("would be removed") && text(&tried).contains(&names[0]),
        "{}",
        text(&tried)
    );
    let expired = fixture.run(&["archive-expire", "--before", &names[2]]);
    assert_eq!(code(&expired), 0, "{}", text(&expired));
    assert_eq!(code(&fixture.get(&names[1], &[])), 1);
    assert_eq!(code(&fixture.get(&names[2], &[])), 0);
    assert_eq!(code(&fixture.run(&["archive-verify"])), 0);
}

/// The real program, killed at random moments.
#[test]
fn a_kill_leaves_nothing_half_done() {
    let fixture = Fixture::new();
    let began = Instant::now();
    let name = fixture.segment(3);
    assert_eq!(code(&fixture.push(&name, &[])), 0);
    let whole = began.elapsed();
    for n in 0..20_u32 {
        let name = fixture.segment(u64::from(n) + 10);
        let path = format!("pg_wal/{name}");
        let mut child = fixture
            .command(&["archive-push", &path, "--compress", "zstd"])
            .spawn()
            .expect("it starts");
        let begun = Instant::now();
        while begun.elapsed() < whole * n / 15 {
            std::hint::spin_loop();
        }
        let _ = child.kill();
        let acknowledged = child.wait().expect("it ends").success();
        let found = fixture.get(&name, &[]);
        match code(&found) {
            0 => assert!(same(&fixture, &name)),
            1 => assert!(!acknowledged, "{name} is lost"),
            other => panic!("{other}: {}", text(&found)),
        }
        let again = fixture.push(&name, &["--compress", "zstd"]);
        assert_eq!(code(&again), 0, "{}", text(&again));
        assert_eq!(code(&fixture.get(&name, &[])), 0);
        assert!(same(&fixture, &name));
    }
}

fn same(fixture: &Fixture, name: &str) -> bool {
    let read = |path: &Path| fs::read(path).expect("it can be read");
    let wal = fixture.data().join("pg_wal");
    read(&wal.join(name)) == read(&wal.join("RECOVERYXLOG"))
}
