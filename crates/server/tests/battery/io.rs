//! The server's system calls, and the kernel's page cache.

use std::fs;
use std::path::Path;
use std::process::Command;

use forebay_testkit::process::feed;

use super::forebay::{Forebay, scratch};

const ROWS: u32 = 400_000;

fn load(server: &Forebay) {
    server.query("CREATE TABLE t (id int8, filler text)");
    let rows: String = (0..ROWS)
        .map(|id| format!("{id}\tsome filler to give the row a size of its own\n"))
        .collect();
    let mut psql = server.psql();
    psql.args(["-c", "COPY t FROM STDIN"]);
    assert!(feed(psql, rows.as_bytes()).status.success());
}

/// The table's file, relative to the data directory.
fn table_file(server: &Forebay) -> String {
    let node = server.query("SELECT relfilenode FROM pg_class WHERE relname = 't'");
    format!("base/5/{node}")
}

#[test]
#[ignore = "run by cargo xtask test"]
fn direct_opens_combined_reads_and_gathered_log_writes() {
    let folder = scratch("strace");
    let directory = folder.path().join("data");
    let direct = [
        "io_direct=data,wal,wal_init",
        "io_method=sync",
        // Enough to look ahead: a scan may pin a 32nd of the pool.
        "shared_buffers=16MB",
        "wal_sync_method=fdatasync",
        "pg_prewarm.autoprewarm=off",
    ];
    let server = Forebay::start(&directory, &direct);
    load(&server);
    let file = table_file(&server);
    server.stop();

    let calls = "trace=open,openat,pread64,preadv,preadv2,pwrite64,pwritev,pwritev2,fdatasync";
    for limit in [4_u64, 16, 32] {
        let trace = folder.path().join(format!("trace-{limit}"));
        let strace =
            ["strace", "-f", "-y", "-s", "256", "-e", calls, "-o", trace.to_str().expect("UTF-8")];
        let combine = format!("io_combine_limit={limit}");
        let at_most = format!("io_max_combine_limit={limit}");
        let mut settings = direct.to_vec();
        settings.extend([combine.as_str(), at_most.as_str()]);
        let server = Forebay::start_under(&strace, &directory, &settings);
        assert_eq!(server.query("SELECT count(*) FROM t"), ROWS.to_string());
        // One transaction of many rows: its log is written in few, large writes.
        server.query("CREATE TABLE copy (id int8, filler text)");
        let rows: String = (0..20_000).map(|id| format!("{id}\tfiller\n")).collect();
        let mut psql = server.psql();
        psql.args(["-c", "COPY copy FROM STDIN"]);
        assert!(feed(psql, rows.as_bytes()).status.success());
        server.query("DROP TABLE copy");
        server.stop();
        let trace = fs::read_to_string(&trace).expect("strace wrote its output");
        let (opens, reads) = (opens_of(&trace, &file), sizes(&trace, "pread", &file));
        assert!(
            !opens.is_empty() && opens.iter().all(|open| open.contains("O_DIRECT")),
            "{opens:?}"
        );
        assert_eq!(
            reads.iter().max(),
            Some(&(limit * 8192)),
            "reads are combined up to io_combine_limit"
        );
        let total: u64 = reads.iter().sum();
        let mean = total / reads.len() as u64;
        assert!(mean > limit * 8192 * 3 / 4, "a cold scan reads {mean} bytes at a time");
        let log_opens = opens_of(&trace, "pg_wal/0000");
        assert!(log_opens.iter().any(|open| open.contains("O_DIRECT")), "{log_opens:?}");
        let writes = sizes(&trace, "pwrite", "pg_wal/0000");
        assert!(
            writes.iter().any(|size| *size >= 64 * 1024),
            "log writes are gathered: {writes:?}"
        );
    }
}

#[test]
#[ignore = "run by cargo xtask test"]
fn the_kernel_caches_nothing_of_a_table_under_direct_io() {
    for method in ["sync", "worker", "io_uring"] {
        let folder = scratch("cache");
        let method = format!("io_method={method}");
        let settings = |direct| [method.as_str(), direct, "shared_buffers=4MB"];
        let directory = folder.path().join("data");
        let server = Forebay::start(&directory, &settings("io_direct=data,wal,wal_init"));
        load(&server);
        server.query("CHECKPOINT");
        assert_eq!(server.query("SELECT count(*) FROM t"), ROWS.to_string());
        let file = directory.join(table_file(&server));
        assert_eq!(cached_bytes(&file), 0, "{method}");
        server.stop();
        // The measurement can show the opposite: a buffered scan fills the cache.
        let server = Forebay::start(&directory, &settings("io_direct="));
        assert_eq!(server.query("SELECT count(*) FROM t"), ROWS.to_string());
        assert!(cached_bytes(&file) > 8 << 20, "{method}: a buffered scan is cached");
        server.stop();
    }
}

/// How much of a file the kernel's page cache holds.
fn cached_bytes(file: &Path) -> u64 {
    let output =
        Command::new("fincore").args(["--bytes", "--noheadings", "-o", "RES"]).arg(file).output();
    let output = output.expect("fincore (util-linux) runs");
    String::from_utf8_lossy(&output.stdout).trim().parse().expect("fincore prints a number")
}

fn opens_of<'trace>(trace: &'trace str, file: &str) -> Vec<&'trace str> {
    trace
        .lines()
        .filter(|line| {
            (line.contains("open(") || line.contains("openat("))
                && line.contains(file)
                && !line.contains("ENOENT")
        })
        .collect()
}

/// The results of the calls that begin with `call` on `file`.
fn sizes(trace: &str, call: &str, file: &str) -> Vec<u64> {
    let lines = trace.lines().filter(|line| line.contains(call) && line.contains(file));
    lines.filter_map(|line| line.rsplit_once(" = ")?.1.parse().ok()).collect()
}
