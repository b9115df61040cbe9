//! CRC-32C, which guards WAL records, the control file and the relation map.

/// The checksum of these bytes.
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes)
}

/// Continues a checksum over more bytes: `append(crc32c(a), b) == crc32c(a followed by b)`.
pub fn append(crc: u32, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(append(crc32c(b"1234"), b"56789"), 0xe306_9283);
        assert_eq!(append(0, b"123456789"), 0xe306_9283);
    }
}
