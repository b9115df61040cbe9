//! How much memory a statement takes for a long value: as a rule one copy of it. The kernel tells
//! the most that the server has used.

use super::harness::Server;
use forebay_server::client::{Answer, Client};
use std::fs;

/// Bytes of the value.
const LONG: usize = 192 << 20;
const MB: usize = 1 << 20;
/// What a statement may take beside copies of the value.
const REST: usize = 24 * MB;

/// The most memory that the server has used since the last call, beside what it used then.
struct Peak {
    pid: u32,
    before: usize,
}

impl Peak {
    fn status(pid: u32, field: &str) -> usize {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("a process");
        let line = status.lines().find_map(|line| line.strip_prefix(field)).expect("a field");
        let kilobytes = line.trim_matches([':', ' ', '\t']).trim_end_matches(" kB");
        kilobytes.parse::<usize>().expect("a number") * 1024
    }

    fn begin(server: &Server) -> Peak {
        let pid = server.pid();
        // The peak begins anew.
        fs::write(format!("/proc/{pid}/clear_refs"), "5").expect("the peak is reset");
        Peak { pid, before: Peak::status(pid, "VmRSS") }
    }

    /// Whether it took at most so many copies of the value.
    fn end(self, what: &str, copies: usize) {
        let most = Peak::status(self.pid, "VmHWM");
        let taken = most.saturating_sub(self.before);
        println!("{what}: {} MB for a value of {} MB", taken / MB, LONG / MB);
        assert!(taken <= copies * LONG + REST, "{what} took {} MB", taken / MB);
    }
}

/// Counts the bytes of the messages of a kind up to the end of a query.
fn received(client: &mut Client, sql: &str, kind: u8) -> usize {
    client.send_query(sql).expect("sends");
    let mut bytes = 0;
    loop {
        let (found, body) = client.receive().expect("a message");
        match found {
            b'Z' => return bytes,
            b'E' => panic!("{sql} failed: {}", String::from_utf8_lossy(&body)),
            _ if found == kind => bytes += body.len(),
            _ => {}
        }
    }
}

fn value(answer: &Answer) -> &str {
    answer.value().expect("a value")
}

#[test]
fn a_long_value_is_copied_once() {
    let server = Server::with(&["max_wal_size=4GB"]);
    let mut client = server.client();
    client.query("CREATE TABLE t (e text)").expect("created");
    client.query("ALTER TABLE t ALTER e SET STORAGE EXTERNAL").expect("altered");
    client.query("CREATE TABLE l (e text COMPRESSION lz4)").expect("created");
    // A line with escapes, in messages of all lengths.
    let line = "0123456789abcde\\t".repeat(LONG / 16);
    for (table, copies) in [("t", 3), ("l", 3)] {
        let peak = Peak::begin(&server);
        client.start_copy(&format!("COPY {table} FROM STDIN")).expect("begins");
        let (first, rest) = line.split_at(line.len() / 2);
        for part in [first, rest, "\n"] {
            client.copy_data(part.as_bytes()).expect("sends");
        }
        client.finish_copy().expect("copied");
        peak.end(&format!("COPY {table} FROM"), copies);
    }
    drop(line);
    for table in ["t", "l"] {
        let peak = Peak::begin(&server);
        let parts = format!(
            "SELECT concat(length(e), ' ', octet_length(e), ' ', substr(e, {}, 3), left(e, 2), \
             starts_with(e, '0123')) FROM {table}",
            LONG - 2
        );
        let answer = client.query(&parts).expect("parts");
        assert_eq!(value(&answer), format!("{LONG} {LONG} de\t01t"));
        peak.end(&format!("length() in {table}"), 0);

        for (copy, bytes) in [
            ("TO STDOUT", LONG / 16 * 17 + 1),
            ("TO STDOUT (FORMAT csv, FORCE_QUOTE *)", LONG + 3),
            ("TO STDOUT (FORMAT binary)", 11 + 8 + 2 + 4 + LONG + 2),
        ] {
            let peak = Peak::begin(&server);
            let found = received(&mut client, &format!("COPY {table} {copy}"), b'd');
            assert_eq!(found, bytes, "{copy}");
            peak.end(&format!("COPY {table} {copy}"), 1);
        }
        let peak = Peak::begin(&server);
        let found = received(&mut client, &format!("SELECT e, 1 FROM {table}"), b'D');
        assert_eq!(found, 2 + 4 + LONG + 4 + 1);
        peak.end(&format!("SELECT FROM {table}"), 1);
    }
}
