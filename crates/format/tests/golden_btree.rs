//! Pages and records of B-trees and sequences that PostgreSQL wrote: they are decoded to what
//! pageinspect and pg_waldump tell of them, and encoded to the same bytes.

mod support;

use forebay_format::{
    AttrLayout, BLOCK_SIZE, FullXid, ItemPointer, Page, PageBytes, PageMut, index_tuple,
    nbtree::{self, Meta, Opaque, Tuple, TupleKind},
    varlena::Varlena,
    wal::{
        DecodedRecord, Rmgr, decode_record, desc,
        nbtree::{
            BtreeDedup, BtreeDelete, BtreeHalfDead, BtreeInsert, BtreeMeta, BtreeNewRoot,
            BtreeReuse, BtreeSplit, BtreeUnlink,
        },
        sequence::SequenceLog,
        verify_crc,
    },
};

const PAGES: &[u8] = include_bytes!("data/btree.pages");
const TOLD: &str = include_str!("data/btree.txt");
const WALDUMP: &str = include_str!("data/btree.waldump.txt");

/// A page with what pageinspect tells of it: lines of fields.
struct Sample {
    index: &'static str,
    block: u32,
    bytes: PageBytes,
    told: Vec<Vec<&'static str>>,
}

fn samples() -> Vec<Sample> {
    let (pages, rest) = PAGES.as_chunks::<BLOCK_SIZE>();
    assert!(rest.is_empty());
    let mut samples: Vec<Sample> = Vec::new();
    for line in TOLD.lines() {
        if let Some((index, block)) =
            line.strip_prefix("page ").and_then(|rest| rest.split_once(' '))
        {
            let block = block.parse().expect("a block");
            let bytes = pages[samples.len()];
            samples.push(Sample { index, block, bytes, told: Vec::new() });
        } else {
            let sample = samples.last_mut().expect("a page before its lines");
            sample.told.push(line.split('|').collect());
        }
    }
    assert_eq!(samples.len(), pages.len());
    samples
}

fn sample(index: &str, kind: &str) -> Sample {
    let found = samples().into_iter().find(|sample| {
        sample.index == index && sample.told[0].get(1) == Some(&kind) && sample.block != 0
    });
    found.unwrap_or_else(|| panic!("no page of kind {kind} of {index}"))
}

fn tid(told: &str) -> ItemPointer {
    let (block, offset) = told.trim_matches(['(', ')']).split_once(',').expect("a position");
    ItemPointer::new(block.parse().expect("a block"), offset.parse().expect("a line pointer"))
}

/// The layouts of an index's columns.
fn columns(index: &str) -> &'static [AttrLayout] {
    match index {
        "t_s" => &[AttrLayout::VARLENA, AttrLayout::INT4],
        _ => &[AttrLayout::INT4],
    }
}

#[test]
fn the_meta_page_is_decoded_and_encoded() {
    let sample = samples().into_iter().find(|sample| sample.block == 0).expect("a meta page");
    let page = Page::new(&sample.bytes);
    let meta = Meta::of(page).expect("a good meta page");
    let told: Vec<_> = sample.told[0].iter().map(|field| field.parse().unwrap_or(0)).collect();
    let numbers = [
        i64::from(nbtree::MAGIC),
        i64::from(meta.version),
        i64::from(meta.root),
        i64::from(meta.level),
        i64::from(meta.fast_root),
        i64::from(meta.fast_level),
        i64::from(meta.deleted_pages),
        meta.heap_tuples as i64,
    ];
    assert_eq!(told[..8], numbers);
    assert_eq!(sample.told[0][8] == "t", meta.all_equal_image);
    assert_eq!(meta, Meta::new(meta.root, meta.level, true));
    assert!(meta.is_heap_key_space());
    let mut again = [0xaa; BLOCK_SIZE];
    let mut made = PageMut::new(&mut again);
    meta.init_page(&mut made);
    made.set_lsn(page.lsn());
    let mut theirs = sample.bytes;
    PageMut::new(&mut theirs).set_checksum(0);
    assert_eq!(again, theirs);
}

#[test]
fn special_spaces_are_those_that_pageinspect_tells() {
    for sample in samples().into_iter().filter(|sample| sample.block != 0) {
        let mut bytes = sample.bytes;
        let opaque = Opaque::of(Page::new(&bytes)).expect("a good page");
        let told = &sample.told[0];
        let number = |index: usize| told[index].parse::<u32>().expect("a number");
        assert_eq!((opaque.prev, opaque.next), (number(7), number(8)), "{told:?}");
        assert_eq!((opaque.level, u32::from(opaque.flags)), (number(9), number(10)), "{told:?}");
        let kind = if opaque.has(nbtree::DELETED) {
            "d"
        } else if opaque.is_leaf() {
            "l"
        } else if opaque.is_root() {
            "r"
        } else {
            "i"
        };
        assert_eq!(told[1], kind);
        assert_eq!(Opaque::decode(&opaque.encode()), opaque);
        opaque.store(&mut PageMut::new(&mut bytes));
        assert_eq!(bytes, sample.bytes);
        assert!(Meta::of(Page::new(&bytes)).is_err());
    }
}

#[test]
fn tuples_are_those_that_pageinspect_tells() {
    let mut kinds = [0; 3];
    for sample in samples() {
        let items: Vec<_> = sample.told.iter().filter(|fields| fields[0] == "item").collect();
        let page = Page::new(&sample.bytes);
        let opaque = Opaque::of(page).expect("a good page");
        if opaque.has(nbtree::META) || opaque.has(nbtree::DELETED) {
            continue;
        }
        assert_eq!(items.len(), usize::from(page.item_count()));
        for (n, told) in (1..).zip(items) {
            let bytes = nbtree::item(page, n).expect("an item");
            let tuple = Tuple::new(bytes).expect("a good tuple");
            assert_eq!(told[1].parse(), Ok(n));
            assert_eq!(told[3].parse(), Ok(tuple.size()));
            assert_eq!(bytes.len(), tuple.size());
            let pivot = !opaque.is_leaf() || n < opaque.first_data_item();
            assert_eq!(tuple.is_pivot(), pivot, "{told:?}");
            assert_eq!(told[7] == "t", !pivot && nbtree::is_killed(page, n), "{told:?}");
            check_tids(&tuple, told);
            check_values(&tuple, columns(sample.index), told);
            kinds[tuple.kind() as usize] += 1;
        }
    }
    assert!(kinds.iter().all(|&count| count > 20), "{kinds:?}");
}

fn check_tids(tuple: &Tuple<'_>, told: &[&str]) {
    let first = Some(told[8]).filter(|told| !told.is_empty()).map(tid);
    assert_eq!(tuple.heap_tid(), first, "{told:?}");
    let listed: Vec<_> = tuple.heap_tids().map(|tid| tid.to_string()).collect();
    if tuple.is_posting() {
        assert_eq!(format!("{{\"{}\"}}", listed.join("\",\"")), told[9]);
        assert_eq!(tuple.heap_tids().next_back(), tuple.max_heap_tid());
    } else {
        assert_eq!((told[9], listed.len()), ("", usize::from(!tuple.is_pivot())));
    }
    assert_eq!(tuple.heap_tid_count(), listed.len());
    if tuple.is_pivot() {
        assert_eq!(tuple.down_link(), tid(told[2]).block);
    }
}

/// The values are where pageinspect's data begin, and form the same tuple.
fn check_values(tuple: &Tuple<'_>, layouts: &[AttrLayout], told: &[&str]) {
    let data = told[6].split_whitespace().map(|byte| u8::from_str_radix(byte, 16));
    let data: Vec<u8> = data.collect::<Result<_, _>>().expect("hexadecimal bytes");
    let count = tuple.column_count(layouts.len());
    let mut walk = tuple.values(layouts.len());
    let mut values = Vec::new();
    for layout in &layouts[..count] {
        values.push(walk.next(*layout).expect("a good value").map(|value| match value {
            Varlena::Plain(bytes) => bytes,
            _ => panic!("a plain value"),
        }));
    }
    assert_eq!(told[4] == "t", values.iter().any(Option::is_none));
    if tuple.kind() == TupleKind::Plain {
        let tid = tuple.heap_tid().expect("a row");
        let formed = index_tuple::form(layouts, &values, tid).expect("good values");
        assert_eq!(formed, tuple.bytes());
        assert!(formed.ends_with(&data), "{told:?}");
    }
    if tuple.is_posting() {
        let tids: Vec<_> = tuple.heap_tids().collect();
        let base = index_tuple::form(layouts, &values, tids[0]).expect("good values");
        let base = Tuple::new(&base).expect("a good tuple");
        assert_eq!(nbtree::form_posting(&base, &tids), Ok(tuple.bytes().to_vec()));
    }
    if tuple.is_pivot() {
        // As if the columns that were left out were still there.
        let rest = layouts[count..].iter().map(|_| None);
        let values: Vec<_> = values.iter().copied().chain(rest).collect();
        let child = ItemPointer::new(tuple.down_link(), 1);
        let base = index_tuple::form(layouts, &values, child).expect("good values");
        let base = Tuple::new(&base).expect("a good tuple");
        let pivot = nbtree::form_pivot(&base, layouts, count, tuple.heap_tid());
        assert_eq!(pivot.as_deref(), Ok(tuple.bytes()), "{told:?}");
    }
}

#[test]
fn a_deleted_page_is_made_as_postgresql_makes_it() {
    let sample = sample("d_pkey", "d");
    let page = Page::new(&sample.bytes);
    let opaque = Opaque::of(page).expect("a good page");
    let xid = nbtree::safe_xid(page).expect("a deleted page").expect("its id");
    assert!(xid > FullXid(700) && xid < FullXid(1000), "{xid}");
    let mut again = [0x55; BLOCK_SIZE];
    let left = Opaque { flags: nbtree::LEAF | nbtree::HALF_DEAD, ..opaque };
    nbtree::init_deleted_page(&mut PageMut::new(&mut again), left, xid);
    let mut theirs = sample.bytes;
    nbtree::mask(&mut theirs, sample.block);
    nbtree::mask(&mut again, sample.block);
    assert_eq!(again, theirs);
}

#[test]
fn a_leaf_built_again_in_the_order_of_its_items_is_the_same_without_its_places() {
    for index in ["t_s", "t_n", "v_a"] {
        let sample = sample(index, "l");
        let page = Page::new(&sample.bytes);
        let mut copy = nbtree::empty_copy(page).expect("a good page");
        let mut built = PageMut::new(&mut copy);
        for n in 1..=page.item_count() {
            nbtree::push_item(&mut built, nbtree::item(page, n).expect("an item")).expect("room");
        }
        let built = built.page();
        assert_eq!(built.upper(), page.upper());
        assert_eq!((built.lower(), built.lsn()), (page.lower(), page.lsn()));
        for n in 1..=page.item_count() {
            assert_eq!(nbtree::item(built, n), nbtree::item(page, n));
        }
    }
}

/// Each record, by its kind, with what pg_waldump tells of it behind that; cut off at 400 bytes of
/// the line.
fn for_each_record(mut test: impl FnMut(&str, &DecodedRecord<'_>, &str)) {
    let records = support::btree_records();
    assert_eq!(records.len(), WALDUMP.lines().count());
    for (bytes, line) in records.iter().zip(WALDUMP.lines()) {
        verify_crc(bytes).expect("an undamaged record");
        let record = decode_record(bytes).expect("a good record");
        let told = line.split_once("desc: ").expect("a description").1;
        let kind = desc::kind_name(record.header.rmgr, record.header.info).expect("a known kind");
        let told = told.strip_prefix(kind).unwrap_or_else(|| panic!("{kind}, not {told}"));
        test(kind, &record, told.trim_start());
    }
}

/// What pg_waldump tells, from decoded fields.
fn described(kind: &str, record: &DecodedRecord<'_>) -> String {
    let main = record.main;
    let data = record.blocks.first().map_or(&[][..], |block| block.data);
    let block = |block: Option<u32>| block.unwrap_or(u32::MAX);
    match kind {
        "SPLIT_L" | "SPLIT_R" => {
            let split = BtreeSplit::decode(main).expect("good");
            format!(
                "level: {}, firstrightoff: {}, newitemoff: {}, postingoff: {}",
                split.level, split.first_right, split.new_item, split.posting
            )
        }
        "DEDUP" => {
            let dedup = BtreeDedup::decode(main, data).expect("good");
            format!("nintervals: {}", dedup.intervals.len())
        }
        "VACUUM" => deleted(&BtreeDelete::decode_vacuum(main, data).expect("good"), "", ""),
        "DELETE" => {
            let (horizon, delete) = BtreeDelete::decode_delete(main, data).expect("good");
            let horizon = format!("snapshotConflictHorizon: {horizon}, ");
            deleted(&delete, &horizon, ", isCatalogRel: F")
        }
        "MARK_PAGE_HALFDEAD" => {
            let mark = BtreeHalfDead::decode(main).expect("good");
            let BtreeHalfDead { leaf, left, right, .. } = mark;
            let top = block(mark.top_parent);
            format!("topparent: {top}, leaf: {leaf}, left: {left}, right: {right}")
        }
        "UNLINK_PAGE" | "UNLINK_PAGE_META" => {
            let BtreeUnlink { left, right, level, safe_xid, leaf_left, leaf_right, .. } =
                BtreeUnlink::decode(main).expect("good");
            let top = block(BtreeUnlink::decode(main).expect("good").leaf_top_parent);
            format!(
                "left: {left}, right: {right}, level: {level}, safexid: {safe_xid}, \
                 leafleft: {leaf_left}, leafright: {leaf_right}, leaftopparent: {top}"
            )
        }
        "NEWROOT" => format!("level: {}", BtreeNewRoot::decode(main).expect("good").level),
        "REUSE_PAGE" => {
            let reuse = BtreeReuse::decode(main).expect("good");
            let (rel, horizon) = (reuse.rel, reuse.conflict_horizon);
            format!(
                "rel: {}/{}/{}, snapshotConflictHorizon: {horizon}, isCatalogRel: F",
                rel.spc, rel.db, rel.rel
            )
        }
        "META_CLEANUP" => {
            let BtreeMeta(meta) = BtreeMeta::decode(data).expect("good");
            format!("last_cleanup_num_delpages: {}", meta.deleted_pages)
        }
        "LOG" => {
            let rel = SequenceLog::decode(main).expect("good").rel;
            format!("rel {}/{}/{}", rel.spc, rel.db, rel.rel)
        }
        _ => format!("off: {}", BtreeInsert::decode(main).expect("good").offset),
    }
}

fn deleted(delete: &BtreeDelete, before: &str, behind: &str) -> String {
    let updates = delete.updated.iter().map(|update| {
        let (item, tids) = (update.offset, &update.deleted);
        format!("{{ off: {item}, nptids: {}, ptids: {tids:?} }}", tids.len())
    });
    let updates = match delete.updated.is_empty() {
        true => String::new(),
        false => format!(", updated: [{}]", updates.collect::<Vec<_>>().join(", ")),
    };
    let (removed, updated) = (delete.deleted.len(), delete.updated.len());
    let items = &delete.deleted;
    let counts = format!("{before}ndeleted: {removed}, nupdated: {updated}");
    format!("{counts}{behind}, deleted: {items:?}{updates}")
}

#[test]
fn fields_are_those_that_pg_waldump_tells() {
    for_each_record(|kind, record, told| {
        let ours = described(kind, record);
        // The line may be cut off in our part, or go on with block references.
        let len = ours.len().min(told.len());
        assert_eq!(ours[..len], told[..len], "{kind}");
    });
}

#[test]
fn payloads_are_encoded_to_the_same_bytes() {
    for_each_record(|kind, record, _| {
        let (main, blocks) = (record.main, &record.blocks);
        let mut data = Vec::new();
        let (mut again, padding): (Vec<u8>, &[usize]) = match kind {
            "SPLIT_L" | "SPLIT_R" => (BtreeSplit::decode(main).expect("good").encode().into(), &[]),
            "DEDUP" => {
                let dedup = BtreeDedup::decode(main, blocks[0].data).expect("good");
                (dedup.encode(&mut data).into(), &[])
            }
            "VACUUM" => {
                let delete = BtreeDelete::decode_vacuum(main, blocks[0].data).expect("good");
                (delete.encode_vacuum(&mut data).into(), &[])
            }
            "DELETE" => {
                let delete = BtreeDelete::decode_delete(main, blocks[0].data);
                let (horizon, delete) = delete.expect("good");
                (delete.encode_delete(horizon, false, &mut data).into(), &[])
            }
            "MARK_PAGE_HALFDEAD" => {
                (BtreeHalfDead::decode(main).expect("good").encode().into(), &[2, 3])
            }
            "UNLINK_PAGE" | "UNLINK_PAGE_META" => {
                (BtreeUnlink::decode(main).expect("good").encode().into(), &[12, 13, 14, 15])
            }
            "NEWROOT" => (BtreeNewRoot::decode(main).expect("good").encode().into(), &[]),
            "REUSE_PAGE" => (BtreeReuse::decode(main).expect("good").encode().into(), &[]),
            "META_CLEANUP" => (Vec::new(), &[]),
            "LOG" => (SequenceLog::decode(main).expect("good").encode(), &[]),
            _ => (BtreeInsert::decode(main).expect("good").encode().into(), &[]),
        };
        padding.iter().for_each(|&at| again[at] = main[at]);
        assert_eq!(again, main, "{kind}");
        if !data.is_empty() {
            assert_eq!(data, blocks[0].data, "{kind}");
        }
        for block in blocks.iter().filter(|block| block.tag.block == 0 && kind != "LOG") {
            let meta = BtreeMeta::decode(block.data).expect("a good meta page");
            assert_eq!(meta.encode()[..25], block.data[..25], "{kind}");
            assert!(block.will_init && meta.0.version == nbtree::VERSION);
        }
        assert_eq!(record.header.rmgr == Rmgr::SEQ, kind == "LOG");
    });
}

#[test]
fn right_halves_and_roots_are_restored_in_order() {
    for_each_record(|kind, record, _| {
        let data = match kind {
            "SPLIT_L" | "SPLIT_R" => record.block(1).expect("the right half").data,
            "NEWROOT" => record.blocks[0].data,
            _ => return,
        };
        let mut bytes = [0; BLOCK_SIZE];
        let mut page = PageMut::new(&mut bytes);
        nbtree::init_page(&mut page, Opaque::default());
        nbtree::restore_items(&mut page, data).expect("good tuples");
        let page = page.page();
        assert_eq!(page.bytes(page.upper()..page.special()), Some(data), "{kind}");
        let first = (kind == "NEWROOT" && page.item_count() > 0).then(|| nbtree::item(page, 1));
        let first = first.map(|item| Tuple::new(item.expect("an item")).expect("a tuple").size());
        assert!(first.is_none_or(|size| size == 8), "the first item of a root has no values");
    });
}
