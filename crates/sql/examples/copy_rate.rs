//! How fast COPY FROM STDIN is, over a scratch engine: `cargo run --release -p forebay-sql
//! --example copy_rate`.

#[path = "../tests/support/mod.rs"]
mod support;

use forebay_engine::{Engine, EngineConfig, InitOptions, ShutdownMode, WritingSettings};
use forebay_sql::{Connection, Step};
use std::time::Instant;

const ROWS: i32 = 2_000_000;

fn data(delimiter: char) -> Vec<u8> {
    let mut data = String::new();
    for i in 0..ROWS {
        let (a, c, d) =
            (i.wrapping_mul(7919), f64::from(i) / 8.0, if i % 2 == 0 { 't' } else { 'f' });
        data.push_str(&format!("{a}{delimiter}some text of row {i}{delimiter}{c}{delimiter}{d}\n"));
    }
    data.into_bytes()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    Engine::init(dir.path(), &InitOptions::default())?;
    let engine = Engine::open(
        dir.path(),
        EngineConfig {
            writing: WritingSettings { max_wal_size: 8 << 30, ..WritingSettings::default() },
            ..EngineConfig::default()
        },
    )?;
    let settings = Box::new(support::FewSettings::new());
    let mut conn = Connection::new(engine.session()?, settings, support::identity());
    for (options, delimiter) in [("", '\t'), ("csv", ',')] {
        let data = data(delimiter);
        support::run(
            &mut conn,
            "drop table if exists t; create table t (a int, b text, c float8, d bool)",
        );
        let mut sink = support::Recorder::default();
        let started = Instant::now();
        let mut script = conn.start_script(&format!("copy t from stdin {options}"))?;
        let Step::CopyIn(mut copy) = conn.step(&mut script, &mut sink)? else {
            return Err("no COPY".into());
        };
        for chunk in data.chunks(65536) {
            copy.push(&mut conn, chunk)?;
        }
        let tag = copy.finish(&mut conn)?;
        let seconds = started.elapsed().as_secs_f64();
        let rate = data.len() as f64 / 1e6 / seconds;
        println!(
            "{} {options}: {rate:.0} MB/s, {:.2} million rows/s",
            tag.0,
            f64::from(ROWS) / 1e6 / seconds
        );
    }
    conn.close();
    engine.shutdown(ShutdownMode::Fast)?;
    Ok(())
}
