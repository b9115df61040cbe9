//! Databases with encoding SQL_ASCII: bytes stay what they are. PostgreSQL 18 and Forebay answer
//! the same, byte for byte, on copies of one directory, and each goes on where the other has
//! stopped.

use super::harness::{Server, forebay};
use forebay_server::client::Client;
use forebay_server::wire::stream::Stream;
use forebay_testkit::peer::{Peer, Postgres};
use forebay_testkit::process::must;
use std::net::TcpStream;
use std::sync::Arc;
use tempfile::TempDir;

/// What a statement gave: fields between bars, rows on lines, COPY's data, or the error.
type Answer = Vec<u8>;

/// A session of either server, by bytes.
struct Session(Client);

impl Session {
    fn on(port: u16, database: &str) -> Session {
        let stream = TcpStream::connect(("127.0.0.1", port)).expect("connects");
        let parameters = [("user", "postgres"), ("database", database)];
        Session(Client::start(Stream::Tcp(stream), &parameters).expect("a session"))
    }

    fn ask(&mut self, sql: &[u8]) -> Answer {
        self.0.send(b'Q', &[sql, b"\0"].concat()).expect("sent");
        self.answer()
    }

    /// Reads the messages up to ReadyForQuery.
    fn answer(&mut self) -> Answer {
        let mut answer = Answer::new();
        loop {
            let (kind, body) = self.0.receive().expect("a message");
            match kind {
                b'D' => {
                    append_row(&body, &mut answer);
                    answer.push(b'\n');
                }
                b'T' => answer.extend_from_slice(&column_names(&body)),
                b'd' => answer.extend_from_slice(&body),
                b'E' => answer.extend_from_slice(&error(&body)),
                b'Z' => return answer,
                _ => {}
            }
        }
    }

    /// Loads data by COPY.
    fn load(&mut self, sql: &[u8], data: &[u8]) -> Answer {
        self.0.send(b'Q', &[sql, b"\0"].concat()).expect("sent");
        while !matches!(self.0.receive().expect("a message").0, b'G') {}
        self.0.send(b'd', data).expect("sent");
        self.0.send(b'c', b"").expect("sent");
        self.answer()
    }

    /// Runs a statement with parameters and results in text (0) or binary form (1).
    fn run(&mut self, sql: &[u8], parameters: &[&[u8]], format: u8) -> Answer {
        let mut bind = [&[0, 0, 0, 1, 0, format][..], &[0, parameters.len() as u8]].concat();
        for value in parameters {
            bind.extend_from_slice(&(value.len() as u32).to_be_bytes());
            bind.extend_from_slice(value);
        }
        bind.extend_from_slice(&[0, 1, 0, format]);
        let execute = [0, 0, 0, 0, 0];
        let messages: [(u8, &[u8]); 4] = [
            (b'P', &[b"\0", sql, b"\0\0\0"].concat()),
            (b'B', &bind),
            (b'E', &execute),
            (b'S', b""),
        ];
        messages.iter().for_each(|(kind, body)| self.0.send(*kind, body).expect("sent"));
        self.answer()
    }
}

fn append_row(body: &[u8], answer: &mut Answer) {
    let mut rest = &body[2..];
    while let Some((len, tail)) = rest.split_first_chunk::<4>() {
        let len = i32::from_be_bytes(*len);
        let value = &tail[..usize::try_from(len).unwrap_or(0)];
        answer.extend_from_slice(if len < 0 { b"NULL" } else { value });
        answer.push(b'|');
        rest = &tail[value.len()..];
    }
}

fn column_names(body: &[u8]) -> Answer {
    let (mut names, mut rest) = (Answer::new(), &body[2..]);
    while let Some(end) = rest.iter().position(|b| *b == 0) {
        names.extend_from_slice(&rest[..end]);
        names.push(b'/');
        rest = &rest[end + 19..];
    }
    names.push(b'\n');
    names
}

/// SQLSTATE, message, detail, hint, context and position of an error.
fn error(body: &[u8]) -> Answer {
    let fields =
        body.split(|b| *b == 0).filter(|f| matches!(f.first(), Some(c) if b"CMDHWP".contains(c)));
    fields.flat_map(|field| [field, b"\n"].concat()).collect()
}

/// Bytes as a test's message shows them.
fn shown(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

/// A table with every byte but zero, in every type of text, and with bytes in its names.
const TABLE: &[&[u8]] = &[
    b"CREATE TABLE w (n int PRIMARY KEY, t text, v varchar(5), c char(3), m name, a text[], \
      d text DEFAULT 'd\xe9f\xff', \"s\xe9\" text, CHECK (t <> 'no\xff'))",
    b"INSERT INTO w (n, t, v, c, m, a) SELECT g, 'x' || chr(g) || 'y', chr(g) || chr(256 - g), \
      chr(g), chr(g) || 'name', array[chr(g), 'x', chr(256 - g)] FROM generate_series(1, 255) g",
    b"INSERT INTO w (n, t, v, \"s\xe9\") VALUES (1000, 'caf\xe9', '\xc3\xa9\xc3\xa9', \
       repeat('\xff\xfe', 60000)), \
      (1001, 'CAF\xc9', '\xa0\x85', 'a\xe9b')",
    b"CREATE INDEX w_t ON w (t)",
    b"CREATE INDEX w_v ON w (v DESC, c)",
    b"CREATE UNIQUE INDEX w_m ON w (m, n)",
    b"CREATE INDEX w_e ON w (lower(t), (v || '\xe9'))",
    b"CREATE INDEX \"w\xe9_part\" ON w (n) WHERE t > 'x\xe9'",
    b"ANALYZE w",
];

const CHANGES: &[&[u8]] = &[
    b"INSERT INTO w (n, t, v, c, m) SELECT n + 2000, t || '\xe9', v, c, m FROM w WHERE n < 256",
    b"UPDATE w SET t = upper(t), d = '\x80' || d WHERE n % 7 = 1",
    b"DELETE FROM w WHERE n % 11 = 2",
    b"ALTER TABLE w ADD added varchar(9) DEFAULT '\xdf\xe0'",
    b"CREATE TABLE \"t\xe4\xf6\" (\"c\xfc\" int, b text, CONSTRAINT \"k\xfc\" CHECK (b <> '\xfe'))",
    b"INSERT INTO \"t\xe4\xf6\" VALUES (1, '\xfd'), (2, 'y')",
    b"COMMENT ON TABLE \"t\xe4\xf6\" IS '\xa9 comment'",
    b"ALTER TABLE \"t\xe4\xf6\" ADD PRIMARY KEY (\"c\xfc\")",
];

/// What both servers must answer alike. Errors are answers, too.
const QUERIES: &[&[u8]] = &[
    b"SHOW server_encoding",
    b"SHOW client_encoding",
    b"SELECT getdatabaseencoding(), pg_client_encoding(), pg_encoding_to_char(0)",
    b"SELECT * FROM w WHERE n < 1000 ORDER BY n",
    b"SELECT n, t FROM w ORDER BY t, n",
    b"SELECT n, v FROM w ORDER BY v DESC, n",
    b"SELECT n, c FROM w ORDER BY c, n",
    b"SELECT n, m FROM w ORDER BY m DESC, n",
    b"SELECT n FROM w WHERE t >= 'x\xe9' ORDER BY t, n",
    b"SELECT n FROM w WHERE t = 'x\xe9y' OR v = '\xe9\x17'",
    b"SELECT n FROM w WHERE m > '\x7f' AND m < '\xa0' ORDER BY m, n",
    b"SELECT n FROM w WHERE lower(t) = 'caf\xe9' ORDER BY n",
    b"SELECT n FROM w WHERE n < 300 AND t > 'x\xe9' ORDER BY n",
    b"SELECT n FROM w WHERE t LIKE 'x\xe9%' OR t LIKE '_\xea_' OR t ILIKE 'CAF\xe9' ORDER BY n",
    b"SELECT min(t), max(t), min(v), max(v), min(c), max(c) FROM w",
    b"SELECT length(t), octet_length(t), char_length(v), length(c) FROM w ORDER BY n",
    b"SELECT upper(t), lower(v), initcap(t), substr(t, 2, 1), left(v, 1), right(v, 1) \
      FROM w ORDER BY n",
    b"SELECT reverse(t), position('y' in t), ascii(substr(t, 2)), lpad(v, 8, '\xe9'), \
      translate(t, '\xe9y', 'e\xff'), replace(t, '\xe9', '\xc3\xa9') FROM w ORDER BY n",
    b"SELECT md5(t), t::bytea, encode(t::bytea, 'escape'), quote_literal(t), quote_ident(t) \
      FROM w WHERE n <> 92 ORDER BY n",
    b"SELECT length(\"s\xe9\"), octet_length(\"s\xe9\"), substr(\"s\xe9\", 119999, 9), \
      md5(\"s\xe9\") \
      FROM w WHERE n >= 1000 AND n < 2000 ORDER BY n",
    b"SELECT convert_from('\\xe9ff', 'sql_ascii'), convert_to('\xe9\xff', 'SQL_ASCII')",
    b"SELECT convert_from('\\xe9ff', 'utf8')",
    b"SELECT 'abcd\xe9efg'::varchar(5), '\xe9'::char(2) || '|', '\xe9'::\"char\", '\xe9'::name",
    b"SELECT chr(233), chr(255), chr(128)",
    b"SELECT chr(256)",
    b"SELECT decode('a\xe9\\377', 'escape')",
    b"SELECT E'\\u00e9'",
    b"SELECT U&'\\00e9'",
    b"SELECT E'a\\u0041', E'\\xe9\\351\xe9\\\\', octet_length(E'\\xE9\\377\\''')",
    b"SELECT 'a\\xe9', E'\\xe9\\x00'",
    b"SELECT '{\"a\": \"\\u0041\"}'::jsonb, '{\"\xe9\": \"\\u00e9\"}'::json",
    b"SELECT '\xe9'::int",
    b"SELECT nothing\xe9 FROM w",
    b"SELECT 1 AS \"\xe9\", 2 AS \xc3\x89\xc0, '\xe9' AS y",
    b"SELECT * FROM \"nothing\xe9\"",
    b"INSERT INTO w (n, t) VALUES (9000, 'no\xff')",
    b"INSERT INTO w (n, t) VALUES (233, '\xe9')",
    b"INSERT INTO w (n, v) VALUES (9001, '\xe9\xe9\xe9\xe9\xe9\xe9')",
    b"SELECT t COLLATE \"C\" FROM w WHERE n = 233",
    b"SELECT t COLLATE \"en_US\" FROM w WHERE n = 233",
    b"SELECT t COLLATE \"unicode\" FROM w WHERE n = 233",
    b"SELECT pg_get_expr(adbin, adrelid) \
      FROM pg_attrdef WHERE adrelid = 'w'::regclass ORDER BY adnum",
    b"SELECT pg_get_constraintdef(oid) \
      FROM pg_constraint WHERE conrelid = 'w'::regclass ORDER BY conname",
    b"SELECT pg_get_indexdef(indexrelid) \
      FROM pg_index WHERE indrelid = 'w'::regclass ORDER BY indexrelid",
    b"SELECT attname FROM pg_attribute \
      WHERE attrelid = 'w'::regclass AND attnum > 0 ORDER BY attnum",
    b"SELECT relname, length(relname) FROM pg_class WHERE relname > 'w' ORDER BY relname",
    b"SELECT count(*), t < 'x\x80' FROM w GROUP BY 2 ORDER BY 2",
    b"SELECT a[1], a[3], a = array['\xe9', 'x', '\x17'] FROM w WHERE n = 233",
    b"SELECT string_to_array('a\xe9b\xe9c', '\xe9'), array_to_string(array['\xe9', 'b'], '\xff')",
    b"COPY (SELECT * FROM w ORDER BY n) TO STDOUT",
    b"COPY (SELECT t, v, c, m, d FROM w ORDER BY n) TO STDOUT (FORMAT csv, HEADER)",
    b"COPY (SELECT n, t, v, m FROM w ORDER BY n) TO STDOUT (FORMAT binary)",
];

const AFTER: &[&[u8]] = &[
    b"SELECT * FROM \"t\xe4\xf6\" ORDER BY 1",
    b"SELECT added, d FROM w ORDER BY n",
    b"INSERT INTO \"t\xe4\xf6\" VALUES (3, '\xfe')",
    b"INSERT INTO \"t\xe4\xf6\" VALUES (1, 'x')",
    b"SELECT conname FROM pg_constraint \
      WHERE conrelid = '\"t\xe4\xf6\"'::regclass ORDER BY conname",
];

fn same(ours: &mut Session, theirs: &mut Session, statements: &[&[u8]]) {
    let mut wrong = String::new();
    for sql in statements {
        let (found, expected) = (ours.ask(sql), theirs.ask(sql));
        if found != expected {
            let [sql, found, expected] = [sql, &found[..], &expected].map(shown);
            wrong.push_str(&format!("{sql}\nours:   {found}\ntheirs: {expected}\n"));
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// Parameters and COPY's data, in both forms.
fn same_messages(ours: &mut Session, theirs: &mut Session) {
    for format in [0, 1] {
        let sql = b"SELECT $1::text || '\xfe', upper($2::varchar), $1 = '\xe9'";
        let sql: &[u8] =
            if format == 0 { sql } else { b"SELECT $1::text || '\xfe', upper($2::varchar)" };
        let parameters: [&[u8]; 2] = [b"\xe9\x80", b"a\xff"];
        let (found, expected) =
            (ours.run(sql, &parameters, format), theirs.run(sql, &parameters, format));
        assert_eq!(shown(&found), shown(&expected), "format {format}");
        assert!(found.starts_with(b"\xe9\x80\xfe|A\xff|"), "{}", shown(&found));
    }
    let every: Vec<u8> = (0x80..=0xff).collect();
    let text = [&b"1\t"[..], &every, b"\\351\\xEA\n2\t\\N\n"].concat();
    let csv = [&b"3,\""[..], &every, b"\"\n"].concat();
    let zero = b"4\ta\\000b\n";
    for session in [&mut *ours, &mut *theirs] {
        session.ask(b"CREATE TABLE copied (n int, t text)");
    }
    for (sql, data) in [
        (&b"COPY copied FROM STDIN"[..], text),
        (b"COPY copied FROM STDIN (FORMAT csv)", csv),
        (b"COPY copied FROM STDIN", zero.to_vec()),
    ] {
        let (found, expected) = (ours.load(sql, &data), theirs.load(sql, &data));
        assert_eq!(shown(&found), shown(&expected), "{}", shown(sql));
    }
    let binary: &[u8] = b"COPY copied TO STDOUT (FORMAT binary)";
    let data = theirs.ask(binary);
    for session in [&mut *ours, &mut *theirs] {
        let loaded = session.load(b"COPY copied FROM STDIN (FORMAT binary)", &data);
        assert_eq!(shown(&loaded), "");
    }
    let all: &[u8] = b"SELECT n, t, octet_length(t) FROM copied ORDER BY 1, 2";
    same(ours, theirs, &[binary, all]);
    // A client that says UTF8 must send it.
    let utf8: &[&[u8]] = &[
        b"SET client_encoding = 'UTF8'",
        b"SHOW client_encoding",
        b"SELECT 'caf\xc3\xa9', length('caf\xc3\xa9')",
        b"SELECT 'caf\xe9'",
        b"SELECT t FROM w WHERE n = 233",
        b"COPY (SELECT t FROM w WHERE n = 233) TO STDOUT",
        b"RESET client_encoding",
    ];
    same(ours, theirs, utf8);
}

/// The lines of a dump, in order: rows may lie elsewhere.
fn dump(peer: &Peer, postgres: &Postgres<'_>) -> Vec<String> {
    let port = postgres.port.to_string();
    let mut command = peer.command("pg_dump");
    command.args(["-h", "127.0.0.1", "-U", "postgres", "-p", &port, "--restrict-key=key"]);
    let output = command.arg("postgres").output().expect("pg_dump runs");
    assert!(output.status.success(), "{}", shown(&output.stderr));
    let mut lines: Vec<String> = output.stdout.split(|b| *b == b'\n').map(shown).collect();
    lines.sort();
    lines
}

fn check(peer: &Peer, postgres: &Postgres<'_>) {
    let port = postgres.port.to_string();
    let mut command = peer.command("pg_amcheck");
    command.args(["-h", "127.0.0.1", "-U", "postgres", "-p", &port, "--install-missing"]);
    must(command.args(["--heapallindexed", "--parent-check", "-d", "postgres"]));
}

#[test]
fn a_cluster_of_postgresqls_is_served_and_handed_back() {
    let Some(peer) = Peer::find("sql_ascii_of_postgresql") else { return };
    peer.init_with("pg", &["-k", "-ESQL_ASCII"]);
    let postgres = peer.start("pg", "-c autovacuum=off");
    let mut theirs = Session::on(postgres.port, "postgres");
    for sql in TABLE {
        assert_eq!(shown(&theirs.ask(sql)), "", "{}", shown(sql));
    }
    drop((theirs, postgres));

    let folder = Arc::new(TempDir::new().expect("a folder"));
    peer.fetch("pg", &folder.path().join("data"));
    let server = Server::on(folder, &["autovacuum=off"]);
    let postgres = peer.start("pg", "-c autovacuum=off");
    let mut ours = Session::on(server.port, "postgres");
    let mut theirs = Session::on(postgres.port, "postgres");
    same(&mut ours, &mut theirs, QUERIES);
    for setting in [&b"SET enable_seqscan = off"[..], b"SET enable_bitmapscan = off"] {
        same(&mut ours, &mut theirs, &[setting]);
        same(&mut ours, &mut theirs, &QUERIES[4..14]);
    }
    same_messages(&mut ours, &mut theirs);
    same(&mut ours, &mut theirs, CHANGES);
    same(&mut ours, &mut theirs, QUERIES);
    same(&mut ours, &mut theirs, AFTER);
    for sql in [&b"ANALYZE"[..], b"VACUUM w", b"REINDEX TABLE w"] {
        assert_eq!(shown(&ours.ask(sql)), "", "{}", shown(sql));
    }
    same(&mut ours, &mut theirs, QUERIES);
    let expected = dump(&peer, &postgres);
    drop((ours, theirs, postgres));

    let folder = server.stop();
    peer.adopt(&folder.path().join("data"), "back");
    let back = peer.start("back", "-c autovacuum=off");
    assert_eq!(dump(&peer, &back), expected);
    check(&peer, &back);
    let mut back_session = Session::on(back.port, "postgres");
    assert_eq!(shown(&back_session.ask(b"UPDATE w SET t = t || '\xe9'")), "");
    check(&peer, &back);
}

#[test]
fn a_cluster_of_forebays_is_postgresqls_too() {
    let Some(peer) = Peer::find("sql_ascii_of_forebay") else { return };
    let folder = Arc::new(TempDir::new().expect("a folder"));
    let data = folder.path().join("data");
    let data_dir = data.to_str().expect("a path");
    let made = forebay(&["init", "-D", data_dir, "-E", "sql_ascii", "--no-sync"]);
    assert!(made.status.success(), "{}", shown(&made.stderr));
    let server = Server::on(folder, &["autovacuum=off"]);
    let mut ours = Session::on(server.port, "postgres");
    for sql in TABLE.iter().chain(CHANGES) {
        assert_eq!(shown(&ours.ask(sql)), "", "{}", shown(sql));
    }
    let queries = &QUERIES[..20];
    let expected: Vec<_> = queries.iter().map(|sql| shown(&ours.ask(sql))).collect();
    drop(ours);
    let folder = server.stop();
    peer.adopt(&folder.path().join("data"), "pg");
    let postgres = peer.start("pg", "-c autovacuum=off");
    let mut theirs = Session::on(postgres.port, "postgres");
    for (sql, expected) in queries.iter().zip(expected) {
        assert_eq!(shown(&theirs.ask(sql)), expected, "{}", shown(sql));
    }
    let trees = b"SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef WHERE adrelid = 'w'::regclass";
    let defaults = theirs.ask(trees);
    assert!(defaults.windows(6).any(|part| part == b"'d\xe9f\xff'"), "{}", shown(&defaults));
    check(&peer, &postgres);
}

/// Databases of both encodings in one cluster: what they share is read by either.
#[test]
fn databases_of_both_encodings_live_side_by_side() {
    let server = Server::new();
    let mut utf8 = Session::on(server.port, "postgres");
    let refused = utf8.ask(b"CREATE DATABASE bytes ENCODING 'SQL_ASCII'");
    let message = "new encoding (SQL_ASCII) is incompatible with the encoding of the template \
                   database (UTF8)";
    assert!(shown(&refused).contains(message), "{}", shown(&refused));
    let icu = b"CREATE DATABASE bytes ENCODING 'SQL_ASCII' LOCALE_PROVIDER icu ICU_LOCALE 'de' \
                TEMPLATE template0";
    let refused = shown(&utf8.ask(icu));
    assert!(refused.contains("is not supported with ICU provider"), "{refused}");
    let made = utf8.ask(b"CREATE DATABASE bytes ENCODING 'SQL_ASCII' TEMPLATE template0");
    assert_eq!(shown(&made), "");
    let mut bytes = Session::on(server.port, "bytes");
    assert_eq!(bytes.0.parameters["server_encoding"], "SQL_ASCII");
    assert_eq!(bytes.0.parameters["client_encoding"], "SQL_ASCII");
    // The same bytes are the same name.
    assert_eq!(shown(&utf8.ask("CREATE ROLE \"gr\u{fc}n\" SUPERUSER LOGIN".as_bytes())), "");
    let found =
        bytes.ask(b"SELECT rolname, length(rolname) FROM pg_authid WHERE rolname LIKE 'gr%'");
    assert!(found.ends_with(b"gr\xc3\xbcn|5|\n"), "{}", shown(&found));
    let entered = Client::start(
        server.socket(),
        &[("user", "gr\u{fc}n"), ("database", "bytes"), ("application_name", "\u{fc}")],
    );
    let mut entered = Session(entered.expect("a session"));
    let who = entered.ask(b"SELECT current_user, session_user, length(current_user)");
    assert!(who.ends_with(b"gr\xc3\xbcn|gr\xc3\xbcn|5|\n"), "{}", shown(&who));
    // Names that are not UTF-8 are refused where texts are, and nothing else is.
    drop(entered);
    for sql in [&b"CREATE ROLE \"r\xe9\""[..], b"CREATE DATABASE \"d\xe9\" TEMPLATE bytes"] {
        assert_eq!(shown(&bytes.ask(sql)), "", "{}", shown(sql));
    }
    let listed = shown(&utf8.ask(b"SELECT rolname FROM pg_authid"));
    assert!(listed.contains("C22021") && listed.contains(": 0xe9"), "{listed}");
    assert!(utf8.ask(b"SELECT 1").ends_with(b"\n1|\n"));
    let listed = bytes.ask(b"SELECT rolname FROM pg_authid WHERE rolname > 'r' ORDER BY 1");
    assert!(listed.ends_with(b"r\xe9|\n"), "{}", shown(&listed));
    assert_eq!(shown(&bytes.ask(b"DROP DATABASE \"d\xe9\"")), "");
    assert_eq!(shown(&bytes.ask(b"DROP ROLE \"r\xe9\"")), "");
    let refused = shown(&bytes.ask(b"CREATE COLLATION own (provider = icu, locale = 'de')"));
    assert!(refused.contains("C0A000"), "{refused}");
}
