//! A server that archives into a directory, for tests of recovery from there.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::common::*;
use forebay_engine::{
    ArchiveMode, Engine, EngineConfig, EngineError, RecoveryTarget, RestoreSettings, Session,
    ShutdownMode, TargetAction,
};
use forebay_testkit::files::copy_tree;

/// A server's directory, its cold backup, and an archive that a test fills itself.
pub struct Fixture {
    scratch: tempfile::TempDir,
    pub config: EngineConfig,
}

impl Fixture {
    /// With a table t of 100 rows in the backup.
    pub fn new(config: EngineConfig) -> Fixture {
        let fixture = Fixture {
            scratch: scratch(),
            config: EngineConfig { archive_mode: ArchiveMode::On, ..config },
        };
        std::fs::create_dir(fixture.path("store")).expect("store");
        init(&fixture.path("data"));
        let engine = fixture.open("data");
        let mut session = engine.session().expect("session");
        create(&mut session, "t");
        insert(&mut session, "t", 0..100);
        drop(session);
        engine.shutdown(ShutdownMode::Fast).expect("stop");
        fixture.archive("data");
        copy_tree(&fixture.path("data"), &fixture.path("base"));
        fixture
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    pub fn open(&self, name: &str) -> Arc<Engine> {
        open(&self.path(name), &self.config)
    }

    /// A session of the server in a directory.
    pub fn session(&self, name: &str) -> (Arc<Engine>, Session) {
        let engine = self.open(name);
        let session = engine.session().expect("session");
        (engine, session)
    }

    /// Ends it as a crash does, once its last segment is complete and archived.
    pub fn crash(&self, name: &str, engine: Arc<Engine>, mut session: Session) {
        session.switch_wal().expect("switch");
        engine.shutdown(ShutdownMode::Immediate).expect("stop");
        drop((session, engine));
        self.archive(name);
    }

    /// Does what an archiver does.
    pub fn archive(&self, name: &str) {
        let wal = self.path(name).join("pg_wal");
        for entry in std::fs::read_dir(wal.join("archive_status")).expect("marks") {
            let mark = entry.expect("entry").path();
            if mark.extension().is_some_and(|e| e == "ready") {
                let file = mark.file_stem().expect("a name").to_owned();
                let to = self.path("store").join(&file);
                assert!(!to.exists(), "{} is archived twice", to.display());
                std::fs::copy(wal.join(&file), to).expect("archive");
                std::fs::rename(&mark, mark.with_extension("done")).expect("mark");
            }
        }
    }

    /// A copy of the cold backup that is to be recovered.
    pub fn restore(&self, name: &str) -> PathBuf {
        let dir = self.path(name);
        copy_tree(&self.path("base"), &dir);
        std::fs::write(dir.join("recovery.signal"), "").expect("signal");
        dir
    }

    /// The configuration to recover with.
    pub fn recovering(&self, target: Option<RecoveryTarget>) -> EngineConfig {
        let restore = RestoreSettings {
            restore_command: format!("cp {}/%f %p 2>/dev/null", self.path("store").display()),
            targets: target.into_iter().collect(),
            action: TargetAction::Promote,
            ..RestoreSettings::default()
        };
        EngineConfig { restore, ..self.config.clone() }
    }

    /// Recovers a directory to a target and stops there; then an earlier one, the restore point
    /// "early", is refused.
    pub fn refuses_early_after(&self, dir: &Path, late: &RecoveryTarget) {
        let mut config = self.recovering(Some(late.clone()));
        config.restore.action = TargetAction::Shutdown;
        assert!(matches!(Engine::open(dir, config), Err(EngineError::StoppedAtTarget { .. })));
        let early = self.recovering(Some(RecoveryTarget::Name("early".to_owned())));
        let error = Engine::open(dir, early).expect_err("too early");
        assert_eq!(
            error.to_string(),
            "requested recovery stop point is before consistent recovery point"
        );
    }

    /// Recovers a fresh copy of the backup to a target, and counts t.
    pub fn count_at(&self, name: &str, target: RecoveryTarget, inclusive: bool) -> u64 {
        let mut config = self.recovering(Some(target));
        config.restore.inclusive = inclusive;
        let engine = Engine::open(&self.restore(name), config).expect(name);
        let counted = count(&mut engine.session().expect("session"), "t").expect("count");
        engine.shutdown(ShutdownMode::Immediate).expect("stop");
        counted
    }
}
