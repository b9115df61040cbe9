//! A private log with its marks, and an archive: a directory that goes with its bench.

use std::path::{Path, PathBuf};

use forebay_aio::sync::Arc;
use forebay_aio::{
    Aio, AioError, AlignedBuf, BackendType, Errno, Namespace, OpenOptions, PosixNamespace,
};
use forebay_archive::{DurableDir, Expected, Mark, WalName};
use forebay_format::SegmentSize;
use forebay_format::wal::page_header::{LongHeader, MAGIC, PageHeader};

use super::super::BenchError;

pub(super) const SEGMENT: SegmentSize = SegmentSize::DEFAULT;
const SYSTEM_ID: u64 = 0x0f0e_0b0a_0123_4567;
pub(super) const EXPECTED: Expected =
    Expected { system_id: Some(SYSTEM_ID), segment_size: Some(SEGMENT), magic: Some(MAGIC) };

/// The directory.
pub(super) struct Files {
    aio: Arc<Aio>,
    dir: PathBuf,
}

fn name(number: u64) -> Result<WalName, BenchError> {
    let text = SEGMENT.file_name(1, number);
    text.parse().map_err(BenchError::Archive)
}

impl Files {
    /// A new directory in `parent`.
    pub(super) fn make(aio: &Arc<Aio>, parent: &Path) -> Result<Files, BenchError> {
        let names = PosixNamespace::new();
        let mut n = 0_u32;
        let dir = loop {
            let dir = parent.join(format!("forebay-bench-{}-{n}", std::process::id()));
            match names.mkdir(&dir) {
                Ok(()) => break dir,
                Err(error) if error.errno() == Some(Errno::EXIST) && n < 1000 => n += 1,
                Err(error) => return Err(error.into()),
            }
        };
        let files = Files { aio: Arc::clone(aio), dir };
        for dir in [files.wal(), files.status(), files.archive()] {
            names.mkdir(&dir)?;
        }
        Ok(files)
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(super) fn wal(&self) -> PathBuf {
        self.dir.join("pg_wal")
    }

    fn status(&self) -> PathBuf {
        self.wal().join("archive_status")
    }

    pub(super) fn archive(&self) -> PathBuf {
        self.dir.join("archive")
    }

    fn touch(&self, path: &Path) -> Result<(), AioError> {
        self.aio.namespace().open(path, &OpenOptions::READ_WRITE.create()).map(drop)
    }

    /// So many empty files of the log, and their marks; durable.
    pub(super) fn make_marks(&self, count: u64) -> Result<(), BenchError> {
        for number in 1..=count {
            let name = name(number)?;
            self.touch(&self.wal().join(name.as_str()))?;
            self.touch(&self.status().join(name.ready()))?;
        }
        self.settle()
    }

    /// So many segments with all sorts of bytes in them; durable, and not in the kernel's cache.
    pub(super) fn write_segments(&self, aio: &Arc<Aio>, count: u64) -> Result<(), BenchError> {
        let mut io = aio.backend(BackendType::Standalone)?;
        let mut bytes = AlignedBuf::zeroed(SEGMENT.bytes() as usize)?;
        let mut noise = 1_u64;
        for word in bytes.as_chunks_mut::<8>().0 {
            noise = noise
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            *word = noise.to_le_bytes();
        }
        for number in 1..=count {
            let long =
                LongHeader { system_id: SYSTEM_ID, segment_size: SEGMENT.get(), block_size: 8192 };
            let page_addr = SEGMENT.start(number);
            PageHeader { info: 0, timeline: 1, page_addr, rem_len: 0, long: Some(long) }
                .encode(&mut bytes);
            let path = self.wal().join(name(number)?.as_str());
            let file = aio.namespace().open(&path, &OpenOptions::READ_WRITE.create())?;
            io.write_all_at(&file, 0, &bytes)?;
            io.fsync(&file)?;
            aio.namespace().forget_cached(&file)?;
        }
        self.settle()
    }

    /// Marks them all.
    pub(super) fn mark_all(&self, count: u64) -> Result<(), BenchError> {
        for entry in self.aio.namespace().list(&self.status())? {
            self.aio.namespace().unlink(&self.status().join(entry.name))?;
        }
        for number in 1..=count {
            self.touch(&self.status().join(name(number)?.ready()))?;
        }
        self.settle()
    }

    /// All are in the archive and said to be; then the archive is emptied.
    pub(super) fn check_and_empty(&self, count: u64) -> Result<(), BenchError> {
        let names = self.aio.namespace();
        let marks = names.list(&self.status())?;
        let done = |entry: &&forebay_aio::DirEntry| {
            matches!(entry.name.to_str().map(Mark::parse), Some(Mark::Done(_)))
        };
        let stored = names.list(&self.archive())?;
        if marks.iter().filter(done).count() as u64 != count || stored.len() as u64 != count {
            let found = stored.len();
            return Err(BenchError::Options(format!("{found} of {count} segments were archived")));
        }
        for entry in stored {
            names.unlink(&self.archive().join(entry.name))?;
        }
        let dir = DurableDir::new(&self.aio, &self.archive(), false);
        dir.sync_names(&self.archive())?;
        Ok(())
    }

    fn settle(&self) -> Result<(), BenchError> {
        for dir in [self.status(), self.wal(), self.dir.clone()] {
            self.aio.namespace().sync_dir(&dir)?;
        }
        Ok(())
    }

    /// Removes it all.
    pub(super) fn remove(self) -> Result<(), BenchError> {
        for dir in [self.status(), self.wal(), self.archive(), self.dir.clone()] {
            remove_files(&dir)?;
            PosixNamespace::new().rmdir(&dir)?;
        }
        Ok(())
    }
}

fn remove_files(dir: &Path) -> Result<(), AioError> {
    let names = PosixNamespace::new();
    for entry in names.list(dir)? {
        if entry.kind == forebay_aio::FileKind::File {
            names.unlink(&dir.join(entry.name))?;
        }
    }
    Ok(())
}

impl Drop for Files {
    fn drop(&mut self) {
        // After an error: as far as it goes.
        for dir in [self.status(), self.wal(), self.archive(), self.dir.clone()] {
            let _ = remove_files(&dir);
            let _ = PosixNamespace::new().rmdir(&dir);
        }
    }
}
