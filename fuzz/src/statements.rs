//! Entry points of the fuzz targets for SQL: statements made of bytes, that seek depth. Whatever
//! they are, parsing and planning them gives a result or an error, within the stack of a thread,
//! and the next statement works.

use forebay_engine::{Engine, EngineConfig, InitOptions, IoMethod};
use forebay_sql::{
    Connection, Identity, PlanSettings, SetScope, SettingRow, Settings, Shown, SqlError,
    TransactionModes,
};
use std::sync::{Arc, LazyLock};

/// Beginnings of statements.
const HEADS: &[&str] = &[
    "select ",
    "values (1), (",
    "select * from generate_series(1, 2) x where ",
    "insert into t values (",
    "insert into t select ",
    "copy (select ",
    "with a as (select 1) select ",
    "create table t (a ",
    "set x to ",
    "table ",
    "explain select ",
    "",
];
/// What is repeated before something.
const PREFIXES: &[&str] = &[
    "(",
    "not ",
    "- ",
    "+",
    "abs(",
    "coalesce(1, ",
    "case when true then ",
    "case 1 when ",
    "cast(",
    "1 in (",
    "position(",
    "array[",
    "array<",
    "interval ",
    "date ",
    "exists (select ",
    "(select ",
    "f(a => ",
    "1 + ",
    "1 between 0 and ",
    "x = 1 or ",
    "'a' || ",
    "1, ",
    "select * from (",
    "with a as (",
    "lateral (",
    "{fn f(",
    "any (",
    "prior ",
    "a.",
    "\"a\".",
    "$1 = ",
    "insert into t ",
    "overlay(",
    "substring(",
    "trim(",
    "row(",
];
/// What is repeated behind it.
const SUFFIXES: &[&str] = &[
    ")",
    " end",
    " notnull",
    " isnull",
    " is null",
    " is not true",
    " is distinct from 1",
    "::int",
    "::text[]",
    "[1]",
    "[]",
    " + 1",
    " * 2",
    " = 1",
    " || 'a'",
    " or true",
    " and x = 1",
    " collate \"C\"",
    ", 1",
    " in (1, 2)",
    " like 'a'",
    " between 1 and 2",
    " at time zone 'x'",
    " union select 1",
    " except select 1, 2",
    " join b",
    " cross join b",
    ", c",
    " as a",
    ">",
    " int",
    ")::int",
    ") s",
    " as int)",
    ".a",
    " order by 1",
    " limit 1",
    " in 'a')",
    ";",
    " then 1",
    "~",
    " ->> 'a'",
    " filter (where true)",
    " over (partition by 1)",
];
/// What is in the middle.
const MIDDLES: &[&str] =
    &["1", "'a'", "null", "true", "x", "t", "int", "$1", "", "1.5", "count(*)", "*", "case"];

fn pick<'w>(words: &[&'w str], byte: u8) -> &'w str {
    words.get(usize::from(byte) % words.len()).copied().unwrap_or_default()
}

/// How often something is repeated: seldom often, and sometimes beyond every limit.
fn times(byte: u8) -> usize {
    match byte % 8 {
        0..=2 => 1,
        3 => usize::from(byte),
        4 => 127,
        5 => 390,
        6 => 1000,
        _ => 20_000,
    }
}

/// A statement: a head; for each pair of bytes a piece with its number; a middle.
pub fn statement(data: &[u8]) -> String {
    let Some((&[head, middle], rest)) = data.split_first_chunk::<2>() else { return String::new() };
    let (pieces, _) = rest.as_chunks::<2>();
    let mut sql = pick(HEADS, head).to_owned();
    let mut behind = String::new();
    for [piece, number] in pieces.iter().take(8) {
        let room = 400_000usize.saturating_sub(sql.len() + behind.len());
        let side = if piece % 2 == 0 { &mut sql } else { &mut behind };
        let word =
            if piece % 2 == 0 { pick(PREFIXES, piece / 2) } else { pick(SUFFIXES, piece / 2) };
        side.push_str(&word.repeat(times(*number).min(room / word.len().max(1))));
    }
    sql + pick(MIDDLES, middle) + &behind
}

/// Settings of which there are none.
struct NoSettings;

impl Settings for NoSettings {
    fn show(&self, name: &str) -> Result<Shown, SqlError> {
        Ok(Shown { name: name.into(), value: String::new() })
    }
    fn set(&mut self, _: &str, _: Option<&str>, _: SetScope) -> Result<(), SqlError> {
        Ok(())
    }
    fn check(&self, _: &str, _: &str) -> Result<(), SqlError> {
        Ok(())
    }
    fn reset_all(&mut self) -> Result<(), SqlError> {
        Ok(())
    }
    fn all(&self) -> Vec<SettingRow> {
        Vec::new()
    }
    fn change_count(&self) -> u64 {
        0
    }
    fn engine(&self) -> forebay_engine::SessionSettings {
        forebay_engine::SessionSettings::default()
    }
    fn planning(&self) -> PlanSettings {
        PlanSettings::default()
    }
    fn share(&self) -> Box<dyn Settings> {
        Box::new(NoSettings)
    }
    fn reload_server(&mut self) -> bool {
        false
    }
    fn transaction_defaults(&self) -> TransactionModes {
        TransactionModes::default()
    }
    fn begin_subtransaction(&mut self) {}
    fn end_subtransaction(&mut self, _released: bool) {}
    fn end_transaction(&mut self, _: bool) {}
}

/// An engine in a directory of its own, which all connections share.
fn engine() -> &'static Arc<Engine> {
    static ENGINE: LazyLock<Arc<Engine>> = LazyLock::new(|| {
        let dir = std::env::temp_dir().join(format!("forebay-fuzz-{}", std::process::id()));
        let options = InitOptions { sync: false, ..InitOptions::default() };
        Engine::init(&dir, &options).expect("init");
        let config = EngineConfig { io_method: IoMethod::Sync, ..EngineConfig::default() };
        Engine::open(&dir, EngineConfig { shared_buffers: 1024.into(), ..config }).expect("open")
    });
    &ENGINE
}

/// A connection for statements that need no tables.
pub fn connection() -> Connection {
    let identity = Identity {
        user: "u".into(),
        database: "d".into(),
        pid: 1,
        version: "PostgreSQL 18".into(),
    };
    let session = engine().session().expect("session");
    Connection::new(session, Box::new(NoSettings), identity)
}

/// Parses text, as it is.
pub fn parse(data: &[u8]) {
    let mut conn = connection();
    drop(conn.start_script(&String::from_utf8_lossy(data)));
    assert!(conn.start_script("select 1").is_ok());
}

/// Parses and plans a statement made of the bytes, and binds and describes it if it is one.
pub fn bind(data: &[u8]) {
    let mut conn = connection();
    let sql = statement(data);
    match conn.parse("", &sql, &[]) {
        Ok(()) => {
            let (types, _) = conn.describe_statement("").expect("it was parsed");
            // Parameters of some types have no NULL that is refused: nothing else can fail.
            conn.bind("", "", &[], &vec![None; types.len()], &[]).expect("it binds");
        }
        Err(e) => assert!(e.sqlstate != "XX000", "{e}: {:.200}", sql),
    }
    conn.sync().expect("ends");
    conn.parse("", "select 1", &[]).expect("the next one works");
}
