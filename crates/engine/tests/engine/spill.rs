//! Temporary files of an engine's sessions: limits and counts, their end with the session, the
//! engine or a crash.

use crate::common::*;
use forebay_engine::{ShutdownMode, TempOptions};

#[test]
fn what_a_crash_left_is_gone_after_the_start_and_a_stop_leaves_nothing() {
    for (way, config) in ways() {
        let dir = scratch();
        init(dir.path());
        let temp = dir.path().join("base/pgsql_tmp");
        std::fs::create_dir(&temp).expect("directory");
        std::fs::write(temp.join("pgsql_tmp4711.0"), "left").expect("file");
        let engine = open(dir.path(), &config);
        let names = || std::fs::read_dir(&temp).expect("directory").count();
        assert_eq!(names(), 0, "{way}");
        let mut session = engine.session().expect("session");
        let options = session.temp_options();
        let mut writer = session.temp_file(options).expect("file");
        writer.write_all(session.io(), &[1; 1_000_000]).expect("written");
        let file = writer.finish(session.io()).expect("written");
        assert_eq!((names(), session.temp_bytes()), (1, 1_000_000), "{way}");
        let mut last = [0; 2];
        let mut reader = file.reader_of(999_998..1_000_000, options);
        reader.read_exact(session.io(), &mut last).expect("read");
        assert_eq!(last, [1, 1], "{way}");
        engine.shutdown(ShutdownMode::Immediate).expect("stopped");
        assert_eq!(names(), 0, "{way}");
        assert!(session.temp_file(options).is_err(), "{way}");
        // They are dropped when another engine has the directory.
        let next = open(dir.path(), &config);
        drop((file, reader, session));
        assert_eq!(next.database_stats().temp_files, 0, "{way}");
        next.shutdown(ShutdownMode::Fast).expect("stopped");
    }
}

#[test]
fn a_session_has_its_limit_and_the_database_its_counts() {
    let dir = scratch();
    init(dir.path());
    let (engine, mut session) =
        open_session(dir.path(), &config(forebay_engine::IoMethod::Sync, false));
    session.settings_mut().temp_file_limit = 64;
    let mut writer = session.temp_file(TempOptions::default()).expect("file");
    let error = writer.write_all(session.io(), &[1; 200_000]).expect_err("too much");
    let error = forebay_engine::EngineError::from(error);
    assert_eq!(error.sqlstate(), "53400");
    assert_eq!(error.to_string(), "temporary file size exceeds \"temp_file_limit\" (64kB)");
    drop(writer);
    assert_eq!(session.temp_bytes(), 0);
    let mut writer = session.temp_file(TempOptions::default()).expect("file");
    writer.write_all(session.io(), &[1; 65_536]).expect("just enough");
    drop(writer.finish(session.io()).expect("just enough"));
    let stats = engine.database_stats();
    assert_eq!((stats.temp_files, stats.temp_bytes), (2, 65_536));
    drop(session);
    engine.shutdown(ShutdownMode::Fast).expect("stopped");
}
