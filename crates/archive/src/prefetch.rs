//! Fetches segments from an archive before a recovery requests them.
//!
//! ```text
//!   request for A: restored ──▶ B, C, D are queued ──▶ other threads fetch them into memory
//!   request for B: in memory? written from there. Being fetched? awaited. Neither? fetched now
//! ```
//!
//! Nothing is written to the log's directory before it is requested, so a crash leaves no
//! prefetched file behind. A file that could not be prefetched, or was absent, is looked for again
//! when it is requested: it may have arrived, and the requester learns the reason if not.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use forebay_aio::sync::atomic::{AtomicBool, Ordering};
use forebay_aio::sync::{Arc, Condvar, Mutex};
use forebay_aio::{Aio, IoBackend};
use forebay_format::SegmentSize;

use crate::error::{ArchiveError, Result};
use crate::names::{Kind, WalName};
use crate::source::check_stored;
use crate::store::Repository;
use crate::{get, push};

/// How far a file is that will be requested.
#[derive(Debug, Clone)]
enum Progress {
    Queued,
    Fetching,
    Fetched(Arc<Vec<u8>>),
}

/// The segments that are fetched ahead from one archive. It has no threads: others call
/// [`Prefetcher::fetch`] for the names that [`Prefetcher::restored`] returns.
pub(crate) struct Prefetcher {
    repository: Arc<Repository>,
    /// Limit of the number of files.
    files: usize,
    /// Limit of their bytes in memory.
    budget: u64,
    ahead: Mutex<HashMap<WalName, Progress>>,
    /// A fetch has ended, or a stop was requested.
    fetch_ended: Condvar,
    stopped: AtomicBool,
}

impl Prefetcher {
    /// At most `files` files of at most `budget` bytes are fetched ahead.
    pub fn new(repository: Arc<Repository>, files: usize, budget: u64) -> Prefetcher {
        Prefetcher {
            repository,
            files,
            budget,
            ahead: Mutex::default(),
            fetch_ended: Condvar::new(),
            stopped: AtomicBool::new(false),
        }
    }

    /// Interrupts the fetches; from now on nobody waits for them.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        self.repository.depot().interrupt();
        let _ahead = self.ahead.lock();
        self.fetch_ended.notify_all();
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }

    /// Restores the file `name` as `path`. False: the archive exists and does not have the file.
    pub fn get(
        &self,
        aio: &Arc<Aio>,
        io: &mut IoBackend,
        name: &WalName,
        path: &Path,
    ) -> Result<bool> {
        let Some(bytes) = self.take(name) else {
            return get::get(aio, io, &self.repository, name, path);
        };
        let system = push::system_of(aio, io, path)?;
        get::check(&self.repository, name, &bytes, bytes.len() as u64, system)?;
        get::put_bytes(aio, io, path, &bytes)?;
        Ok(true)
    }

    /// Takes a prefetched file, after waiting for its fetch to end. None: it was not fetched.
    fn take(&self, name: &WalName) -> Option<Arc<Vec<u8>>> {
        let mut ahead = self.ahead.lock();
        while let Progress::Fetching = ahead.get(name)? {
            if self.is_stopped() {
                return None;
            }
            self.fetch_ended.wait(&mut ahead);
        }
        match ahead.remove(name)? {
            Progress::Fetched(bytes) => Some(bytes),
            Progress::Queued | Progress::Fetching => None,
        }
    }

    /// Notes that the file `name` was restored as `path`. Returns the files to fetch now, in this
    /// order.
    pub fn restored(&self, aio: &Aio, name: &WalName, path: &Path) -> Vec<WalName> {
        if name.kind() != Kind::Segment || self.files == 0 {
            return Vec::new();
        }
        let Ok(Some(stat)) = aio.namespace().stat(path) else { return Vec::new() };
        let size = u32::try_from(stat.len).ok().and_then(SegmentSize::new);
        let Some((size, number)) = size.and_then(|size| Some((size, name.number(size)?))) else {
            return Vec::new();
        };
        let count = (self.files as u64).min(self.budget / size.bytes());
        let next: Vec<WalName> = (number + 1..=number + count)
            .filter_map(|number| WalName::parse(&size.file_name(name.timeline(), number)))
            .collect();
        let mut ahead = self.ahead.lock();
        // A recovery goes forward and will not request earlier files again.
        ahead
            .retain(|name, progress| matches!(progress, Progress::Fetching) || next.contains(name));
        let new: Vec<WalName> = next.into_iter().filter(|name| !ahead.contains_key(name)).collect();
        ahead.extend(new.iter().map(|name| (name.clone(), Progress::Queued)));
        new
    }

    /// Fetches a file if it is still queued.
    pub fn fetch(&self, io: &mut IoBackend, name: &WalName) {
        match self.ahead.lock().get_mut(name) {
            Some(queued @ Progress::Queued) if !self.is_stopped() => *queued = Progress::Fetching,
            // It was dropped from the queue, or another thread fetches it.
            _ => return,
        }
        // A panic must not leave the file as being fetched: a request may wait for it.
        let read = catch_unwind(AssertUnwindSafe(|| self.read(io, name)));
        let mut ahead = self.ahead.lock();
        match read {
            Ok(Ok(Some(bytes))) => {
                ahead.insert(name.clone(), Progress::Fetched(Arc::new(bytes)));
            }
            Ok(Ok(None)) | Err(_) => {
                ahead.remove(name);
            }
            Ok(Err(error)) => {
                ahead.remove(name);
                tracing::debug!("could not fetch \"{name}\" ahead: {error}");
            }
        }
        self.fetch_ended.notify_all();
    }

    fn read(&self, io: &mut IoBackend, name: &WalName) -> Result<Option<Vec<u8>>> {
        let mut bytes = Vec::new();
        let read = self.repository.fetch(io, name, &mut |_, piece| {
            if self.is_stopped() {
                return Err(ArchiveError::stopped(name.as_str().as_ref()));
            }
            bytes.extend_from_slice(piece);
            Ok(())
        });
        let good = read?.is_some() && check_stored(name, &bytes, bytes.len() as u64, None).is_ok();
        Ok(good.then_some(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_aio::{AioConfig, BackendType, MethodKind, PosixNamespace};
    use forebay_format::Lsn;
    use forebay_format::wal::page_header::{LongHeader, PageHeader};

    use crate::source::SourceOptions;
    use crate::store::StoreOptions;

    const SIZE: SegmentSize = match SegmentSize::new(1 << 20) {
        Some(size) => size,
        None => panic!("a size"),
    };

    struct Fixture {
        dir: tempfile::TempDir,
        aio: Arc<Aio>,
        io: IoBackend,
    }

    fn name(number: u64) -> WalName {
        WalName::parse(&SIZE.file_name(1, number)).unwrap()
    }

    fn bytes(number: u64) -> Vec<u8> {
        let mut bytes = vec![number as u8; 1 << 20];
        let long = LongHeader { system_id: 5, segment_size: SIZE.get(), block_size: 8192 };
        let page_addr = Lsn(number * SIZE.bytes());
        PageHeader { info: 0, timeline: 1, page_addr, rem_len: 0, long: Some(long) }
            .encode(&mut bytes);
        bytes
    }

    impl Fixture {
        /// An archive with segments 3 to 7.
        fn new() -> Fixture {
            let dir = tempfile::tempdir().unwrap();
            std::fs::create_dir(dir.path().join("pg_wal")).unwrap();
            std::fs::create_dir(dir.path().join("archive")).unwrap();
            let aio =
                Aio::new(Arc::new(PosixNamespace), MethodKind::Sync, AioConfig::default()).unwrap();
            let io = aio.backend(BackendType::Standalone).unwrap();
            let mut fixture = Fixture { dir, aio, io };
            let (repository, options) = (fixture.repository(), SourceOptions::default());
            for number in 3..8 {
                let path = fixture.dir.path().join("pg_wal").join(name(number).as_str());
                std::fs::write(&path, bytes(number)).unwrap();
                push::push(&fixture.aio, &mut fixture.io, &repository, &path, &options).unwrap();
            }
            fixture
        }

        fn repository(&self) -> Repository {
            let location = self.dir.path().join("archive").to_string_lossy().into_owned();
            Repository::open(&self.aio, &location, StoreOptions::default()).unwrap()
        }

        fn get(&mut self, prefetcher: &Prefetcher, number: u64) -> Result<Vec<WalName>> {
            let path = self.dir.path().join("pg_wal/RECOVERYXLOG");
            assert!(prefetcher.get(&self.aio, &mut self.io, &name(number), &path)?);
            assert!(std::fs::read(&path).unwrap() == bytes(number));
            Ok(prefetcher.restored(&self.aio, &name(number), &path))
        }
    }

    #[test]
    fn files_and_memory_limit_how_many_are_queued() {
        let mut fixture = Fixture::new();
        for (files, budget, count) in
            [(3, 1 << 30, 3), (8, 5 << 19, 2), (8, (1 << 20) - 1, 0), (0, 1 << 30, 0)]
        {
            let prefetcher = Prefetcher::new(Arc::new(fixture.repository()), files, budget);
            let names: Vec<WalName> = (4..4 + count).map(name).collect();
            assert_eq!(
                fixture.get(&prefetcher, 3).unwrap(),
                names,
                "{files} files, {budget} bytes"
            );
        }
    }

    #[test]
    fn a_prefetched_file_is_restored_from_memory_once() {
        let mut fixture = Fixture::new();
        let prefetcher = Prefetcher::new(Arc::new(fixture.repository()), 2, 1 << 30);
        for name in fixture.get(&prefetcher, 3).unwrap() {
            prefetcher.fetch(&mut fixture.io, &name);
        }
        std::fs::remove_file(fixture.dir.path().join("archive").join(name(4).as_str())).unwrap();
        assert_eq!(fixture.get(&prefetcher, 4).unwrap(), [name(6)], "5 is in memory already");
        fixture.get(&prefetcher, 4).unwrap_err();
        // 4 is not queued any more.
        prefetcher.fetch(&mut fixture.io, &name(4));
        assert_eq!(fixture.get(&prefetcher, 6).unwrap(), [name(7), name(8)]);
        assert_eq!(prefetcher.ahead.lock().len(), 2, "5 was dropped");
        for name in [name(7), name(8)] {
            prefetcher.fetch(&mut fixture.io, &name);
        }
        assert_eq!(prefetcher.ahead.lock().len(), 1, "there is no 8");
        prefetcher.stop();
        assert_eq!(fixture.get(&prefetcher, 7).unwrap(), [name(8), name(9)]);
        prefetcher.fetch(&mut fixture.io, &name(8));
        let ahead = prefetcher.ahead.lock();
        assert!(matches!(ahead.get(&name(8)), Some(Progress::Queued)), "it was stopped");
    }
}
