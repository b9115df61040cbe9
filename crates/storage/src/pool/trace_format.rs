//! The file format of a trace of page references, as `debug_buffer_trace` records it.
//!
//! ```text
//!   file:       | "FBTRACE" | version 1 | reference ... |
//!   reference:  | byte | backend, if it is another one | fork, if it is another one | block |
//!   byte:       | new fork | other fork | other backend | manner (2) | hit | access (2) |
//!   fork:       | its number |, or of a new one
//!               | tablespace (4) | database (4) | relation (4) | fork (1) |
//! ```
//!
//! Numbers are varints of seven bits a byte, lowest first. Forks are numbered as they appear. A
//! block is the difference to the last block of its fork, as zigzag. So most references take two or
//! three bytes. When [`MOST_FORKS`] are known and another one appears, both sides forget them all.

use forebay_format::{BlockNumber, Fork, PageTag, RelFileLocator};
use std::collections::HashMap;
use std::io::{self, Read};

/// The start of the file, with the version.
pub(super) const MAGIC: [u8; 8] = *b"FBTRACE\x01";
/// Forks that are remembered at a time. It bounds the memory of both sides.
const MOST_FORKS: usize = 65_536;
const OTHER_BACKEND: u8 = 1 << 5;
const OTHER_FORK: u8 = 1 << 6;
const NEW_FORK: u8 = 1 << 7;

/// What an access is for. It decides which pages give way to the ones that it reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AccessKind {
    /// Anything else.
    Normal,
    /// A large sequential scan.
    BulkRead,
    /// A large load.
    BulkWrite,
    /// Vacuum.
    Vacuum,
}

/// How a page is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Manner {
    /// By itself, when it is needed.
    Single,
    /// By a read stream, or with its neighbours.
    Stream,
    /// Ahead of its use, which is another reference.
    Prefetch,
    /// As a new page at a fork's end.
    Extend,
}

/// A backend has pinned a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageReference {
    /// The page.
    pub page: PageTag,
    /// The backend's slot. A slot is used again after its backend has gone.
    pub backend: u32,
    /// What the access is for.
    pub access: AccessKind,
    /// How the page is asked for.
    pub manner: Manner,
    /// Whether it was in the pool, or being read into it.
    pub hit: bool,
}

impl AccessKind {
    /// Each one, by its number.
    pub(crate) const ALL: [AccessKind; 4] =
        [AccessKind::Normal, AccessKind::BulkRead, AccessKind::BulkWrite, AccessKind::Vacuum];
}

const MANNERS: [Manner; 4] = [Manner::Single, Manner::Stream, Manner::Prefetch, Manner::Extend];

/// Turns references into bytes.
#[derive(Default)]
pub(super) struct Encoder {
    forks: HashMap<(RelFileLocator, Fork), u32>,
    /// The last block of each fork.
    blocks: Vec<BlockNumber>,
    backend: u32,
    fork: u32,
}

impl Encoder {
    pub(super) fn encode(&mut self, reference: &PageReference, out: &mut Vec<u8>) {
        let PageReference { page, backend, access, manner, hit } = *reference;
        let key = (page.rel, page.fork);
        let known = self.forks.get(&key).copied();
        let new = known.is_none();
        let fork = known.unwrap_or_else(|| self.add(key));
        let mut byte = access as u8 | u8::from(hit) << 2 | (manner as u8) << 3;
        byte |= if backend == self.backend { 0 } else { OTHER_BACKEND };
        byte |= match new {
            true => NEW_FORK,
            false if fork == self.fork => 0,
            false => OTHER_FORK,
        };
        out.push(byte);
        if backend != self.backend {
            put(out, backend);
        }
        if byte & OTHER_FORK != 0 {
            put(out, fork);
        }
        if new {
            let RelFileLocator { spc, db, rel } = page.rel;
            [spc, db, rel].iter().for_each(|oid| out.extend(oid.to_le_bytes()));
            out.push(page.fork.number());
        }
        (self.backend, self.fork) = (backend, fork);
        let last = std::mem::replace(&mut self.blocks[fork as usize], page.block);
        let step = page.block.wrapping_sub(last) as i32;
        put(out, (step << 1 ^ step >> 31) as u32);
    }

    fn add(&mut self, key: (RelFileLocator, Fork)) -> u32 {
        if self.blocks.len() == MOST_FORKS {
            self.forks.clear();
            self.blocks.clear();
        }
        let fork = self.blocks.len() as u32;
        self.forks.insert(key, fork);
        self.blocks.push(0);
        fork
    }
}

fn put(out: &mut Vec<u8>, mut number: u32) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Reads a trace. After an error it ends.
pub struct TraceReader<R> {
    input: R,
    forks: Vec<(RelFileLocator, Fork, BlockNumber)>,
    backend: u32,
    fork: usize,
    ended: bool,
}

impl<R: Read> TraceReader<R> {
    /// Reads the header. `input` should be buffered.
    pub fn new(mut input: R) -> io::Result<TraceReader<R>> {
        let mut magic = [0; MAGIC.len()];
        input.read_exact(&mut magic)?;
        if magic != MAGIC {
            return Err(invalid("it is not a trace of page references of this version"));
        }
        Ok(TraceReader { input, forks: Vec::new(), backend: 0, fork: 0, ended: false })
    }

    fn byte(&mut self) -> io::Result<u8> {
        let mut byte = [0];
        self.input.read_exact(&mut byte)?;
        Ok(byte[0])
    }

    fn number(&mut self) -> io::Result<u32> {
        let mut number = 0_u64;
        for shift in (0..35).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return u32::try_from(number).map_err(|_| invalid("a number is too large"));
            }
        }
        Err(invalid("a number is too long"))
    }

    fn oid(&mut self) -> io::Result<u32> {
        let mut bytes = [0; 4];
        self.input.read_exact(&mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    }

    /// Reads what a new fork is.
    fn new_fork(&mut self) -> io::Result<()> {
        let (spc, db, rel) = (self.oid()?, self.oid()?, self.oid()?);
        let fork =
            Fork::from_number(self.byte()?).ok_or_else(|| invalid("there is no such fork"))?;
        if self.forks.len() == MOST_FORKS {
            self.forks.clear();
        }
        self.fork = self.forks.len();
        self.forks.push((RelFileLocator { spc, db, rel }, fork, 0));
        Ok(())
    }

    /// Reads the rest of a reference.
    fn reference(&mut self, byte: u8) -> io::Result<PageReference> {
        if byte & OTHER_BACKEND != 0 {
            self.backend = self.number()?;
        }
        if byte & NEW_FORK != 0 {
            self.new_fork()?;
        } else if byte & OTHER_FORK != 0 {
            self.fork = self.number()? as usize;
        }
        let zigzag = self.number()?;
        let step = (zigzag >> 1) as i32 ^ -((zigzag & 1) as i32);
        let known = self.forks.get_mut(self.fork);
        let (rel, fork, last) = known.ok_or_else(|| invalid("a fork is not known"))?;
        *last = last.wrapping_add_signed(step);
        Ok(PageReference {
            page: PageTag::new(*rel, *fork, *last),
            backend: self.backend,
            access: AccessKind::ALL[usize::from(byte & 3)],
            manner: MANNERS[usize::from(byte >> 3 & 3)],
            hit: byte & 1 << 2 != 0,
        })
    }

    /// Reads a reference's first byte; None at the end of the file.
    fn first_byte(&mut self) -> io::Result<Option<u8>> {
        let mut byte = [0];
        loop {
            match self.input.read(&mut byte) {
                Ok(0) => return Ok(None),
                Ok(_) => return Ok(Some(byte[0])),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl<R: Read> Iterator for TraceReader<R> {
    type Item = io::Result<PageReference>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let next = match self.first_byte() {
            Ok(None) => None,
            Ok(Some(byte)) => Some(self.reference(byte)),
            Err(error) => Some(Err(error)),
        };
        self.ended = !matches!(next, Some(Ok(_)));
        next
    }
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    fn reference(rel: u32, fork: Fork, block: u32, n: u32) -> PageReference {
        PageReference {
            page: PageTag::new(RelFileLocator::in_default(5, rel), fork, block),
            backend: n / 7 % 300,
            access: AccessKind::ALL[n as usize % 4],
            manner: MANNERS[n as usize / 4 % 4],
            hit: n.is_multiple_of(3),
        }
    }

    fn encoded(references: &[PageReference]) -> Vec<u8> {
        let (mut encoder, mut bytes) = (Encoder::default(), MAGIC.to_vec());
        references.iter().for_each(|reference| encoder.encode(reference, &mut bytes));
        bytes
    }

    fn decoded(bytes: &[u8]) -> io::Result<Vec<PageReference>> {
        TraceReader::new(bytes)?.collect()
    }

    #[test]
    fn references_come_back_as_they_were() {
        let mut references = Vec::new();
        for n in 0..2000_u32 {
            let block = if n.is_multiple_of(5) { n.wrapping_mul(0x9E37_79B1) } else { n };
            let fork = [Fork::Main, Fork::Vm][n as usize / 40 % 2];
            references.push(reference(16_384 + n / 100 % 3, fork, block, n));
        }
        assert_eq!(decoded(&encoded(&references)).expect("readable"), references);
    }

    #[test]
    fn more_forks_than_are_remembered_come_back() {
        let most = MOST_FORKS as u32;
        let rels = (0..most + 3).chain([1, most, most + 1, 2]);
        let references: Vec<_> = rels.map(|rel| reference(rel, Fork::Main, rel / 2, rel)).collect();
        assert_eq!(decoded(&encoded(&references)).expect("readable"), references);
    }

    #[test]
    fn a_scan_takes_two_bytes_a_page() {
        let scan: Vec<_> = (0..1000).map(|block| reference(1, Fork::Main, block, 5)).collect();
        assert!(encoded(&scan).len() < 2040);
    }

    #[test]
    fn damage_is_an_error_and_ends_the_trace() {
        let bytes = encoded(&[reference(1, Fork::Main, 70_000, 8), reference(1, Fork::Main, 3, 8)]);
        assert!(TraceReader::new(&b"FBTRACE\x02"[..]).is_err());
        for end in MAGIC.len() + 1..bytes.len() {
            let read: Vec<_> = TraceReader::new(&bytes[..end]).expect("a header").collect();
            let whole = read.iter().filter(|read| read.is_ok()).count();
            assert!(whole == 1 && read.len() <= 2 || whole == 0 && read.len() == 1, "{end}");
        }
        // A fork that was not defined, a block that is too long, a number beyond 32 bits.
        for bad in
            [&[OTHER_FORK, 3, 0][..], &[NEW_FORK; 14], &[OTHER_BACKEND, 255, 255, 255, 255, 127]]
        {
            let bytes = [&MAGIC, bad].concat();
            let read: Vec<_> = TraceReader::new(&bytes[..]).expect("a header").collect();
            assert!(read.len() == 1 && read[0].is_err());
        }
    }
}
