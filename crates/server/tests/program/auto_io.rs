//! io_method and io_direct at auto, on machines that lack what they are for. In each case the
//! server starts, a table is filled and read, and it stops cleanly.

use super::harness::{Mount, Server, failure, refused, refused_by, value};
use forebay_testkit::free_port;
use forebay_testkit::io::has_io_uring;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use tempfile::TempDir;

const ALL: &str = "data, wal, wal_init";
const DIRECT: &[&str] = &["io_direct=auto", "shared_buffers=auto"];

/// Runs a program under a filter that refuses io_uring_setup, as container runtimes do.
const WITHOUT_IO_URING: &str = "
import ctypes, os, struct, sys
LOAD, EQUAL, RETURN, EPERM, ALLOW, IO_URING_SETUP = 0x20, 0x15, 0x06, 0x50001, 0x7fff0000, 425
steps = [(LOAD, 0, 0, 0), (EQUAL, 0, 1, IO_URING_SETUP)]
steps += [(RETURN, 0, 0, EPERM), (RETURN, 0, 0, ALLOW)]
class Program(ctypes.Structure):
    _fields_ = [('len', ctypes.c_ushort), ('steps', ctypes.c_char_p)]
program = Program(len(steps), b''.join(struct.pack('HBBI', *step) for step in steps))
prctl = ctypes.CDLL(None).prctl
NO_NEW_PRIVS, SECCOMP, FILTER = 38, 22, 2
if prctl(NO_NEW_PRIVS, 1, 0, 0, 0) or prctl(SECCOMP, FILTER, ctypes.byref(program), 0, 0):
    sys.exit('no filter')
os.execv(sys.argv[1], sys.argv[1:])
";

fn folder() -> Arc<TempDir> {
    Arc::new(tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder"))
}

/// The files that a server should find to be able to bypass the cache, in a directory like this.
fn expected(dir: &Path) -> &'static str {
    if forebay_aio::probe_direct(dir).is_ok() { ALL } else { "" }
}

/// Fills a table with about a kilobyte a row and reads it.
fn work(server: &Server, rows: u32) {
    let mut client = server.client();
    let fill = format!(
        "CREATE TABLE t (i int8, s text);
         INSERT INTO t SELECT g, repeat('x', 1000) FROM generate_series(1, {rows}) g; CHECKPOINT"
    );
    client.query(&fill).expect("fills");
    let sums = "SELECT sum(i) || ' ' || sum(length(s)) FROM t";
    let (rows, bytes) = (u64::from(rows), u64::from(rows) * 1000);
    assert_eq!(value(&mut client, sums), format!("{} {bytes}", rows * (rows + 1) / 2));
}

#[test]
fn without_io_uring_there_are_workers_and_the_log_says_why() {
    let server = Server::under(folder(), &["python3", "-c", WITHOUT_IO_URING], DIRECT);
    assert_eq!(server.value("SHOW io_method"), "auto");
    assert_eq!(server.value("SHOW io_method_status"), "worker");
    let line = server.wait_for_log("LOG:  io_method is \"worker\": could not set up io_uring: ");
    if has_io_uring() {
        assert!(
            line.contains("a seccomp filter of this process forbids the system call"),
            "{line}"
        );
    }
    work(&server, 1000);
    let folder = server.stop();
    // By its name it is refused.
    let data = folder.path().join("data");
    let log = refused_by(&["python3", "-c", WITHOUT_IO_URING], &data, &["io_method=io_uring"]);
    assert!(log.contains("FATAL:  could not set up io_uring: "), "{log}");
}

#[test]
fn rings_are_done_without_where_descriptors_are_few() {
    let settings = ["io_method=auto", "max_connections=20"];
    let server = Server::limited(folder(), Some("-n 200"), &settings);
    assert_eq!(server.value("SHOW io_method_status"), "worker");
    let line = server.wait_for_log("LOG:  io_method is \"worker\": the limit on descriptors ");
    assert!(line.contains("(RLIMIT_NOFILE, 200) leaves too few for io_uring"), "{line}");
    work(&server, 1000);
    server.stop();
}

#[test]
fn files_are_direct_where_the_file_system_can() {
    let folder = folder();
    let server = Server::under(Arc::clone(&folder), &[], DIRECT);
    let direct = expected(folder.path());
    assert_eq!(server.value("SHOW io_direct"), "auto");
    assert_eq!(server.value("SHOW debug_io_direct"), "auto");
    assert_eq!(server.value("SHOW io_direct_status"), direct);
    server.wait_for_log(&format!("LOG:  io_direct is \"{direct}\""));
    let (state, _) = failure(&mut server.client(), "SET io_direct_status = 'data'");
    assert_eq!(state, "55P02");
    work(&server, 1000);
    let server = Server::under(server.stop(), &[], &["debug_io_direct="]);
    assert_eq!(server.value("SHOW io_direct"), "");
    assert_eq!(server.value("SHOW io_direct_status"), "");
    server.stop();
}

#[test]
fn a_file_system_in_memory_is_direct_or_not() {
    let shm = Path::new("/dev/shm");
    if !shm.is_dir() {
        println!("skipped: a_file_system_in_memory_is_direct_or_not needs /dev/shm");
        return;
    }
    let folder = Arc::new(tempfile::tempdir_in(shm).expect("a folder"));
    let server = Server::under(Arc::clone(&folder), &[], DIRECT);
    assert_eq!(server.value("SHOW io_direct_status"), expected(folder.path()));
    work(&server, 1000);
    server.stop();
}

#[test]
fn a_file_system_without_direct_io_is_buffered_or_refused() {
    let folder = folder();
    let data = folder.path().join("data");
    let Some(_mount) = Mount::new(&data, "ramfs", "mode=700") else {
        println!("skipped: a_file_system_without_direct_io_is_buffered_or_refused needs root");
        return;
    };
    let server = Server::under(Arc::clone(&folder), &[], DIRECT);
    assert_eq!(server.value("SHOW io_direct"), "auto");
    assert_eq!(server.value("SHOW io_direct_status"), "");
    let line = server.wait_for_log("LOG:  io_direct is \"\": direct I/O is not possible in \"");
    assert!(
        line.contains("base\" (file system ramfs): the file system does not support"),
        "{line}"
    );
    work(&server, 1000);
    server.stop();
    let (status, log) = refused(&data, free_port(), &["io_direct=data"]);
    assert!(!status.success());
    assert!(log.contains("FATAL:  direct I/O is not possible in \""), "{log}");
    assert!(log.contains("DETAIL:  The setting \"io_direct\" asks for it."), "{log}");
}

#[test]
fn a_tablespace_without_direct_io_is_buffered_and_the_rest_is_direct() {
    let test = "a_tablespace_without_direct_io_is_buffered_and_the_rest_is_direct";
    let folder = folder();
    let place = folder.path().join("place");
    let Some(_mount) = Mount::new(&place, "ramfs", "mode=700") else {
        println!("skipped: {test} needs root");
        return;
    };
    let server = Server::under(Arc::clone(&folder), &[], DIRECT);
    assert_eq!(server.value("SHOW io_direct_status"), expected(folder.path()));
    let mut client = server.client();
    for sql in [
        &format!("CREATE TABLESPACE place LOCATION '{}'", place.display()),
        "CREATE TABLE there (i int8) TABLESPACE place",
        "INSERT INTO there SELECT g FROM generate_series(1, 10000) g",
        "CHECKPOINT",
        "INSERT INTO there SELECT g FROM generate_series(1, 10000) g",
    ] {
        client.query(sql).unwrap_or_else(|e| panic!("{sql}: {e}"));
    }
    if expected(folder.path()) == ALL {
        let said = "LOG:  files are buffered by the kernel: direct I/O is not possible in \"";
        server.wait_for_log(said);
        assert_eq!(server.log().matches(said).count(), 1, "{}", server.log());
    }
    // Recovery writes there, too.
    let server = Server::under(server.kill(), &[], DIRECT);
    assert_eq!(server.value("SELECT count(*) FROM there"), "20000");
    server.stop();
}

#[test]
fn no_memory_may_be_locked() {
    let folder = Arc::new(tempfile::tempdir().expect("a folder"));
    // Root may lock what it likes.
    let nobody = 65534;
    let root = folder.path().metadata().expect("is there").uid() == 0;
    let run = if root {
        chown(folder.path(), Some(nobody), Some(nobody)).expect("given away");
        // The program may be where nobody else can look.
        let as_nobody = format!("setpriv --reuid={nobody} --regid={nobody} --clear-groups");
        format!("exec 3< \"$0\" && exec {as_nobody} /proc/self/fd/3 \"$@\"")
    } else {
        "exec \"$0\" \"$@\"".to_owned()
    };
    let limited = format!("ulimit -l 0 && {run}");
    let server = Server::under(folder, &["sh", "-c", &limited], DIRECT);
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", server.pid()));
    let limits = limits.expect("it runs");
    let locked = limits.lines().find_map(|line| line.strip_prefix("Max locked memory"));
    let locked = locked.expect("a line").split_whitespace().collect::<Vec<_>>();
    assert_eq!(locked, ["0", "0", "bytes"]);
    let method = server.value("SHOW io_method_status");
    server.wait_for_log(&format!("LOG:  io_method is \"{method}\""));
    work(&server, 1000);
    let folder = server.stop();

    // A command of PostgreSQL's prints nothing of how I/O is done.
    let checksums = Command::new("sh")
        .args(["-c", &limited, env!("CARGO_BIN_EXE_forebay"), "checksums", "--check"])
        .arg(folder.path().join("data"))
        .output()
        .expect("sh runs");
    let errors = String::from_utf8_lossy(&checksums.stderr);
    assert!(checksums.status.success() && errors.is_empty(), "{errors}");
}

/// A group of processes that may use so much memory, the kernel's cache of their files included.
struct MemoryGroup {
    dir: PathBuf,
}

impl MemoryGroup {
    /// None without the right to make one, or without the kernel's controller.
    fn new(bytes: u64) -> Option<MemoryGroup> {
        let name = format!("forebay-{}-{bytes}", std::process::id());
        let versions =
            [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")];
        versions.into_iter().find_map(|(root, limit)| {
            let dir = Path::new(root).join(&name);
            std::fs::create_dir(&dir).ok()?;
            let group = MemoryGroup { dir };
            let limit = group.dir.join(limit);
            (limit.exists() && std::fs::write(limit, bytes.to_string()).is_ok()).then_some(group)
        })
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.dir);
    }
}

/// Runs a program in a group. Without one it runs as it is: containers may not have the right to
/// make groups.
fn enter(group: Option<&MemoryGroup>) -> String {
    let Some(group) = group else { return "exec \"$0\" \"$@\"".to_owned() };
    let procs = group.dir.join("cgroup.procs");
    format!("echo $$ > \"{}\" && exec \"$0\" \"$@\"", procs.display())
}

#[test]
fn little_memory_is_enough_for_more_data() {
    for bytes in [512 << 20, 1 << 30] {
        let group = MemoryGroup::new(bytes);
        let server = Server::under(folder(), &["sh", "-c", &enter(group.as_ref())], DIRECT);
        if let Some(group) = group {
            let members = std::fs::read_to_string(group.dir.join("cgroup.procs"));
            assert_eq!(members.expect("is there").trim(), server.pid().to_string());
        }
        // More than the pool may have.
        work(&server, 1_200_000 >> u32::from(bytes < 1 << 30));
        server.stop();
    }
}

/// Takes memory and says so, and waits until its input ends. What it takes it fills with noise, as
/// fast as that can be made: on a busy machine the server gets its turn meanwhile.
const TAKE: &str = "
import os, sys
taken = [os.urandom(1 << 20) for _ in range(600)]
print(sum(map(len, taken)), flush=True)
sys.stdin.read()
";

#[test]
fn memory_that_another_program_takes_is_given_back() {
    let group = MemoryGroup::new(1 << 30);
    let enter = enter(group.as_ref());
    let server = Server::under(folder(), &["sh", "-c", &enter], DIRECT);
    work(&server, 400_000);
    let mut client = server.client();
    let mut pool = |column| {
        let row = format!("SELECT {column} FROM pg_stat_buffer_pool");
        value(&mut client, &row).parse::<u64>().expect("a number")
    };
    let (before, begun) = (pool("buffers"), pool("memory_shortages"));
    let mut other = Command::new("sh");
    let other = other.args(["-c", &enter, "python3", "-c", TAKE]);
    let mut other = other.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("starts");
    let mut said = String::new();
    let out = other.stdout.as_mut().expect("a pipe");
    BufReader::new(out).read_line(&mut said).expect("it runs");
    assert_eq!(said.trim(), (600 << 20).to_string(), "it has got its memory");
    if group.is_some() && expected(&server.data_dir()) == ALL {
        assert!(before > 50_000, "the table is in the pool of {before} buffers");
        assert!(pool("buffers") < before - 5_000, "of {before}: {}", pool("buffers"));
        assert!(pool("memory_shortages") > begun);
    }
    assert_eq!(value(&mut server.client(), "SELECT count(*) FROM t"), "400000");
    drop(other.stdin.take());
    assert!(other.wait().expect("it ends").success());
    server.stop();
}
