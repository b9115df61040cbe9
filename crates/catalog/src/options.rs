//! pg_class.reloptions: a table's storage parameters, as `name=value` texts.

use forebay_format::varlena::Varlena;
use forebay_types::oids;

use crate::error::CatalogError;

/// The fill factor of a table without one.
pub(crate) const FULL: u8 = 100;
/// Those that PostgreSQL accepts.
const FILL_FACTORS: std::ops::RangeInclusive<u8> = 10..=100;

/// The fill factor that a table's options name, in percent.
///
/// Options so long that they were compressed are not read: this one only says where rows go.
pub(crate) fn fill_factor(options: Varlena<'_>) -> Result<u8, CatalogError> {
    let Varlena::Plain(array) = options else { return Ok(FULL) };
    let damaged = || CatalogError::corrupt("pg_class.reloptions is damaged");
    let mut factor = FULL;
    for text in texts(array).ok_or_else(damaged)? {
        if let Some(value) = text.strip_prefix(b"fillfactor=") {
            let value = std::str::from_utf8(value).ok().and_then(|value| value.parse().ok());
            factor = value.filter(|factor| FILL_FACTORS.contains(factor)).ok_or_else(damaged)?;
        }
    }
    Ok(factor)
}

/// The elements of an array of texts with one dimension and no NULL.
fn texts(array: &[u8]) -> Option<Vec<&[u8]>> {
    /// Dimensions, offset of data after a null bitmap, element type, length, lower bound.
    const HEADER: usize = 20;
    let word = |at: usize| Some(u32::from_le_bytes(*array.get(at..)?.first_chunk()?));
    match word(0)? {
        0 => return Some(Vec::new()),
        1 if word(4)? == 0 && word(8)? == oids::TEXT => {}
        _ => return None,
    }
    let (mut found, mut at) = (Vec::new(), HEADER);
    for _ in 0..word(12)? {
        // A length word of four bytes, which counts itself.
        let length = word(at)?;
        let end = at.checked_add((length >> 2) as usize)?;
        found.push(array.get(at + 4..end).filter(|_| length & 3 == 0)?);
        at = end.next_multiple_of(4);
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An array without its own length word.
    fn array(texts: &[&str]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for word in [1, 0, oids::TEXT, texts.len() as u32, 1] {
            bytes.extend(word.to_le_bytes());
        }
        for text in texts {
            bytes.resize(bytes.len().next_multiple_of(4), 0);
            bytes.extend((4 * (text.len() as u32 + 4)).to_le_bytes());
            bytes.extend(text.as_bytes());
        }
        bytes
    }

    #[test]
    fn a_fill_factor_is_found_among_other_options() {
        let of = |texts: &[&str]| fill_factor(Varlena::Plain(&array(texts))).ok();
        assert_eq!(
            of(&["autovacuum_enabled=false", "fillfactor=70", "user_catalog_table=true"]),
            Some(70)
        );
        assert_eq!(of(&["fillfactor=10"]), Some(10));
        assert_eq!(of(&["autovacuum_enabled=false"]), Some(100));
        assert_eq!(of(&[]), Some(100));
        for wrong in ["fillfactor=9", "fillfactor=101", "fillfactor=x", "fillfactor="] {
            assert_eq!(of(&[wrong]), None, "{wrong}");
        }
        let good = array(&["fillfactor=70", "a=b"]);
        for len in 0..good.len() {
            assert!(fill_factor(Varlena::Plain(&good[..len])).is_err(), "{len} bytes");
        }
    }
}
