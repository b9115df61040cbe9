//! Files fetched out of an archive before they are asked for.
//!
//! ```text
//!   asked for A: it is restored ──▶ B, C, D will be asked for ──▶ fetched by other threads, whole and checked, into memory
//!   asked for B: here? restored from memory. Under way? waited for. Neither? fetched now
//! ```
//!
//! Nothing of it is in the log's directory before it is asked for, so a crash leaves nothing of it
//! anywhere. What could not be fetched ahead, or was not there, is looked for again when it is
//! asked for: it may have come, and whoever asks learns why not.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use forebay_aio::sync::atomic::{AtomicBool, Ordering};
use forebay_aio::sync::{Arc, Condvar, Mutex};
use forebay_aio::{Aio, Backend};
use forebay_format::SegmentSize;

use crate::error::{ArchiveError, Result};
use crate::names::{Kind, WalName};
use crate::source::check_stored;
use crate::store::Repository;
use crate::{get, push};

/// A file that will be asked for.
#[derive(Debug, Clone)]
enum Fetched {
    /// Nobody has begun.
    Wanted,
    UnderWay,
    Here(Arc<Vec<u8>>),
}

/// What is fetched ahead out of one archive. It has no threads: others call [`Ahead::fetch`] for
/// what [`Ahead::restored`] says.
pub(crate) struct Ahead {
    repository: Arc<Repository>,
    /// Most files, and most bytes of them.
    files: usize,
    budget: u64,
    fetched: Mutex<HashMap<WalName, Fetched>>,
    /// Something that was under way has ended.
    ended: Condvar,
    stopped: AtomicBool,
}

impl Ahead {
    /// At most so many files with so many bytes are fetched ahead.
    pub fn new(repository: Arc<Repository>, files: usize, budget: u64) -> Ahead {
        Ahead {
            repository,
            files,
            budget,
            fetched: Mutex::default(),
            ended: Condvar::new(),
            stopped: AtomicBool::new(false),
        }
    }

    /// What is being fetched ends soon, and nobody waits for it any more.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        self.repository.depot().interrupt();
        let _fetched = self.fetched.lock();
        self.ended.notify_all();
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }

    /// Restores a file under `path`. False: the archive is there and does not have it.
    pub fn get(
        &self,
        aio: &Arc<Aio>,
        be: &mut Backend,
        name: &WalName,
        path: &Path,
    ) -> Result<bool> {
        let Some(bytes) = self.take(name) else {
            return get::get(aio, be, &self.repository, name, path);
        };
        let system = push::system_of(aio, be, path)?;
        get::check(&self.repository, name, &bytes, bytes.len() as u64, system)?;
        get::put_bytes(aio, be, path, &bytes)?;
        Ok(true)
    }

    /// What was fetched of this file; waits where it is under way.
    fn take(&self, name: &WalName) -> Option<Arc<Vec<u8>>> {
        let mut fetched = self.fetched.lock();
        while let Fetched::UnderWay = fetched.get(name)? {
            if self.is_stopped() {
                return None;
            }
            self.ended.wait(&mut fetched);
        }
        match fetched.remove(name)? {
            Fetched::Here(bytes) => Some(bytes),
            Fetched::Wanted | Fetched::UnderWay => None,
        }
    }

    /// A file was restored under `path`. What is to be fetched now, in this order.
    pub fn restored(&self, aio: &Aio, name: &WalName, path: &Path) -> Vec<WalName> {
        if name.kind() != Kind::Segment || self.files == 0 {
            return Vec::new();
        }
        let Ok(Some(stat)) = aio.namespace().stat(path) else { return Vec::new() };
        let size = u32::try_from(stat.len).ok().and_then(SegmentSize::new);
        let Some((size, number)) = size.and_then(|size| Some((size, name.number(size)?))) else {
            return Vec::new();
        };
        let affordable = usize::try_from(self.budget / size.bytes()).unwrap_or(usize::MAX);
        let count = self.files.min(affordable) as u64;
        let next: Vec<WalName> = (number + 1..=number + count)
            .filter_map(|number| WalName::parse(&size.file_name(name.timeline(), number)))
            .collect();
        let mut fetched = self.fetched.lock();
        // Who recovers goes forward; what is behind will not be asked for again.
        fetched.retain(|name, fetched| matches!(fetched, Fetched::UnderWay) || next.contains(name));
        let fresh: Vec<WalName> =
            next.into_iter().filter(|name| !fetched.contains_key(name)).collect();
        for name in &fresh {
            fetched.insert(name.clone(), Fetched::Wanted);
        }
        fresh
    }

    /// Fetches a file, if it is still wanted.
    pub fn fetch(&self, be: &mut Backend, name: &WalName) {
        match self.fetched.lock().get_mut(name) {
            Some(wanted @ Fetched::Wanted) if !self.is_stopped() => *wanted = Fetched::UnderWay,
            // Not wanted any more, or somebody is at it.
            _ => return,
        }
        // Whatever becomes of it: somebody may wait for its end.
        let read = catch_unwind(AssertUnwindSafe(|| self.read(be, name)));
        let mut fetched = self.fetched.lock();
        match read {
            Ok(Ok(Some(bytes))) => _ = fetched.insert(name.clone(), Fetched::Here(Arc::new(bytes))),
            Ok(Ok(None)) | Err(_) => _ = fetched.remove(name),
            Ok(Err(error)) => {
                fetched.remove(name);
                tracing::debug!("could not fetch \"{name}\" ahead: {error}");
            }
        }
        self.ended.notify_all();
    }

    fn read(&self, be: &mut Backend, name: &WalName) -> Result<Option<Vec<u8>>> {
        let mut bytes = Vec::new();
        let read = self.repository.fetch(be, name, &mut |_, piece| {
            if self.is_stopped() {
                return Err(ArchiveError::Stopped { file: name.as_str().into() });
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

    struct Bed {
        dir: tempfile::TempDir,
        aio: Arc<Aio>,
        be: Backend,
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

    impl Bed {
        /// An archive with segments 3 to 7.
        fn new() -> Bed {
            let dir = tempfile::tempdir().unwrap();
            std::fs::create_dir(dir.path().join("pg_wal")).unwrap();
            std::fs::create_dir(dir.path().join("archive")).unwrap();
            let aio =
                Aio::new(Arc::new(PosixNamespace), MethodKind::Sync, AioConfig::default()).unwrap();
            let be = aio.backend(BackendType::Standalone).unwrap();
            let mut bed = Bed { dir, aio, be };
            let repository = bed.repository();
            for number in 3..8 {
                let path = bed.dir.path().join("pg_wal").join(name(number).as_str());
                std::fs::write(&path, bytes(number)).unwrap();
                push::push(&bed.aio, &mut bed.be, &repository, &path, &SourceOptions::default())
                    .unwrap();
            }
            bed
        }

        fn repository(&self) -> Repository {
            let location = self.dir.path().join("archive").to_string_lossy().into_owned();
            Repository::open(&self.aio, &location, StoreOptions::default()).unwrap()
        }

        fn get(&mut self, ahead: &Ahead, number: u64) -> Result<Vec<WalName>> {
            let path = self.dir.path().join("pg_wal/RECOVERYXLOG");
            assert!(ahead.get(&self.aio, &mut self.be, &name(number), &path)?);
            assert!(std::fs::read(&path).unwrap() == bytes(number));
            Ok(ahead.restored(&self.aio, &name(number), &path))
        }
    }

    #[test]
    fn as_many_are_wanted_as_there_is_memory_for() {
        let mut bed = Bed::new();
        for (files, budget, wanted) in
            [(3, 1 << 30, 3), (8, 5 << 19, 2), (8, (1 << 20) - 1, 0), (0, 1 << 30, 0)]
        {
            let ahead = Ahead::new(Arc::new(bed.repository()), files, budget);
            let names: Vec<WalName> = (4..4 + wanted).map(name).collect();
            assert_eq!(bed.get(&ahead, 3).unwrap(), names, "{files} files, {budget} bytes");
        }
    }

    #[test]
    fn what_was_fetched_comes_from_memory_and_is_forgotten_then() {
        let mut bed = Bed::new();
        let ahead = Ahead::new(Arc::new(bed.repository()), 2, 1 << 30);
        for name in bed.get(&ahead, 3).unwrap() {
            ahead.fetch(&mut bed.be, &name);
        }
        std::fs::remove_file(bed.dir.path().join("archive").join(name(4).as_str())).unwrap();
        assert_eq!(bed.get(&ahead, 4).unwrap(), [name(6)], "5 is here already");
        bed.get(&ahead, 4).unwrap_err();
        // Nobody fetches what is behind, or what somebody else has brought.
        ahead.fetch(&mut bed.be, &name(4));
        assert_eq!(bed.get(&ahead, 6).unwrap(), [name(7), name(8)]);
        assert_eq!(ahead.fetched.lock().len(), 2, "5 was given up");
        for name in [name(7), name(8)] {
            ahead.fetch(&mut bed.be, &name);
        }
        assert_eq!(ahead.fetched.lock().len(), 1, "there is no 8");
        ahead.stop();
        assert_eq!(bed.get(&ahead, 7).unwrap(), [name(8), name(9)]);
        ahead.fetch(&mut bed.be, &name(8));
        assert!(
            matches!(ahead.fetched.lock().get(&name(8)), Some(Fetched::Wanted)),
            "it was stopped"
        );
    }
}
