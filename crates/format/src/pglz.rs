//! pglz, PostgreSQL's own compression: of page images, and of long values.
//!
//! ```text
//!   control byte | 8 items, or fewer at the end
//!   control bit 0 (the lowest first):  a byte to be copied
//!   control bit 1:  length - 3, 4 bits | upper 4 bits of the distance  ·  lower 8 bits
//!                   (the length's bits are the lower ones; 15 announces a third byte, which is
//!                   added to 18)
//! ```
//!
//! A pair of distance and length repeats what was written that far back; it may overlap with what
//! it writes. Lengths are 3 to 273, distances 1 to 4094.
//!
//! The format stores neither length: callers know both. [`compress`] makes the same choices as
//! PostgreSQL, so its output is the same.

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::bytes::Cursor;

const MIN_MATCH: usize = 3;
const MAX_MATCH: usize = 273;
/// The length from which on a third byte is needed.
pub(crate) const LONG_MATCH: usize = 18;
/// Matches must be nearer than this.
const MAX_DISTANCE: usize = 4095;
/// Positions that are remembered; a power of two, above the distance.
const HISTORY: usize = 4096;
/// Shorter input is not compressed.
const MIN_INPUT: usize = 32;
/// Compression gives up if it found no match until it has written so much.
const FIRST_SUCCESS: usize = 1024;
/// A search ends with a match of this length; the length falls by a tenth with each other match.
const GOOD_MATCH: usize = 128;

/// Compressed bytes do not decompress to the announced length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("pglz data is damaged")]
pub struct DamagedPglz;

/// Compresses as PostgreSQL's default strategy does. `None` if that does not save a quarter, or if
/// the input is too short.
pub fn compress(input: &[u8]) -> Option<Vec<u8>> {
    if input.len() < MIN_INPUT {
        return None;
    }
    let limit = size_limit(input.len());
    let mut history = History::new(input);
    let mut out = Output { bytes: Vec::with_capacity(limit + 4), control_at: 0, bit: 0 };
    let (mut at, mut found) = (0, false);
    while let Some(&byte) = input.get(at) {
        if out.bytes.len() >= limit || !found && out.bytes.len() >= FIRST_SUCCESS {
            return None;
        }
        let len = match history.longest_match(at) {
            Some((len, distance)) => {
                out.repeat(len, distance);
                found = true;
                len
            }
            None => {
                out.literal(byte);
                1
            }
        };
        (at..at + len).for_each(|position| history.add(position));
        at += len;
    }
    (out.bytes.len() < limit).then_some(out.bytes)
}

/// The length that the output must stay below. PostgreSQL, which computes with 32 bits, rounds in
/// another way from a length on.
fn size_limit(len: usize) -> usize {
    const LONG: usize = i32::MAX as usize / 100;
    if len > LONG { len / 100 * 75 } else { len * 75 / 100 }
}

/// Decompresses all of the input, which must fill `out`. As in PostgreSQL, the last repetition may
/// be longer than what is left to fill.
pub fn decompress(input: &[u8], out: &mut [u8]) -> Result<(), DamagedPglz> {
    let mut cursor = Cursor::new(input);
    let written = read_items(&mut cursor, out)?;
    if written == out.len() && cursor.remaining() == 0 { Ok(()) } else { Err(DamagedPglz) }
}

fn read_items(input: &mut Cursor<'_>, out: &mut [u8]) -> Result<usize, DamagedPglz> {
    let mut at = 0;
    while input.remaining() > 0 && at < out.len() {
        let control = input.u8().ok_or(DamagedPglz)?;
        for bit in 0..8 {
            if input.remaining() == 0 || at == out.len() {
                break;
            }
            if control >> bit & 1 == 0 {
                let byte = input.u8().ok_or(DamagedPglz)?;
                *out.get_mut(at).ok_or(DamagedPglz)? = byte;
                at += 1;
            } else {
                let (len, distance) = read_repeat(input).ok_or(DamagedPglz)?;
                at = repeat(out, at, len, distance).ok_or(DamagedPglz)?;
            }
        }
    }
    Ok(at)
}

fn read_repeat(input: &mut Cursor<'_>) -> Option<(usize, usize)> {
    let (len, distance) = split_repeat(input.array()?);
    let more = if len == LONG_MATCH { usize::from(input.u8()?) } else { 0 };
    Some((len + more, distance))
}

/// The length and distance of a repetition. A third byte adds to the length [`LONG_MATCH`].
pub(crate) fn split_repeat(bytes: [u8; 2]) -> (usize, usize) {
    let [first, second] = bytes.map(usize::from);
    ((first & 0xf) + MIN_MATCH, (first & 0xf0) << 4 | second)
}

/// Repeats earlier bytes, as far as they fit; returns the new end.
fn repeat(out: &mut [u8], at: usize, len: usize, distance: usize) -> Option<usize> {
    let from = at.checked_sub(distance).filter(|_| distance > 0)?;
    let end = out.len().min(at + len);
    if distance >= end - at {
        let (written, rest) = out.split_at_mut_checked(at)?;
        rest.get_mut(..end - at)?.copy_from_slice(written.get(from..from + (end - at))?);
    } else {
        // The source overlaps with the destination.
        for to in at..end {
            let byte = *out.get(to - distance)?;
            *out.get_mut(to)? = byte;
        }
    }
    Some(end)
}

struct Output {
    bytes: Vec<u8>,
    control_at: usize,
    /// The next control bit's number; 0 if a new control byte is needed.
    bit: u32,
}

impl Output {
    fn item(&mut self, is_repeat: bool) {
        if self.bit == 0 {
            self.control_at = self.bytes.len();
            self.bytes.push(0);
        }
        let control = self.bytes.get_mut(self.control_at).expect("a control byte was written");
        *control |= u8::from(is_repeat) << self.bit;
        self.bit = (self.bit + 1) % 8;
    }

    fn literal(&mut self, byte: u8) {
        self.item(false);
        self.bytes.push(byte);
    }

    fn repeat(&mut self, len: usize, distance: usize) {
        self.item(true);
        let upper = (distance >> 4 & 0xf0) as u8;
        if len < LONG_MATCH {
            self.bytes.extend_from_slice(&[upper | (len - MIN_MATCH) as u8, distance as u8]);
        } else {
            let more = (len - LONG_MATCH) as u8;
            self.bytes.extend_from_slice(&[upper | 0xf, distance as u8, more]);
        }
    }
}

/// The positions that may be repeated: a list for each hash value of the four bytes there, the
/// latest first.
struct History<'a> {
    input: &'a [u8],
    /// The latest position of each hash value, plus 1; 0 if there is none.
    latest: Vec<u32>,
    /// By position modulo [`HISTORY`]: the position before it in its list, plus 1.
    before: Vec<u32>,
}

impl<'a> History<'a> {
    fn new(input: &'a [u8]) -> Self {
        let lists = match input.len() {
            0..128 => 512,
            128..256 => 1024,
            256..512 => 2048,
            512..1024 => 4096,
            _ => 8192,
        };
        Self { input, latest: vec![0; lists], before: vec![0; HISTORY] }
    }

    /// PostgreSQL computes with signed bytes. Fewer than four left are hashed by the first.
    fn hash(&self, at: usize) -> usize {
        let byte = |n| self.input.get(at + n).map_or(0, |&byte| i32::from(byte as i8));
        let hash = if at + 4 > self.input.len() {
            byte(0)
        } else {
            byte(0) << 6 ^ byte(1) << 4 ^ byte(2) << 2 ^ byte(3)
        };
        hash as usize & (self.latest.len() - 1)
    }

    fn add(&mut self, at: usize) {
        let hash = self.hash(at);
        let latest = self.latest.get_mut(hash).expect("a hash value");
        let before = self.before.get_mut(at % HISTORY).expect("a place in the history");
        *before = std::mem::replace(latest, at as u32 + 1);
    }

    /// Length and distance of the best match, which is the longest of those that are looked at.
    fn longest_match(&self, at: usize) -> Option<(usize, usize)> {
        let here = self.input.get(at..)?;
        let (mut best, mut good) = ((0, 0), GOOD_MATCH);
        let mut next = *self.latest.get(self.hash(at))?;
        while let Some(position) = next.checked_sub(1).map(|position| position as usize) {
            let distance = at - position;
            if distance >= MAX_DISTANCE {
                break;
            }
            let there = self.input.get(position..)?.iter();
            let len = there.zip(here).take(MAX_MATCH).take_while(|(a, b)| a == b).count();
            if len > best.0 {
                best = (len, distance);
            }
            if best.0 >= good {
                break;
            }
            good -= good / 10;
            next = *self.before.get(position % HISTORY)?;
        }
        (best.0 >= MIN_MATCH).then_some(best)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn round_trip(input: &[u8]) -> Option<usize> {
        let compressed = compress(input)?;
        let mut out = vec![0xee; input.len()];
        assert_eq!(decompress(&compressed, &mut out), Ok(()));
        assert_eq!(out, input);
        Some(compressed.len())
    }

    #[test]
    fn layout() {
        // A literal, and a repetition of it at distance 1.
        assert_eq!(compress(&[7; 40]).unwrap(), [2, 7, 0x0f, 1, 39 - 18]);
        let mut out = [0; 5];
        assert_eq!(decompress(&[0b10, 9, 0x01, 0x01], &mut out), Ok(()));
        assert_eq!(out, [9; 5]);
    }

    #[test]
    fn damage_is_noticed() {
        let mut out = [0; 5];
        for bad in [
            &[][..],
            &[0],
            &[0b10, 9, 0x01],
            &[0b10, 9, 0x01, 0x00],
            &[0b10, 9, 0x01, 0x02],
            &[0b1, 0x01, 0x01],
            &[0b10, 9, 0x0f, 0x01],
            &[0b10, 9, 0x00, 0x01],
            &[0b10, 9, 0x01, 0x01, 7],
        ] {
            assert_eq!(decompress(bad, &mut out), Err(DamagedPglz), "{bad:?}");
        }
        assert_eq!(decompress(&[], &mut []), Ok(()));
    }

    #[test]
    fn what_does_not_get_shorter_is_left() {
        assert_eq!(compress(&[1; 31]), None);
        let mut state = 1_u64;
        let noise: Vec<u8> = (0..5000)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 56) as u8
            })
            .collect();
        assert_eq!((compress(&noise), compress(&noise[..100])), (None, None));
        // Too far back.
        assert_eq!(compress(&[&noise[..1000], &noise[..1000]].concat()), None);
    }

    #[test]
    fn limits_are_rounded_as_postgresql_does() {
        assert_eq!([32, 8192, 21_474_836].map(size_limit), [24, 6144, 16_106_127]);
        assert_eq!([21_474_837, 21_474_899].map(size_limit), [16_106_100, 16_106_100]);
    }

    #[test]
    fn long_input_outlives_the_history() {
        let text: String = (0..4000).map(|n| format!("row {} of {}; ", n % 97, n % 13)).collect();
        assert!(round_trip(text.as_bytes()).unwrap() < text.len() / 3);
    }

    proptest! {
        #[test]
        fn compressed_bytes_come_back(
            words in proptest::collection::vec((0_usize..9, 1_usize..40), 0..300),
        ) {
            let input: Vec<u8> = words
                .iter()
                .flat_map(|&(word, len)| (0..len).map(move |n| (word * 37 + n % 5 * 60) as u8))
                .collect();
            round_trip(&input);
        }

        #[test]
        fn arbitrary_bytes_never_panic(input: Vec<u8>, len in 0_usize..600) {
            let mut out = vec![0; len];
            let _ = decompress(&input, &mut out);
            round_trip(&input);
        }
    }
}
