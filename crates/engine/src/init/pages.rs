//! The first pages of the catalogs, built in memory. Every row is frozen, so every snapshot sees
//! it.

use forebay_access::form_row;
use forebay_access::layout_of;
use forebay_catalog::schema::CatalogTable;
use forebay_format::tuple::{HEAP_XMAX_INVALID, HEAP_XMIN_FROZEN, HeapTupleMut};
use forebay_format::{AttrLayout, BLOCK_SIZE, ItemPointer, PageBytes, PageMut, checksum, ids};
use forebay_types::Datum;

use crate::error::EngineError;

/// The bytes of a catalog's file: pages with checksums.
pub(super) fn heap_file(
    catalog: &CatalogTable,
    rows: &[Vec<Datum<'_>>],
) -> Result<Vec<u8>, EngineError> {
    let layout = |type_oid| layout_of(type_oid).expect("the type of a catalog's column");
    let layouts: Vec<AttrLayout> = catalog.columns.iter().map(|c| layout(c.type_oid)).collect();
    let mut pages: Vec<Box<PageBytes>> = vec![new_page()];
    for row in rows {
        let mut tuple = Vec::new();
        form_row(&layouts, row, &mut tuple)?;
        stamp(&mut tuple)?;
        if !place(&mut pages, &mut tuple)? {
            pages.push(new_page());
            if !place(&mut pages, &mut tuple)? {
                return Err(EngineError::internal(format!(
                    "a row of {} does not fit a page",
                    catalog.name
                )));
            }
        }
    }
    for (block, page) in (0..).zip(&mut pages) {
        checksum::set_checksum(page, block);
    }
    Ok(pages.iter().flat_map(|page| page.iter().copied()).collect())
}

fn new_page() -> Box<PageBytes> {
    let mut page = Box::new([0; BLOCK_SIZE]);
    PageMut::new(&mut page).init(0);
    page
}

fn stamp(tuple: &mut [u8]) -> Result<(), EngineError> {
    let mut header = HeapTupleMut::new(tuple)?;
    header.stamp_insert(ids::BOOTSTRAP_XID, 0);
    let infomask = header.tuple().infomask();
    header.set_infomask(infomask | HEAP_XMIN_FROZEN | HEAP_XMAX_INVALID);
    Ok(())
}

/// Adds a tuple to the last page, if it has room.
fn place(pages: &mut [Box<PageBytes>], tuple: &mut [u8]) -> Result<bool, EngineError> {
    let block = u32::try_from(pages.len()).unwrap_or(u32::MAX) - 1;
    let Some(bytes) = pages.last_mut() else { return Ok(false) };
    let mut page = PageMut::new(bytes);
    let next = page.page().item_count() + 1;
    HeapTupleMut::new(tuple)?.set_ctid(ItemPointer::new(block, next));
    Ok(page.add_item(tuple, None).is_some())
}
