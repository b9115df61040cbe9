//! From the first packet to the first ReadyForQuery, and the end of the session.

use super::output::Output;
use super::{End, Hot, Session, leaving, log_error};
use crate::log;
use crate::registry::Registration;
use crate::settings::{Lookup, SessionValues, key};
use crate::shared::{Phase, Shared};
use crate::wire::frames::{FrameReader, Next};
use crate::wire::startup::{self, MAX_STARTUP, Startup, StartupPacket};
use crate::wire::stream::Stream;
use crate::wire::{PROTOCOL_3_0, PROTOCOL_3_2, backend};
use forebay_aio::sync::Duration;
use forebay_engine::{Engine, EngineError};
use forebay_sql::{Connection, Encoding, Identity, Settings, Severity, SqlError};
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// How long the server waits to send a client its last message.
const LAST_WORDS: Duration = Duration::from_secs(2);

fn fatal(sqlstate: &'static str, message: impl Into<String>) -> SqlError {
    SqlError::report(Severity::Fatal, sqlstate, message)
}

/// Serves a connection from its first byte to its last. A panic ends only the session.
pub fn serve(shared: Arc<Shared>, registration: Registration, stream: Stream) {
    let last_words = stream.try_clone();
    let end = catch_unwind(AssertUnwindSafe(|| run(&shared, registration, stream)));
    let end = end.unwrap_or_else(|_| {
        End::Fatal(fatal("XX000", "internal error: the session has ended; the server goes on"))
    });
    if let (End::Fatal(e), Ok(stream)) = (end, last_words) {
        let mut out = Vec::new();
        backend::report(&mut out, &e, Encoding::Utf8);
        // The wait is bounded, for a client that does not read. Errors mean that it has gone.
        let _ = stream.set_write_timeout(Some(LAST_WORDS));
        let _ = (&stream).write_all(&out);
    }
}

/// Runs the whole session, and returns its end. The registration ends before the client is told.
fn run(shared: &Arc<Shared>, registration: Registration, stream: Stream) -> End {
    let (Ok(()), Ok(writer)) = (stream.prepare(), stream.try_clone()) else { return End::Gone };
    let peer = stream.peer();
    // From accept to the first ReadyForQuery.
    let limit = shared.settings().count(key!("authentication_timeout"));
    registration.set_deadline(Duration::from_secs(limit));
    let connection = Arc::clone(&registration.connection);
    let mut reader = FrameReader::new(stream);
    let opened = match first_packets(&mut reader, shared) {
        Ok(Some(startup)) => open(shared, registration, reader, Output::new(writer), &startup),
        Ok(None) => Err(End::Gone),
        Err(e) => Err(End::Fatal(e)),
    };
    match opened {
        Ok(mut session) => {
            let logged = session.settings.read(|values| {
                let name = values.text(key!("application_name"));
                values.bool(key!("log_connections")).then(|| {
                    let (user, database) = shown_names(&session);
                    format!(
                        "connection authorized: user={user} database={database} \
                         application_name={name} host={peer}"
                    )
                })
            });
            if let Some(line) = logged {
                log::session(session.pid, line);
            }
            let end = session.run();
            finish(session, &end, &peer);
            end
        }
        // The timer has closed the socket, which is the cause of the error.
        Err(_) if connection.take_timed_out() => {
            log::log(format!("canceling authentication due to timeout (connection from {peer})"));
            End::Gone
        }
        Err(end) => {
            if let End::Fatal(e) = &end {
                log::line(
                    e.severity.as_str(),
                    None,
                    &format!("{} (connection from {peer})", e.message),
                );
            }
            end
        }
    }
}

/// Ends a session: aborts its transaction.
fn finish(mut session: Session, end: &End, peer: &str) {
    if let End::Fatal(e) = end {
        log_error(&session.settings, (session.pid, session.out.encoding()), e, None);
        // Sends the output before the last message, with a bounded wait.
        let _ = session.reader.source().set_write_timeout(Some(LAST_WORDS));
        let _ = session.flush();
    }
    if session.settings.read(|values| values.bool(key!("log_disconnections"))) {
        let (user, database) = shown_names(&session);
        let line = format!("disconnection: user={user} database={database} host={peer}");
        log::session(session.pid, line);
    }
    session.conn.close();
}

/// Reads packets until a session begins. None: the connection ends without one.
fn first_packets(
    reader: &mut FrameReader<Stream>,
    shared: &Shared,
) -> Result<Option<Startup>, SqlError> {
    let mut asked = Vec::new();
    loop {
        let body = match reader.startup(MAX_STARTUP) {
            Ok(Next::Message { body, .. }) => body,
            Ok(Next::BadLength) => return Err(fatal("08P01", "invalid length of startup packet")),
            _ => return Ok(None),
        };
        let packet = startup::decode(reader.body(body))?;
        match packet {
            StartupPacket::Startup(startup) => return Ok(Some(startup)),
            StartupPacket::Cancel { pid, key } => {
                if !shared.registry.cancel(pid, &key) {
                    log::log(format!("wrong key in cancel request for session {pid}"));
                }
                return Ok(None);
            }
            // As in PostgreSQL, a second request of one kind is an unsupported protocol version.
            StartupPacket::Ssl | StartupPacket::Gss if asked.contains(&packet) => {
                return Err(unsupported_protocol(packet.code()));
            }
            StartupPacket::Ssl | StartupPacket::Gss => asked.push(packet),
        }
        // Bytes behind the request may be an attacker's, who can't send them encrypted.
        if reader.has_buffered() {
            return Err(fatal("08P01", "received unencrypted data after an encryption request"));
        }
        if reader.source().write_all(b"N").is_err() {
            return Ok(None);
        }
    }
}

/// Makes the session, and sends everything up to the first ReadyForQuery.
fn open(
    shared: &Arc<Shared>,
    mut registration: Registration,
    reader: FrameReader<Stream>,
    mut out: Output,
    startup: &Startup,
) -> Result<Session, End> {
    let version = startup.negotiated().ok_or_else(|| unsupported_protocol(startup.version))?;
    let unknown = startup.unknown_options();
    if startup.version > PROTOCOL_3_2 || !unknown.is_empty() {
        backend::negotiate_protocol_version(out.buffer(), version, &unknown);
    }
    let (user, database) = identity(startup)?;
    let peer = reader.source().peer_ip().map_err(|_| End::Gone)?;
    shared.hba().admit(peer, user, database).map_err(|message| fatal("28000", message))?;
    let engine = match shared.phase() {
        Phase::Running(engine) => engine,
        Phase::Starting => return Err(fatal("57P03", "the database system is starting up").into()),
        Phase::Stopping(_) => {
            return Err(fatal("57P03", "the database system is shutting down").into());
        }
    };
    // The version is read first, so that a reload in between is seen twice and not missed.
    let server_version = shared.settings_version();
    let server_settings = shared.settings();
    if !registration.become_session(server_settings.count(key!("max_connections"))) {
        return Err(fatal("53300", "sorry, too many clients already").into());
    }
    let settings = SessionValues::new(server_settings);
    apply_startup(&settings, startup)?;

    let session = enter(&engine, (user, database), &settings)?;
    let pid = session.id();
    let key = secret_key(if version == PROTOCOL_3_0 { 4 } else { 32 })?;
    registration.publish(pid, key.clone(), session.interrupt().clone());
    if registration.connection.is_leaving() {
        return Err(leaving().into());
    }

    out.set_encoding(session.encoding());
    settings.entered(session.encoding(), session.role_name())?;
    let identity = Identity {
        user: session.role_name().to_owned(),
        database: session.database_name().to_owned(),
        pid,
        version: shared.version.clone(),
    };
    let conn = Connection::new(session, Box::new(settings.clone()), identity);
    let reported = greet(&mut out, &settings, pid, &key);
    let reported_at = settings.change_count();
    let mut session = Session {
        shared: Arc::clone(shared),
        registration,
        reader,
        out,
        conn,
        settings,
        server_version,
        hot: Hot::default(),
        reported_at,
        reported,
        pid,
        skipping: false,
        clock_runs: false,
        idle: false,
    };
    // A client that has gone shows at the first read.
    let _ = session.ready();
    if session.registration.started() { Ok(session) } else { Err(End::Gone) }
}

/// The names of a session's role and database, for the log.
fn shown_names(session: &Session) -> (String, String) {
    let encoding = session.out.encoding();
    (encoding.shown(session.conn.user()), encoding.shown(session.conn.database()))
}

fn unsupported_protocol(version: u32) -> SqlError {
    let (major, minor) = (version >> 16, version & 0xffff);
    let text = format!("unsupported frontend protocol {major}.{minor}: server supports 3.0 to 3.2");
    fatal("0A000", text)
}

/// Writes the messages before the first ReadyForQuery; returns the settings that they report.
fn greet(
    out: &mut Output,
    settings: &SessionValues,
    pid: i32,
    key: &[u8],
) -> Vec<(&'static str, String)> {
    let reported = settings.reported();
    backend::authentication_ok(out.buffer());
    for (name, value) in &reported {
        let encoding = out.encoding();
        backend::parameter_status(out.buffer(), (name, value), encoding);
    }
    backend::backend_key_data(out.buffer(), pid.cast_unsigned(), key);
    reported
}

/// Enters the database as the role. Settings that are stored for them apply, where the startup
/// packet does not set others. As in PostgreSQL, one that makes no sense is skipped with a warning.
fn enter(
    engine: &Arc<Engine>,
    (user, database): (&str, &str),
    settings: &SessionValues,
) -> Result<forebay_engine::Session, SqlError> {
    let failed = |e: EngineError| SqlError::from(e).severity(Severity::Fatal);
    let mut session = engine.session_as(database, user).map_err(failed)?;
    for stored in session.stored_settings().map_err(failed)? {
        if let Err(error) = settings.stored(&stored) {
            log::session(session.id(), format!("WARNING:  {}", error.message));
        }
    }
    Ok(session)
}

/// The role and the database that a client asks for.
fn identity(startup: &Startup) -> Result<(&str, &str), SqlError> {
    let user = startup
        .get("user")
        .filter(|u| !u.is_empty())
        .ok_or_else(|| fatal("28000", "no PostgreSQL user name specified in startup packet"))?;
    match startup.get("replication").map(str::to_ascii_lowercase).as_deref() {
        None | Some("false" | "off" | "no" | "0") => {}
        Some(_) => return Err(fatal("0A000", "replication connections are not supported")),
    }
    Ok((user, startup.get("database").filter(|d| !d.is_empty()).unwrap_or(user)))
}

/// Applies the settings of the startup packet, those in its `options` first.
fn apply_startup(settings: &SessionValues, startup: &Startup) -> Result<(), SqlError> {
    let as_fatal = |e: SqlError| e.severity(Severity::Fatal);
    for (name, value) in command_options(startup.get("options").unwrap_or_default())? {
        settings.at_startup(&name, &value).map_err(as_fatal)?;
    }
    for (name, value) in &startup.parameters {
        if !matches!(name.as_str(), "user" | "database" | "options" | "replication")
            && !name.starts_with("_pq_.")
        {
            settings.at_startup(name, value).map_err(as_fatal)?;
        }
    }
    settings.tell(key!("session_authorization"), startup.get("user").unwrap_or_default());
    Ok(())
}

/// Reads `-c name=value`, `-cname=value` and `--name=value`; a backslash protects blanks.
fn command_options(options: &str) -> Result<Vec<(String, String)>, SqlError> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = options.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => word.get_or_insert_default().extend(chars.next()),
            c if c.is_whitespace() => words.extend(word.take()),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    let mut found = Vec::new();
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        let assignment = if word == "-c" {
            words.next().unwrap_or_default()
        } else if let Some(rest) = word.strip_prefix("--").or_else(|| word.strip_prefix("-c")) {
            rest.to_owned()
        } else {
            return Err(fatal(
                "42601",
                format!("invalid command-line argument for server process: {word}"),
            ));
        };
        let (name, value) = assignment
            .split_once('=')
            .ok_or_else(|| fatal("42601", format!("-c {assignment} requires a value")))?;
        found.push((name.replace('-', "_"), value.to_owned()));
    }
    Ok(found)
}

/// Random bytes for cancel requests, which nobody can guess.
fn secret_key(len: usize) -> Result<Vec<u8>, SqlError> {
    let mut key = vec![0; len];
    getrandom::fill(&mut key)
        .map_err(|e| fatal("XX000", format!("could not generate random cancel key: {e}")))?;
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn startup(parameters: &[(&str, &str)]) -> Startup {
        let parameters =
            parameters.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
        Startup { version: PROTOCOL_3_0, parameters }
    }

    #[test]
    fn identities_are_checked() {
        let of = |p: &[(&str, &str)]| {
            let startup = startup(p);
            let found = identity(&startup).map(|(user, database)| format!("{user}@{database}"));
            found.map_err(|e| e.sqlstate)
        };
        assert_eq!(of(&[("user", "joe")]), Ok("joe@joe".to_owned()));
        let other = [("user", "joe"), ("database", "shop"), ("replication", "off")];
        assert_eq!(of(&other), Ok("joe@shop".to_owned()));
        assert_eq!(of(&[]), Err("28000"));
        assert_eq!(of(&[("user", "postgres"), ("replication", "true")]), Err("0A000"));
    }

    #[test]
    fn options_of_the_startup_packet() {
        let pairs = |o: &str| command_options(o).map_err(|e| e.message.clone());
        let two = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(
            pairs(r"-c a=1 -cb=2  --extra-float-digits=3 -c d=x\ y"),
            Ok(vec![two("a", "1"), two("b", "2"), two("extra_float_digits", "3"), two("d", "x y")])
        );
        assert!(pairs("-x").is_err() && pairs("-c a").is_err() && pairs("-c").is_err());
    }

    #[test]
    fn keys_differ() {
        let key = || secret_key(32).expect("random");
        assert_ne!(key(), key());
    }
}
