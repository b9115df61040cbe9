//! The relation that is measured.
//!
//! A relation of a cluster at rest is only read, and the cluster is locked meanwhile against other
//! Forebay programs. A private relation has a directory of its own, which is removed with it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use forebay_aio::{
    Aio, AioConfig, AioError, BackendType, FileKind, HugePages, MethodKind, Namespace,
    PosixNamespace,
};
use forebay_engine::ClusterAtRest;
use forebay_format::control;
use forebay_format::{BLOCK_SIZE, BlockNumber, Fork, PageMut, RELSEG_BLOCKS, RelFileLocator};
use forebay_storage::{Backend, BufferPool, PoolConfig, Smgr, SmgrConfig, Strategy, WriteScope};

use super::plan::{PoolBench, PoolTask};
use crate::error::BenchError;
use crate::measure::Noise;
use crate::scratch::{Scratch, Target, refuse};

const BLOCK: u64 = BLOCK_SIZE as u64;
/// The private relation's database and file.
const PRIVATE: RelFileLocator = RelFileLocator::in_default(5, 16_384);
/// Bytes of the pool where nobody says.
pub(super) const DEFAULT_POOL: u64 = 128 << 20;

/// The relation, and what keeps it in place.
pub(super) struct Relation {
    pub(super) dir: PathBuf,
    pub(super) rel: RelFileLocator,
    pub(super) blocks: BlockNumber,
    pub(super) checksums: bool,
    /// The cluster's lock.
    _cluster: Option<ClusterAtRest>,
    /// The private relation's directory.
    _scratch: Option<Scratch>,
}

impl Relation {
    /// Finds the relation, or makes one.
    pub(super) fn find(bench: &PoolBench) -> Result<Relation, BenchError> {
        let names = PosixNamespace::new();
        let stat = names.stat(&bench.dir)?;
        if stat.is_none_or(|stat| stat.kind != FileKind::Directory) {
            return Err(refuse(&bench.dir, "is not a directory"));
        }
        if names.exists(&bench.dir.join(control::PATH))? {
            return Relation::of_cluster(bench, &names);
        }
        if bench.relation.is_some() {
            return Err(refuse(&bench.dir, "is not a data directory: it has no relations"));
        }
        Relation::private(bench)
    }

    fn of_cluster(bench: &PoolBench, names: &PosixNamespace) -> Result<Relation, BenchError> {
        if bench.task.writes() {
            return Err(refuse(
                &bench.dir,
                "is a data directory, which is only read: give a directory for a private relation",
            ));
        }
        let cluster = ClusterAtRest::lock(&bench.dir)?;
        let found = match &bench.relation {
            Some(path) => {
                let rel = parse(path).ok_or_else(|| {
                    let reason =
                        "does not name a relation: its first file is wanted, as base/5/16384";
                    refuse(Path::new(path), reason)
                })?;
                Some((rel, length(names, &bench.dir, rel)?))
            }
            None => largest(names, &bench.dir)?,
        };
        let (rel, len) = found.ok_or_else(|| refuse(&bench.dir, "has no relations"))?;
        let blocks = (len / BLOCK) as BlockNumber;
        if blocks == 0 {
            let path = bench.dir.join(rel.segment_path(Fork::Main, 0));
            return Err(refuse(&path, "is not there, or is empty"));
        }
        Ok(Relation {
            dir: bench.dir.clone(),
            rel,
            blocks,
            checksums: cluster.has_checksums(),
            _cluster: Some(cluster),
            _scratch: None,
        })
    }

    fn private(bench: &PoolBench) -> Result<Relation, BenchError> {
        let pool = bench.shared_buffers.unwrap_or(DEFAULT_POOL);
        let size = bench.size.unwrap_or(match bench.task {
            PoolTask::Evict => 4 * pool,
            PoolTask::Checkpoint => pool,
            _ => 1 << 30,
        });
        let blocks = BlockNumber::try_from(size / BLOCK).ok();
        let blocks = blocks.filter(|blocks| (64..=1 << 30).contains(blocks)).ok_or_else(|| {
            BenchError::Options("the relation must have 512 kB to 8 TB".to_owned())
        })?;
        Target::check_directory(&bench.dir, size)?;
        let scratch = Scratch::make(&bench.dir)?;
        let relation = Relation {
            dir: scratch.dir().to_owned(),
            rel: PRIVATE,
            blocks,
            checksums: true,
            _cluster: None,
            _scratch: Some(scratch),
        };
        relation.fill()?;
        Ok(relation)
    }

    /// Writes every page, so that later writes find allocated blocks.
    fn fill(&self) -> Result<(), BenchError> {
        let config = AioConfig { max_backends: 1, ..AioConfig::default() };
        let aio = Aio::new(Arc::new(PosixNamespace::new()), MethodKind::Sync, config)?;
        let smgr = Smgr::new(Arc::clone(&aio), &self.dir, SmgrConfig::default());
        let pool = BufferPool::new(
            PoolConfig { buffers: 4096, huge_pages: HugePages::Off, ..PoolConfig::default() },
            aio,
            smgr,
        )?;
        let mut backend = Backend::new(pool.aio().backend(BackendType::Standalone)?);
        pool.smgr().create(self.rel, Fork::Main, true)?;
        let mut noise = Noise::new(u64::from(self.blocks));
        let mut made = 0;
        while made < self.blocks {
            let want = (self.blocks - made).min(64);
            for pin in pool.extend(&mut backend, self.rel, Fork::Main, want, Strategy::BulkWrite)? {
                let mut page = pin.lock_exclusive();
                PageMut(&mut page).init(0);
                noise.fill(&mut page[64..]);
                page.mark_dirty();
                made += 1;
            }
        }
        pool.write_dirty(&mut backend, WriteScope::All)?;
        pool.sync_pending(&mut backend)?;
        Ok(())
    }

    /// The path of its first file.
    pub(super) fn name(&self) -> String {
        self.dir.join(self.rel.segment_path(Fork::Main, 0)).display().to_string()
    }

    /// Its files.
    pub(super) fn files(&self) -> impl Iterator<Item = PathBuf> + '_ {
        let segments = self.blocks.div_ceil(RELSEG_BLOCKS);
        (0..segments).map(|n| self.dir.join(self.rel.segment_path(Fork::Main, n)))
    }
}

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
fn length(names: &PosixNamespace, dir: &Path, rel: RelFileLocator) -> Result<u64, AioError> {
    let mut total = 0;
    for segment in 0.. {
        match names.stat(&dir.join(rel.segment_path(Fork::Main, segment)))? {
            Some(stat) => total += stat.len,
            None => break,
        }
    }
    Ok(total)
}

/// The largest relation of any database, and its bytes.
fn largest(names: &PosixNamespace, dir: &Path) -> Result<Option<(RelFileLocator, u64)>, AioError> {
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
    Ok(best)
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
