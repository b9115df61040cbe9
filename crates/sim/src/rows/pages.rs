//! Checks a table on the disk: each page with its line pointers and chains of versions, the
//! visibility map, and what rows refer to in `pg_xact` and `pg_multixact`.
//!
//! It runs after recovery, which has written everything and left no transaction running. So a
//! transaction has committed, or counts as aborted. Nobody may read rows before it: that sets hint
//! bits, and a page that leaves the pool with them is written in parts.

use std::path::Path;

use forebay_access::check::{
    Counters, HeapCheck, HeapTable, StatusFiles, StatusPages, Transactions, check_visibility_map,
};
use forebay_format::checksum::page_checksum;
use forebay_format::control::{self, ControlFile};
use forebay_format::page::stored_checksum;
use forebay_format::{
    AttrLayout, BLOCK_SIZE, BlockNumber, Fork, Page, PageBytes, RelFileLocator, slru,
    visibility_map as map,
};

use crate::disk::SimDisk;

/// The columns of the table.
const COLUMNS: [AttrLayout; 3] = [AttrLayout::INT8, AttrLayout::INT8, AttrLayout::VARLENA];

/// The status files on the disk.
struct Files<'a> {
    disk: &'a SimDisk,
    dir: &'a Path,
    page: PageBytes,
}

impl StatusPages for Files<'_> {
    fn page(&mut self, of: StatusFiles, page: i64) -> Option<&PageBytes> {
        let path = self.dir.join(of.directory()).join(slru::segment_name(slru::segment(page)));
        let bytes = self.disk.bytes(&path).unwrap_or_default();
        let at = slru::segment_offset(page) as usize;
        self.page = *bytes.get(at..)?.first_chunk()?;
        Some(&self.page)
    }
}

/// Checks a table's main fork and visibility map.
///
/// # Errors
/// Everything that is wrong, with its place.
pub(crate) fn check_pages(disk: &SimDisk, dir: &Path, rel: RelFileLocator) -> Result<(), String> {
    let control = disk.bytes(&dir.join(control::PATH)).unwrap_or_default();
    let control = ControlFile::decode(&control).map_err(|error| format!("pg_control: {error}"))?;
    let mut files = Files { disk, dir, page: [0; BLOCK_SIZE] };
    let counters = Counters::from(&control.checkpoint_copy);
    let mut transactions = Transactions::new(counters, &mut files);
    let table = HeapTable { columns: Some(COLUMNS.to_vec()), ..HeapTable::default() };
    let checksums = control.checksum_version != 0;
    let mut heap = HeapCheck::new(&table, checksums, &mut transactions);

    let fork = |fork| disk.bytes(&dir.join(rel.path(fork))).unwrap_or_default();
    let (main, vm) = (fork(Fork::Main), fork(Fork::Vm));
    let (pages, maps) = (main.as_chunks::<BLOCK_SIZE>().0, vm.as_chunks::<BLOCK_SIZE>().0);
    let maps = (0..).zip(maps).map(|numbered| map_page(checksums, numbered));
    let maps: Vec<&PageBytes> = maps.collect();
    let mut found = Vec::new();
    let mut sink = |finding| found.push(finding);
    for (block, page) in (0..).zip(pages) {
        heap.page(block, page, bits_of(&maps, block), &mut sink);
    }
    for (block, page) in (0..).zip(&maps) {
        check_visibility_map(checksums, block, pages.len() as u32, page, &mut sink);
    }
    let found: Vec<String> = found.iter().map(ToString::to_string).collect();
    if found.is_empty() { Ok(()) } else { Err(found.join("\n")) }
}

/// A page of the map. One that is torn reads as empty.
fn map_page(checksums: bool, (number, bytes): (BlockNumber, &PageBytes)) -> &PageBytes {
    let whole = !checksums || page_checksum(bytes, number) == stored_checksum(bytes);
    if whole { bytes } else { &[0; BLOCK_SIZE] }
}

/// A block's bits in the map.
fn bits_of(maps: &[&PageBytes], block: BlockNumber) -> u8 {
    let page = maps.get(map::map_block(block) as usize);
    page.map_or(0, |page| map::get(Page::new(page), block))
}
