//! Addresses of a record.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Where a connection comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Address {
    /// Anywhere.
    All,
    /// This machine's addresses, of which only loopback addresses matter here.
    SameHost,
    /// This machine's networks, of which only loopback matters here.
    SameNet,
    /// Address and mask.
    V4(u32, u32),
    /// Address and mask.
    V6(u128, u128),
}

impl Address {
    /// `address/bits`.
    pub(super) fn with_prefix(text: &str) -> Option<Address> {
        let (ip, bits) = text.split_once('/')?;
        let bits: u32 = bits.parse().ok()?;
        match ip.parse().ok()? {
            IpAddr::V4(ip) if bits <= 32 => {
                Some(Address::V4(ip.to_bits(), u32::MAX.checked_shl(32 - bits).unwrap_or(0)))
            }
            IpAddr::V6(ip) if bits <= 128 => {
                Some(Address::V6(ip.to_bits(), u128::MAX.checked_shl(128 - bits).unwrap_or(0)))
            }
            _ => None,
        }
    }

    /// An address with a mask of its kind.
    pub(super) fn with_mask(ip: IpAddr, mask: &str) -> Option<Address> {
        match (ip, mask.parse().ok()?) {
            (IpAddr::V4(ip), IpAddr::V4(mask)) => Some(Address::V4(ip.to_bits(), mask.to_bits())),
            (IpAddr::V6(ip), IpAddr::V6(mask)) => Some(Address::V6(ip.to_bits(), mask.to_bits())),
            _ => None,
        }
    }

    /// Whether it matches this loopback address.
    pub(super) fn contains(&self, ip: IpAddr) -> bool {
        match (self, ip) {
            (Address::All | Address::SameNet, _) => true,
            (Address::SameHost, ip) => {
                ip == IpAddr::V4(Ipv4Addr::LOCALHOST) || ip == IpAddr::V6(Ipv6Addr::LOCALHOST)
            }
            (Address::V4(own, mask), IpAddr::V4(ip)) => (ip.to_bits() ^ own) & mask == 0,
            (Address::V6(own, mask), IpAddr::V6(ip)) => (ip.to_bits() ^ own) & mask == 0,
            _ => false,
        }
    }

    /// Whether it matches any loopback address.
    pub(super) fn has_loopback(&self) -> bool {
        match self {
            // All of 127.0.0.0/8: the first octet decides.
            Address::V4(own, mask) => {
                (Ipv4Addr::LOCALHOST.to_bits() ^ own) & mask & 0xff00_0000 == 0
            }
            other => other.contains(IpAddr::V6(Ipv6Addr::LOCALHOST)),
        }
    }
}
