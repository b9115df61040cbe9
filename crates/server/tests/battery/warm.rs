//! Warm restarts: what was in the pool is read again after a start, by either server from the
//! other's list; a list that is damaged, or of another cluster, costs nothing but itself.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use forebay_testkit::peer::{Peer, Postgres};

use super::forebay::{Forebay, forebay};

const LIST: &str = "autoprewarm.blocks";
const SETTINGS: &[&str] = &["shared_buffers=64MB", "autovacuum=off"];
const TOLD: &str = "autoprewarm successfully prewarmed";

/// How many pages were read again, and how many the list had.
fn told(line: &str) -> (u64, u64) {
    let rest = line.split_once(TOLD).expect("what was waited for").1;
    let numbers: Vec<u64> = rest.split(' ').filter_map(|word| word.parse().ok()).collect();
    (numbers[0], numbers[1])
}

/// How many pages the list names; none if it is not there.
fn listed_in(data: &Path) -> u64 {
    let list = fs::read_to_string(data.join(LIST)).unwrap_or_default();
    list.lines().count().saturating_sub(1) as u64
}

fn restart(data: &Path) -> (Forebay, (u64, u64)) {
    let server = Forebay::start(data, SETTINGS);
    let line = server.wait_for_line(TOLD);
    (server, told(&line))
}

/// The pages of the table and its index that are in memory, and all there are.
fn pages(server: &Forebay) -> (u64, u64) {
    let number = |sql: &str| server.query(sql).trim().parse::<u64>().expect("a number");
    let (mut cached, mut all) = (0, 0);
    for name in ["t", "t_pkey"] {
        let file = number(&format!("select relfilenode from pg_class where relname = '{name}'"));
        cached += number(&format!(
            "select count(*) from pg_buffercache where relfilenode = {file} and relforknumber = 0"
        ));
        all += number(&format!("select pg_relation_size('{name}') / 8192"));
    }
    (cached, all)
}

fn wait_until_postgres_has_read(peer: &Peer, postgres: &Postgres<'_>) -> (u64, u64) {
    let begun = Instant::now();
    loop {
        let log = peer.log();
        if let Some(line) = log.lines().rfind(|line| line.contains(TOLD)) {
            return told(line);
        }
        assert!(begun.elapsed() < Duration::from_secs(600), "nothing is read: {log}");
        postgres.query("select 1");
    }
}

#[test]
#[ignore = "run by cargo xtask test"]
fn pages_are_read_again_after_a_restart_of_either_server() {
    let Some(peer) = Peer::find("pages_are_read_again_after_a_restart_of_either_server") else {
        return;
    };
    let data = peer.outside("warm");
    forebay(&["init", "-D", data.to_str().expect("a path of text")]);
    let server = Forebay::start(&data, SETTINGS);
    server.query("create table t (a int primary key, b text)");
    server.query("insert into t select g, repeat('x', 100) from generate_series(1, 50000) g");
    let (cached, all) = pages(&server);
    assert!(cached == all && all > 500, "{cached} of {all}");
    server.stop();

    let (server, (read, listed)) = restart(&data);
    assert!(read == listed && listed > all, "{read} of {listed}");
    assert_eq!(pages(&server), (all, all), "nobody has used them");
    server.kill();

    // PostgreSQL reads Forebay's list, and writes one of its own.
    peer.give_to_postgres();
    let postgres = peer.start("warm", "-c shared_preload_libraries=pg_prewarm -c autovacuum=off");
    let (read, listed) = wait_until_postgres_has_read(&peer, &postgres);
    assert!(read == listed && listed > all, "PostgreSQL: {read} of {listed}");
    drop(postgres);
    peer.take_back();
    let (server, (read, listed)) = restart(&data);
    assert!(read > all && read <= listed, "PostgreSQL's list: {read} of {listed}");
    assert_eq!(pages(&server), (all, all));
    server.stop();

    // Without a clean stop the list is the last one of those that are written now and then.
    let now_and_then = [SETTINGS, &["pg_prewarm.autoprewarm_interval=1"]].concat();
    fs::remove_file(data.join(LIST)).expect("the list of the stop");
    let server = Forebay::start(&data, &now_and_then);
    server.query("select pg_prewarm('t')");
    let begun = Instant::now();
    while listed_in(&data) < all / 2 {
        assert!(begun.elapsed() < Duration::from_secs(600), "no list is written");
        server.query("select 1");
    }
    server.kill();
    let (server, (read, listed)) = restart(&data);
    assert!(read == listed && read > 500, "{read} of {listed}");
    server.stop();

    // Turned off, nothing is read and nothing is written.
    fs::write(data.join(LIST), "left alone").expect("list");
    let off = [SETTINGS, &["pg_prewarm.autoprewarm=off"]].concat();
    let server = Forebay::start(&data, &off);
    assert_eq!(pages(&server).0, 0);
    server.stop();
    assert_eq!(fs::read_to_string(data.join(LIST)).expect("list"), "left alone");

    // Of another cluster.
    fs::write(data.join(LIST), "<<2>>\n99999,1663,16384,0,0\n5,1663,99999,0,7\n").expect("list");
    let (server, told) = restart(&data);
    assert_eq!(told, (0, 2));
    // A second start would read the list of this stop.
    server.kill();
    fs::write(data.join(LIST), "<<2>>\n5,1663,16384,0,0\ngarbage\n").expect("list");
    let server = Forebay::start(&data, SETTINGS);
    server.wait_for_line("autoprewarm block dump file is corrupted at line 3");
    assert_eq!(server.query("select count(*) from t").trim(), "50000");
    server.stop();
    let (server, (read, listed)) = restart(&data);
    // The table without its index.
    assert!(read == listed && read > 500, "{read} of {listed}");
    server.stop();
}
