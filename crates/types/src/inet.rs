//! An address of the internet protocol with its network's length: inet and cidr.

use std::cmp::Ordering;

/// The stored code of IPv4: the `AF_INET` of PostgreSQL's own.
const FAMILY_4: u8 = 2;
/// The stored code of IPv6.
const FAMILY_6: u8 = 3;

/// An address and how many of its bits are the network's.
///
/// ```text
///   stored:  family (1): 2 or 3 | bits (1) | address (4 or 16), the first byte first
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Inet {
    v6: bool,
    bits: u8,
    /// Bytes that IPv4 does not have are zero.
    address: [u8; 16],
}

impl Inet {
    /// An address of IPv4. None if there are more than 32 bits.
    pub fn v4(address: [u8; 4], bits: u8) -> Option<Inet> {
        let mut wide = [0; 16];
        wide.iter_mut().zip(address).for_each(|(to, from)| *to = from);
        (bits <= 32).then_some(Inet { v6: false, bits, address: wide })
    }

    /// An address of IPv6. None if there are more than 128 bits.
    pub fn v6(address: [u8; 16], bits: u8) -> Option<Inet> {
        (bits <= 128).then_some(Inet { v6: true, bits, address })
    }

    /// Whether it is of IPv6.
    pub fn is_v6(&self) -> bool {
        self.v6
    }

    /// How many bits are the network's.
    pub fn bits(&self) -> u8 {
        self.bits
    }

    /// How many bits an address of its family has.
    pub fn max_bits(&self) -> u8 {
        if self.v6 { 128 } else { 32 }
    }

    /// The bytes of the address: 4 or 16.
    pub fn address(&self) -> &[u8] {
        let len = if self.v6 { 16 } else { 4 };
        self.address.get(..len).unwrap_or(&self.address)
    }

    /// The same address with another number of bits, as far as its family has them.
    pub fn with_bits(self, bits: u8) -> Inet {
        Inet { bits: bits.min(self.max_bits()), ..self }
    }

    /// Another address of the same family.
    pub fn with_address(self, address: [u8; 16]) -> Inet {
        let mut changed = Inet { address, ..self };
        if !self.v6 {
            changed.address.iter_mut().skip(4).for_each(|byte| *byte = 0);
        }
        changed
    }

    /// All bytes, those included that IPv4 does not have.
    pub(crate) fn wide(&self) -> [u8; 16] {
        self.address
    }

    /// The family's code, in storage and in the binary form.
    pub(crate) fn family(&self) -> u8 {
        if self.v6 { FAMILY_6 } else { FAMILY_4 }
    }

    /// The address of a family's code, bits and bytes.
    pub(crate) fn of_family(family: u8, bits: u8, address: &[u8]) -> Option<Inet> {
        match family {
            FAMILY_4 => Inet::v4(address.try_into().ok()?, bits),
            FAMILY_6 => Inet::v6(address.try_into().ok()?, bits),
            _ => None,
        }
    }

    /// Reads the stored form.
    pub(crate) fn read_stored(bytes: &[u8]) -> Option<Inet> {
        let [family, bits, address @ ..] = bytes else { return None };
        Inet::of_family(*family, *bits, address)
    }

    /// Appends the stored form.
    pub fn write_stored(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[self.family(), self.bits]);
        out.extend_from_slice(self.address());
    }

    /// Whether the bits behind the network's are all zero, as those of a cidr are.
    pub fn is_network(&self) -> bool {
        self.masked(self.bits) == self.address
    }

    /// The address with only its first bits.
    pub(crate) fn masked(&self, bits: u8) -> [u8; 16] {
        let keep = u128::MAX.checked_shl(128 - u32::from(bits.min(128))).unwrap_or(0);
        let keep = if bits == 0 { 0 } else { keep };
        (u128::from_be_bytes(self.address) & keep).to_be_bytes()
    }

    /// The order of the B-tree: IPv4 first; then by the bits that both networks have, by the
    /// lengths of the networks, and by the whole addresses.
    pub fn order(&self, other: &Inet) -> Ordering {
        let common = self.bits.min(other.bits);
        self.v6
            .cmp(&other.v6)
            .then_with(|| self.masked(common).cmp(&other.masked(common)))
            .then_with(|| self.bits.cmp(&other.bits))
            .then_with(|| self.address.cmp(&other.address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_ordered_by_network_first() {
        let v4 = |a, bits| Inet::v4(a, bits).expect("an address");
        let mut sorted = [
            Inet::v6([0; 16], 128).expect("an address"),
            v4([10, 0, 0, 1], 32),
            v4([10, 0, 0, 0], 8),
            v4([10, 0, 0, 9], 8),
            v4([9, 255, 0, 0], 16),
            v4([0; 4], 0),
        ];
        sorted.sort_by(Inet::order);
        let bits: Vec<u8> = sorted.iter().map(Inet::bits).collect();
        assert_eq!(bits, [0, 16, 8, 8, 32, 128]);
        assert!(v4([10, 0, 0, 0], 8).is_network() && !v4([10, 0, 0, 1], 8).is_network());
        assert!(Inet::v4([0; 4], 33).is_none() && Inet::read_stored(&[2, 8, 1, 2, 3]).is_none());
    }
}
