//! Cancel requests and timeouts.

use super::harness::{Server, failure, value};
use forebay_server::client::{Client, ClientError};

/// Runs for minutes if nobody stops it.
const LONG: &str = "SELECT count(*) FROM generate_series(1, 100000000000)";

#[test]
fn a_cancel_stops_the_statement_and_not_the_session() {
    let server = Server::new();
    let mut client = server.client();
    let mut stranger = server.client();
    client.send_query(LONG).expect("sends");
    // A wrong key stops nothing: the statement below would otherwise end with another message twice.
    stranger.key = vec![0; 4];
    stranger.pid = client.pid;
    if client.key != stranger.key {
        stranger.cancel(server.port).expect("asks");
    }
    // A cancel that comes before the statement has begun is forgotten, so it is repeated until the answer is there.
    let asker = { (client.pid, client.key.clone(), server.port) };
    let stop = std::sync::atomic::AtomicBool::new(false);
    let result = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                cancel(&server, &asker);
            }
        });
        let result = client.answer();
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        result
    });
    match result {
        Err(ClientError::Server(f)) => {
            assert_eq!(f.get(b'C'), "57014");
            assert_eq!(f.get(b'M'), "canceling statement due to user request");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(value(&mut client, "SELECT 1"), "1");
}

fn cancel(server: &Server, (pid, key, port): &(u32, Vec<u8>, u16)) {
    let mut messenger = Client::raw(server.socket()).expect("connects");
    messenger.pid = *pid;
    messenger.key.clone_from(key);
    messenger.cancel(*port).expect("asks");
}

#[test]
fn statement_timeout() {
    let server = Server::new();
    let mut client = server.client();
    client.query("SET statement_timeout = '20ms'").expect("sets");
    let (state, message) = failure(&mut client, LONG);
    assert_eq!((state.as_str(), message.as_str()), ("57014", "canceling statement due to statement timeout"));
    assert_eq!(value(&mut client, "SELECT 1"), "1");
    client.query("SET statement_timeout = 0").expect("sets");
}
