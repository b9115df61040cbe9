//! Functions of bit strings: how many bits there are, and their bytes.

pub use crate::bits::MAX_BITS;
use crate::bits::{bit, push, resized};
use crate::error::{Result, ValueError};

/// A bit string: how many bits, and their bytes.
pub type Bits = (u32, Vec<u8>);

fn combined(
    (m, a): (u32, &[u8]),
    (n, b): (u32, &[u8]),
    name: &str,
    op: impl Fn(u8, u8) -> u8,
) -> Result<Bits> {
    if m != n {
        let message = format!("cannot {name} bit strings of different sizes");
        return Err(ValueError::new("22026", message));
    }
    Ok((m, a.iter().zip(b).map(|(a, b)| op(*a, *b)).collect()))
}

/// `a & b`
pub fn and(a: (u32, &[u8]), b: (u32, &[u8])) -> Result<Bits> {
    combined(a, b, "AND", |a, b| a & b)
}

/// `a | b`
pub fn or(a: (u32, &[u8]), b: (u32, &[u8])) -> Result<Bits> {
    combined(a, b, "OR", |a, b| a | b)
}

/// `a # b`
pub fn xor(a: (u32, &[u8]), b: (u32, &[u8])) -> Result<Bits> {
    combined(a, b, "XOR", |a, b| a ^ b)
}

/// `~ bits`
pub fn not((len, bytes): (u32, &[u8])) -> Bits {
    let inverted: Vec<u8> = bytes.iter().map(|b| !b).collect();
    (len, resized(len, &inverted))
}

/// `bits << n`, or `>>` if negative: as many bits as before.
pub fn shift((len, bytes): (u32, &[u8]), by: i64) -> Bits {
    let mut out = (0, Vec::with_capacity(bytes.len()));
    for n in 0..i64::from(len) {
        let from = n.saturating_add(by);
        let set = (0..i64::from(len)).contains(&from) && bit(bytes, from as u32);
        push(&mut out.1, &mut out.0, set);
    }
    out
}

/// `a || b`
pub fn concat((m, a): (u32, &[u8]), (n, b): (u32, &[u8])) -> Result<Bits> {
    if u64::from(m) + u64::from(n) > crate::bits::MAX_BITS as u64 {
        let most = crate::bits::MAX_BITS;
        let message = format!("bit string length exceeds the maximum allowed ({most})");
        return Err(ValueError::new("54000", message));
    }
    let mut out = (m, a.to_vec());
    (0..n).for_each(|i| push(&mut out.1, &mut out.0, bit(b, i)));
    Ok(out)
}

/// `substring(bits from at [for count])`
pub fn substr((len, bytes): (u32, &[u8]), from: i32, count: Option<i32>) -> Result<Bits> {
    let from = i64::from(from);
    let end = match count {
        Some(count) if count < 0 => {
            return Err(ValueError::new("22011", "negative substring length not allowed"));
        }
        Some(count) => from + i64::from(count),
        None => i64::MAX,
    };
    let start = (from.max(1) - 1).min(i64::from(len));
    let end = (end.max(1) - 1).clamp(start, i64::from(len));
    let mut out = (0, Vec::new());
    (start..end).for_each(|n| push(&mut out.1, &mut out.0, bit(bytes, n as u32)));
    Ok(out)
}

/// `get_bit(bits, n)`
pub fn get_bit((len, bytes): (u32, &[u8]), n: i32) -> Result<i32> {
    match u32::try_from(n) {
        Ok(at) if at < len => Ok(i32::from(bit(bytes, at))),
        _ => {
            let last = i64::from(len) - 1;
            let message = format!("bit index {n} out of valid range (0..{last})");
            Err(ValueError::new("2202E", message))
        }
    }
}

/// `set_bit(bits, n, value)`
pub fn set_bit((len, bytes): (u32, &[u8]), n: i32, value: i32) -> Result<Bits> {
    get_bit((len, bytes), n)?;
    if !matches!(value, 0 | 1) {
        return Err(ValueError::new("22023", "new bit must be 0 or 1"));
    }
    let (mut changed, at) = (bytes.to_vec(), n as usize);
    let mask = 0x80 >> (at % 8);
    let byte = &mut changed[at / 8];
    *byte = if value == 1 { *byte | mask } else { *byte & !mask };
    Ok((len, changed))
}

/// `position(part in bits)`: 0, if it is not there.
pub fn position((m, part): (u32, &[u8]), (n, bits): (u32, &[u8])) -> i32 {
    if m == 0 {
        return i32::from(n > 0);
    }
    let at = |start: u32| (0..m).all(|i| bit(part, i) == bit(bits, start + i));
    (0..=n.saturating_sub(m)).find(|start| m <= n && at(*start)).map_or(0, |at| at as i32 + 1)
}

/// `bits::int8` or `::int4`: None if there are more bits than `width`.
pub fn to_int((len, bytes): (u32, &[u8]), width: u32) -> Option<i64> {
    (len <= width).then(|| (0..len).fold(0, |n, i| n << 1 | i64::from(bit(bytes, i))))
}

/// `number::bit(len)`: the last bits; the sign fills what the number does not have.
pub fn of_int(value: i64, width: u32, len: u32) -> Bits {
    let mut bytes = vec![if value < 0 { 0xff } else { 0 }; len.div_ceil(8) as usize];
    for n in 0..width.min(len) {
        let at = len - 1 - n;
        let mask = 0x80 >> (at % 8);
        if let Some(byte) = bytes.get_mut(at as usize / 8) {
            *byte = if value >> n & 1 == 1 { *byte | mask } else { *byte & !mask };
        }
    }
    (len, resized(len, &bytes))
}
