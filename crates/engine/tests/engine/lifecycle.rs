//! A data directory from its making to its stop, and to its recovery, with every way to do I/O.

use crate::common::*;
use forebay_engine::ShutdownMode;

#[test]
fn rows_survive_a_clean_stop() {
    for (way, config) in ways() {
        let (_scratch, dir) = new_dir();
        let (engine, mut session) = open_session(&dir, &config);
        create(&mut session, "t");
        insert(&mut session, "t", 0..100_000);
        assert_eq!(count(&mut session, "t").expect("count"), 100_000, "{way}");
        drop(session);
        engine.shutdown(ShutdownMode::Fast).expect("shutdown");

        let (engine, mut session) = open_session(&dir, &config);
        assert_eq!(count_and_sum(&mut session, "t"), (100_000, 4_999_950_000), "{way}");
        drop(session);
        engine.shutdown(ShutdownMode::Fast).expect("shutdown");
    }
}

#[test]
fn after_a_crash_what_was_committed_is_there_and_nothing_else() {
    for (way, config) in ways() {
        let (_scratch, dir) = new_dir();
        let (engine, mut session) = open_session(&dir, &config);
        create(&mut session, "t");
        insert(&mut session, "t", 0..5_000);
        let mut other = engine.session().expect("session");
        start(&mut other);
        let table =
            other.open_table(None, "t", forebay_engine::LockMode::RowExclusive).expect("table");
        insert_open(&mut other, &table, 5_000..9_000).expect("insert");
        insert(&mut session, "t", 20_000..21_000);
        engine.shutdown(ShutdownMode::Immediate).expect("stop");
        drop((session, other, engine));

        let (_engine, mut session) = open_session(&dir, &config);
        let sum: i64 = (0..5_000).sum::<i64>() + (20_000..21_000).sum::<i64>();
        assert_eq!(count_and_sum(&mut session, "t"), (6_000, sum), "{way}");
        insert(&mut session, "t", 30_000..30_010);
        assert_eq!(count(&mut session, "t").expect("count"), 6_010, "{way}");
    }
}
