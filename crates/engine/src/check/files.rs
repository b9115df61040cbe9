//! The files of relations, cut into pieces of work.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use forebay_aio::Namespace;
use forebay_format::{BLOCK_SIZE, Fork, RELSEG_BLOCKS};

use super::catalogs::Relation;
use crate::error::EngineError;

/// Blocks of a piece: large enough to be read well, small enough for all threads to end together.
const PIECE: u32 = 8192;

/// Neighbouring blocks of a fork, in one file.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    pub relation: Arc<Relation>,
    pub fork: Fork,
    pub path: Arc<PathBuf>,
    /// Number of the first block in the fork, and in the file.
    pub first: u32,
    pub in_file: u32,
    pub blocks: u32,
    /// Blocks of the main fork.
    pub heap_blocks: u32,
}

/// Appends the pieces of all forks. A file that can't be part of a relation is told.
pub(super) fn cut(
    namespace: &dyn Namespace,
    relation: &Arc<Relation>,
    pieces: &mut Vec<Piece>,
    say: &mut dyn FnMut(&Path, &str),
) -> Result<(), EngineError> {
    let start = pieces.len();
    let mut heap_blocks = 0;
    for fork in Fork::ALL {
        let blocks = cut_fork(namespace, relation, fork, pieces, say)?;
        if fork == Fork::Main {
            heap_blocks = blocks;
        }
    }
    pieces.iter_mut().skip(start).for_each(|piece| piece.heap_blocks = heap_blocks);
    Ok(())
}

fn cut_fork(
    namespace: &dyn Namespace,
    relation: &Arc<Relation>,
    fork: Fork,
    pieces: &mut Vec<Piece>,
    say: &mut dyn FnMut(&Path, &str),
) -> Result<u32, EngineError> {
    let base = format!("{}{}", relation.path.display(), fork.suffix());
    let mut segment = 0;
    loop {
        let first = segment * RELSEG_BLOCKS;
        let path =
            PathBuf::from(if segment == 0 { base.clone() } else { format!("{base}.{segment}") });
        let Some(stat) = namespace.stat(&path)? else {
            if segment == 0 && fork == Fork::Main {
                say(&path, &format!("file of relation \"{}\" is missing", relation.told.name));
            }
            return Ok(first);
        };
        let (whole, rest) = (stat.len / BLOCK_SIZE as u64, stat.len % BLOCK_SIZE as u64);
        if rest != 0 {
            say(&path, &format!("file ends inside of block {whole}: it has {} bytes", stat.len));
        }
        if whole > u64::from(RELSEG_BLOCKS) {
            say(&path, &format!("file has {whole} blocks, more than a segment"));
        }
        let blocks = whole.min(u64::from(RELSEG_BLOCKS)) as u32;
        let path = Arc::new(path);
        let starts = (0..blocks).step_by(PIECE as usize);
        pieces.extend(starts.map(|in_file| Piece {
            relation: Arc::clone(relation),
            fork,
            path: Arc::clone(&path),
            first: first + in_file,
            in_file,
            blocks: PIECE.min(blocks - in_file),
            heap_blocks: 0,
        }));
        segment += 1;
        let next = PathBuf::from(format!("{base}.{segment}"));
        if blocks < RELSEG_BLOCKS {
            if namespace.stat(&next)?.is_some_and(|stat| stat.len > 0) {
                say(&next, "file follows a segment that is not full");
            }
            return Ok(first + blocks);
        }
        if segment > u32::MAX / RELSEG_BLOCKS {
            return Ok(u32::MAX);
        }
    }
}
