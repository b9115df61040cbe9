//! Random scripts of one session, message by message what PostgreSQL answers: savepoints, cursors
//! and portals of both protocols, changes of rows, and errors in between.
//!
//! The next statement depends on the transaction's status, so that few are refused for that alone.
//! `FOREBAY_SESSIONS` is the seed of a script that is to be run alone.

mod script;

use forebay_server::client::{Client, Fields, row};
use forebay_testkit::peer::Peer;

use super::forebay::{Forebay, scratch};
use script::{Message, Script};

/// Number of scripts: some seconds.
const SCRIPTS: u64 = 150;
/// Statements of a script.
const STATEMENTS: usize = 60;

/// The columns of a RowDescription. Where in which table they come from is left out: the OIDs are
/// the servers' own, and a view is no relation here.
fn columns(body: &[u8]) -> String {
    let mut rest = &body[2..];
    let mut columns = Vec::new();
    while let Some(end) = rest.iter().position(|byte| *byte == 0) {
        let (name, facts) = (rest[..end].escape_ascii(), &rest[end + 7..end + 19]);
        columns.push(format!("{name} {facts:?}"));
        rest = &rest[end + 19..];
    }
    columns.join(", ")
}

/// Sends messages, the last of which makes the server answer all of them. What it answers.
fn answers(client: &mut Client, messages: &[Message]) -> Vec<String> {
    let text = |parts: &[&str]| parts.iter().map(|part| format!("{part}\0")).collect::<String>();
    for message in messages {
        let (kind, body): (u8, Vec<u8>) = match message {
            Message::Query(sql) => (b'Q', text(&[sql]).into()),
            Message::Parse(sql) => (b'P', [text(&["", sql]).as_bytes(), &[0; 2]].concat()),
            Message::Bind(portal) => (b'B', [text(&[portal, ""]).as_bytes(), &[0; 6]].concat()),
            Message::Describe(portal) => (b'D', format!("P{portal}\0").into()),
            Message::Execute(portal, rows) => {
                (b'E', [text(&[portal]).as_bytes(), &rows.to_be_bytes()].concat())
            }
            Message::Close(portal) => (b'C', format!("P{portal}\0").into()),
            Message::Sync => (b'S', Vec::new()),
        };
        client.send(kind, &body).expect("the server listens");
    }
    let ends = |message: &&Message| matches!(message, Message::Query(_) | Message::Sync);
    let mut left = messages.iter().filter(ends).count();
    let mut answers = Vec::new();
    loop {
        let (kind, body) = client.receive().expect("the server answers");
        answers.push(match kind {
            b'T' => format!("columns {}", columns(&body)),
            b'D' => format!("row {:?}", row(&body)),
            b'E' | b'N' => {
                let fields = Fields::read(&body);
                let all = [b'V', b'C', b'M', b'D', b'H', b'P', b'W'].map(|code| fields.get(code));
                format!("report {all:?}")
            }
            // Tags, and messages without a body.
            _ => format!("{} {}", char::from(kind), body.escape_ascii()),
        });
        left -= usize::from(kind == b'Z');
        if left == 0 {
            return answers;
        }
    }
}

/// The transaction status at the end of the answers to a message.
fn status(answers: &[String]) -> char {
    answers.last().and_then(|ready| ready.chars().last()).expect("there is a last answer")
}

/// Runs a script on both servers up to the first difference. What led to it; the number of answers.
fn run(seed: u64, ports: [u16; 2]) -> Result<usize, String> {
    let [mut forebay, mut postgres] = ports.map(|port| Client::tcp(port).expect("connects"));
    let mut script = Script::new(seed);
    let (mut history, mut count): (Vec<String>, usize) = (Vec::new(), 0);
    let mut status_now = 'I';
    for number in 0..STATEMENTS {
        let messages = match number {
            0 => script.set_up(),
            _ if number + 1 == STATEMENTS => Script::clean_up(),
            _ => script.next(status_now),
        };
        let [ours, theirs] = [&mut forebay, &mut postgres].map(|client| answers(client, &messages));
        history.push(format!("{messages:?}"));
        if ours != theirs {
            let before = history.len().saturating_sub(15);
            return Err(format!(
                "seed {seed}\n  {}\n  Forebay: {ours:#?}\n  PostgreSQL: {theirs:#?}",
                history[before..].join("\n  "),
            ));
        }
        count += theirs.len();
        status_now = status(&theirs);
    }
    Ok(count)
}

#[test]
#[ignore = "some seconds long; run by cargo xtask test"]
fn random_sessions_are_answered_as_by_postgresql() {
    let Some(peer) = Peer::find("random_sessions_are_answered_as_by_postgresql") else { return };
    peer.init("sessions");
    let postgres = peer.start("sessions", "-c autovacuum=off -c fsync=off");
    let folder = scratch("sessions");
    let forebay = Forebay::start(&folder.path().join("data"), &[]);
    let ports = [forebay.port, postgres.port];
    if let Some(seed) = std::env::var_os("FOREBAY_SESSIONS") {
        let seed = seed.to_str().and_then(|seed| seed.parse().ok()).expect("a seed is a number");
        run(seed, ports).unwrap_or_else(|difference| panic!("{difference}"));
        return;
    }
    let mut messages = 0;
    for seed in 0..SCRIPTS {
        messages += run(seed, ports).unwrap_or_else(|difference| panic!("{difference}"));
    }
    println!("battery: sessions: {SCRIPTS} scripts, {messages} answers as PostgreSQL's");
    forebay.stop();
}
