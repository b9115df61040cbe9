//! The log of a stopped directory, opened by itself.

use std::path::Path;
use std::sync::Arc;

use forebay_aio::{Aio, BackendType, IoBackend, MethodKind};
use forebay_format::control::{ControlFile, PATH};
use forebay_testkit::io;
use forebay_wal::{ReaderConfig, Wal, WalConfig, WalReader};

/// What pg_control says.
pub fn control(dir: &Path) -> ControlFile {
    ControlFile::decode(&std::fs::read(dir.join(PATH)).expect("pg_control")).expect("good")
}

/// A backend of its own.
pub fn backend() -> (Arc<Aio>, IoBackend) {
    let aio = io::open(MethodKind::Sync);
    let io = aio.backend(BackendType::Client).expect("backend");
    (aio, io)
}

/// The log of a crashed directory, where it goes on.
pub fn resume(dir: &Path) -> (Wal, IoBackend) {
    let (aio, mut io) = backend();
    let control = control(dir);
    let (segment_size, pg_wal) = (control.segment_size, dir.join("pg_wal"));
    let config = ReaderConfig {
        dir: pg_wal.clone(),
        segment_size,
        timeline: 1,
        system_id: Some(control.system_id),
        direct: false,
    };
    let redo = control.checkpoint_copy.redo;
    let mut reader = WalReader::new(Arc::clone(&aio), config, redo);
    while reader.next(&mut io).expect("readable").is_some() {}
    let resume = reader.end().expect("an end").resume(redo);
    let config = WalConfig::new(pg_wal, segment_size, control.system_id);
    let wal = Wal::start(aio, &mut io, config, resume).expect("the log goes on");
    (wal, io)
}
