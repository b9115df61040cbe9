//! Entry points of the fuzz targets: arbitrary bytes go in, and nothing may panic. Where bytes
//! decode, encoding the result and decoding that again must give the same.

use forebay_format::{
    Align, AttrLayout, FullXid, HeapTuple, HeapTupleMut, ItemPointer, Lsn, Page, PageBytes,
    PageMut, SegmentSize,
    checksum::{set_checksum, verify_header, verify_page},
    control::ControlFile,
    free_space_map as fsm,
    line_pointers::{self, Changes},
    multixact, nbtree, pglz,
    relmap::RelMap,
    slru, subtrans,
    timeline::{TimelineHistory, parse_history_file_name},
    tuple::{Deform, deform, form_tuple},
    varlena, visibility_map,
    wal::{
        DecodedRecord, PageHeader, RecordBuilder, Rmgr, brin, clog, commit_ts, decode_record,
        generic, gin, gist, hash, heap, heap_logical,
        invalidation::Invalidation,
        multixact::{MultiXactCreate, MultiXactTruncate},
        origin, prune, smgr, spgist, standby, verify_crc, xact, xlog,
    },
};

/// The data, cut or filled up with zeros to a page.
fn page_of(data: &[u8]) -> PageBytes {
    let mut page = [0; 8192];
    let len = data.len().min(page.len());
    page[..len].copy_from_slice(&data[..len]);
    page
}

/// A data page: header, items, checksum, adding an item.
pub fn page(data: &[u8]) {
    let mut bytes = page_of(data);
    let view = Page::new(&bytes);
    let _ = (
        verify_page(&bytes, 1),
        verify_header(&bytes),
        view.special_bytes(),
        view.heap_free_space(),
    );
    for (n, item) in view.items() {
        assert!(!item.is_empty() || view.item_id(n).is_some_and(|id| id.len == 0));
        if let Ok(tuple) = HeapTuple::new(item) {
            let _ = deform(tuple, &[AttrLayout::VARLENA; 8], &mut [None; 8]);
        }
    }
    let count = view.item_count();
    let mut page = PageMut(&mut bytes);
    if let Some(n) = page.add_item(b"an item of some length", None) {
        assert_eq!(page.page().item(n), Some(&b"an item of some length"[..]));
        assert!(page.page().item_count() >= count);
        assert!(page.page().header_is_sane());
    }
    let _ = page
        .item_mut(1)
        .map(|item| HeapTupleMut::new(item).map(|mut tuple| tuple.stamp_insert(7, 0)));
    btree_page(bytes);
    index_pages(bytes);
    let mut page = PageMut(&mut bytes);
    pruned(page.0, line_pointers::prune);
    pruned(page.0, line_pointers::prune_in_place);
    line_pointers::truncate(&mut page);
    set_checksum(&mut bytes, 3);
    assert!(verify_header(&bytes).is_err() || verify_page(&bytes, 3).is_ok());
}

/// A page of a B-tree: special space, meta page, tuples, changes of items.
fn btree_page(mut bytes: PageBytes) {
    let view = Page::new(&bytes);
    let _ = (nbtree::Opaque::of(view), nbtree::Meta::of(view), nbtree::safe_xid(view));
    for n in 1..=view.item_count() {
        let Ok(item) = nbtree::item(view, n) else { continue };
        let Ok(tuple) = nbtree::Tuple::new(item) else { continue };
        let _ = nbtree::form_pivot(&tuple, &[AttrLayout::VARLENA; 2], 1, tuple.max_heap_tid());
        let _ = nbtree::update_posting(&tuple, &[0, 2]);
        assert_eq!(tuple.heap_tids().count(), tuple.heap_tid_count());
    }
    let mut page = PageMut(&mut bytes);
    let _ = nbtree::delete_items(&mut page, &[1, 2, 4]);
    let _ = nbtree::replace_item(&mut page, 2, &[1; 300]);
    let _ = (nbtree::delete_item(&mut page, 3), nbtree::kill(&mut page, 1));
    if nbtree::insert_item(&mut page, 1, &[1; 24]).is_ok() {
        assert_eq!(nbtree::item(page.page(), 1), Ok(&[1; 24][..]));
    }
    nbtree::mask(&mut bytes, 1);
}

/// A page of an index of any other kind.
fn index_pages(bytes: PageBytes) {
    use forebay_format::{brin, gin, gist, hash, index_page, spgist};
    let change = |change: &dyn Fn(&mut PageMut<'_>)| {
        let mut copy = bytes;
        change(&mut PageMut(&mut copy));
    };
    let place = ItemPointer::new(3, 4);
    change(&|page| {
        let _ = hash::Meta::of(page).and_then(|mut meta| meta.add_spares(1));
        let _ = (hash::set_bit(page, 99, true), gist::set_deleted(page, FullXid(7)));
        let _ = (index_page::put_item(page, 3, &[1; 24]), index_page::vacate_item(page, 1));
    });
    change(&|page| {
        let _ = gin::recompress(page, &[1, 0, 0, 4, 1, 0, 0, 0, 3, 0, 5, 0]);
        let _ = gin::insert_posting_item(page, 1, [1; 10], 7);
        let _ = (gin::delete_posting_item(page, 2), gin::set_deleted(page, 7));
        let _ = gin::insert_entry(page, 1, &[0, 0, 0, 0, 0, 0, 16, 0], true, Some(5));
    });
    change(&|page| {
        let _ = spgist::set_node_link(page, 1, 2, place);
        let _ = (spgist::set_next(page, 1, 2), spgist::swap_tuples(page, 1, 2));
        let dead = spgist::Successor::Redirect(place, 7);
        let _ = spgist::remove_tuples(page, &[2, 1, 3], dead, spgist::Successor::Placeholder);
        let _ = spgist::vacuum_redirects(page, &[2], 2);
    });
    change(&|page| {
        let _ = (brin::set_last_map(page, 7), brin::set_place(page, 1, 2000, place));
    });
    let masks = [hash::mask, gin::mask, gist::mask, spgist::mask, brin::mask];
    masks.iter().for_each(|mask| change(&|page| mask(page.0)));
}

/// A good page of items that serve as tuples: each has the header's length in all its bytes.
fn rows() -> PageBytes {
    let mut bytes = [0; 8192];
    let mut page = PageMut(&mut bytes);
    page.init(0);
    (0..60).for_each(|_| assert!(page.add_item(&[24; 120], None).is_some()));
    bytes
}

type Prune = fn(&mut PageMut<'_>, Changes<'_>) -> Result<(), line_pointers::LinePointerError>;

/// Prunes a copy of a page. It is a good page afterwards, or was damaged before.
fn pruned(bytes: &PageBytes, prune: Prune) {
    let mut copy = *bytes;
    let check = line_pointers::check(Page::new(bytes));
    let mut page = PageMut(&mut copy);
    let changes = Changes { dead: &[1], unused: &[2], ..Changes::default() };
    match prune(&mut page, changes) {
        Ok(()) => assert_eq!(line_pointers::check(page.page()), Ok(())),
        Err(_) => assert_eq!(&copy, bytes),
    }
    let mut page = PageMut(&mut copy);
    if check.is_ok() && line_pointers::check(page.page()).is_ok() {
        assert_eq!(prune(&mut page, Changes::default()), Ok(()));
    }
}

/// A page of a map or of transaction data.
pub fn map_page(data: &[u8]) {
    let mut bytes = page_of(data);
    let _ = (multixact::member(&bytes, 7), multixact::offset(&bytes, 7));
    let _ = (subtrans::parent(&bytes, 7), slru::status(&bytes, 7));
    let mut page = PageMut(&mut bytes);
    for least in [0, 1, 100, 255] {
        if fsm::search(page.page(), least).is_err() {
            assert!(fsm::rebuild(&mut page));
            assert!(fsm::search(page.page(), least).is_ok());
        }
    }
    // A change repairs the way to the root, or all of a page whose root is too small.
    fsm::set(&mut page, 9, 255);
    assert_eq!((fsm::get(page.page(), 9), fsm::greatest(page.page())), (255, 255));
    let changed = fsm::truncate(&mut page, 9);
    assert!(changed && (9..fsm::SLOTS).all(|slot| fsm::get(page.page(), slot) == 0));
    assert!(!fsm::rebuild(&mut page));
    fsm::set(&mut page, 9, 255);
    assert!(matches!(fsm::search(page.page(), 255), Ok(Some(_))));
    let (visible, frozen) = visibility_map::count(page.page());
    visibility_map::set(&mut page, 9, visibility_map::VALID_BITS);
    assert!(visibility_map::count(page.page()) >= (visible, frozen));
    visibility_map::truncate(&mut page, 9);
    assert_eq!(visibility_map::get(page.page(), 9), 0);
}

/// Compressed bytes: the first two are the length that they should have.
pub fn compressed(data: &[u8]) {
    let Some((len, rest)) = data.split_first_chunk::<2>() else { return };
    let len = u16::from_le_bytes(*len);
    let mut out = vec![0; usize::from(len)];
    if pglz::decompress(rest, &mut out).is_ok() {
        assert_eq!(varlena::decompress(u32::from(len), 0, rest), Ok(out));
    }
    let _ = varlena::decompress(u32::from(len), 1, rest);
    if let Some(compressed) = pglz::compress(rest) {
        let mut again = vec![0; rest.len()];
        assert_eq!(pglz::decompress(&compressed, &mut again), Ok(()));
        assert_eq!(again, rest);
    }
}

/// A column's layout chosen by a byte.
fn layout(byte: u8) -> AttrLayout {
    match byte % 9 {
        0 => AttrLayout::BYTE,
        1 => AttrLayout::INT2,
        2 => AttrLayout::INT4,
        3 => AttrLayout::INT8,
        4 => AttrLayout::NAME,
        5 => AttrLayout::CSTRING,
        6 => AttrLayout::plain_varlena(Align::Int),
        7 => AttrLayout { align: Align::Double, ..AttrLayout::VARLENA },
        _ => AttrLayout::VARLENA,
    }
}

/// A tuple: the first byte is the number of columns, then one byte for each, then the tuple.
pub fn tuple(data: &[u8]) {
    let Some((&count, rest)) = data.split_first() else { return };
    let Some((columns, bytes)) = rest.split_at_checked(usize::from(count % 32)) else { return };
    let attrs: Vec<_> = columns.iter().map(|&byte| layout(byte)).collect();
    let Ok(tuple) = HeapTuple::new(bytes) else { return };
    if let Ok(mut walk) = Deform::new(tuple) {
        let _ = attrs.iter().try_for_each(|attr| walk.next(*attr).map(drop));
    }
    let mut values = vec![None; attrs.len()];
    if deform(tuple, &attrs, &mut values).is_ok() {
        let formed = form_tuple(&attrs, &values).expect("values that were stored can be stored");
        let mut again = vec![None; attrs.len()];
        let formed = HeapTuple::new(&formed).expect("a whole header");
        deform(formed, &attrs, &mut again).expect("what was just formed");
        assert_eq!(again, values);
    }
}

/// A WAL record without the length at its beginning, so that any bytes are worth a try.
pub fn wal_record(data: &[u8]) {
    let mut bytes = ((data.len() + 4) as u32).to_le_bytes().to_vec();
    bytes.extend_from_slice(data);
    let _ = verify_crc(&bytes);
    let Ok(record) = decode_record(&bytes) else { return };
    assert!(!record.to_string().is_empty());
    payloads(&record);
    let mut page = [0; 8192];
    for image in record.blocks.iter().filter_map(|block| block.image) {
        let _ = image.restore(&mut page);
    }
    let mut again = RecordBuilder::from_decoded(&record).finish().expect("a record that was one");
    again.seal(record.header.prev);
    let again = again.to_vec();
    verify_crc(&again).expect("a record just sealed");
    let decoded = decode_record(&again).expect("a record just made");
    assert_eq!((decoded.blocks, decoded.main), (record.blocks, record.main));
}

/// The payload of a record by its resource manager.
fn payloads(record: &DecodedRecord<'_>) {
    let (info, main) = (record.header.info, record.main);
    let data = record.blocks.first().map_or(&[][..], |block| block.data);
    match record.header.rmgr {
        Rmgr::XACT => {
            if let Ok(end) = xact::XactEnd::decode(info, main) {
                let mut again = Vec::new();
                let has_info = end.encode(&mut again);
                let messages = end.invalidations.iter().copied();
                for message in messages.filter_map(Invalidation::decode) {
                    assert_eq!(Invalidation::decode(message.encode()), Some(message));
                }
                assert_eq!(xact::XactEnd::decode(has_info, &again), Ok(end));
            }
            let _ = (xact::Assignment::decode(main), xact::decode_invalidations(main));
        }
        Rmgr::XLOG => {
            let _ = (xlog::CheckPoint::decode(main), xlog::ParameterChange::decode(main));
            let _ = (xlog::EndOfRecovery::decode(main), xlog::OverwriteContrecord::decode(main));
            let _ = (xlog::decode_next_oid(main), xlog::decode_checkpoint_redo(main));
        }
        Rmgr::SMGR => {
            let _ = (smgr::SmgrCreate::decode(main), smgr::SmgrTruncate::decode(main));
        }
        Rmgr::CLOG => {
            let _ = (clog::decode_zero_page(main), clog::ClogTruncate::decode(main));
        }
        Rmgr::MULTIXACT => {
            let _ = MultiXactTruncate::decode(main);
            if let Ok(create) = MultiXactCreate::decode(main) {
                assert_eq!(MultiXactCreate::decode(&create.encode()), Ok(create));
            }
        }
        Rmgr::STANDBY => {
            let _ = (standby::decode_locks(main), standby::Invalidations::decode(main));
            if let Ok(running) = standby::RunningXacts::decode(main) {
                assert_eq!(standby::RunningXacts::decode(&running.encode()), Ok(running));
            }
        }
        Rmgr::HASH | Rmgr::GIN | Rmgr::GIST | Rmgr::SPGIST | Rmgr::BRIN => {
            let _ = index_payload(record);
        }
        Rmgr::COMMIT_TS | Rmgr::ORIGIN | Rmgr::GENERIC => {
            let _ = other_payload(record);
        }
        _ => heap_payloads(info, main, data),
    }
}

/// The payload of a record about an index. None if it can't be decoded.
pub fn index_payload(record: &DecodedRecord<'_>) -> Option<()> {
    let (kind, main) = (record.kind(), record.main);
    let data = |id| record.block(id).map_or(&[][..], |block| block.data);
    match (record.header.rmgr, kind) {
        (Rmgr::HASH, _) => hash_payload(record),
        (Rmgr::GIN, gin::CREATE_PTREE) => gin::decode_posting_tree(main).ok().map(drop),
        (Rmgr::GIN, gin::INSERT) => {
            let insert = gin::GinInsert::decode(main).ok()?;
            match (insert.is_data, insert.right_child) {
                (true, None) => Some(()),
                (true, Some(_)) => gin::GinPostingItem::decode(data(0)).ok().map(drop),
                (false, _) => gin::GinEntry::decode(data(0)).ok().map(drop),
            }
        }
        (Rmgr::GIN, gin::SPLIT) => gin::GinSplit::decode(main).ok().map(drop),
        (Rmgr::GIN, gin::DELETE_PAGE) => gin::GinDeletePage::decode(main).ok().map(drop),
        (Rmgr::GIN, gin::UPDATE_META_PAGE) => gin::GinUpdateMeta::decode(main).ok().map(drop),
        (Rmgr::GIN, gin::INSERT_LISTPAGE) => gin::GinListPage::decode(main).ok().map(drop),
        (Rmgr::GIN, gin::DELETE_LISTPAGE) => gin::GinDeleteList::decode(main).ok().map(drop),
        (Rmgr::GIST, gist::PAGE_UPDATE) => {
            let update = gist::GistUpdate::decode(main).ok()?;
            update.decode_page(data(0)).ok().map(drop)
        }
        (Rmgr::GIST, gist::DELETE) => gist::GistDelete::decode(main).ok().map(drop),
        (Rmgr::GIST, gist::PAGE_REUSE) => gist::GistReuse::decode(main).ok().map(drop),
        (Rmgr::GIST, gist::PAGE_SPLIT) => {
            gist::GistSplit::decode_page(data(1)).ok()?;
            gist::GistSplit::decode(main).ok().map(drop)
        }
        (Rmgr::GIST, gist::PAGE_DELETE) => gist::GistPageDelete::decode(main).ok().map(drop),
        (Rmgr::SPGIST, spgist::ADD_LEAF) => spgist::SpgAddLeaf::decode(main).ok().map(drop),
        (Rmgr::SPGIST, spgist::MOVE_LEAFS) => spgist::SpgMoveLeafs::decode(main).ok().map(drop),
        (Rmgr::SPGIST, spgist::ADD_NODE) => spgist::SpgAddNode::decode(main).ok().map(drop),
        (Rmgr::SPGIST, spgist::SPLIT_TUPLE) => spgist::SpgSplitTuple::decode(main).ok().map(drop),
        (Rmgr::SPGIST, spgist::PICKSPLIT) => spgist::SpgPickSplit::decode(main).ok().map(drop),
        (Rmgr::SPGIST, spgist::VACUUM_LEAF) => spgist::SpgVacuumLeaf::decode(main).ok().map(drop),
        (Rmgr::SPGIST, spgist::VACUUM_ROOT) => spgist::decode_vacuum_root(main).ok().map(drop),
        (Rmgr::SPGIST, spgist::VACUUM_REDIRECT) => {
            spgist::SpgVacuumRedirect::decode(main).ok().map(drop)
        }
        (Rmgr::BRIN, kind) => match kind & brin::OPMASK {
            brin::CREATE_INDEX => brin::BrinCreate::decode(main).ok().map(drop),
            brin::INSERT => brin::BrinInsert::decode(main).ok().map(drop),
            brin::UPDATE => brin::BrinUpdate::decode(main).ok().map(drop),
            brin::SAMEPAGE_UPDATE => brin::decode_item(main).ok().map(drop),
            brin::REVMAP_EXTEND => brin::decode_map_block(main).ok().map(drop),
            _ => brin::BrinDesummarize::decode(main).ok().map(drop),
        },
        _ => Some(()),
    }
}

fn hash_payload(record: &DecodedRecord<'_>) -> Option<()> {
    let (kind, main) = (record.kind(), record.main);
    let data = |id| record.block(id).map_or(&[][..], |block| block.data);
    match kind {
        hash::INIT_META_PAGE => hash::HashInitMeta::decode(main).ok().map(drop),
        hash::INIT_BITMAP_PAGE | hash::INSERT => hash::decode_number(kind, main).ok().map(drop),
        hash::ADD_OVFL_PAGE => {
            hash::decode_block_number(kind, data(0)).ok()?;
            hash::HashAddOverflow::decode(main).ok().map(drop)
        }
        hash::SPLIT_ALLOCATE_PAGE => {
            let split = hash::HashSplitAllocate::decode(main).ok()?;
            split.decode_meta(data(2)).ok().map(drop)
        }
        hash::SPLIT_COMPLETE => hash::HashSplitComplete::decode(main).ok().map(drop),
        hash::MOVE_PAGE_CONTENTS => {
            hash::HashMove::decode(main).ok()?.decode_tuples(data(1)).ok()?;
            hash::decode_items(kind, data(2)).ok().map(drop)
        }
        hash::SQUEEZE_PAGE => {
            hash::HashSqueeze::decode(main).ok()?.moved.decode_tuples(data(1)).ok().map(drop)
        }
        hash::DELETE => {
            hash::decode_items(kind, data(1)).ok()?;
            hash::HashDelete::decode(main).ok().map(drop)
        }
        hash::UPDATE_META_PAGE => hash::decode_tuples(main).ok().map(drop),
        hash::VACUUM_ONE_PAGE => hash::HashVacuumPage::decode(main).ok().map(drop),
        _ => Some(()),
    }
}

/// The payload of a record about commit timestamps, replication origins or an extension's pages.
pub fn other_payload(record: &DecodedRecord<'_>) -> Option<()> {
    let (kind, main) = (record.kind(), record.main);
    match (record.header.rmgr, kind) {
        (Rmgr::COMMIT_TS, commit_ts::ZEROPAGE) => commit_ts::decode_zero_page(main).ok().map(drop),
        (Rmgr::COMMIT_TS, _) => commit_ts::CommitTsTruncate::decode(main).ok().map(drop),
        (Rmgr::ORIGIN, origin::SET) => origin::OriginSet::decode(main).ok().map(drop),
        (Rmgr::ORIGIN, _) => origin::decode_drop(main).ok().map(drop),
        _ => {
            let mut page = rows();
            let data = record.blocks.first().map_or(&[][..], |block| block.data);
            let _ = generic::apply(&mut PageMut(&mut page), data);
            Some(())
        }
    }
}

fn heap_payloads(info: u8, main: &[u8], data: &[u8]) {
    let _ = (
        heap::HeapInsert::decode(main),
        heap::HeapDelete::decode(main),
        heap::HeapInplace::decode(main),
    );
    let _ = (
        heap::HeapUpdate::decode(main).map(|update| update.old_tuple(main).is_ok()),
        heap::HeapDelete::decode(main).map(|delete| delete.old_tuple(main).is_ok()),
        heap::HeapVisible::decode(main),
        heap::decode_confirm(main),
        heap_logical::HeapTruncate::decode(main),
        heap_logical::HeapNewCid::decode(main),
    );
    if let Ok(rewrite) = heap_logical::HeapRewrite::decode(main) {
        assert_eq!(heap_logical::HeapRewrite::decode(&rewrite.encode()), Ok(rewrite));
    }
    let update = heap::HeapUpdate::decode(main);
    let new = update.as_ref().map(|update| heap::UpdatedTuple::decode(update.flags, data));
    if let (Ok(update), Ok(Ok(new))) = (&update, new) {
        let (page, at) = (rows(), ItemPointer::new(1, 1));
        let old = Page::new(&page).item(update.old_offset);
        let old = old.map(|item| HeapTuple::new(item).expect("a whole header"));
        let mut out = Vec::new();
        if new.rebuild(old, update, 7, at, &mut out).is_ok() {
            let stored = usize::from(new.prefix) + new.data.len() + usize::from(new.suffix);
            assert_eq!(out.len(), 23 + stored);
        }
    }
    if let Ok(pruned) = prune::HeapPrune::decode(main, Some(data)) {
        let (mut main, mut data) = (Vec::new(), Vec::new());
        pruned.encode(&mut main, &mut data);
        assert_eq!(prune::HeapPrune::decode(&main, Some(&data)).as_ref(), Ok(&pruned));
        let mut page = page_of(&data);
        let _ = pruned.apply(&mut PageMut(&mut page));
        let mut page = rows();
        let _ = pruned.apply(&mut PageMut(&mut page));
        assert_eq!(line_pointers::check(Page::new(&page)), Ok(()));
    }
    let mut tuple = Vec::new();
    if let Ok((header, bytes)) = heap::HeapHeader::decode(data) {
        header.rebuild(bytes, 7, ItemPointer::new(1, 1), &mut tuple);
        assert_eq!(heap::HeapHeader::of(HeapTuple::new(&tuple).expect("a whole header")), header);
    }
    if let Ok(multi) = heap::HeapMultiInsert::decode(info, main) {
        for (header, bytes) in multi.tuples(data).map_while(Result::ok) {
            header.rebuild(bytes, 7, ItemPointer::new(1, 1), &mut tuple);
        }
    }
}

/// A WAL page: its header, then records as far as they are whole.
pub fn wal_page(data: &[u8]) {
    let Ok(header) = PageHeader::decode(data) else { return };
    let _ = header.check(Lsn(0x100_0000), SegmentSize::DEFAULT, 7);
    let mut again = [0; 40];
    let size = header.encode(&mut again);
    assert_eq!(PageHeader::decode(&again[..size]), Ok(header));
    let mut rest = &data[size..];
    while let Some(len) = rest.first_chunk::<4>() {
        let len = u32::from_le_bytes(*len) as usize;
        let Some(record) = rest.get(..len).filter(|record| record.len() >= 24) else { return };
        wal_record(&record[4..]);
        rest = rest.get(len.next_multiple_of(8)..).unwrap_or(&[]);
    }
}

/// A control file or a relation map.
pub fn control_file(data: &[u8]) {
    if let Ok(control) = ControlFile::decode(data) {
        assert_eq!(ControlFile::decode(&control.encode()), Ok(control));
    }
    if let Ok(map) = RelMap::decode(data) {
        assert_eq!(RelMap::decode(&map.encode()), Ok(map));
    }
}

/// A timeline's history file; the first byte is the timeline.
pub fn history(data: &[u8]) {
    let Some((&timeline, text)) = data.split_first() else { return };
    let text = String::from_utf8_lossy(text);
    let _ = parse_history_file_name(&text);
    let Ok(history) = TimelineHistory::parse(u32::from(timeline), &text) else { return };
    let again = TimelineHistory::parse(u32::from(timeline), &history.to_text("because"));
    assert_eq!(again.as_ref(), Ok(&history));
    for stretch in history.stretches() {
        assert!(
            history.contains(stretch.timeline)
                && history.switch_point(stretch.timeline) == stretch.end
        );
    }
}
