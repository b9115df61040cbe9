//! Making and reading UUIDs.

use crate::error::{Result, ValueError};

fn random() -> Result<[u8; 16]> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)
        .map_err(|_| ValueError::new("XX000", "could not generate random values"))?;
    Ok(bytes)
}

/// The same bytes with a version, and the variant of RFC 9562.
fn marked(mut bytes: [u8; 16], version: u8) -> [u8; 16] {
    bytes[6] = bytes[6] & 0x0f | version << 4;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    bytes
}

/// `gen_random_uuid()`, `uuidv4()`
pub fn random_v4() -> Result<[u8; 16]> {
    Ok(marked(random()?, 4))
}

/// `uuidv7()`: of a time in nanoseconds since 1970. The 12 bits behind the milliseconds are their
/// fraction, so that what is made one after the other is in order.
pub fn of_time_v7(nanoseconds: u64) -> Result<[u8; 16]> {
    const MILLI: u64 = 1_000_000;
    let mut bytes = random()?;
    let [_, _, time @ ..] = (nanoseconds / MILLI).to_be_bytes();
    bytes.iter_mut().zip(time).for_each(|(to, from)| *to = from);
    let fraction = ((nanoseconds % MILLI) * 4096 / MILLI) as u16;
    let [high, low] = fraction.to_be_bytes();
    (bytes[6], bytes[7]) = (high, low);
    Ok(marked(bytes, 7))
}

/// `uuid_extract_version(uuid)`: None of another variant.
pub fn version(uuid: &[u8; 16]) -> Option<i16> {
    (uuid[8] & 0xc0 == 0x80).then(|| i16::from(uuid[6] >> 4))
}

/// `uuid_extract_timestamp(uuid)`: microseconds since 2000, of versions 1 and 7.
pub fn timestamp(uuid: &[u8; 16]) -> Option<i64> {
    const TO_2000: i64 = 946_684_800_000_000;
    /// Microseconds from 1582-10-15 to 1970.
    const GREGORIAN: i64 = 12_219_292_800_000_000;
    let [a, b, c, d, e, f, g, h, ..] = *uuid;
    match version(uuid)? {
        1 => {
            let ticks = i64::from_be_bytes([g & 0x0f, h, e, f, a, b, c, d]);
            Some(ticks / 10 - GREGORIAN - TO_2000)
        }
        7 => Some(i64::from_be_bytes([0, 0, a, b, c, d, e, f]) * 1000 - TO_2000),
        _ => None,
    }
}
