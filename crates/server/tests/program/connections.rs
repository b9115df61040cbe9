//! Slow start-ups, descriptors that run out, and a timer that short statements do not wake.

use super::harness::{Server, value};
use forebay_server::client::{Client, Fields};
use forebay_server::wire::PROTOCOL_3_0;
use forebay_server::wire::stream::Stream;
use rustix::process::{Pid, Resource, Rlimit};
use std::io::{self, Read, Write};
use std::time::{Duration, Instant};

const SSL_REQUEST: u32 = 80_877_103;
const GSS_REQUEST: u32 = 80_877_104;

/// A test gives up after this long.
const PATIENCE: Duration = Duration::from_secs(120);

fn request(stream: &Stream, code: u32) {
    let packet = [&8u32.to_be_bytes()[..], &code.to_be_bytes()].concat();
    (&mut &*stream).write_all(&packet).expect("sends");
}

/// Sends a packet byte by byte, each after a short wait for an answer, until the server closes.
fn dribble(stream: &Stream, packet: &[u8]) {
    stream.set_read_timeout(Some(Duration::from_millis(20))).expect("a socket");
    let start = Instant::now();
    for byte in packet {
        assert!(start.elapsed() < PATIENCE, "the server still listens");
        let sent = (&mut &*stream).write_all(&[*byte]);
        let got = (&mut &*stream).read(&mut [0; 64]);
        match got {
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {}
            Ok(0) | Err(_) => return,
            Ok(_) => panic!("an answer to a packet that is not whole"),
        }
        if sent.is_err() {
            return;
        }
    }
    panic!("the packet was taken whole");
}

#[test]
fn a_slow_start_up_ends_at_authentication_timeout() {
    let server = Server::with(&["authentication_timeout=1s", "max_connections=1"]);
    let mut startup = 10_000u32.to_be_bytes().to_vec();
    startup.extend(PROTOCOL_3_0.to_be_bytes());
    startup.resize(10_000, b'x');
    let mut cancel = 10_000u32.to_be_bytes().to_vec();
    cancel.extend(80_877_102u32.to_be_bytes());
    cancel.resize(10_000, 0);
    std::thread::scope(|scope| {
        for packet in [&startup, &cancel] {
            scope.spawn(|| dribble(&server.socket(), packet));
        }
    });
    // It does not end a session that has begun. On a busy machine one may be too slow to begin.
    let start = Instant::now();
    let mut client = loop {
        match server.connect(&[("user", "postgres")]) {
            Ok(client) => break client,
            Err(error) => assert!(start.elapsed() < 10 * PATIENCE, "{error}"),
        }
    };
    client.query("SET statement_timeout = '1500ms'").expect("sets");
    let stopped = client.query("SELECT count(*) FROM generate_series(1, 100000000000)");
    assert_eq!(stopped.expect_err("stopped").sqlstate(), "57014");
    assert_eq!(value(&mut client, "SELECT 1"), "1");
}

#[test]
fn a_client_that_is_silent_after_a_request_for_encryption_is_disconnected() {
    let server = Server::with(&["authentication_timeout=1s"]);
    let stream = server.socket();
    request(&stream, GSS_REQUEST);
    let mut answer = Vec::new();
    // The server closes: this ends.
    (&mut &stream).read_to_end(&mut answer).expect("ends");
    assert_eq!(answer, b"N");
    server.wait_for_log("canceling authentication due to timeout");
}

#[test]
fn each_encryption_is_asked_for_once() {
    let server = Server::new();
    for (first, second) in [(SSL_REQUEST, GSS_REQUEST), (GSS_REQUEST, SSL_REQUEST)] {
        let stream = server.socket();
        for code in [first, second] {
            request(&stream, code);
            let mut answer = [0];
            (&mut &stream).read_exact(&mut answer).expect("an answer");
            assert_eq!(&answer, b"N");
        }
        request(&stream, first);
        let mut client = Client::raw(stream).expect("connects");
        let (kind, body) = client.receive().expect("an answer");
        let said = Fields::read(&body);
        assert_eq!((kind, said.get(b'C')), (b'E', "0A000"));
        let refused = format!("unsupported frontend protocol 1234.{}: ", first & 0xffff);
        assert!(said.get(b'M').starts_with(&refused), "{said:?}");
    }
}

/// Sets how many descriptors a server may have, as far as the soft limit goes.
fn limit_descriptors(server: &Server, soft: u64) -> Rlimit {
    let pid = Pid::from_raw(i32::try_from(server.pid()).expect("a number")).expect("not zero");
    let hard = rustix::process::getrlimit(Resource::Nofile).maximum;
    let limit = Rlimit { current: Some(soft), maximum: hard };
    rustix::process::prlimit(Some(pid), Resource::Nofile, limit).expect("its parent may")
}

#[test]
fn a_server_out_of_descriptors_logs_it_once_and_recovers() {
    let server = Server::new();
    let mut client = server.client();
    let before = limit_descriptors(&server, 3);
    // The kernel connects it; the server can't accept it.
    let waiting = server.socket();
    server.wait_for_log("could not accept new connection");
    for _ in 0..200 {
        assert_eq!(value(&mut client, "SELECT 1"), "1");
    }
    limit_descriptors(&server, before.current.expect("a limit"));
    let mut late = Client::start(waiting, &[("user", "postgres")]).expect("is served");
    assert_eq!(value(&mut late, "SELECT 1"), "1");
    let log = server.wait_for_log("accepting connections again");
    assert!(log.contains(" LOG: "), "{log}");
    let refused = server.log().matches("could not accept new connection").count();
    assert_eq!(refused, 1, "{}", server.log());
}

/// How often a thread of the server has gone to sleep.
fn sleeps(server: &Server, thread: &str) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", server.pid())).expect("it runs");
    let task = tasks.map(|task| task.expect("an entry").path()).find(|task| {
        std::fs::read_to_string(task.join("comm")).is_ok_and(|name| name.trim_end() == thread)
    });
    let status =
        std::fs::read_to_string(task.expect("the thread").join("status")).expect("it runs");
    let line = status.lines().find_map(|l| l.strip_prefix("voluntary_ctxt_switches:"));
    line.expect("is told").trim().parse().expect("a number")
}

#[test]
fn a_short_statement_wakes_no_timer() {
    let server = Server::new();
    let mut client = server.client();
    client.query("SET statement_timeout = '1min'").expect("sets");
    assert_eq!(value(&mut client, "SELECT 1"), "1");
    let before = sleeps(&server, "timer");
    for _ in 0..1000 {
        assert_eq!(value(&mut client, "SELECT 1"), "1");
    }
    let woken = sleeps(&server, "timer") - before;
    // A statement that comes while it looks at the deadlines wakes it, and a busy machine may hold
    // it up there.
    assert!(woken < 100, "the timer was woken {woken} times by 1000 statements");
}
