//! The list of pages in a file, as PostgreSQL's autoprewarm writes and reads it.
//!
//! ```text
//! <<NUMBER OF PAGES>>
//! DATABASE,TABLESPACE,FILE NUMBER,FORK,BLOCK       a line for each page, in this order
//! ```

use std::path::Path;

use forebay_aio::{AioError, AlignedBuf, IfFound, IoBackend, OpenOptions};
use forebay_format::{Fork, PageTag, RelFileLocator};

const NAME: &str = "autoprewarm.blocks";
const UNFINISHED: &str = "autoprewarm.blocks.tmp";
/// Bytes that are read or written at once.
const CHUNK: usize = 1 << 20;
/// Most bytes of a line; five numbers have fewer.
const LONGEST_LINE: usize = 80;

/// What the list is sorted by.
pub(super) fn key(page: &PageTag) -> (u32, u32, u32, u8, u32) {
    let PageTag { rel: RelFileLocator { spc, db, rel }, fork, block } = *page;
    (db, spc, rel, fork.number(), block)
}

/// A list that was read.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct BlockList {
    /// Its pages, sorted; not more than were wanted.
    pub(super) pages: Vec<PageTag>,
    /// The number of pages that it has.
    pub(super) listed: usize,
}

/// The list cannot be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum BadList {
    /// The disk says so.
    #[error(transparent)]
    Io(#[from] AioError),
    /// A line, from 1, is none of such a file.
    #[error("autoprewarm block dump file is corrupted at line {0}")]
    Line(usize),
}

/// Replaces the file by one with these pages.
pub(super) fn write(io: &mut IoBackend, dir: &Path, pages: &[PageTag]) -> Result<(), AioError> {
    let unfinished = dir.join(UNFINISHED);
    let options = OpenOptions::READ_WRITE.create().truncate();
    let file = io.aio().namespace().open(&unfinished, &options)?;
    let (mut text, mut offset) = (format!("<<{}>>\n", pages.len()), 0);
    for page in pages {
        if text.len() >= CHUNK {
            io.write_all_at(&file, offset, &AlignedBuf::copy_of(text.as_bytes())?)?;
            offset += text.len() as u64;
            text.clear();
        }
        let (db, spc, rel, fork, block) = key(page);
        text.push_str(&format!("{db},{spc},{rel},{fork},{block}\n"));
    }
    io.write_all_at(&file, offset, &AlignedBuf::copy_of(text.as_bytes())?)?;
    io.fsync(&file)?;
    // The directory is not synced: after a crash the list before this one may be there again.
    io.aio().namespace().rename(&unfinished, &dir.join(NAME))
}

/// Reads the file, if there is one: at most the first `most` pages of it.
pub(super) fn read(
    io: &mut IoBackend,
    dir: &Path,
    most: usize,
) -> Result<Option<BlockList>, BadList> {
    let Some(file) = io.aio().namespace().open(&dir.join(NAME), &OpenOptions::READ).if_found()?
    else {
        return Ok(None);
    };
    let mut parser = Parser { most, ..Parser::default() };
    let (mut chunk, mut offset) = (AlignedBuf::zeroed(CHUNK)?, 0);
    loop {
        let got = io.read_at(&file, offset, &mut chunk)?;
        if got == 0 {
            return parser.end().map(Some);
        }
        parser.push(&chunk[..got])?;
        offset += got as u64;
    }
}

/// Reads lines from pieces of the file.
#[derive(Debug, Default)]
struct Parser {
    most: usize,
    /// The beginning of a line.
    rest: Vec<u8>,
    /// Lines so far.
    lines: usize,
    list: BlockList,
}

impl Parser {
    fn push(&mut self, piece: &[u8]) -> Result<(), BadList> {
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            if self.rest.len() + part.len() > LONGEST_LINE {
                return Err(BadList::Line(self.lines + 1));
            }
            self.rest.extend_from_slice(part);
            if part.ends_with(b"\n") {
                let line = std::mem::take(&mut self.rest);
                self.line(&line).ok_or(BadList::Line(self.lines + 1))?;
                self.lines += 1;
            }
        }
        Ok(())
    }

    fn line(&mut self, line: &[u8]) -> Option<()> {
        let line = std::str::from_utf8(line).ok()?.strip_suffix('\n')?;
        if self.lines == 0 {
            self.list.listed = line.strip_prefix("<<")?.strip_suffix(">>")?.parse().ok()?;
            return Some(());
        }
        let mut numbers = line.split(',').map(|number| number.parse::<u32>().ok());
        let mut next = || numbers.next().flatten();
        let (db, spc, rel) = (next()?, next()?, next()?);
        let fork = Fork::from_number(u8::try_from(next()?).ok()?)?;
        let page = PageTag::new(RelFileLocator { spc, db, rel }, fork, next()?);
        if numbers.next().is_some() || self.lines > self.list.listed {
            return None;
        }
        if self.list.pages.len() < self.most {
            self.list.pages.push(page);
        }
        Some(())
    }

    fn end(mut self) -> Result<BlockList, BadList> {
        if !self.rest.is_empty() || self.lines != self.list.listed + 1 {
            return Err(BadList::Line(self.lines + 1));
        }
        self.list.pages.sort_unstable_by_key(key);
        self.list.pages.dedup();
        Ok(self.list)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(db: u32, rel: u32, fork: Fork, block: u32) -> PageTag {
        PageTag::new(RelFileLocator { spc: 1663, db, rel }, fork, block)
    }

    fn parsed(text: &str, most: usize, piece: usize) -> Result<BlockList, String> {
        let mut parser = Parser { most, ..Parser::default() };
        for piece in text.as_bytes().chunks(piece) {
            parser.push(piece).map_err(|error| error.to_string())?;
        }
        parser.end().map_err(|error| error.to_string())
    }

    #[test]
    fn a_list_is_read_in_pieces() {
        let text = "<<3>>\n5,1663,16384,0,7\n5,1663,16384,2,0\n5,1663,1259,0,3\n";
        let (first, map) = (page(5, 16_384, Fork::Main, 7), page(5, 16_384, Fork::Vm, 0));
        let other = page(5, 1259, Fork::Main, 3);
        for piece in 1..text.len() {
            let list = parsed(text, 10, piece).expect("a list");
            assert_eq!(list, BlockList { pages: vec![other, first, map], listed: 3 });
        }
        let list = parsed(text, 2, 100).expect("a list");
        assert_eq!(list, BlockList { pages: vec![first, map], listed: 3 });
        assert_eq!(parsed("<<0>>\n", 2, 100), Ok(BlockList::default()));
    }

    #[test]
    fn damage_is_told_by_its_line() {
        let long = format!("<<1>>\n1,1,1,0,{}\n", "1".repeat(100));
        for (text, line) in [
            ("", 1),
            ("<<1>\n", 1),
            ("<<-1>>\n", 1),
            ("<<1>>", 1),
            ("<<1>>\n", 2),
            ("<<2>>\n1,1,1,0,1\n", 3),
            ("<<1>>\n1,1,1,0,1\n1,1,1,0,2\n", 3),
            ("<<1>>\n1,1,1,0,1", 2),
            ("<<1>>\n1,1,1,0\n", 2),
            ("<<1>>\n1,1,1,0,1,1\n", 2),
            ("<<1>>\n1,1,1,4,1\n", 2),
            ("<<1>>\n1,1,1,260,1\n", 2),
            ("<<1>>\n1,1,1,0,4294967296\n", 2),
            ("<<1>>\n1,1,,0,1\n", 2),
            (&long, 2),
        ] {
            let expected = format!("autoprewarm block dump file is corrupted at line {line}");
            assert_eq!(parsed(text, 10, 7), Err(expected), "{text}");
        }
    }
}
