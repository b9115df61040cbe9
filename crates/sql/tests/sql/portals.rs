//! Portals and cursors across failures, savepoints and each other, message by message, against
//! answers recorded from PostgreSQL 18.

use crate::fixture::open;
use crate::support::{self, Recorder};
use forebay_sql::{Connection, Executed, SqlError};

/// Sends a message; what came back, but for that of a query string and a Sync.
fn send(conn: &mut Connection, message: &str, sink: &mut Recorder) -> Result<(), SqlError> {
    let (kind, rest) = message.split_once(' ').unwrap_or((message, ""));
    let (name, detail) = rest.split_once('|').unwrap_or((rest, ""));
    let line = match kind {
        "P" => conn.parse(name, detail, &[]).map(|()| "parsed".to_owned()),
        "B" => conn.bind(name, detail, &[], &[], &[]).map(|()| "bound".to_owned()),
        "DP" => conn.describe_portal(name).map(|described| match described {
            None => "nodata".to_owned(),
            Some((columns, _)) => format!("# {} columns", columns.len()),
        }),
        "CP" => conn.close_portal(name).map(|()| "closed".to_owned()),
        "CS" => conn.close_statement(name).map(|()| "closed".to_owned()),
        "E" => conn.execute(name, detail.parse().unwrap_or(0), sink).map(|end| match end {
            Executed::Completed(tag) => format!("= {}", tag.0),
            Executed::Suspended => "suspended".to_owned(),
            Executed::EmptyQuery | Executed::CopyIn(_) => panic!("{message}"),
        }),
        _ => panic!("no message: {message}"),
    }?;
    sink.lines.push(line);
    Ok(())
}

#[test]
fn portals_answer_as_postgresql_does() {
    let mut fixture = open("");
    let conn = &mut fixture.conn;
    let golden = include_str!("../golden/portals.txt");
    let lines = golden.lines().filter(|line| !line.starts_with("# R") && !line.starts_with("# ("));
    let mut lines = lines.filter(|line| !line.starts_with("--")).peekable();
    let (mut messages, mut failed) = (0, false);
    let mut wrong = Vec::new();
    let mut sink = Recorder::default();
    while let Some(line) = lines.next() {
        let message = line.strip_prefix("> ").expect("a message");
        messages += 1;
        if let Some(sql) = message.strip_prefix("Q ") {
            sink.lines.extend(support::run(conn, sql));
        } else if message == "S" {
            conn.sync().expect("sync");
            failed = false;
            sink.lines.push(format!("Z {}", char::from(conn.transaction_status().as_byte())));
        } else {
            // After an error, all is skipped up to the Sync.
            if !failed && let Err(error) = send(conn, message, &mut sink) {
                sink.report(&error);
                failed = true;
            }
            continue;
        }
        let mut expected = Vec::new();
        while let Some(answer) = lines.next_if(|line| !line.starts_with("> ")) {
            expected.push(answer);
        }
        let got = std::mem::take(&mut sink.lines);
        if got != expected {
            wrong.push(format!("{message}\n  want {expected:#?}\n  got  {got:#?}"));
        }
    }
    fixture.close();
    assert!(messages > 200, "too few messages were read");
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// Each FETCH fetches from the portal of the one before.
#[test]
fn fetches_in_one_another_are_bounded() {
    let mut fixture = open("");
    let conn = &mut fixture.conn;
    support::run(conn, "begin");
    conn.parse("", "select 7", &[]).expect("parse");
    conn.bind("p0", "", &[], &[], &[]).expect("bind");
    for i in 1..100 {
        conn.parse("", &format!("fetch 1 from p{}", i - 1), &[]).expect("parse");
        conn.bind(&format!("p{i}"), "", &[], &[], &[]).expect("bind");
    }
    let mut sink = Recorder::default();
    conn.execute("p20", 0, &mut sink).map(drop).expect("execute");
    assert_eq!(sink.lines, ["| 7"]);
    let error = conn.execute("p99", 0, &mut sink).map(drop).expect_err("too deep");
    assert_eq!(error.sqlstate, "54001");
    fixture.close();
}
