//! A file system that runs full. Needs root, for a small file system of its own.

use std::path::Path;
use std::process::Command;

use crate::common::*;
use forebay_engine::{EngineConfig, IoMethod, ShutdownMode};

/// A mounted tmpfs, unmounted at the end.
struct Small(tempfile::TempDir);

impl Small {
    fn mount(megabytes: u32) -> Option<Small> {
        let small = scratch();
        let size = format!("size={megabytes}m");
        let output = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "tmpfs"])
            .arg(small.path())
            .output();
        if output.is_ok_and(|o| o.status.success()) { Some(Small(small)) } else { None }
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

#[test]
fn a_full_file_system_fails_statements_and_loses_nothing() {
    let Some(small) = Small::mount(24) else {
        println!(
            "skipped: a_full_file_system_fails_statements_and_loses_nothing needs to mount a tmpfs"
        );
        return;
    };
    for method in [IoMethod::Sync, IoMethod::Worker, IoMethod::IoUring] {
        let dir = small.path().join("data");
        init(&dir);
        let config = EngineConfig { writing: little_wal(), ..config(method, false) };
        let (engine, mut session) = open_session(&dir, &config);
        create(&mut session, "t");
        let mut committed = 0;
        let error = loop {
            let result = transaction(&mut session, |s| {
                let table = s.open_table(None, "t", forebay_engine::LockMode::RowExclusive)?;
                insert_open(s, &table, committed..committed + 5_000)
            });
            match result {
                Ok(()) => committed += 5_000,
                Err(error) => break error,
            }
            assert!(committed < 2_000_000, "{method:?}: the file system does not run full");
        };
        assert_eq!(error.sqlstate(), "53100", "{method:?}: {error}");
        assert!(!session.in_transaction());
        assert_eq!(count(&mut session, "t").expect("count"), committed as u64, "{method:?}");
        drop(session);
        engine.shutdown(ShutdownMode::Immediate).expect("stop");
        drop(engine);
        // With room again, recovery finds what was committed.
        let larger = ["-o", "remount,size=64m"];
        assert!(
            Command::new("mount").args(larger).arg(small.path()).status().expect("mount").success()
        );
        let (engine, mut session) = open_session(&dir, &config);
        assert_eq!(count(&mut session, "t").expect("count"), committed as u64, "{method:?}");
        insert(&mut session, "t", committed..committed + 10);
        drop((session, engine));
        std::fs::remove_dir_all(&dir).expect("remove");
        assert!(
            Command::new("mount")
                .args(["-o", "remount,size=24m"])
                .arg(small.path())
                .status()
                .expect("mount")
                .success()
        );
    }
}
