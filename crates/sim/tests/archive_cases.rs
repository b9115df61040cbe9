//! Power loss before the `.done` mark of an archived segment persists, depending on what happened
//! to the segment meanwhile. After the next start the mark says `.ready` again. The archive's copy
//! must stay as it is, whatever is offered, and what can be settled must be settled.
//!
//! The log waits for the marks to be durable before it releases a segment, so only the first case
//! should occur. The others are those of a disk that lies.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use forebay_aio::sync::{Duration, Instant};
use forebay_aio::{Aio, AioConfig, AlignedBuf, BackendType, IoBackend, Namespace, OpenOptions};
use forebay_archive::modules::Basic;
use forebay_archive::{Archiver, ArchiverConfig, Next};
use forebay_format::SegmentSize;
use forebay_format::wal::page_header::{LongHeader, PageHeader};
use forebay_sim::{Forgotten, SimDisk, Survival};

const ROOT: &str = "/server";

fn size() -> SegmentSize {
    SegmentSize::new(1 << 20).expect("a size")
}

fn segment(number: u64) -> Vec<u8> {
    let mut bytes = vec![0; 1 << 20];
    bytes[500_000] = number as u8;
    let long = LongHeader { system_id: 42, segment_size: size().get(), block_size: 8192 };
    let page_addr = size().start(number);
    PageHeader { info: 0, timeline: 1, page_addr, rem_len: 0, long: Some(long) }.encode(&mut bytes);
    bytes
}

fn path(name: &str) -> PathBuf {
    Path::new(ROOT).join(name)
}

fn wal(number: u64) -> PathBuf {
    path("pg_wal").join(size().file_name(1, number))
}

fn mark(number: u64, end: &str) -> PathBuf {
    path("pg_wal/archive_status").join(format!("{}.{end}", size().file_name(1, number)))
}

fn stored(disk: &SimDisk, number: u64) -> Option<Vec<u8>> {
    disk.bytes(&path("archive").join(size().file_name(1, number)))
}

/// A process on the disk.
struct Life {
    disk: SimDisk,
    aio: Arc<Aio>,
    backend: IoBackend,
}

impl Life {
    fn on(disk: &SimDisk) -> Life {
        let aio =
            disk.open(AioConfig { max_backends: 2, ..AioConfig::default() }, 1).expect("opened");
        let backend = aio.backend(BackendType::Standalone).expect("a backend");
        Life { disk: disk.clone(), aio, backend }
    }

    fn names(&self) -> Arc<dyn Namespace> {
        Arc::clone(self.aio.namespace())
    }

    /// Writes a file durably, except for its name.
    fn write(&mut self, path: &Path, bytes: &[u8]) {
        let file = self.names().open(path, &OpenOptions::READ_WRITE.create()).expect("opened");
        if !bytes.is_empty() {
            self.backend
                .write_all_at(&file, 0, &AlignedBuf::copy_of(bytes).expect("memory"))
                .expect("written");
        }
        self.backend.fsync(&file).expect("synced");
    }

    /// Archives until there is nothing to do, or nothing happens for some time.
    fn archive(&mut self) -> Arc<Archiver> {
        let archiver = Archiver::new(&self.aio, &path("pg_wal"), ArchiverConfig::default());
        archiver.set_module(Some(Arc::new(Basic::new(&self.aio, path("archive"), false))));
        archiver.scan().expect("listed");
        let mut now = Instant::now() + Duration::from_secs(3600);
        for _ in 0..200 {
            match archiver.step(&mut self.backend, now).expect("no final failure") {
                Next::Rest(Some(time)) => now += time,
                Next::Rest(None) => break,
                Next::Worked | Next::Ended => {}
            }
        }
        archiver
    }

    fn end(self) {
        let Life { disk, aio, backend } = self;
        drop((backend, aio));
        disk.close();
    }
}

/// Segment 1 is archived, and the power fails after `meanwhile`, before its mark is durable.
/// Returns what is found then.
fn lost_mark(meanwhile: impl FnOnce(&mut Life)) -> SimDisk {
    let disk = SimDisk::new(ROOT, 1);
    let mut life = Life::on(&disk);
    for dir in ["pg_wal", "pg_wal/archive_status", "archive"] {
        life.names().mkdir(&path(dir)).expect("made");
    }
    life.write(&wal(1), &segment(1));
    life.write(&mark(1, "ready"), b"");
    for dir in ["pg_wal/archive_status", "pg_wal", ""] {
        life.names().sync_dir(&path(dir)).expect("synced");
    }
    disk.forget(Forgotten::NamesIn("archive_status"));
    assert_eq!(life.archive().stats().archived_count, 1);
    assert!(disk.bytes(&mark(1, "done")).is_some());
    meanwhile(&mut life);
    life.names().sync_dir(&path("pg_wal")).expect("synced");
    life.end();
    let found = disk.restart(Survival::none(), 1);
    assert!(found.bytes(&mark(1, "ready")).is_some() && found.bytes(&mark(1, "done")).is_none());
    assert!(stored(&found, 1) == Some(segment(1)), "what was acknowledged is there");
    found
}

#[test]
fn power_loss_before_the_done_mark_with_the_segment_intact() {
    let disk = lost_mark(|_| ());
    let mut life = Life::on(&disk);
    let archiver = life.archive();
    assert_eq!(
        (archiver.stats().archived_count, archiver.stats().failed_count),
        (1, 0),
        "the same again"
    );
    assert!(disk.bytes(&mark(1, "done")).is_some() && disk.bytes(&mark(1, "ready")).is_none());
    assert!(stored(&disk, 1) == Some(segment(1)));
    drop(archiver);
    life.end();
}

#[test]
fn power_loss_before_the_done_mark_with_the_segment_gone() {
    let disk = lost_mark(|life| life.names().unlink(&wal(1)).expect("removed"));
    let mut life = Life::on(&disk);
    let archiver = life.archive();
    assert_eq!((archiver.stats().archived_count, archiver.backlog().files), (0, 0), "an orphan");
    assert!(disk.bytes(&mark(1, "ready")).is_none());
    assert!(stored(&disk, 1) == Some(segment(1)));
    drop(archiver);
    life.end();
}

#[test]
fn power_loss_before_the_done_mark_with_the_segment_recycled() {
    let disk = lost_mark(|life| {
        life.names().rename(&wal(1), &wal(3)).expect("recycled");
        life.write(&wal(3), &segment(3));
        life.write(&mark(3, "ready"), b"");
    });
    let mut life = Life::on(&disk);
    // Its own mark was lost as well; the log makes it again.
    life.write(&mark(3, "ready"), b"");
    let archiver = life.archive();
    assert_eq!((archiver.stats().archived_count, archiver.backlog().files), (1, 0));
    assert!(stored(&disk, 1) == Some(segment(1)) && stored(&disk, 3) == Some(segment(3)));
    drop(archiver);
    life.end();
}

/// The new name was lost as well, and the content written under it was not.
#[test]
fn power_loss_before_the_done_mark_with_another_segment_under_its_name() {
    let disk = lost_mark(|life| life.write(&wal(1), &segment(3)));
    let mut life = Life::on(&disk);
    let archiver = life.archive();
    assert_eq!(archiver.stats().archived_count, 0);
    assert!(archiver.stats().failed_count > 3, "it is tried, and refused");
    assert_eq!(archiver.backlog().files, 1, "and not dropped");
    assert!(stored(&disk, 1) == Some(segment(1)), "what is there stays as it is");
    drop(archiver);
    life.end();
}
