//! A private log with its marks, and an archive, in a private directory.

use std::path::{Path, PathBuf};

use forebay_aio::sync::Arc;
use forebay_aio::{Aio, AioError, AlignedBuf, BackendType, DirEntry, OpenOptions};
use forebay_archive::{DurableDir, Expected, Mark, WalName};
use forebay_format::SegmentSize;
use forebay_format::wal::page_header::{LongHeader, MAGIC, PageHeader};

use crate::error::BenchError;
use crate::measure::Noise;
use crate::scratch::Scratch;

pub(super) const SEGMENT: SegmentSize = SegmentSize::DEFAULT;
const SYSTEM_ID: u64 = 0x0f0e_0b0a_0123_4567;
pub(super) const EXPECTED: Expected =
    Expected { system_id: Some(SYSTEM_ID), segment_size: Some(SEGMENT), magic: Some(MAGIC) };

/// The directory.
pub(super) struct Files {
    aio: Arc<Aio>,
    scratch: Scratch,
}

fn name(number: u64) -> Result<WalName, BenchError> {
    let text = SEGMENT.file_name(1, number);
    text.parse().map_err(BenchError::Archive)
}

impl Files {
    /// Makes a new directory in `parent`.
    pub(super) fn make(aio: &Arc<Aio>, parent: &Path) -> Result<Files, BenchError> {
        let files = Files { aio: Arc::clone(aio), scratch: Scratch::make(parent)? };
        for dir in [files.wal(), files.status(), files.archive()] {
            aio.namespace().mkdir(&dir)?;
        }
        Ok(files)
    }

    pub(super) fn dir(&self) -> &Path {
        self.scratch.dir()
    }

    pub(super) fn wal(&self) -> PathBuf {
        self.dir().join("pg_wal")
    }

    fn status(&self) -> PathBuf {
        self.wal().join("archive_status")
    }

    pub(super) fn archive(&self) -> PathBuf {
        self.dir().join("archive")
    }

    fn touch(&self, path: &Path) -> Result<(), AioError> {
        self.aio.namespace().open(path, &OpenOptions::READ_WRITE.create()).map(drop)
    }

    /// Makes `count` empty files of the log, and their marks; all durable.
    pub(super) fn make_marks(&self, count: u64) -> Result<(), BenchError> {
        for number in 1..=count {
            let name = name(number)?;
            self.touch(&self.wal().join(name.as_str()))?;
            self.touch(&self.status().join(name.ready()))?;
        }
        self.settle()
    }

    /// Writes `count` segments of noise; all durable, and none in the kernel's cache.
    pub(super) fn write_segments(&self, count: u64) -> Result<(), BenchError> {
        let names = self.aio.namespace();
        let mut io = self.aio.backend(BackendType::Standalone)?;
        let mut bytes = AlignedBuf::zeroed(SEGMENT.bytes() as usize)?;
        Noise::new(1).fill(&mut bytes);
        for number in 1..=count {
            let long =
                LongHeader { system_id: SYSTEM_ID, segment_size: SEGMENT.get(), block_size: 8192 };
            let page_addr = SEGMENT.start(number);
            PageHeader { info: 0, timeline: 1, page_addr, rem_len: 0, long: Some(long) }
                .encode(&mut bytes);
            let path = self.wal().join(name(number)?.as_str());
            let file = names.open(&path, &OpenOptions::READ_WRITE.create())?;
            io.write_all_at(&file, 0, &bytes)?;
            io.fsync(&file)?;
            names.forget_cached(&file)?;
        }
        self.settle()
    }

    /// Marks all segments as ready, and no others.
    pub(super) fn mark_all(&self, count: u64) -> Result<(), BenchError> {
        for entry in self.aio.namespace().list(&self.status())? {
            self.aio.namespace().unlink(&self.status().join(entry.name))?;
        }
        for number in 1..=count {
            self.touch(&self.status().join(name(number)?.ready()))?;
        }
        self.settle()
    }

    /// Checks that all segments are archived and marked as done, and empties the archive.
    pub(super) fn check_and_empty(&self, count: u64) -> Result<(), BenchError> {
        let names = self.aio.namespace();
        let marks = names.list(&self.status())?;
        let done =
            |entry: &&DirEntry| matches!(entry.name.to_str().map(Mark::parse), Some(Mark::Done(_)));
        let stored = names.list(&self.archive())?;
        if marks.iter().filter(done).count() as u64 != count || stored.len() as u64 != count {
            let found = stored.len();
            return Err(BenchError::Failed(format!("{found} of {count} segments were archived")));
        }
        for entry in stored {
            names.unlink(&self.archive().join(entry.name))?;
        }
        let dir = DurableDir::new(&self.aio, &self.archive(), false);
        dir.sync_names(&self.archive())?;
        Ok(())
    }

    /// Makes all names durable.
    fn settle(&self) -> Result<(), BenchError> {
        for dir in [self.status(), self.wal(), self.dir().to_owned()] {
            self.aio.namespace().sync_dir(&dir)?;
        }
        Ok(())
    }
}
