//! Access lists of objects that get another owner.
//!
//! ```text
//!   1 | 0 | type | count | 1 | grantee, grantor, rights (8 bytes) | ...       an array of aclitem
//! ```
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use forebay_types::{Datum, Oid, oids};

use crate::arrays::array_of;
use crate::error::CatalogError;

/// Bytes of an array of one dimension before its elements.
const HEADER: usize = 20;
/// Bytes of an element.
const ITEM: usize = 16;

/// What somebody has granted to somebody. Grantee 0 is PUBLIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Item {
    grantee: Oid,
    grantor: Oid,
    rights: u64,
}

impl Item {
    fn read(bytes: &[u8]) -> Option<Item> {
        let (grantee, rest) = bytes.split_first_chunk()?;
        let (grantor, rest) = rest.split_first_chunk()?;
        let (rights, _) = rest.split_first_chunk()?;
        let [grantee, grantor] = [grantee, grantor].map(|oid| Oid::from_le_bytes(*oid));
        Some(Item { grantee, grantor, rights: u64::from_le_bytes(*rights) })
    }

    fn stored(&self) -> Vec<u8> {
        let oids = [self.grantee, self.grantor].map(Oid::to_le_bytes).concat();
        [oids, self.rights.to_le_bytes().to_vec()].concat()
    }
}

/// The elements of an access list. None: it is no array of one dimension without nulls, or has
/// another length than it says.
fn items(array: &[u8]) -> Option<Vec<Item>> {
    let word = |at: usize| {
        let word = array.get(at..)?.first_chunk()?;
        Some(u32::from_le_bytes(*word))
    };
    let (dimensions, nulls, element) = (word(0)?, word(4)?, word(8)?);
    if nulls != 0 || element != oids::ACLITEM {
        return None;
    }
    if dimensions == 0 {
        return Some(Vec::new());
    }
    let (count, items) = (word(12)?, array.get(HEADER..)?);
    if dimensions != 1 || items.len() != (count as usize).checked_mul(ITEM)? {
        return None;
    }
    items.chunks_exact(ITEM).map(Item::read).collect()
}

/// Puts the new owner in the place of the old one in an access list, the value at `place` of a row.
/// What two elements then grant to the same role from the same one becomes a single element.
pub(crate) fn give_privileges(
    values: &mut [Datum<'static>],
    place: usize,
    (old, new): (Oid, Oid),
) -> Result<(), CatalogError> {
    let Some(value) = values.get_mut(place) else { return Ok(()) };
    let array = match value {
        Datum::Null => return Ok(()),
        Datum::Array(array) => array.bytes(),
        _ => {
            let message =
                "changing the owner of an object with so many privileges is not supported";
            return Err(CatalogError::refused("0A000", message));
        }
    };
    let known = items(array).ok_or_else(|| CatalogError::corrupt("an access list is damaged"))?;
    let named = known.iter().any(|item| item.grantee == new || item.grantor == new);
    let instead = |role: Oid| if role == old { new } else { role };
    let mut given: Vec<Item> = Vec::with_capacity(known.len());
    for item in known {
        let (grantee, grantor) = (instead(item.grantee), instead(item.grantor));
        let same = |other: &&mut Item| other.grantee == grantee && other.grantor == grantor;
        match given.iter_mut().find(same).filter(|_| named) {
            Some(same) => same.rights |= item.rights,
            None => given.push(Item { grantee, grantor, ..item }),
        }
    }
    let stored = given.iter().map(Item::stored);
    *value = array_of(oids::ACLITEM_ARRAY, oids::ACLITEM, stored);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(items: &[(Oid, Oid, u64)], owners: (Oid, Oid)) -> Vec<(Oid, Oid, u64)> {
        let items: Vec<Vec<u8>> = items
            .iter()
            .map(|&(grantee, grantor, rights)| Item { grantee, grantor, rights }.stored())
            .collect();
        let mut row = [array_of(oids::ACLITEM_ARRAY, oids::ACLITEM, items.into_iter())];
        give_privileges(&mut row, 0, owners).expect("changed");
        match &row {
            [Datum::Array(array)] => super::items(array.bytes())
                .expect("items")
                .into_iter()
                .map(|item| (item.grantee, item.grantor, item.rights))
                .collect(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_new_owner_takes_the_place_of_the_old_one() {
        let list = [(7, 7, 3), (0, 7, 1), (8, 7, 1)];
        assert_eq!(changed(&list, (7, 9)), [(9, 9, 3), (0, 9, 1), (8, 9, 1)]);
        assert_eq!(changed(&list, (7, 8)), [(8, 8, 3), (0, 8, 1)]);
        assert_eq!(changed(&list, (5, 6)), list);
        let row = &mut [Datum::Null];
        give_privileges(row, 0, (7, 8)).expect("nothing");
        assert_eq!(row, &[Datum::Null]);
    }

    #[test]
    fn a_damaged_list_is_an_error() {
        let array = array_of(oids::ACLITEM_ARRAY, oids::ACLITEM, [vec![1; 15]].into_iter());
        assert!(give_privileges(&mut [array], 0, (7, 8)).is_err());
        let list = array_of(oids::ACLITEM_ARRAY, oids::ACLITEM, [vec![1; 16]].into_iter());
        let Datum::Array(list) = &list else { panic!("{list:?}") };
        assert!(items(list.bytes()).is_some());
        // Two dimensions, nulls, another type, another count; cut off anywhere.
        for (at, word) in [(0, 2_u32), (4, 24), (8, oids::TEXT), (12, 2), (12, u32::MAX)] {
            let mut bytes = list.bytes().to_vec();
            bytes.splice(at..at + 4, word.to_le_bytes());
            assert_eq!(items(&bytes), None, "{word} at {at}");
        }
        let mut shorter = list.bytes().to_vec();
        while shorter.pop().is_some() {
            assert_eq!(items(&shorter), None, "{} bytes", shorter.len());
        }
    }
}
