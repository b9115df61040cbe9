//! The files of relations, cut into pieces of work.

use std::collections::HashMap;
use std::ffi::OsString;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use forebay_aio::{AioError, IfFound, Namespace};
use forebay_format::{BLOCK_SIZE, Fork, RELSEG_BLOCKS};

use super::catalogs::Relation;
use super::cluster::file_of;
use super::groups::Part;
use super::toast;

/// Blocks of a piece: large enough to be read well, small enough for all threads to end together.
const PIECE: u32 = 8192;

/// Neighbouring blocks of a fork, in one file.
#[derive(Debug)]
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
    pub part: Part,
    /// What it is for values out of line.
    pub toast: Option<toast::Ticket>,
    /// Its pages were checked before, and are only read for those values.
    pub repeated: bool,
}

impl Piece {
    /// The part of this piece that lies within a range of the fork's blocks.
    pub(super) fn again(&self, blocks: Range<u32>, part: Part) -> Piece {
        let first = self.first.max(blocks.start);
        let end = self.first.saturating_add(self.blocks).min(blocks.end);
        Piece {
            relation: Arc::clone(&self.relation),
            fork: self.fork,
            path: Arc::clone(&self.path),
            first,
            in_file: self.in_file + (first - self.first),
            blocks: end.saturating_sub(first),
            heap_blocks: self.heap_blocks,
            part,
            toast: None,
            repeated: self.repeated,
        }
    }
}

/// The segments of forks beyond their first, as the directories list them.
#[derive(Default)]
pub(super) struct Segments(HashMap<PathBuf, HashMap<OsString, Vec<u32>>>);

impl Segments {
    /// The first segment after `segment` with any bytes. A truncation leaves empty ones.
    fn later(
        &mut self,
        namespace: &dyn Namespace,
        (relation, fork, segment): (&Path, Fork, u32),
    ) -> Result<Option<PathBuf>, AioError> {
        let first = file_of(relation, fork, 0);
        let (Some(directory), Some(name)) = (first.parent(), first.file_name()) else {
            unreachable!("a file of a relation is in a directory")
        };
        if !self.0.contains_key(directory) {
            self.0.insert(directory.to_owned(), list(namespace, directory)?);
        }
        let known = self.0.get(directory).and_then(|names| names.get(name));
        for &number in known.into_iter().flatten().filter(|&&number| number > segment) {
            let path = file_of(relation, fork, number);
            if namespace.stat(&path)?.is_some_and(|stat| stat.len > 0) {
                return Ok(Some(path));
            }
        }
        Ok(None)
    }
}

/// The numbers of the files `NAME.NUMBER` of a directory, in order.
fn list(
    namespace: &dyn Namespace,
    directory: &Path,
) -> Result<HashMap<OsString, Vec<u32>>, AioError> {
    let mut found: HashMap<OsString, Vec<u32>> = HashMap::new();
    for entry in namespace.list(directory).if_found()?.unwrap_or_default() {
        let parts = entry.name.to_str().and_then(|name| name.split_once('.'));
        if let Some((name, number)) = parts
            && let Ok(number) = number.parse()
        {
            found.entry(name.into()).or_default().push(number);
        }
    }
    found.values_mut().for_each(|numbers| numbers.sort_unstable());
    Ok(found)
}

/// Appends the pieces of all forks. A file that can't be part of a relation is told.
pub(super) fn cut(
    namespace: &dyn Namespace,
    relation: &Arc<Relation>,
    segments: &mut Segments,
    pieces: &mut Vec<Piece>,
    say: &mut dyn FnMut(&Path, &str),
) {
    let start = pieces.len();
    let mut heap_blocks = 0;
    for fork in Fork::ALL {
        let blocks = cut_fork(namespace, (relation, fork), segments, pieces, say);
        if fork == Fork::Main {
            heap_blocks = blocks;
        }
    }
    pieces.iter_mut().skip(start).for_each(|piece| piece.heap_blocks = heap_blocks);
}

fn cut_fork(
    namespace: &dyn Namespace,
    (relation, fork): (&Arc<Relation>, Fork),
    segments: &mut Segments,
    pieces: &mut Vec<Piece>,
    say: &mut dyn FnMut(&Path, &str),
) -> u32 {
    let mut segment = 0;
    loop {
        let first = segment * RELSEG_BLOCKS;
        let path = file_of(&relation.path, fork, segment);
        let stat = match namespace.stat(&path) {
            Ok(stat) => stat,
            Err(error) => {
                say(&path, &error.to_string());
                return first;
            }
        };
        let mut later = |say: &mut dyn FnMut(&Path, &str)| {
            let found = segments.later(namespace, (&relation.path, fork, segment));
            found.unwrap_or_else(|error| {
                say(&path, &error.to_string());
                None
            })
        };
        let Some(stat) = stat else {
            if segment == 0 && fork == Fork::Main {
                say(&path, &format!("file of relation \"{}\" is missing", relation.told.name));
            } else if let Some(later) = later(say) {
                let later = later.display();
                say(&path, &format!("file is missing, and a later segment is there: \"{later}\""));
            }
            return first;
        };
        let (whole, rest) = (stat.len / BLOCK_SIZE as u64, stat.len % BLOCK_SIZE as u64);
        if rest != 0 {
            say(&path, &format!("file ends inside of block {whole}: it has {} bytes", stat.len));
        }
        if whole > u64::from(RELSEG_BLOCKS) {
            say(&path, &format!("file has {whole} blocks, more than a segment"));
        }
        let blocks = whole.min(u64::from(RELSEG_BLOCKS)) as u32;
        if blocks < RELSEG_BLOCKS
            && let Some(later) = later(say)
        {
            say(&later, "file follows a segment that is not full");
        }
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
            part: Part::None,
            toast: None,
            repeated: false,
        }));
        segment += 1;
        if blocks < RELSEG_BLOCKS {
            return first + blocks;
        }
        if segment > u32::MAX / RELSEG_BLOCKS {
            return u32::MAX;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use forebay_access::check::HeapTable;
    use forebay_aio::PosixNamespace;

    use super::*;
    use crate::check::{CheckedRelation, RelationKind};

    const FULL: u64 = RELSEG_BLOCKS as u64 * BLOCK_SIZE as u64;

    /// Cuts a table with these segments and lengths: its blocks, and what is told.
    fn cut_of(files: &[(u32, u64)]) -> (u32, Vec<String>) {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("16384");
        for &(segment, len) in files {
            let file = fs::File::create(file_of(&path, Fork::Main, segment)).expect("a file");
            file.set_len(len).expect("a hole");
        }
        let told = CheckedRelation {
            database: "db".to_owned(),
            schema: "public".to_owned(),
            name: "t".to_owned(),
            oid: 16_384,
            kind: RelationKind::Heap,
        };
        let relation = Arc::new(Relation {
            told,
            path,
            is_toast: false,
            table: HeapTable::default(),
            btree: None,
        });
        let (mut pieces, mut found) = (Vec::new(), Vec::new());
        let mut say = |path: &Path, what: &str| {
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            found.push(format!("{name}: {}", what.split(':').next().unwrap_or_default()));
        };
        let mut segments = Segments::default();
        cut(&PosixNamespace, &relation, &mut segments, &mut pieces, &mut say);
        (pieces.iter().map(|piece| piece.blocks).sum(), found)
    }

    #[test]
    fn a_table_ends_with_its_last_segment() {
        let page = BLOCK_SIZE as u64;
        let healthy: [&[(u32, u64)]; 5] = [
            &[(0, 0)],
            &[(0, FULL)],
            &[(0, FULL), (1, 3 * page)],
            &[(0, FULL), (1, 0), (2, 0)],
            &[(0, page), (1, 0), (2, 0)],
        ];
        for files in healthy {
            let len: u64 = files.iter().map(|(_, len)| len).sum();
            assert_eq!(cut_of(files), ((len / page) as u32, Vec::new()), "{files:?}");
        }
        let missing = "16384.1: file is missing, and a later segment is there";
        for later in [2, 3, 11] {
            let (blocks, found) = cut_of(&[(0, FULL), (later, page)]);
            assert_eq!((blocks, found), (RELSEG_BLOCKS, vec![missing.to_owned()]));
        }
        for (files, at) in [
            ([(0, FULL), (1, page), (2, page)], 2),
            ([(0, 0), (1, 0), (3, page)], 3),
            ([(0, page), (1, 0), (2, FULL)], 2),
        ] {
            let expected = format!("16384.{at}: file follows a segment that is not full");
            assert_eq!(cut_of(&files).1, [expected], "{files:?}");
        }
    }
}
