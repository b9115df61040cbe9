//! Decompression of a value whose compressed bytes arrive in parts: pglz and LZ4.
//!
//! [`Expander`] keeps as much of the value as later bytes can repeat, so a value of any length
//! takes little memory. Whoever wants its beginning only stops when that is there.
//!
//! ```text
//!   LZ4:  token | more of a length | literals | distance, 2 | more of a length
//!         the token's upper 4 bits: the number of literals; its lower 4 bits: that of repeated
//!         bytes, less 4; 15 announces more bytes, each added, up to one that is not 255
//! ```
//!
//! The format of pglz is in [`pglz`](crate::pglz).
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::ops::ControlFlow;

use crate::pglz;
use crate::varlena::{DecompressError, Method};

/// The longest distance of a repetition, of both methods.
const WINDOW: usize = 1 << 16;
/// So much is kept at most, but for what a single step adds.
const FULL: usize = 4 * WINDOW;
/// The length in a token of LZ4 that announces more bytes, and in one of these bytes.
const LZ4_MORE: u8 = 15;
const LZ4_STILL_MORE: u8 = 255;
/// The shortest repetition of LZ4.
const LZ4_MIN_MATCH: usize = 4;

/// As many compressed bytes as the first `len` bytes of a value take at most: pglz has a control
/// bit for each. LZ4 has a byte for 255 of a run or a repetition, all of them before its first
/// byte. A repetition may begin within them.
pub const fn prefix_size(len: usize, raw_size: usize, method: u8) -> usize {
    let lengths = if method == Method::Pglz as u8 { 0 } else { raw_size / 255 };
    len + len / 8 + lengths + 16
}

/// What the next compressed byte is.
#[derive(Debug, Clone, Copy)]
enum Next {
    /// pglz: eight control bits.
    Control,
    /// A byte, or the first of a repetition, as the lowest of `left` bits says.
    Item { control: u8, left: u8 },
    /// The second byte of a repetition.
    Second { first: u8, control: u8, left: u8 },
    /// The rest of a repetition's length.
    Third { distance: usize, control: u8, left: u8 },
    /// LZ4: a token.
    Token,
    /// More of the number of literals. `repeated` is the token's other half from here on.
    LiteralCount { count: usize, repeated: u8 },
    /// Literals.
    Literals { count: usize, repeated: u8 },
    /// The lower byte of a distance; or the end.
    Low { repeated: u8 },
    /// The upper one.
    High { low: u8, repeated: u8 },
    /// More of the number of repeated bytes.
    RepeatCount { distance: usize, count: usize },
    /// None yet: bytes are repeated, of which there may be many.
    Repeat { distance: usize, count: usize },
}

/// A value that is being decompressed.
#[derive(Debug)]
pub struct Expander {
    next: Next,
    /// Bytes of the value that are still to come.
    left: usize,
    /// Its last bytes.
    out: Vec<u8>,
    /// How many of them were taken.
    taken: usize,
}

/// The compressed bytes cannot be right.
struct Damaged;

impl Expander {
    /// At the beginning of a value.
    pub fn new(raw_size: u32, method: u8) -> Result<Expander, DecompressError> {
        let next = match method {
            m if m == Method::Pglz as u8 => Next::Control,
            m if m == Method::Lz4 as u8 => Next::Token,
            _ => return Err(DecompressError::UnknownMethod(method)),
        };
        Ok(Expander { next, left: raw_size as usize, out: Vec::new(), taken: 0 })
    }

    /// Decompresses further bytes, and shows what they become, piece by piece, until `show` ends
    /// it. None: they cannot be those of such a value.
    pub fn expand(
        &mut self,
        data: &[u8],
        show: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Option<ControlFlow<()>> {
        let mut input = data;
        loop {
            self.fill(&mut input).ok()?;
            let ended = input.is_empty() && !matches!(self.next, Next::Repeat { .. });
            if show(self.take()).is_break() {
                return Some(ControlFlow::Break(()));
            }
            if ended {
                return Some(ControlFlow::Continue(()));
            }
        }
    }

    /// Decompresses from the front of `input`, as long as the piece is not long enough.
    fn fill(&mut self, input: &mut &[u8]) -> Result<(), Damaged> {
        while self.out.len() < FULL {
            if let Next::Repeat { distance, count } = self.next {
                let part = count.min(WINDOW);
                self.repeat(distance, part)?;
                self.next = match count - part {
                    0 => Next::Token,
                    count => Next::Repeat { distance, count },
                };
                continue;
            }
            let Some((&byte, rest)) = input.split_first() else { break };
            if let Next::Literals { count, repeated } = self.next {
                let (literals, rest) = input.split_at(count.min(input.len()));
                *input = rest;
                self.literals(literals, (count, repeated))?;
                continue;
            }
            self.next = match self.next {
                Next::Control => self.control(byte)?,
                Next::Item { control, left } => self.item(byte, (control, left))?,
                Next::Second { first, control, left } => {
                    self.second([first, byte], (control, left))?
                }
                Next::Third { distance, control, left } => {
                    let len = pglz::LONG_MATCH + usize::from(byte);
                    self.repeat(distance, len.min(self.left))?;
                    after(control, left)
                }
                _ => self.lz4(byte)?,
            };
            *input = rest;
        }
        Ok(())
    }

    /// Whether the value has ended where its compressed bytes have.
    pub fn is_whole(&self) -> bool {
        let at_end = matches!(self.next, Next::Control | Next::Item { .. } | Next::Low { .. });
        self.left == 0 && at_end
    }

    /// The bytes of the value that came since the last call.
    fn take(&mut self) -> &[u8] {
        if self.out.len() >= FULL {
            let gone = self.taken.min(self.out.len() - WINDOW);
            self.out.drain(..gone);
            self.taken -= gone;
        }
        let from = std::mem::replace(&mut self.taken, self.out.len());
        self.out.get(from..).unwrap_or_default()
    }

    fn control(&self, byte: u8) -> Result<Next, Damaged> {
        if self.left == 0 { Err(Damaged) } else { Ok(Next::Item { control: byte, left: 8 }) }
    }

    fn item(&mut self, byte: u8, (control, left): (u8, u8)) -> Result<Next, Damaged> {
        if self.left == 0 {
            return Err(Damaged);
        }
        if control & 1 == 1 {
            return Ok(Next::Second { first: byte, control, left });
        }
        self.left -= 1;
        self.out.push(byte);
        Ok(after(control, left))
    }

    fn second(&mut self, bytes: [u8; 2], (control, left): (u8, u8)) -> Result<Next, Damaged> {
        let (len, distance) = pglz::split_repeat(bytes);
        if len == pglz::LONG_MATCH {
            return Ok(Next::Third { distance, control, left });
        }
        // The last repetition may be longer than what is left.
        self.repeat(distance, len.min(self.left))?;
        Ok(after(control, left))
    }

    fn literals(&mut self, bytes: &[u8], (count, repeated): (usize, u8)) -> Result<(), Damaged> {
        self.left = self.left.checked_sub(bytes.len()).ok_or(Damaged)?;
        self.out.extend_from_slice(bytes);
        self.next = match count - bytes.len() {
            0 => Next::Low { repeated },
            count => Next::Literals { count, repeated },
        };
        Ok(())
    }

    /// A byte of LZ4 that is no literal.
    fn lz4(&mut self, byte: u8) -> Result<Next, Damaged> {
        let more = |count: usize| {
            let count = count + usize::from(byte);
            // A damaged length must not overflow.
            if count > self.left { Err(Damaged) } else { Ok(count) }
        };
        Ok(match self.next {
            Next::Token => match (byte >> 4, byte & 15) {
                (0, repeated) => Next::Low { repeated },
                (LZ4_MORE, repeated) => Next::LiteralCount { count: 15, repeated },
                (count, repeated) => Next::Literals { count: count.into(), repeated },
            },
            Next::LiteralCount { count, repeated } => match (more(count)?, byte) {
                (count, LZ4_STILL_MORE) => Next::LiteralCount { count, repeated },
                (count, _) => Next::Literals { count, repeated },
            },
            Next::Low { repeated } => Next::High { low: byte, repeated },
            Next::High { low, repeated } => {
                let distance = usize::from(u16::from_le_bytes([low, byte]));
                let count = usize::from(repeated) + LZ4_MIN_MATCH;
                if repeated == LZ4_MORE {
                    return Ok(Next::RepeatCount { distance, count });
                }
                Next::Repeat { distance, count }
            }
            Next::RepeatCount { distance, count } => match (more(count)?, byte) {
                (count, LZ4_STILL_MORE) => Next::RepeatCount { distance, count },
                (count, _) => Next::Repeat { distance, count },
            },
            _ => return Err(Damaged),
        })
    }

    /// Repeats earlier bytes, which may overlap with what they become.
    fn repeat(&mut self, distance: usize, len: usize) -> Result<(), Damaged> {
        self.left = self.left.checked_sub(len).ok_or(Damaged)?;
        let mut from = self.out.len().checked_sub(distance).ok_or(Damaged)?;
        if distance == 0 {
            return Err(Damaged);
        }
        let mut left = len;
        while left > 0 {
            let part = left.min(self.out.len() - from);
            self.out.extend_from_within(from..from + part);
            from += part;
            left -= part;
        }
        Ok(())
    }
}

/// What follows an item of pglz.
fn after(control: u8, left: u8) -> Next {
    if left == 1 { Next::Control } else { Next::Item { control: control >> 1, left: left - 1 } }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;
    use crate::varlena::{compress, decompress};
    use proptest::prelude::*;

    /// A value, expanded from parts of its compressed bytes. None: they are damaged.
    fn expanded(raw_size: u32, method: Method, data: &[u8], part: usize) -> Option<Vec<u8>> {
        let mut expander = Expander::new(raw_size, method as u8).unwrap();
        let mut out = Vec::new();
        for part in data.chunks(part) {
            let flow = expander.expand(part, &mut |piece| {
                out.extend_from_slice(piece);
                ControlFlow::Continue(())
            })?;
            assert!(flow.is_continue() && expander.out.len() <= FULL + WINDOW + part.len());
        }
        expander.is_whole().then_some(out)
    }

    /// Values with near, far, short, long and overlapping repetitions.
    fn value() -> impl Strategy<Value = Vec<u8>> {
        let piece = (prop::collection::vec(any::<u8>(), 1..40), 1..60_usize);
        prop::collection::vec(piece, 1..40).prop_map(|pieces| {
            let mut all = Vec::new();
            for (bytes, times) in &pieces {
                all.extend(bytes.repeat(*times));
            }
            all.extend_from_within(..);
            all
        })
    }

    #[test]
    fn the_length_of_a_long_run_comes_before_its_first_byte() {
        let mut state = 7_u64;
        let mut value: Vec<u8> = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        })
        .take(200_000)
        .collect();
        value.resize(400_000, 0);
        let method = Method::Lz4;
        let data = compress(&value, method).unwrap();
        let mut expander = Expander::new(value.len() as u32, method as u8).unwrap();
        let mut found = Vec::new();
        let begin = &data[..prefix_size(10, value.len(), method as u8)];
        let flow = expander.expand(begin, &mut |piece| {
            found.extend_from_slice(piece);
            ControlFlow::Continue(())
        });
        assert!(flow.is_some() && found.len() >= 10, "{} bytes", found.len());
        assert_eq!(found, value[..found.len()]);
    }

    proptest! {
        #[test]
        fn parts_give_what_the_whole_gives(value in value(), part in 1..3000_usize) {
            for method in [Method::Pglz, Method::Lz4] {
                let Some(data) = compress(&value, method) else { continue };
                let raw_size = value.len() as u32;
                let found = expanded(raw_size, method, &data, part);
                prop_assert!(found.as_ref() == Some(&value), "{method:?}");
                for wrong in [raw_size - 1, raw_size + 1] {
                    let whole = decompress(wrong, method as u8, &data).ok();
                    prop_assert_eq!(expanded(wrong, method, &data, part), whole);
                }
                prop_assert!(expanded(raw_size, method, &data[..data.len() - 1], part).is_none());
            }
        }

        #[test]
        fn a_beginning_takes_no_more_than_its_bound(value in value(), len in 0..3000_usize) {
            for method in [Method::Pglz, Method::Lz4] {
                let Some(data) = compress(&value, method) else { continue };
                let mut expander = Expander::new(value.len() as u32, method as u8).unwrap();
                let mut found = Vec::new();
                let size = prefix_size(len, value.len(), method as u8);
                let begin = &data[..size.min(data.len())];
                let flow = expander.expand(begin, &mut |piece| {
                    found.extend_from_slice(piece);
                    match found.len() < len {
                        true => ControlFlow::Continue(()),
                        false => ControlFlow::Break(()),
                    }
                });
                prop_assert!(flow.is_some() && found.len() >= len.min(value.len()));
                prop_assert_eq!(&found, &value[..found.len()]);
            }
        }

        #[test]
        fn arbitrary_bytes_never_panic(data: Vec<u8>, raw_size in 0..5000_u32, part in 1..9_usize) {
            for method in [Method::Pglz, Method::Lz4] {
                let found = expanded(raw_size, method, &data, part);
                let whole = decompress(raw_size, method as u8, &data).ok();
                prop_assert!(found.is_none() || found == whole, "{method:?}");
            }
        }
    }

    #[test]
    fn little_is_kept_of_a_long_value() {
        let value: Vec<u8> = (0..9_000_000_u32).map(|n| (n / 1000).wrapping_mul(n) as u8).collect();
        for method in [Method::Pglz, Method::Lz4] {
            let data = compress(&value, method).unwrap();
            assert!(expanded(9_000_000, method, &data, 1996) == Some(value.clone()));
            // A single repetition.
            let same = vec![b'x'; 3_000_000];
            let data = compress(&same, method).unwrap();
            assert!(expanded(3_000_000, method, &data, 1996) == Some(same));
        }
        assert_eq!(Expander::new(9, 2).unwrap_err(), DecompressError::UnknownMethod(2));
    }
}
