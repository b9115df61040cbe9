//! Addresses of networks in text: inet, cidr, macaddr, macaddr8.

use std::io::Write;
use std::net::Ipv6Addr;

use crate::error::{Result, ValueError};
use crate::inet::Inet;

fn invalid(ty: &str, text: &str) -> ValueError {
    ValueError::new("22P02", format!("invalid input syntax for type {ty}: \"{text}\""))
}

/// Reads an inet, or a cidr, whose bits behind the network's must be zero.
pub(crate) fn parse(text: &str, cidr: bool) -> Result<Inet> {
    let ty = if cidr { "cidr" } else { "inet" };
    let found = if text.contains(':') { parse_v6(text) } else { parse_v4(text, cidr) };
    let inet = found.ok_or_else(|| invalid(ty, text))?;
    if cidr && !inet.is_network() {
        let error = ValueError::new("22P02", format!("invalid cidr value: \"{text}\""));
        return Err(error.with_detail("Value has bits set to right of mask."));
    }
    Ok(inet)
}

/// A number of up to three digits.
fn small(text: &str) -> Option<u8> {
    let digits = (1..=3).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    if !digits || text.len() > 1 && text.starts_with('0') && text.len() > 3 {
        return None;
    }
    text.parse().ok()
}

/// `a.b.c.d/bits`. The last bytes may be missing if the bits do not reach them; of a cidr the bits
/// may be missing too: they follow from the class of the address.
fn parse_v4(text: &str, cidr: bool) -> Option<Inet> {
    let (bytes, bits) = match text.split_once('/') {
        Some((bytes, bits)) => (bytes, Some(small(bits).filter(|bits| *bits <= 32)?)),
        None => (text, None),
    };
    let (mut address, mut count) = ([0; 4], 0_u8);
    for part in bytes.split('.') {
        *address.get_mut(usize::from(count))? = small(part)?;
        count += 1;
    }
    let bits = match (bits, cidr) {
        (Some(bits), _) => bits,
        (None, false) if count == 4 => 32,
        (None, false) => return None,
        (None, true) => {
            let [first, ..] = address;
            let of_class = match first {
                240.. => 32,
                224.. => 8,
                192.. => 24,
                128.. => 16,
                _ => 8,
            };
            match of_class.max(count * 8) {
                8 if first == 224 => 4,
                bits => bits,
            }
        }
    };
    if !cidr && bits.div_ceil(8) > count {
        return None;
    }
    Inet::v4(address, bits)
}

fn parse_v6(text: &str) -> Option<Inet> {
    let (address, bits) = match text.split_once('/') {
        Some((address, bits)) => (address, small(bits)?),
        None => (text, 128),
    };
    Inet::v6(address.parse::<Ipv6Addr>().ok()?.octets(), bits)
}

/// The address without its bits.
pub(crate) fn show_host(inet: &Inet) -> String {
    match *inet.address() {
        [a, b, c, d] => format!("{a}.{b}.{c}.{d}"),
        _ => show_v6(inet.wide()),
    }
}

/// The text: with the bits if there are less than all, or always (`cidr`).
pub(crate) fn show(inet: &Inet, cidr: bool) -> String {
    let mut text = show_host(inet);
    if cidr || inet.bits() != inet.max_bits() {
        text.push_str(&format!("/{}", inet.bits()));
    }
    text
}

/// Groups of four digits; the longest run of zeros is left out. An address that has one of IPv4 in
/// it ends with that.
fn show_v6(address: [u8; 16]) -> String {
    let words = Ipv6Addr::from(address).segments();
    let (mut best, mut run) = ((0, 0), (0, 0));
    for (n, word) in words.iter().enumerate() {
        run = if *word != 0 { (n + 1, 0) } else { (run.0, run.1 + 1) };
        if run.1 > best.1 {
            best = run;
        }
    }
    if best.1 < 2 {
        best = (8, 0);
    }
    let (from, to) = (best.0, best.0 + best.1);
    let embedded = from == 0 && (best.1 == 6 || best.1 == 5 && words[5] == 0xffff);
    let mut text = String::new();
    for (n, word) in words.iter().enumerate() {
        if (from..to).contains(&n) {
            if n == from {
                text.push(':');
            }
            continue;
        }
        if n > 0 {
            text.push(':');
        }
        if n == 6 && embedded {
            let [.., a, b, c, d] = address;
            return text + &format!("{a}.{b}.{c}.{d}");
        }
        text.push_str(&format!("{word:x}"));
    }
    if best.1 > 0 && to == 8 {
        text.push(':');
    }
    text
}

/// Reads a macaddr: six bytes in pairs of digits, or in groups of four or six digits.
pub(crate) fn parse_mac(text: &str) -> Result<[u8; 6]> {
    let fails = || invalid("macaddr", text);
    let body = text.trim_matches(|c: char| c.is_ascii_whitespace());
    let separator = body.chars().find(|c| matches!(c, ':' | '-' | '.'));
    let parts: Vec<&str> = match separator {
        Some(separator) => body.split(separator).collect(),
        None => vec![body],
    };
    let hex = |part: &str| part.bytes().all(|b| b.is_ascii_hexdigit());
    if !parts.iter().all(|part| !part.is_empty() && hex(part)) {
        return Err(fails());
    }
    let mut bytes = Vec::with_capacity(6);
    match (parts.len(), separator) {
        (6, Some(':' | '-')) => {
            for part in &parts {
                let byte = u64::from_str_radix(part, 16).ok().and_then(|n| u8::try_from(n).ok());
                bytes.push(byte.ok_or_else(|| {
                    let message = format!("invalid octet value in \"macaddr\" value: \"{text}\"");
                    ValueError::new("22003", message)
                })?);
            }
        }
        (2, Some(':' | '-')) | (3, Some('.' | '-')) | (1, None) => {
            let width = 12 / parts.len();
            if parts.iter().any(|part| part.len() != width) {
                return Err(fails());
            }
            let digits = parts.concat();
            let pair = |n: usize| digits.get(n * 2..n * 2 + 2).unwrap_or_default();
            for n in 0..6 {
                bytes.push(u8::from_str_radix(pair(n), 16).map_err(|_| fails())?);
            }
        }
        _ => return Err(fails()),
    }
    bytes.try_into().map_err(|_| fails())
}

/// Reads a macaddr8: six or eight bytes in pairs of digits, with one kind of separator or none. Six
/// bytes get ff and fe in their middle.
pub(crate) fn parse_mac8(text: &str) -> Result<[u8; 8]> {
    let fails = || invalid("macaddr8", text);
    let mut body = text.trim_matches(|c: char| c.is_ascii_whitespace()).as_bytes();
    let (mut bytes, mut separator) = (Vec::new(), None);
    while let [high, low, rest @ ..] = body {
        let digit = |b: &u8| char::from(*b).to_digit(16).map(|d| d as u8).ok_or_else(fails);
        bytes.push(digit(high)? << 4 | digit(low)?);
        body = rest;
        if let [found @ (b':' | b'-' | b'.'), rest @ ..] = body {
            if *separator.get_or_insert(*found) != *found || bytes.len() >= 8 {
                return Err(fails());
            }
            body = rest;
        }
    }
    if !body.is_empty() {
        return Err(fails());
    }
    if let [a, b, c, d, e, f] = *bytes {
        return Ok([a, b, c, 0xff, 0xfe, d, e, f]);
    }
    bytes.try_into().map_err(|_| fails())
}

/// Appends the bytes of a macaddr or macaddr8.
pub(crate) fn show_mac(bytes: &[u8], out: &mut Vec<u8>) {
    for (n, byte) in bytes.iter().enumerate() {
        let colon = if n > 0 { ":" } else { "" };
        write!(out, "{colon}{byte:02x}").expect("a vector takes any bytes");
    }
}
