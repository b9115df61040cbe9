//! Arrays, vectors and access lists from text, as the data files have them: of one dimension,
//! without NULLs, and without elements that have commas or backslashes.

use std::collections::HashMap;

use forebay_types::{Array, Datum, Oid, oids};

use crate::tsv::TsvFile;

/// Bits of a right in an access list, by its letter.
const RIGHTS: &str = "arwdDxtXUCTcsAm";

/// The OIDs of roles by name.
#[derive(Debug)]
pub(crate) struct Roles(HashMap<&'static str, Oid>);

impl Roles {
    /// The roles in the file of pg_authid.
    pub(crate) fn new(file: &TsvFile) -> Roles {
        let (oid, name) = (file.column("oid"), file.column("rolname"));
        let named = file.rows().map(|row| {
            let text = |column: usize| row[column].expect("a role has an OID and a name");
            (text(name), number(text(oid)))
        });
        Roles(named.collect())
    }

    /// An element of an access list: `grantee=rights/grantor`, where no grantee stands for PUBLIC,
    /// and a star behind a right for the right to grant it.
    fn access(&self, text: &str) -> Vec<u8> {
        let (grantee, rest) = text.split_once('=').expect("a grantee");
        let (rights, grantor) = rest.split_once('/').expect("a grantor");
        let role = |name: &str| if name.is_empty() { 0 } else { self.0[name] };
        let mut bits = 0_u64;
        let mut last = 0;
        for letter in rights.chars() {
            match RIGHTS.find(letter) {
                Some(place) => last = 1 << place,
                None => {
                    assert_eq!(letter, '*', "a right is one of {RIGHTS}");
                    last <<= 32;
                }
            }
            bits |= last;
        }
        let [grantee, grantor] = [grantee, grantor].map(|name| role(name).to_le_bytes());
        [&grantee[..], &grantor, &bits.to_le_bytes()].concat()
    }
}

fn number<T: std::str::FromStr>(text: &str) -> T {
    text.parse().unwrap_or_else(|_| panic!("{text:?} is no number of its type"))
}

/// A value of an array type, from its text. None for another type.
pub(crate) fn array_in(type_oid: Oid, text: &str, roles: &Roles) -> Option<Datum<'static>> {
    type Input<'a> = &'a dyn Fn(&str) -> Vec<u8>;
    let oid: Input<'_> = &|text| number::<u32>(text).to_le_bytes().to_vec();
    let int2: Input<'_> = &|text| number::<i16>(text).to_le_bytes().to_vec();
    let char: Input<'_> = &|text| text.as_bytes().to_vec();
    let text_in: Input<'_> = &|text| stored_text(text);
    let access: Input<'_> = &|text| roles.access(text);
    let (element, input) = match type_oid {
        oids::OIDVECTOR => (oids::OID, oid),
        oids::INT2VECTOR => (oids::INT2, int2),
        oids::OID_ARRAY => (oids::OID, oid),
        oids::INT2_ARRAY => (oids::INT2, int2),
        oids::CHAR_ARRAY => (oids::CHAR, char),
        oids::TEXT_ARRAY => (oids::TEXT, text_in),
        oids::ACLITEM_ARRAY => (oids::ACLITEM, access),
        _ => return None,
    };
    let elements: Vec<&str> = match text.strip_prefix('{').and_then(|t| t.strip_suffix('}')) {
        Some(list) => list.split(',').map(|element| element.trim_matches('"')).collect(),
        None => text.split_ascii_whitespace().collect(),
    };
    Some(array_of(type_oid, element, elements.into_iter().map(input)))
}

/// A value of an array type, from its stored elements.
pub(crate) fn array_of(
    type_oid: Oid,
    element: Oid,
    elements: impl ExactSizeIterator<Item = Vec<u8>>,
) -> Datum<'static> {
    let is_vector = matches!(type_oid, oids::OIDVECTOR | oids::INT2VECTOR);
    let lower_bound = if is_vector { 0 } else { 1 };
    let header = [1, 0, element, elements.len() as u32, lower_bound];
    let header = header.iter().flat_map(|word| word.to_le_bytes());
    let stored: Vec<u8> = header.chain(elements.flatten()).collect();
    Datum::Array(Array::stored(stored))
}

/// An array, for a column of type anyarray, whose elements have the bytes that a row has of them:
/// whatever their type and the database's encoding, it is stored as it is.
pub(crate) fn array_of_stored(
    element: Oid,
    elements: impl ExactSizeIterator<Item = Vec<u8>>,
) -> Datum<'static> {
    match array_of(oids::ANYARRAY, element, elements) {
        Datum::Array(array) => Datum::Carried(oids::ANYARRAY, array.bytes().to_vec().into()),
        other => other,
    }
}

/// A text in an array: with a length word of four bytes, and filled up to a multiple of four.
pub(crate) fn stored_text(text: &str) -> Vec<u8> {
    let len = size_of::<u32>() + text.len();
    let mut stored = ((len as u32) << 2).to_le_bytes().to_vec();
    stored.extend_from_slice(text.as_bytes());
    stored.resize(len.next_multiple_of(4), 0);
    stored
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(type_oid: Oid, text: &str) -> Vec<u8> {
        let file = "oid\trolname\n10\tpostgres\n6171\tpg_database_owner\n";
        match array_in(type_oid, text, &Roles::new(&TsvFile::new(file))) {
            Some(Datum::Array(array)) => array.bytes().to_vec(),
            other => panic!("{other:?}"),
        }
    }

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn arrays_have_a_header_and_elements() {
        assert_eq!(stored(oids::OIDVECTOR, "25 23"), words(&[1, 0, 26, 2, 0, 25, 23]));
        assert_eq!(stored(oids::OIDVECTOR, ""), words(&[1, 0, 26, 0, 0]));
        assert_eq!(stored(oids::INT2VECTOR, "1 2"), words(&[1, 0, 21, 2, 0, 1 | 2 << 16]));
        assert_eq!(stored(oids::OID_ARRAY, "{7}"), words(&[1, 0, 26, 1, 1, 7]));
        let chars = u32::from_le_bytes(*b"iobt");
        assert_eq!(stored(oids::CHAR_ARRAY, "{i,o,b,t}"), words(&[1, 0, 18, 4, 1, chars]));
        let (ab, empty) = (u32::from_le_bytes(*b"ab\0\0"), 4 << 2);
        let want = words(&[1, 0, 25, 2, 1, 6 << 2, ab, empty]);
        assert_eq!(stored(oids::TEXT_ARRAY, "{ab,\"\"}"), want);
    }

    #[test]
    fn rights_are_bits() {
        let want = [1, 0, 1033, 2, 1, 0, 10, 1 << 1, 0, 10, 6171, 1 | 1 << 8, 1 << 8];
        let text = "{=r/postgres,postgres=aU*/pg_database_owner}";
        assert_eq!(stored(oids::ACLITEM_ARRAY, text), words(&want));
    }
}
