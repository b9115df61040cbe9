//! pgbench, unaltered: its tables made in both ways, all its built-in scripts, all its protocols.
//! The sums of its tables agree afterwards.

use std::process::{Command, Stdio};

use forebay_testkit::process::must;

use super::forebay::{Forebay, forebay, scratch};

/// The host's pgbench, pointed at the server.
fn pgbench(server: &Forebay, arguments: &[&str]) -> Command {
    let mut command = Command::new("pgbench");
    command.args(["-h", "127.0.0.1", "-p", &server.port.to_string(), "-U", "postgres"]);
    command.args(arguments).arg("postgres").stdout(Stdio::null());
    command
}

/// The balances of all tables, which transactions change alike, and how many rows of history.
fn balances(server: &Forebay) -> (Vec<i64>, i64) {
    let number = |sql: &str| server.query(sql).trim().parse::<i64>().expect("a number");
    let sums = [
        "select coalesce(sum(abalance), 0) from pgbench_accounts",
        "select coalesce(sum(bbalance), 0) from pgbench_branches",
        "select coalesce(sum(tbalance), 0) from pgbench_tellers",
        "select coalesce(sum(delta), 0) from pgbench_history",
    ];
    (sums.map(number).to_vec(), number("select count(*) from pgbench_history"))
}

#[test]
#[ignore = "run by cargo xtask test"]
fn balances_agree_whatever_the_protocol() {
    let dir = scratch("pgbench");
    let data = dir.path().join("data");
    forebay(&["init", "-D", data.to_str().expect("a path of text")]);
    let server = Forebay::start(&data, &[]);
    for made in ["dtgvp", "dtGvp"] {
        must(&mut pgbench(&server, &["-i", "-s", "1", "-q", "-I", made]));
        let accounts = server.query("select count(*), min(length(filler)) from pgbench_accounts");
        assert_eq!(accounts.trim(), "100000|0", "{made}");
        let mut rows = 0;
        for protocol in ["simple", "extended", "prepared"] {
            must(&mut pgbench(&server, &["-n", "-c", "4", "-t", "50", "-M", protocol]));
            let (sums, history) = balances(&server);
            assert!(sums.iter().all(|sum| *sum == sums[0]), "{made} {protocol}: {sums:?}");
            rows += 200;
            assert_eq!(history, rows, "{made} {protocol}");
            must(&mut pgbench(&server, &["-S", "-n", "-c", "4", "-t", "50", "-M", protocol]));
        }
        // Simple updates leave branches and tellers alone.
        must(&mut pgbench(&server, &["-N", "-n", "-c", "4", "-t", "50"]));
        let (sums, history) = balances(&server);
        assert_eq!((sums[0], history), (sums[3], rows + 200));
        assert_eq!(sums[1], sums[2]);
    }
    server.stop();
}
