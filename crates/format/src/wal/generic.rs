//! Records of changes that an extension makes to pages of its own, such as those of a bloom index.
//! Redo needs no knowledge of the pages. A record has no main data. The data of each block is a
//! list of regions: offset u16, length u16, bytes. What lies between the page's line pointers and
//! its items is zeros.

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::{
    bytes::Cursor,
    page::{HEADER_SIZE, PageBytes, PageMut},
    wal::error::{PayloadError, damaged},
};

/// Applies a block's data to a page. After an error the page may be half changed.
pub fn apply(page: &mut PageMut<'_>, data: &[u8]) -> Result<(), PayloadError> {
    let mut regions = Cursor::new(data);
    while regions.remaining() > 0 {
        apply_region(page.0, &mut regions).ok_or(damaged("Generic"))?;
    }
    let (lower, upper) = (page.page().lower(), page.page().upper());
    let hole = page.0.get_mut(lower..upper).filter(|_| lower >= HEADER_SIZE);
    hole.ok_or(damaged("Generic"))?.fill(0);
    Ok(())
}

fn apply_region(page: &mut PageBytes, regions: &mut Cursor<'_>) -> Option<()> {
    let (offset, len) = (usize::from(regions.u16()?), usize::from(regions.u16()?));
    let bytes = regions.take(len)?;
    page.get_mut(offset..offset + len)?.copy_from_slice(bytes);
    Some(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;
    use crate::ids::BLOCK_SIZE;

    #[test]
    fn regions_and_the_hole() {
        let mut bytes = [0; BLOCK_SIZE];
        let mut page = PageMut::new(&mut bytes);
        page.init(8);
        page.0[100] = 7;
        apply(&mut page, &[30, 0, 2, 0, 1, 2, 0, 31, 1, 0, 9, 12, 0, 2, 0, 28, 0]).unwrap();
        assert_eq!((page.0[28..33].to_vec(), page.0[0x1f00]), (vec![0; 5], 0));
        assert_eq!((page.page().lower(), page.0[100]), (28, 0));
        apply(&mut page, &[12, 0, 2, 0, 40, 0, 30, 0, 2, 0, 1, 2]).unwrap();
        assert_eq!(page.0[28..33], [0, 0, 1, 2, 0]);
        let bad = [&[0, 32, 1, 0, 9][..], &[0, 0, 5, 0, 1], &[1, 2, 3], &[12, 0, 2, 0, 255, 255]];
        for bad in bad {
            let mut copy = bytes;
            assert!(apply(&mut PageMut::new(&mut copy), bad).is_err(), "{bad:?}");
        }
    }
}
