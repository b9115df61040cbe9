//! Splitting a byte stream into messages.
//!
//! A length is checked before memory is allocated for it, and memory grows with the bytes that have
//! arrived. So a client that announces a gigabyte and sends nothing costs one small buffer.
#![deny(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use std::io::{self, Read};
use std::ops::Range;

/// Bytes of a read.
const CHUNK: usize = 128 * 1024;
/// A buffer that has grown beyond this is freed when the large message has been handled.
const KEEP: usize = 1024 * 1024;

/// The type byte of CopyData.
const COPY_DATA: u8 = b'd';

/// A complete message, or a part of a CopyData message, or why there is none.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// A message; `FrameReader::body` gives its bytes until the next call.
    Message {
        /// Its type byte (zero for startup packets, which have none).
        kind: u8,
        /// The range of its body in the buffer.
        body: Range<usize>,
    },
    /// The peer closed the connection; true if in the middle of a message.
    Eof {
        /// Whether a message was cut short.
        cut: bool,
    },
    /// A type byte that does not exist.
    UnknownKind(u8),
    /// A length that this kind of message can't have.
    BadLength,
}

/// Reads messages from a source.
#[derive(Debug)]
pub struct FrameReader<R> {
    source: R,
    buf: Vec<u8>,
    /// Bytes of `buf` that have been taken.
    done: usize,
    /// Bytes of `buf` that have been read.
    filled: usize,
    /// Bytes of the present CopyData message that `next` has not returned yet.
    rest: usize,
}

impl<R: Read> FrameReader<R> {
    /// Reads from this source.
    pub fn new(source: R) -> FrameReader<R> {
        FrameReader { source, buf: Vec::new(), done: 0, filled: 0, rest: 0 }
    }

    /// The source.
    pub fn source(&self) -> &R {
        &self.source
    }

    /// Whether bytes have arrived that no message has taken yet.
    pub fn has_buffered(&self) -> bool {
        self.filled > self.done
    }

    /// The bytes of a message that `next` has just returned.
    pub fn body(&self, range: Range<usize>) -> &[u8] {
        self.buf.get(range).unwrap_or_default()
    }

    /// Waits for the next startup packet: a length, which includes its own bytes, and a body of
    /// four to `max` bytes.
    pub fn startup(&mut self, max: u32) -> io::Result<Next> {
        if !self.fill(4)? {
            return Ok(Next::Eof { cut: self.has_buffered() });
        }
        let len = self.be32(self.done);
        if len < 8 || len - 4 > max {
            return Ok(Next::BadLength);
        }
        self.take(0, 4, len as usize)
    }

    /// Waits for the next typed message. `limit` returns the greatest length for a type, None for a
    /// type that does not exist. A long CopyData message comes as several: such messages may divide
    /// their data anywhere.
    pub fn next(&mut self, limit: impl Fn(u8) -> Option<u32>) -> io::Result<Next> {
        if self.rest > 0 {
            return self.more_data();
        }
        if !self.fill(1)? {
            return Ok(Next::Eof { cut: false });
        }
        let kind = self.buf.get(self.done).copied().unwrap_or(0);
        let Some(max) = limit(kind) else { return Ok(Next::UnknownKind(kind)) };
        if !self.fill(5)? {
            return Ok(Next::Eof { cut: true });
        }
        let len = self.be32(self.done + 1);
        if len < 4 || len > max {
            return Ok(Next::BadLength);
        }
        if kind == COPY_DATA && len as usize > CHUNK {
            self.done += 5;
            self.rest = len as usize - 4;
            return self.more_data();
        }
        self.take(kind, 5, len as usize + 1)
    }

    /// Takes what has arrived of a CopyData message.
    fn more_data(&mut self) -> io::Result<Next> {
        if !self.fill(1)? {
            return Ok(Next::Eof { cut: true });
        }
        let end = self.filled.min(self.done + self.rest.min(CHUNK));
        let body = self.done..end;
        self.rest -= body.len();
        self.done = end;
        Ok(Next::Message { kind: COPY_DATA, body })
    }

    /// Takes a message of `whole` bytes of which the first `head` are type and length.
    fn take(&mut self, kind: u8, head: usize, whole: usize) -> io::Result<Next> {
        if !self.fill(whole)? {
            return Ok(Next::Eof { cut: true });
        }
        let body = self.done + head..self.done + whole;
        self.done += whole;
        Ok(Next::Message { kind, body })
    }

    fn be32(&self, at: usize) -> u32 {
        self.buf.get(at..).and_then(|b| b.first_chunk()).map_or(0, |b| u32::from_be_bytes(*b))
    }

    /// Reads until there are `want` bytes after `done`; false at end of file.
    fn fill(&mut self, want: usize) -> io::Result<bool> {
        while self.filled - self.done < want {
            self.make_room()?;
            let room = self.buf.get_mut(self.filled..).unwrap_or_default();
            match self.source.read(room) {
                Ok(0) => return Ok(false),
                Ok(n) => self.filled += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(true)
    }

    /// Makes room for a read. Without memory for a long message, only this session ends.
    fn make_room(&mut self) -> io::Result<()> {
        if self.done == self.filled {
            (self.done, self.filled) = (0, 0);
            if self.buf.len() > KEEP {
                self.buf = Vec::new();
            }
        } else if self.done > 0 && self.buf.len() - self.filled < CHUNK / 4 {
            self.buf.copy_within(self.done..self.filled, 0);
            self.filled -= self.done;
            self.done = 0;
        }
        if self.buf.len() - self.filled < CHUNK / 4 {
            let len = (self.filled * 2).max(CHUNK);
            self.buf
                .try_reserve_exact(len - self.buf.len())
                .map_err(|_| io::ErrorKind::OutOfMemory)?;
            self.buf.resize(len, 0);
        }
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]
mod tests {
    use super::super::frontend::length_limit;
    use super::*;

    /// Gives its bytes a few at a time.
    struct Drip(Vec<u8>, usize, usize);
    impl Read for Drip {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            let n = self.2.min(buf.len()).min(self.0.len() - self.1);
            buf[..n].copy_from_slice(&self.0[self.1..self.1 + n]);
            self.1 += n;
            Ok(n)
        }
    }

    #[test]
    fn messages_survive_any_fragmentation() {
        let mut bytes = Vec::new();
        for len in [0usize, 1, 100, 70_000, 3_000_000, 5] {
            bytes.push(b'Q');
            bytes.extend(u32::try_from(len + 4).unwrap().to_be_bytes());
            bytes.extend((0..len).map(|i| (i * 7) as u8));
        }
        for step in [1000, 4097, 1 << 20] {
            let mut r = FrameReader::new(Drip(bytes.clone(), 0, step));
            for len in [0usize, 1, 100, 70_000, 3_000_000, 5] {
                let Next::Message { kind: b'Q', body } = r.next(length_limit).unwrap() else {
                    panic!("no message")
                };
                assert!(r.body(body).iter().copied().eq((0..len).map(|i| (i * 7) as u8)));
            }
            assert_eq!(r.next(length_limit).unwrap(), Next::Eof { cut: false });
            assert!(r.buf.len() <= KEEP, "kept {} bytes", r.buf.len());
        }
    }

    #[test]
    fn long_copy_data_comes_in_parts() {
        let lengths = [3_000_000, 0, CHUNK - 4, CHUNK - 3, 7, 900_000];
        let mut bytes = Vec::new();
        for len in lengths {
            bytes.push(b'd');
            bytes.extend(u32::try_from(len + 4).unwrap().to_be_bytes());
            bytes.extend((0..len).map(|i| (i * 7) as u8));
        }
        bytes.extend(b"c\0\0\0\x04");
        for step in [1000, 4097, 1 << 20] {
            let mut r = FrameReader::new(Drip(bytes.clone(), 0, step));
            for len in lengths {
                let mut at = 0;
                while at < len || len == 0 {
                    let Next::Message { kind: b'd', body } = r.next(length_limit).unwrap() else {
                        panic!("no data")
                    };
                    assert!(body.len() <= CHUNK);
                    assert!(
                        r.body(body.clone())
                            .iter()
                            .copied()
                            .eq((at..at + body.len()).map(|i| (i * 7) as u8))
                    );
                    at += body.len();
                    if len == 0 {
                        break;
                    }
                }
                assert_eq!(at, len);
                assert!(r.buf.len() <= 2 * CHUNK, "{} bytes", r.buf.len());
            }
            assert!(matches!(r.next(length_limit).unwrap(), Next::Message { kind: b'c', .. }));
            assert_eq!(r.next(length_limit).unwrap(), Next::Eof { cut: false });
        }
    }

    #[test]
    fn a_claimed_gigabyte_costs_one_chunk() {
        let mut r = FrameReader::new(Drip(b"Q\x3f\xff\xff\xf0abc".to_vec(), 0, 100));
        assert_eq!(r.next(length_limit).unwrap(), Next::Eof { cut: true });
        assert_eq!(r.buf.len(), CHUNK);
    }

    #[test]
    fn absurd_lengths() {
        for (bytes, next) in [
            (&b"Q\0\0\0\x03"[..], Next::BadLength),
            (b"Q\x7f\xff\xff\xff", Next::BadLength),
            (b"Q\xff\xff\xff\xff", Next::BadLength),
            (b"S\0\0\x27\x11", Next::BadLength),
            (b"\0\0\0\0\0", Next::UnknownKind(0)),
            (b"Q\0\0", Next::Eof { cut: true }),
        ] {
            assert_eq!(
                FrameReader::new(Drip(bytes.to_vec(), 0, 9)).next(length_limit).unwrap(),
                next
            );
        }
        let startup = |b: &[u8]| FrameReader::new(Drip(b.to_vec(), 0, 9)).startup(10_000).unwrap();
        assert_eq!(startup(b"\0\0\0\x07\0\0\0"), Next::BadLength);
        assert_eq!(startup(b"\0\x01\0\0\0\0\0"), Next::BadLength);
        assert_eq!(startup(b"GET "), Next::BadLength);
        assert_eq!(startup(b"\0\0\0\x08\0\0\0\x01"), Next::Message { kind: 0, body: 4..8 });
    }
}
