//! Pages of B-trees that PostgreSQL wrote: they are decoded to what pageinspect tells of them, and
//! encoded to the same bytes.

use forebay_format::{
    AttrLayout, BLOCK_SIZE, FullXid, ItemPointer, Page, PageBytes, PageMut, index_tuple,
    nbtree::{self, Meta, Opaque, Tuple, TupleKind},
    varlena::Varlena,
};

const PAGES: &[u8] = include_bytes!("data/btree.pages");
const TOLD: &str = include_str!("data/btree.txt");

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
