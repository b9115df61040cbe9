//! The relation that is measured.
//!
//! Of a cluster at rest nothing is changed: its files are read, and it is locked meanwhile against
//! a server of ours. A private relation stands in a directory of its own, under a name that nobody
//! has, and goes with it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use forebay_aio::{
    Aio, AioConfig, AioError, BackendType, File, FileKind, HugePages, MethodKind, Namespace,
    PosixNamespace,
};
use forebay_format::control::{self, DbState};
use forebay_format::{BLOCK_SIZE, BlockNumber, Fork, PageMut, RELSEG_BLOCKS, RelFileLocator};
use forebay_storage::{Backend, BufferPool, PoolConfig, Smgr, SmgrConfig, Strategy, WriteScope};

use super::super::measure::Noise;
use super::{BenchError, PoolBench, PoolTask, refused};
use crate::checksums::read_outline;
use crate::disk::Disk;
use crate::error::EngineError;
use crate::lockfile;

const BLOCK: u64 = BLOCK_SIZE as u64;
/// The database of private relations, and their file.
const PRIVATE: RelFileLocator = RelFileLocator::in_default(5, 16_384);

/// Where the relation is.
pub(super) struct Place {
    dir: PathBuf,
    rel: RelFileLocator,
    blocks: BlockNumber,
    pub(super) checksums: bool,
    /// The directory goes when this does.
    private: bool,
    _lock: Option<File>,
}

impl Place {
    /// Finds the relation, or makes one.
    pub(super) fn find(bench: &PoolBench) -> Result<Place, EngineError> {
        let names = PosixNamespace::new();
        let stat = names.stat(&bench.dir)?;
        if stat.is_none_or(|stat| stat.kind != FileKind::Directory) {
            let reason = "is not a directory".to_owned();
            return Err(refused(BenchError::Path { path: bench.dir.clone(), reason }));
        }
        if names.exists(&bench.dir.join(control::PATH))? {
            return Place::of_cluster(bench, &names);
        }
        if bench.relation.is_some() {
            let reason = "is not a data directory: it has no relations".to_owned();
            return Err(refused(BenchError::Path { path: bench.dir.clone(), reason }));
        }
        Place::private(bench)
    }

    fn of_cluster(bench: &PoolBench, names: &PosixNamespace) -> Result<Place, EngineError> {
        let refuse = |reason: &str| {
            Err(refused(BenchError::Path { path: bench.dir.clone(), reason: reason.to_owned() }))
        };
        if bench.task.writes() {
            return refuse(
                "is a data directory, which is only read: give a directory for a private relation",
            );
        }
        let config = AioConfig { max_backends: 1, ..AioConfig::default() };
        let aio = Aio::new(Arc::new(PosixNamespace::new()), MethodKind::Sync, config)?;
        let mut io = aio.backend(BackendType::Standalone)?;
        let outline = read_outline(&mut io, &bench.dir.join(control::PATH))?;
        if outline.block_size as usize != BLOCK_SIZE || outline.segment_blocks != RELSEG_BLOCKS {
            return refuse("has blocks or segments of another size");
        }
        if !matches!(outline.state, DbState::ShutDown | DbState::ShutDownInRecovery) {
            return refuse("belongs to a cluster that was not shut down");
        }
        let lock = lockfile::hold_still(&mut Disk::new(&mut io), &bench.dir)?;
        let found = match &bench.relation {
            Some(path) => parse(path).map(|rel| (rel, length(names, &bench.dir, rel))),
            None => largest(names, &bench.dir)?,
        };
        let Some((rel, len)) = found else {
            let path = bench.relation.clone().unwrap_or_default();
            let reason =
                "does not name a relation: its first file is wanted, as base/5/16384".to_owned();
            return Err(refused(BenchError::Path { path: path.into(), reason }));
        };
        let blocks = (len? / BLOCK) as BlockNumber;
        if blocks == 0 {
            let path = bench.dir.join(rel.segment_path(Fork::Main, 0));
            let reason = "is not there, or is empty".to_owned();
            return Err(refused(BenchError::Path { path, reason }));
        }
        let checksums = outline.checksum_version == 1;
        Ok(Place {
            dir: bench.dir.clone(),
            rel,
            blocks,
            checksums,
            private: false,
            _lock: Some(lock),
        })
    }

    fn private(bench: &PoolBench) -> Result<Place, EngineError> {
        let pool = bench.shared_buffers.unwrap_or(DEFAULT_POOL);
        let size = bench.size.unwrap_or(match bench.task {
            PoolTask::Evict => 4 * pool,
            PoolTask::Checkpoint => pool,
            _ => 1 << 30,
        });
        let blocks = BlockNumber::try_from(size / BLOCK).unwrap_or(0);
        if !(64..=1 << 30).contains(&blocks) {
            return Err(refused(BenchError::Options(
                "the relation must have 512 kB to 8 TB".to_owned(),
            )));
        }
        super::super::file::Place::find(&bench.dir)
            .and_then(|place| place.check_space(size))
            .map_err(refused)?;
        let names = PosixNamespace::new();
        let mut n = 0_u32;
        let dir = loop {
            let dir = bench.dir.join(format!("forebay-bench-{}-{n}", std::process::id()));
            match names.mkdir(&dir) {
                Ok(()) => break dir,
                Err(error) if error.errno() == Some(forebay_aio::Errno::EXIST) && n < 1000 => {
                    n += 1
                }
                Err(error) => return Err(error.into()),
            }
        };
        let place =
            Place { dir, rel: PRIVATE, blocks, checksums: true, private: true, _lock: None };
        place.fill()?;
        Ok(place)
    }

    /// Writes every page, so that later writes find their blocks.
    fn fill(&self) -> Result<(), EngineError> {
        let config = AioConfig { max_backends: 1, ..AioConfig::default() };
        let aio = Aio::new(Arc::new(PosixNamespace::new()), MethodKind::Sync, config)?;
        let smgr = Smgr::new(Arc::clone(&aio), &self.dir, SmgrConfig::default());
        let pool = BufferPool::new(
            PoolConfig { buffers: 4096, huge_pages: HugePages::Off, ..PoolConfig::default() },
            aio,
            smgr,
        )?;
        let mut be = Backend::new(pool.aio().backend(BackendType::Standalone)?);
        pool.smgr().create(self.rel, Fork::Main, true)?;
        let mut noise = Noise::new(u64::from(self.blocks));
        let mut made = 0;
        while made < self.blocks {
            let want = (self.blocks - made).min(64);
            for pin in pool.extend(&mut be, self.rel, Fork::Main, want, Strategy::BulkWrite)? {
                let mut page = pin.lock_exclusive();
                PageMut(&mut page).init(0);
                noise.fill(&mut page[64..]);
                page.mark_dirty();
                made += 1;
            }
        }
        pool.write_dirty(&mut be, WriteScope::All)?;
        pool.sync_pending(&mut be)?;
        Ok(())
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(super) fn rel(&self) -> RelFileLocator {
        self.rel
    }

    pub(super) fn blocks(&self) -> BlockNumber {
        self.blocks
    }

    /// Its first file.
    pub(super) fn name(&self) -> String {
        self.dir.join(self.rel.segment_path(Fork::Main, 0)).display().to_string()
    }

    /// Removes a private relation with its directories.
    fn remove(&self) -> Result<(), AioError> {
        let names = PosixNamespace::new();
        for file in self.files().filter(|file| matches!(names.exists(file), Ok(true))) {
            names.unlink(&file)?;
        }
        for sub in ["base/5", "base"] {
            let dir = self.dir.join(sub);
            if names.exists(&dir)? {
                names.rmdir(&dir)?;
            }
        }
        names.rmdir(&self.dir)
    }

    /// Its files.
    pub(super) fn files(&self) -> impl Iterator<Item = PathBuf> + '_ {
        let segments = self.blocks.div_ceil(RELSEG_BLOCKS);
        (0..segments).map(|n| self.dir.join(self.rel.segment_path(Fork::Main, n)))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.private
            && let Err(error) = self.remove()
        {
            tracing::warn!("could not remove directory \"{}\": {error}", self.dir.display());
        }
    }
}

/// The pool, where nobody says how large.
pub(super) const DEFAULT_POOL: u64 = 128 << 20;

/// `base/DATABASE/RELATION` or `global/RELATION`.
fn parse(path: &str) -> Option<RelFileLocator> {
    let parts: Vec<&str> = path.split('/').collect();
    match parts.as_slice() {
        ["base", db, rel] => Some(RelFileLocator::in_default(db.parse().ok()?, rel.parse().ok()?)),
        ["global", rel] => Some(RelFileLocator::shared(rel.parse().ok()?)),
        _ => None,
    }
}

/// Bytes of all segments.
fn length(names: &PosixNamespace, dir: &Path, rel: RelFileLocator) -> Result<u64, EngineError> {
    let mut total = 0;
    for segment in 0.. {
        match names.stat(&dir.join(rel.segment_path(Fork::Main, segment)))? {
            Some(stat) => total += stat.len,
            None => break,
        }
    }
    Ok(total)
}

type Found = (RelFileLocator, Result<u64, EngineError>);

/// The largest relation of any database.
fn largest(names: &PosixNamespace, dir: &Path) -> Result<Option<Found>, EngineError> {
    let mut best: Option<(RelFileLocator, u64)> = None;
    for db in names.list(&dir.join("base"))? {
        let Ok(oid) = db.name.to_string_lossy().parse() else { continue };
        for file in names.list(&dir.join("base").join(&db.name))? {
            let Ok(rel) = file.name.to_string_lossy().parse() else { continue };
            let rel = RelFileLocator::in_default(oid, rel);
            let len = length(names, dir, rel)?;
            if best.is_none_or(|(_, most)| len > most) {
                best = Some((rel, len));
            }
        }
    }
    Ok(best.map(|(rel, len)| (rel, Ok(len))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relations_are_named_by_their_first_file() {
        assert_eq!(parse("base/5/16384"), Some(RelFileLocator::in_default(5, 16_384)));
        assert_eq!(parse("global/1262"), Some(RelFileLocator::shared(1262)));
        for bad in ["", "base/5", "base/5/16384.1", "base/5/16384_fsm", "/base/5/1", "pg_wal/0"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
