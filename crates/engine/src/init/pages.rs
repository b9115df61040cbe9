//! The pages of the catalogs and their indexes, built in memory. Every row is frozen, so every
//! snapshot sees it.

use forebay_access::form_row;
use forebay_access::nbtree::form_index_tuple;
use forebay_catalog::bootstrap::{NewIndex, NewTable};
use forebay_format::tuple::{HEAP_XMAX_INVALID, HEAP_XMIN_FROZEN, HeapTupleMut};
use forebay_format::{BLOCK_SIZE, ItemPointer, PageBytes, PageMut, checksum, ids};
use forebay_types::{Datum, Encoding};

use crate::error::EngineError;

/// The bytes of a table's file: pages with checksums. And where its rows are.
pub(super) fn heap_file(table: &NewTable) -> Result<(Vec<u8>, Vec<ItemPointer>), EngineError> {
    let mut pages: Vec<Box<PageBytes>> = Vec::new();
    let mut places = Vec::with_capacity(table.rows.len());
    for row in &table.rows {
        let mut tuple = Vec::new();
        // The rows of a new cluster are the same in all encodings.
        form_row(&table.layouts, row, Encoding::Utf8, &mut tuple)?;
        stamp(&mut tuple)?;
        let mut place = add(&mut pages, &mut tuple)?;
        if place.is_none() {
            pages.push(new_page());
            place = add(&mut pages, &mut tuple)?;
        }
        let too_long = || EngineError::internal(format!("a row of {} is too long", table.oid));
        places.push(place.ok_or_else(too_long)?);
    }
    Ok((with_checksums(pages), places))
}

/// The bytes of an index's file, of a table whose rows are at `places`.
pub(super) fn index_file(
    table: &NewTable,
    index: &NewIndex,
    places: &[ItemPointer],
) -> Result<Vec<u8>, EngineError> {
    let tuples = table.rows.iter().zip(places).map(|(row, place)| {
        let values: Vec<Datum<'_>> = index.columns.iter().map(|&n| row[n].reborrow()).collect();
        form_index_tuple(&index.shape, &values, *place)
    });
    let tuples = tuples.collect::<Result<Vec<_>, _>>()?;
    Ok(with_checksums(index.shape.build_pages(index.unique, tuples)?))
}

fn with_checksums(mut pages: Vec<Box<PageBytes>>) -> Vec<u8> {
    for (block, page) in (0..).zip(&mut pages) {
        checksum::set_checksum(page, block);
    }
    pages.iter().flat_map(|page| page.iter().copied()).collect()
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
fn add(pages: &mut [Box<PageBytes>], tuple: &mut [u8]) -> Result<Option<ItemPointer>, EngineError> {
    let blocks = u32::try_from(pages.len()).unwrap_or(u32::MAX);
    let Some(bytes) = pages.last_mut() else { return Ok(None) };
    let mut page = PageMut::new(bytes);
    let place = ItemPointer::new(blocks - 1, page.page().item_count() + 1);
    HeapTupleMut::new(tuple)?.set_ctid(place);
    Ok(page.add_item(tuple, None).map(|_| place))
}
