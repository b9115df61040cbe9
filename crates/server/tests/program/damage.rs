//! Damaged pages, and the settings that accept them: zero_damaged_pages, ignore_checksum_failure.

use super::harness::{Server, failure, value};
use forebay_server::client::{Client, Fields};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

const BLOCK: u64 = 8192;
const ROWS: u64 = 2000;

/// A data directory with a table `hurt`, whose block 3 has a wrong checksum and block 9 an
/// impossible header besides.
struct Damaged {
    folder: Arc<TempDir>,
    /// "base/5/16384"
    path: String,
    pages: u64,
}

impl Damaged {
    fn new() -> Damaged {
        let server = Server::new();
        let mut client = server.client();
        client.query("CREATE TABLE hurt (i int4, s text)").expect("creates");
        let fill = "INSERT INTO hurt SELECT generate_series, repeat('x', 100) FROM \
            generate_series(1, 2000)";
        client.query(fill).expect("fills");
        let file = value(&mut client, "SELECT relfilenode FROM pg_class WHERE relname = 'hurt'");
        let size: u64 =
            value(&mut client, "SELECT pg_relation_size('hurt')").parse().expect("a number");
        drop(client);
        let folder = server.stop();
        let path = format!("base/5/{file}");
        let disk = folder.path().join("data").join(&path);
        overwrite(&disk, 3 * BLOCK + 6000, |byte| byte ^ 1);
        overwrite(&disk, 9 * BLOCK + 12, |_| 0xff);
        Damaged { folder, path, pages: size / BLOCK }
    }

    fn serve(&self, settings: &[&str]) -> Server {
        // Only statements read the damaged pages.
        let settings = [settings, &["pg_prewarm.autoprewarm=off"]].concat();
        Server::on(Arc::clone(&self.folder), &settings)
    }

    /// Rows on a page that is full: all but the last are, and hold equally many.
    fn rows_per_page(&self) -> u64 {
        ROWS.div_ceil(self.pages)
    }
}

/// Changes two bytes of a file.
fn overwrite(path: &Path, at: u64, change: impl Fn(u8) -> u8) {
    let disk =
        std::fs::OpenOptions::new().read(true).write(true).open(path).expect("the table's file");
    let mut bytes = [0; 2];
    disk.read_exact_at(&mut bytes, at).expect("reads");
    disk.write_all_at(&bytes.map(change), at).expect("writes");
}

/// The value of a query and its warnings, all of which are of damaged data.
fn with_warnings(client: &mut Client, sql: &str) -> (String, Vec<String>) {
    let answer = client.query(sql).unwrap_or_else(|e| panic!("{sql}: {e}"));
    let told = |notice: &Fields| {
        assert_eq!((notice.get(b'S'), notice.get(b'C')), ("WARNING", "XX001"), "{notice:?}");
        notice.get(b'M').to_owned()
    };
    let value = answer.value().unwrap_or_else(|| panic!("{sql}: {answer:?}")).to_owned();
    (value, answer.notices.iter().map(told).collect())
}

const COUNT: &str = "SELECT count(*) FROM hurt";
const FAILURES: &str = "SELECT checksum_failures FROM pg_stat_database WHERE datid = 5";
const SEEN: &str = "SELECT checksum_last_failure IS NOT NULL FROM pg_stat_database WHERE datid = 5";

/// Every way to read: method and direct I/O, where the disk has it.
fn ways() -> Vec<[&'static str; 2]> {
    let methods = ["io_method=sync", "io_method=worker", "io_method=auto"];
    let direct = forebay_aio::probe_direct(&std::env::temp_dir()).is_ok();
    let kinds: &[&str] = if direct { &["io_direct=", "io_direct=data"] } else { &["io_direct="] };
    methods.into_iter().flat_map(|method| kinds.iter().map(move |kind| [method, *kind])).collect()
}

#[test]
fn damaged_pages_fail_are_ignored_or_zeroed_as_the_session_says() {
    let damaged = Damaged::new();
    let (path, rows) = (&damaged.path, damaged.rows_per_page());
    for way in ways() {
        let server = damaged.serve(&way);
        let mut client = server.client();
        assert_eq!(value(&mut client, FAILURES), "0");
        assert_eq!(value(&mut client, SEEN), "f");
        let invalid = |block: u32| format!("invalid page in block {block} of relation \"{path}\"");
        assert_eq!(failure(&mut client, COUNT), ("XX001".to_owned(), invalid(3)), "{way:?}");
        let once: u64 = value(&mut client, FAILURES).parse().expect("a number");
        assert!(once >= 1);
        assert_eq!(value(&mut client, SEEN), "t");

        // A wrong checksum can be ignored, an impossible header can't.
        client.query("SET ignore_checksum_failure = on").expect("a superuser may");
        assert_eq!(failure(&mut client, COUNT), ("XX001".to_owned(), invalid(9)), "{way:?}");
        // The damaged page is in memory now, where other sessions read it as well.
        let mut other = server.client();
        assert_eq!(failure(&mut other, COUNT).1, invalid(9));

        client.query("SET zero_damaged_pages = on").expect("a superuser may");
        let (left, warnings) = with_warnings(&mut client, COUNT);
        assert_eq!(left, (ROWS - rows).to_string());
        assert_eq!(warnings, [format!("{}; zeroing out page", invalid(9))], "{way:?}");
        assert_eq!(
            with_warnings(&mut client, COUNT),
            (left.clone(), Vec::new()),
            "it is told once"
        );
        client.query("RESET ALL").expect("resets");
        assert_eq!(with_warnings(&mut client, COUNT).0, left);
        assert!(value(&mut client, FAILURES).parse::<u64>().expect("a number") >= once + 2);
        drop((client, other));
        // Nothing was written: what was zeroed is damaged again.
        server.stop();
        let server = damaged.serve(&way);
        assert_eq!(failure(&mut server.client(), COUNT).1, invalid(3));
        server.stop();
    }
}

#[test]
fn warnings_come_with_the_rows_of_every_kind_of_statement() {
    let damaged = Damaged::new();
    let (path, rows) = (&damaged.path, damaged.rows_per_page());
    let ignoring = format!("ignoring checksum failure in block 3 of relation \"{path}\"");
    let zeroing = |block: u32| {
        format!("invalid page in block {block} of relation \"{path}\"; zeroing out page")
    };
    let both = ["zero_damaged_pages=on", "ignore_checksum_failure=on"];
    let fresh = || damaged.serve(&["io_combine_limit=1"]);

    // From the server's own settings, for COPY.
    let server = damaged.serve(&[both[0], both[1], "io_combine_limit=1"]);
    let answer = server.client().query("COPY hurt TO STDOUT").expect("copies");
    let told: Vec<&str> = answer.notices.iter().map(|notice| notice.get(b'M')).collect();
    assert_eq!(told, [ignoring.as_str(), &zeroing(9)]);
    assert_eq!(answer.copied.iter().filter(|b| **b == b'\n').count() as u64, ROWS - rows);
    server.stop();

    // From the startup packet, for a query that reads the rows.
    let server = fresh();
    let mut client =
        server.connect(&[("user", "postgres"), ("zero_damaged_pages", "on")]).expect("connects");
    let (left, warnings) = with_warnings(&mut client, "SELECT count(s) FROM hurt WHERE i > 0");
    assert_eq!((left, warnings), ((ROWS - 2 * rows).to_string(), vec![zeroing(3), zeroing(9)]));
    drop(client);
    server.stop();

    // For one transaction, and for functions that read without a query. The page with the error is
    // not read again.
    let server = fresh();
    let mut client = server.client();
    client.query("BEGIN; SET LOCAL ignore_checksum_failure = on").expect("begins");
    let (blocks, warnings) =
        with_warnings(&mut client, "SELECT pg_prewarm('hurt', 'buffer', 'main', 3, 3)");
    assert_eq!((blocks.as_str(), warnings), ("1", vec![ignoring.clone()]));
    client.query("ROLLBACK").expect("rolls back");
    let prewarm = "SELECT pg_prewarm('hurt', 'buffer', 'main', 9, 9)";
    assert_eq!(failure(&mut client, prewarm).0, "XX001");
    assert_eq!(value(&mut client, "SHOW ignore_checksum_failure"), "off");
    drop(client);
    server.stop();
}

#[test]
fn damage_in_a_temporary_table_names_its_file() {
    let server = Server::new();
    let mut client = server.client();
    client.query("SET temp_buffers = 100; CREATE TEMP TABLE t (i int4, s text)").expect("creates");
    let fill =
        "INSERT INTO t SELECT generate_series, repeat('x', 1000) FROM generate_series(1, 7000)";
    client.query(fill).expect("fills");
    let node = value(&mut client, "SELECT relfilenode FROM pg_class WHERE relname = 't'");
    let path = format!("base/5/t0_{node}");
    // It has left the few buffers.
    overwrite(&server.data_dir().join(&path), 3 * BLOCK + 6000, |byte| byte ^ 1);
    let invalid = format!("invalid page in block 3 of relation \"{path}\"");
    assert_eq!(
        failure(&mut client, "SELECT count(*) FROM t"),
        ("XX001".to_owned(), invalid.clone())
    );
    assert_eq!(value(&mut client, FAILURES), "1");
    client.query("SET zero_damaged_pages = on").expect("a superuser may");
    let (left, warnings) = with_warnings(&mut client, "SELECT count(*) FROM t");
    assert_eq!((left.as_str(), warnings), ("6993", vec![format!("{invalid}; zeroing out page")]));
    client.query("DROP TABLE t").expect("drops");
}
