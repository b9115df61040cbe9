//! Functions of inet and cidr.

use crate::error::{Result, ValueError};
use crate::inet::Inet;
use crate::network::{show, show_host};

/// `host(inet)`: the address without its bits.
pub fn host(inet: &Inet) -> String {
    show_host(inet)
}

/// `text(inet)`: always with the bits.
pub fn text(inet: &Inet) -> String {
    show(inet, true)
}

/// `abbrev(inet)`
pub fn abbrev(inet: &Inet) -> String {
    show(inet, false)
}

/// `family(inet)`: 4 or 6
pub fn family(inet: &Inet) -> i32 {
    if inet.is_v6() { 6 } else { 4 }
}

/// `masklen(inet)`
pub fn masklen(inet: &Inet) -> i32 {
    i32::from(inet.bits())
}

/// `network(inet)`: the address without what is behind its network.
pub fn network(inet: &Inet) -> Inet {
    inet.with_address(inet.masked(inet.bits()))
}

/// The bits behind the network.
fn host_bits(inet: &Inet) -> u128 {
    let shown = u128::MAX.checked_shr(u32::from(inet.bits())).unwrap_or(0);
    let all = if inet.is_v6() { u128::MAX } else { u128::MAX << 96 };
    shown & all
}

/// `broadcast(inet)`
pub fn broadcast(inet: &Inet) -> Inet {
    let address = u128::from_be_bytes(inet.wide()) | host_bits(inet);
    inet.with_address(address.to_be_bytes())
}

/// `netmask(inet)`
pub fn netmask(inet: &Inet) -> Inet {
    let all = if inet.is_v6() { u128::MAX } else { u128::MAX << 96 };
    let address = all & !host_bits(inet);
    inet.with_address(address.to_be_bytes()).with_bits(inet.max_bits())
}

/// `hostmask(inet)`
pub fn hostmask(inet: &Inet) -> Inet {
    inet.with_address(host_bits(inet).to_be_bytes()).with_bits(inet.max_bits())
}

/// `set_masklen(inet, bits)`
pub fn set_masklen(inet: &Inet, bits: i32) -> Result<Inet> {
    let bits = if bits == -1 { i32::from(inet.max_bits()) } else { bits };
    match u8::try_from(bits) {
        Ok(bits) if bits <= inet.max_bits() => Ok(inet.with_bits(bits)),
        _ => Err(ValueError::new("22023", format!("invalid mask length: {bits}"))),
    }
}

/// `a << b`: whether the network of `a` lies in that of `b`, and is smaller.
pub fn is_within(a: &Inet, b: &Inet) -> bool {
    a.bits() > b.bits() && is_within_or_equal(a, b)
}

/// `a <<= b`
pub fn is_within_or_equal(a: &Inet, b: &Inet) -> bool {
    a.is_v6() == b.is_v6() && a.bits() >= b.bits() && a.masked(b.bits()) == b.masked(b.bits())
}

/// `a && b`: whether one contains the other.
pub fn overlaps(a: &Inet, b: &Inet) -> bool {
    let bits = a.bits().min(b.bits());
    a.is_v6() == b.is_v6() && a.masked(bits) == b.masked(bits)
}

/// `inet_same_family(a, b)`
pub fn same_family(a: &Inet, b: &Inet) -> bool {
    a.is_v6() == b.is_v6()
}

/// `inet_merge(a, b)`: the smallest network that has both.
pub fn merge(a: &Inet, b: &Inet) -> Result<Inet> {
    if a.is_v6() != b.is_v6() {
        let message = "cannot merge addresses from different families";
        return Err(ValueError::new("22023", message));
    }
    let differ = u128::from_be_bytes(a.wide()) ^ u128::from_be_bytes(b.wide());
    let common = (differ.leading_zeros() as u8).min(a.bits()).min(b.bits());
    Ok(network(&a.with_bits(common)))
}

/// An address moved by a number.
fn moved(inet: &Inet, by: i128) -> Result<Inet> {
    let out_of_range = || ValueError::new("22003", "result is out of range");
    let shift = if inet.is_v6() { 0 } else { 96 };
    let address = u128::from_be_bytes(inet.wide()) >> shift;
    let most = u128::MAX >> shift;
    let sum = address.checked_add_signed(by).filter(|sum| *sum <= most);
    Ok(inet.with_address((sum.ok_or_else(out_of_range)? << shift).to_be_bytes()))
}

/// `inet + n`
pub fn plus(inet: &Inet, n: i64) -> Result<Inet> {
    moved(inet, i128::from(n))
}

/// `inet - n`
pub fn minus(inet: &Inet, n: i64) -> Result<Inet> {
    moved(inet, -i128::from(n))
}

/// `a - b`: how far they are from each other.
pub fn distance(a: &Inet, b: &Inet) -> Result<i64> {
    if a.is_v6() != b.is_v6() {
        let message = "cannot subtract inet values of different sizes";
        return Err(ValueError::new("22023", message));
    }
    let shift = if a.is_v6() { 0 } else { 96 };
    let number = |inet: &Inet| u128::from_be_bytes(inet.wide()) >> shift;
    let (a, b) = (number(a), number(b));
    let size = i64::try_from(a.abs_diff(b));
    let size = size.map_err(|_| ValueError::new("22003", "result is out of range"))?;
    Ok(if a < b { -size } else { size })
}

fn combined(a: &Inet, b: &Inet, name: &str, op: impl Fn(u128, u128) -> u128) -> Result<Inet> {
    if a.is_v6() != b.is_v6() {
        let message = format!("cannot {name} inet values of different sizes");
        return Err(ValueError::new("22023", message));
    }
    let address = op(u128::from_be_bytes(a.wide()), u128::from_be_bytes(b.wide()));
    Ok(a.with_address(address.to_be_bytes()).with_bits(a.bits().max(b.bits())))
}

/// `a & b`
pub fn and(a: &Inet, b: &Inet) -> Result<Inet> {
    combined(a, b, "AND", |a, b| a & b)
}

/// `a | b`
pub fn or(a: &Inet, b: &Inet) -> Result<Inet> {
    combined(a, b, "OR", |a, b| a | b)
}

/// `~ inet`
pub fn not(inet: &Inet) -> Inet {
    inet.with_address((!u128::from_be_bytes(inet.wide())).to_be_bytes())
}
