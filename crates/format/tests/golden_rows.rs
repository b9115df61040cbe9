//! What PostgreSQL wrote about changed rows: each WAL record is decoded as `pg_waldump` does, and
//! its payload is encoded to the same bytes; applied to pages, records give the same tuples.

mod support;

use std::collections::BTreeMap;

use forebay_format::{
    AttrLayout, Fork, HeapTuple, ItemPointer, Page, PageBytes, PageMut,
    free_space_map::{self as fsm, MapPage},
    line_pointers,
    multixact::{self, MemberStatus, multi_next},
    pglz, subtrans,
    tuple::{self, Deform, HeapTupleMut, Xmax, XmaxBits},
    varlena::{self, Varlena},
    visibility_map,
    wal::{
        BlockRef, DecodedRecord, RecordBuilder, Rmgr, clog, decode_record, desc, heap,
        heap_logical,
        invalidation::Invalidation,
        multixact::{MultiXactCreate, MultiXactTruncate, decode_zero_page, encode_zero_page},
        prune, standby, verify_crc, xact,
    },
};
use support::{map_clear_records, row_records};

const WALDUMP: &str = include_str!("data/rows.waldump.txt");

const MAP_CLEARS_WALDUMP: &str = include_str!("data/map_clears.waldump.txt");

const PAGE_R: &[u8] = include_bytes!("data/rows_r.page");
const HEADERS_R: &str = include_str!("data/rows_r.txt");
const PAGE_P_BEFORE: &[u8] = include_bytes!("data/rows_p_before.page");
const PAGE_P_AFTER: &[u8] = include_bytes!("data/rows_p_after.page");
const PAGE_PART1: &[u8] = include_bytes!("data/rows_part1.page");
const PAGE_Z: &[u8] = include_bytes!("data/rows_z.page");
const OFFSETS: &[u8] = include_bytes!("data/multixact_offsets_8184");
const MEMBERS: &[u8] = include_bytes!("data/multixact_members_8152");
const FSM: &str = include_str!("data/fsm_f.txt");
const VM_HEAD: &[u8] = include_bytes!("data/vm_f_head");
const MAPS: &str = include_str!("data/maps_f.txt");
const SUBTRANS: &[u8] = include_bytes!("data/pg_subtrans_8064");

fn page(bytes: &[u8]) -> PageBytes {
    bytes.try_into().expect("a page")
}

/// A record with the description that `pg_waldump` gives of it, cut off after 400 bytes.
type Told = (DecodedRecord<'static>, &'static str);

fn records() -> Vec<Told> {
    told(row_records(), WALDUMP)
}

fn told(all: Vec<Vec<u8>>, waldump: &'static str) -> Vec<Told> {
    assert_eq!(all.len(), waldump.lines().count());
    let told = waldump.lines().map(|line| line.split_once("desc: ").expect("a description").1);
    all.into_iter()
        .map(|bytes| {
            verify_crc(&bytes).expect("an undamaged record");
            decode_record(bytes.leak()).expect("a good record")
        })
        .zip(told)
        .collect()
}

/// The records of a kind.
fn find(rmgr: Rmgr, kind: &str) -> Vec<Told> {
    let mut all = records();
    all.retain(|(record, _)| {
        record.header.rmgr == rmgr && desc::kind_name(rmgr, record.header.info) == Some(kind)
    });
    assert!(!all.is_empty(), "{kind}");
    all
}

#[test]
fn kinds_are_those_of_pg_waldump() {
    for (record, told) in records() {
        let name = desc::kind_name(record.header.rmgr, record.header.info).expect("a kind");
        assert_eq!(told.split(' ').next(), Some(name));
        let mut again = RecordBuilder::from_decoded(&record).finish().expect("a record");
        again.seal(record.header.prev);
        assert_eq!(decode_record(&again.to_vec()).as_ref(), Ok(&record), "{told}");
    }
}

/// A payload, and which of its bytes are padding that PostgreSQL does not clear.
type Again = (Vec<u8>, Vec<usize>);

fn plain(bytes: impl Into<Vec<u8>>) -> Again {
    (bytes.into(), Vec::new())
}

/// Decodes and encodes the main data of a record.
fn main_again(record: &DecodedRecord<'_>) -> Again {
    let (info, main) = (record.header.info, record.main);
    match (record.header.rmgr, desc::kind_name(record.header.rmgr, info).expect("a kind")) {
        (Rmgr::XACT, kind) => xact_again(kind, info, main),
        (Rmgr::CLOG, "TRUNCATE") => plain(clog::ClogTruncate::decode(main).expect("good").encode()),
        (Rmgr::CLOG, _) => {
            plain(clog::encode_zero_page(clog::decode_zero_page(main).expect("good")))
        }
        (Rmgr::MULTIXACT, kind) => multixact_again(kind, main),
        (Rmgr::STANDBY, kind) => standby_again(kind, main),
        (Rmgr::HEAP, kind) => heap_again(kind, main),
        (Rmgr::HEAP2, kind) => heap2_again(kind, info, main),
        other => panic!("no test for {other:?}"),
    }
}

fn xact_again(kind: &str, info: u8, main: &[u8]) -> Again {
    match kind {
        // Its contents belong to prepared transactions, which are refused.
        "PREPARE" => plain(main),
        "ASSIGNMENT" => plain(xact::Assignment::decode(main).expect("good").encode()),
        "INVALIDATION" => {
            let messages = xact::decode_invalidations(main).expect("good");
            messages.iter().for_each(check_invalidation);
            plain(xact::encode_invalidations(&messages))
        }
        _ => {
            let mut out = Vec::new();
            let end = xact::XactEnd::decode(info, main).expect("good");
            end.invalidations.iter().for_each(check_invalidation);
            assert_eq!(end.encode(&mut out), info & xact::HAS_INFO);
            plain(out)
        }
    }
}

/// Decodes and encodes an invalidation; padding aside, the bytes are the same.
fn check_invalidation(stored: &[u8; 16]) {
    let message = Invalidation::decode(*stored).expect("a known message");
    let mut again = message.encode();
    if !matches!(message, Invalidation::Files { .. }) {
        again[1..4].copy_from_slice(&stored[1..4]);
        again[12..].copy_from_slice(&stored[12..]);
    }
    assert_eq!(again, *stored);
}

fn multixact_again(kind: &str, main: &[u8]) -> Again {
    match kind {
        "CREATE_ID" => plain(MultiXactCreate::decode(main).expect("good").encode()),
        "TRUNCATE_ID" => plain(MultiXactTruncate::decode(main).expect("good").encode()),
        _ => plain(encode_zero_page(decode_zero_page(main).expect("good"))),
    }
}

fn standby_again(kind: &str, main: &[u8]) -> Again {
    match kind {
        "LOCK" => plain(standby::encode_locks(&standby::decode_locks(main).expect("good"))),
        "RUNNING_XACTS" => {
            (standby::RunningXacts::decode(main).expect("good").encode(), (9..12).collect())
        }
        _ => (standby::Invalidations::decode(main).expect("good").encode(), (9..12).collect()),
    }
}

fn heap_again(kind: &str, main: &[u8]) -> Again {
    match kind.trim_end_matches("+INIT") {
        "INSERT" => plain(heap::HeapInsert::decode(main).expect("good").encode()),
        "DELETE" | "LOCK" => {
            let delete = heap::HeapDelete::decode(main).expect("good");
            let old = (kind == "DELETE").then(|| delete.old_tuple(main).expect("good")).flatten();
            plain(with_old(&delete.encode(), old))
        }
        "UPDATE" | "HOT_UPDATE" => {
            let update = heap::HeapUpdate::decode(main).expect("good");
            plain(with_old(&update.encode(), update.old_tuple(main).expect("good")))
        }
        "TRUNCATE" => {
            (heap_logical::HeapTruncate::decode(main).expect("good").encode(), (9..12).collect())
        }
        "HEAP_CONFIRM" => plain(heap::encode_confirm(heap::decode_confirm(main).expect("good"))),
        _ => {
            let inplace = heap::HeapInplace::decode(main).expect("good");
            (inplace.encode(), vec![2, 3, 13, 14, 15])
        }
    }
}

fn with_old(main: &[u8], old: Option<(heap::HeapHeader, &[u8])>) -> Vec<u8> {
    let old = old.map(|(header, data)| [&header.encode()[..], data].concat());
    [main, &old.unwrap_or_default()].concat()
}

fn heap2_again(kind: &str, info: u8, main: &[u8]) -> Again {
    match kind {
        "LOCK_UPDATED" => plain(heap::HeapDelete::decode(main).expect("good").encode()),
        "VISIBLE" => plain(heap::HeapVisible::decode(main).expect("good").encode()),
        "NEW_CID" => plain(heap_logical::HeapNewCid::decode(main).expect("good").encode()),
        "REWRITE" => {
            let padding = (12..16).chain(28..32).collect();
            (heap_logical::HeapRewrite::decode(main).expect("good").encode(), padding)
        }
        "MULTI_INSERT" | "MULTI_INSERT+INIT" => {
            let (mut out, multi) = (Vec::new(), heap::HeapMultiInsert::decode(info, main));
            multi.expect("good").encode(&mut out);
            (out, vec![1])
        }
        _ => {
            let mut out = Vec::new();
            prune::HeapPrune::decode(main, None).expect("good").encode(&mut out, &mut Vec::new());
            // Without block data, only the flags of its parts are missing.
            (out, vec![1])
        }
    }
}

#[test]
fn payloads_are_encoded_to_the_same_bytes() {
    for (record, told) in records() {
        let (mut again, padding) = main_again(&record);
        for at in padding {
            again[at] = record.main[at];
        }
        assert_eq!(again, record.main, "{told}");
    }
}

#[test]
fn block_data_is_encoded_to_the_same_bytes() {
    let mut seen = [0; 2];
    for (record, told) in records() {
        let Some(&BlockRef { data, .. }) = record.blocks.first().filter(|b| !b.data.is_empty())
        else {
            continue;
        };
        let kind = desc::kind_name(record.header.rmgr, record.header.info).expect("a kind");
        let mut out = Vec::new();
        if kind.contains("UPDATE") && record.header.rmgr == Rmgr::HEAP {
            let flags = heap::HeapUpdate::decode(record.main).expect("good").flags;
            heap::UpdatedTuple::decode(flags, data).expect("good").encode(flags, &mut out);
            seen[0] += 1;
        } else if kind.starts_with("PRUNE") {
            let prune = prune::HeapPrune::decode(record.main, Some(data)).expect("good");
            let mut main = Vec::new();
            prune.encode(&mut main, &mut out);
            assert_eq!(main, record.main, "{told}");
            if !prune.plans.is_empty() {
                out[2..4].copy_from_slice(&data[2..4]); // padding
            }
            (0..prune.plans.len()).for_each(|n| out[13 + n * 12] = data[13 + n * 12]); // padding
            seen[1] += 1;
        } else {
            continue;
        }
        assert_eq!(out, data, "{told}");
    }
    assert!(seen.iter().all(|&seen| seen > 10), "{seen:?}");
}

/// The names of stored flags about xmax.
fn infobits(bits: u8) -> String {
    let (mask, mask2) = heap::flags_of_infobits(bits);
    let flags = [
        (mask & tuple::HEAP_XMAX_IS_MULTI, "IS_MULTI"),
        (mask & tuple::HEAP_XMAX_LOCK_ONLY, "LOCK_ONLY"),
        (mask & tuple::HEAP_XMAX_EXCL_LOCK, "EXCL_LOCK"),
        (mask & tuple::HEAP_XMAX_KEYSHR_LOCK, "KEYSHR_LOCK"),
        (mask2 & tuple::HEAP_KEYS_UPDATED, "KEYS_UPDATED"),
    ];
    let names: Vec<_> = flags.iter().filter(|(flag, _)| *flag != 0).map(|flag| flag.1).collect();
    names.join(", ")
}

/// What `pg_waldump` tells of a record about rows, up to the block references.
fn description(record: &DecodedRecord<'_>) -> Option<String> {
    let (info, main) = (record.header.info, record.main);
    let kind = desc::kind_name(record.header.rmgr, info).expect("a kind");
    let fields = match kind.trim_end_matches("+INIT") {
        "INSERT" => {
            let insert = heap::HeapInsert::decode(main).expect("good");
            format!("off: {}, flags: 0x{:02X}", insert.offset, insert.flags)
        }
        "MULTI_INSERT" => {
            let multi = heap::HeapMultiInsert::decode(info, main).expect("good");
            let offsets = format!(", offsets: {:?}", multi.offsets);
            let offsets = if kind.ends_with("+INIT") { String::new() } else { offsets };
            format!("ntuples: {}, flags: 0x{:02X}{offsets}", multi.count, multi.flags)
        }
        "DELETE" | "LOCK" | "LOCK_UPDATED" => {
            let heap::HeapDelete { xmax, offset, infobits: bits, flags } =
                heap::HeapDelete::decode(main).expect("good");
            let bits = infobits(bits);
            format!("xmax: {xmax}, off: {offset}, infobits: [{bits}], flags: 0x{flags:02X}")
        }
        "UPDATE" | "HOT_UPDATE" => {
            let update = heap::HeapUpdate::decode(main).expect("good");
            let heap::HeapUpdate { old_xmax, old_offset, flags, new_xmax, new_offset, .. } = update;
            let bits = infobits(update.old_infobits);
            format!(
                "old_xmax: {old_xmax}, old_off: {old_offset}, old_infobits: [{bits}], \
                 flags: 0x{flags:02X}, new_xmax: {new_xmax}, new_off: {new_offset}"
            )
        }
        "HEAP_CONFIRM" => format!("off: {}", heap::decode_confirm(main).expect("good")),
        "INPLACE" => format!("off: {}", heap::HeapInplace::decode(main).expect("good").offset),
        "VISIBLE" => {
            let visible = heap::HeapVisible::decode(main).expect("good");
            let (xid, flags) = (visible.conflict_horizon, visible.flags);
            format!("snapshotConflictHorizon: {xid}, flags: 0x{flags:02X}")
        }
        kind if kind.starts_with("PRUNE") => prune_description(record),
        _ => return None,
    };
    Some(format!("{kind} {fields}"))
}

fn prune_description(record: &DecodedRecord<'_>) -> String {
    let data = Some(record.blocks[0].data).filter(|data| !data.is_empty());
    let prune = prune::HeapPrune::decode(record.main, data).expect("good");
    let horizon = prune.conflict_horizon.map(|xid| format!("snapshotConflictHorizon: {xid}"));
    let catalog = if prune.flags & prune::IS_CATALOG_REL == 0 { 'F' } else { 'T' };
    let head = format!("{}, isCatalogRel: {catalog}", horizon.unwrap_or_default());
    let prune::HeapPrune { plans, redirected, dead, unused, .. } = prune;
    let mut parts = Vec::new();
    for plan in &plans {
        let prune::FreezePlan { xmax, infomask, infomask2, offsets, .. } = plan;
        let n = offsets.len();
        parts.push(format!(
            "{{ xmax: {xmax}, infomask: {infomask}, infomask2: {infomask2}, ntuples: {n}, \
             offsets: {offsets:?} }}"
        ));
    }
    let redirects: Vec<_> = redirected.iter().map(|(from, to)| format!("{from}->{to}")).collect();
    let lists = [
        (plans.len(), format!(", plans: [{}]", parts.join(", "))),
        (redirected.len(), format!(", redirected: [{}]", redirects.join(", "))),
        (dead.len(), format!(", dead: {dead:?}")),
        (unused.len(), format!(", unused: {unused:?}")),
    ];
    let [nplans, nredirected, ndead, nunused] = lists.each_ref().map(|list| list.0);
    let counts = format!(
        ", nplans: {nplans}, nredirected: {nredirected}, ndead: {ndead}, nunused: {nunused}"
    );
    let lists = lists.into_iter().filter(|list| list.0 > 0).map(|list| list.1);
    if data.is_none() { head } else { head + &counts + &lists.collect::<String>() }
}

#[test]
fn fields_are_those_that_pg_waldump_tells() {
    let mut kinds = BTreeMap::new();
    for (record, told) in records().into_iter().chain(told(map_clear_records(), MAP_CLEARS_WALDUMP))
    {
        if !matches!(record.header.rmgr, Rmgr::HEAP | Rmgr::HEAP2) {
            continue;
        }
        if let Some(ours) = description(&record) {
            let len = ours.len().min(told.len());
            assert_eq!(ours[..len], told[..len]);
            *kinds.entry(desc::kind_name(record.header.rmgr, record.header.info)).or_insert(0) += 1;
        }
    }
    assert!(kinds.len() >= 16, "{kinds:?}");
}

#[test]
fn pages_of_the_visibility_map_are_referred_to_where_bits_are_cleared() {
    let mut seen = BTreeMap::new();
    for (record, told) in told(map_clear_records(), MAP_CLEARS_WALDUMP) {
        let kind = told.split(' ').next().expect("a kind");
        let flags = match kind {
            "INSERT" => heap::HeapInsert::decode(record.main).expect("good").flags,
            "MULTI_INSERT" => {
                heap::HeapMultiInsert::decode(record.header.info, record.main).expect("good").flags
            }
            "UPDATE" | "HOT_UPDATE" => heap::HeapUpdate::decode(record.main).expect("good").flags,
            _ => heap::HeapDelete::decode(record.main).expect("good").flags,
        };
        let other_page = record.block(heap::UPDATE_OLD_BLOCK).is_some();
        let expected = match (kind, flags & 3) {
            ("UPDATE" | "HOT_UPDATE", heap::UPDATE_OLD_ALL_VISIBLE_CLEARED) => {
                assert_eq!(other_page, kind == "UPDATE");
                Some(heap::UPDATE_OLD_MAP_BLOCK)
            }
            // The map has one page for both pages of the table.
            ("UPDATE", _) => Some(heap::UPDATE_NEW_MAP_BLOCK),
            (_, 0) => None,
            _ => Some(heap::MAP_BLOCK),
        };
        let maps: Vec<_> = record.blocks.iter().filter(|b| b.tag.fork == Fork::Vm).collect();
        assert_eq!(maps.iter().map(|map| map.id).collect::<Vec<_>>(), Vec::from_iter(expected));
        assert!(maps.iter().all(|map| map.tag.block == 0 && map.data.is_empty()), "{told}");
        seen.insert((kind, flags & 3), expected);
    }
    assert_eq!(seen.len(), 9, "{seen:?}");
}

#[test]
fn multixacts_have_the_members_that_pg_waldump_tells() {
    for (record, told) in find(Rmgr::MULTIXACT, "CREATE_ID") {
        let create = MultiXactCreate::decode(record.main).expect("good");
        let members: String = create
            .members
            .iter()
            .map(|member| format!("{} ({}) ", member.xid, member.status.name()))
            .collect();
        let count = create.members.len();
        let ours = format!(
            "CREATE_ID {} offset {} nmembers {count}: {members}",
            create.multi, create.offset
        );
        assert_eq!(ours, told);
    }
    let (record, told) = find(Rmgr::MULTIXACT, "TRUNCATE_ID").remove(0);
    let MultiXactTruncate { start_multi, end_multi, start_member, end_member, oldest_db } =
        MultiXactTruncate::decode(record.main).expect("good");
    let ours = format!(
        "TRUNCATE_ID offsets [{start_multi}, {end_multi}), members [{start_member}, {end_member})"
    );
    assert_eq!((ours.as_str(), oldest_db), (told, 5));
    for kind in ["ZERO_OFF_PAGE", "ZERO_MEM_PAGE"] {
        assert_eq!(decode_zero_page(find(Rmgr::MULTIXACT, kind)[0].0.main), Ok(1));
    }
}

#[test]
fn transactions_end_with_what_pg_waldump_tells() {
    let (record, _) = find(Rmgr::XACT, "ASSIGNMENT").remove(0);
    let assignment = xact::Assignment::decode(record.main).expect("good");
    assert_eq!((assignment.top_xid, assignment.subxacts.len()), (2_097_137, 64));
    let ends: Vec<_> = ["COMMIT", "ABORT", "COMMIT_PREPARED", "ABORT_PREPARED"]
        .into_iter()
        .flat_map(|kind| find(Rmgr::XACT, kind))
        .map(|(record, told)| {
            (xact::XactEnd::decode(record.header.info, record.main).expect("good"), told)
        })
        .collect();
    for (end, told) in &ends {
        assert_eq!(!end.subxacts.is_empty(), told.contains("subxacts"), "{told}");
        assert_eq!(!end.rels.is_empty(), told.contains("rels:"), "{told}");
        assert_eq!(end.prepared_xid.is_some(), told.contains("_PREPARED"), "{told}");
        let xid = end.prepared_xid.map_or_else(String::new, |xid| format!("PREPARED {xid}:"));
        assert!(told.contains(&xid), "{told}");
    }
    let any = |has: fn(&xact::XactEnd) -> bool| ends.iter().any(|(end, _)| has(end));
    assert!(any(|end| end.prepared_name.as_deref() == Some(b"many") && end.subxacts.len() == 70));
    assert!(any(|end| !end.rels.is_empty() && !end.dropped_stats.is_empty()));
    assert!(any(|end| end.flags & xact::XINFO_HAS_AE_LOCKS != 0));
    assert!(any(|end| end.origin.is_some_and(|(lsn, _)| lsn.0 == 0xab_cdef)));
    assert!(any(|end| end.db.is_some() && end.invalidations.len() > 2));
}

#[test]
fn running_transactions_have_children_until_there_are_too_many() {
    let running: Vec<_> = find(Rmgr::STANDBY, "RUNNING_XACTS")
        .iter()
        .map(|(record, _)| standby::RunningXacts::decode(record.main).expect("good"))
        .collect();
    let listed = running.iter().find(|running| !running.subxids.is_empty()).expect("one");
    assert_eq!(listed.subxids, [2_097_134, 2_097_135, 2_097_136]);
    assert!(listed.xids.contains(&2_097_133) && !listed.subxid_overflow);
    let overflowed = running.iter().find(|running| running.subxid_overflow).expect("one");
    assert!(overflowed.xids.contains(&2_097_137) && overflowed.subxids.is_empty());
}

#[test]
fn records_for_logical_decoding_have_the_expected_values() {
    let (record, told) = find(Rmgr::HEAP, "TRUNCATE").remove(0);
    let truncate = heap_logical::HeapTruncate::decode(record.main).expect("good");
    let both = heap_logical::TRUNCATE_CASCADE | heap_logical::TRUNCATE_RESTART_SEQS;
    assert_eq!((truncate.db, truncate.flags), (5, both));
    assert!(told.ends_with(&format!("relids: {:?}", truncate.rels)), "{told}");
    for (record, told) in find(Rmgr::HEAP2, "NEW_CID") {
        let cid = heap_logical::HeapNewCid::decode(record.main).expect("good");
        let (rel, at) = (cid.rel, cid.at);
        let ours = format!(
            "NEW_CID rel: {}/{}/{}, tid: {}/{}, cmin: {}, cmax: {}, combo: {}",
            rel.spc, rel.db, rel.rel, at.block, at.offset, cid.cmin, cid.cmax, cid.combo
        );
        assert_eq!(ours, told);
    }
    let (record, _) = find(Rmgr::HEAP2, "REWRITE").remove(0);
    let rewrite = heap_logical::HeapRewrite::decode(record.main).expect("good");
    assert_eq!((rewrite.db, rewrite.offset, rewrite.rows.is_empty()), (5, 0, false));
    assert!(rewrite.rows.iter().all(|row| row.old_rel.db == 5 && row.new_rel != row.old_rel));
    let (record, _) = find(Rmgr::CLOG, "TRUNCATE").remove(0);
    let truncate = clog::ClogTruncate::decode(record.main).expect("good");
    assert_eq!((truncate.page, truncate.oldest_xid_db), (64, 5));
}

/// MultiXacts with their members, from the records that created them.
fn multixacts() -> BTreeMap<u32, MultiXactCreate> {
    find(Rmgr::MULTIXACT, "CREATE_ID")
        .iter()
        .map(|(record, _)| MultiXactCreate::decode(record.main).expect("good"))
        .map(|create| (create.multi, create))
        .collect()
}

#[test]
fn headers_of_tuples_are_those_that_pageinspect_tells() {
    let bytes = page(PAGE_R);
    let view = Page::new(&bytes);
    assert_eq!(line_pointers::check(view), Ok(()));
    assert_eq!(HEADERS_R.lines().count(), usize::from(view.item_count()));
    for line in HEADERS_R.lines() {
        let fields: Vec<_> = line.split('|').collect();
        let number = |n: usize| fields[n].parse::<u32>().expect("a number");
        let tuple = HeapTuple::new(view.item(number(0) as u16).expect("an item")).expect("one");
        assert_eq!((tuple.xmin(), tuple.xmax(), tuple.cid()), (number(1), number(2), number(3)));
        let ctid = format!("({},{})", tuple.ctid().block, tuple.ctid().offset);
        assert_eq!((ctid.as_str(), tuple.hoff() as u32), (fields[4], number(7)));
        assert_eq!(u32::from(tuple.infomask2()), number(5));
        assert_eq!(u32::from(tuple.infomask()), number(6));
        let (raw, combined) = (fields[8], fields[9]);
        let has = |flag: &str| raw.trim_matches(['{', '}']).split(',').any(|name| name == flag);
        assert_eq!(tuple.is_heap_only(), has("HEAP_ONLY_TUPLE"));
        assert_eq!(tuple.is_hot_updated(), has("HEAP_HOT_UPDATED"));
        assert_eq!(tuple.is_updated(), has("HEAP_UPDATED"));
        assert_eq!(tuple.has_combo_cid(), has("HEAP_COMBOCID"));
        let expected = match number(0) {
            1..=3 | 10 | 18 => Xmax::Transaction(MemberStatus::NoKeyUpdate),
            4 => Xmax::Transaction(MemberStatus::Update),
            5 | 9 => Xmax::Multi { lock_only: false },
            6 | 7 | 16 => Xmax::Multi { lock_only: true },
            8 => Xmax::Transaction(MemberStatus::ForUpdate),
            17 => Xmax::Transaction(MemberStatus::ForKeyShare),
            _ => Xmax::None,
        };
        assert_eq!(tuple.xmax_kind(), expected, "{line}");
        assert_eq!(combined.contains("SHR_LOCK"), number(0) == 6);
    }
}

#[test]
fn flags_of_locked_tuples_are_computed_as_postgresql_does() {
    let bytes = page(PAGE_R);
    let all = multixacts();
    let mut seen = 0;
    for (_, item) in Page::new(&bytes).items() {
        let tuple = HeapTuple::new(item).expect("a tuple");
        let bits = match tuple.xmax_kind() {
            Xmax::Multi { .. } => {
                seen += 1;
                XmaxBits::of_multi(&all[&tuple.xmax()].members)
            }
            Xmax::Transaction(status) => XmaxBits::of_one(status),
            _ => continue,
        };
        // Whether the updater committed is a hint.
        let stored = tuple.infomask() & tuple::HEAP_XMAX_BITS & !tuple::HEAP_XMAX_COMMITTED;
        assert_eq!(stored, bits.infomask);
        assert_eq!(tuple.infomask2() & tuple::HEAP_KEYS_UPDATED, bits.infomask2);
    }
    assert!(seen >= 5);
    let (record, _) = find(Rmgr::HEAP, "LOCK").remove(0);
    let lock = heap::HeapDelete::decode(record.main).expect("good");
    let bits = XmaxBits::of_one(MemberStatus::ForKeyShare);
    assert_eq!(heap::flags_of_infobits(lock.infobits), (bits.infomask, bits.infomask2));
}

#[test]
fn a_row_that_moved_to_another_partition_says_so() {
    let bytes = page(PAGE_PART1);
    let item = Page::new(&bytes).item(1).expect("a row");
    let tuple = HeapTuple::new(item).expect("a tuple");
    assert!(tuple.moved_partitions() && tuple.speculative_token().is_none());
    assert_eq!(tuple.xmax_kind(), Xmax::Transaction(MemberStatus::Update));
    let mut ours = item.to_vec();
    let mut header = HeapTupleMut::new(&mut ours).expect("a tuple");
    header.set_speculative_token(7);
    assert_eq!(header.tuple().speculative_token(), Some(7));
    header.set_moved_partitions();
    assert_eq!(ours, item);
}

/// Clears what redo does not restore: hints, and xmax and ctid, which later changes replaced.
fn without_later_changes(bytes: &mut [u8]) {
    let mut tuple = HeapTupleMut::new(bytes).expect("a tuple");
    let (mask, mask2) = (tuple.tuple().infomask(), tuple.tuple().infomask2());
    let gone = tuple::HEAP_XMAX_BITS | tuple::HEAP_XMIN_FROZEN | tuple::HEAP_COMBOCID;
    tuple.set_infomask(mask & !gone);
    tuple.set_infomask2(mask2 & !(tuple::HEAP_KEYS_UPDATED | tuple::HEAP_HOT_UPDATED));
    tuple.set_ctid(ItemPointer::new(0, 0));
    tuple.set_cid(0);
    tuple.set_xmax(0);
}

#[test]
fn updated_tuples_are_rebuilt_from_the_old_ones() {
    let bytes = page(PAGE_R);
    let view = Page::new(&bytes);
    let rel = find(Rmgr::HEAP, "HOT_UPDATE")[0].0.blocks[0].tag.rel;
    let (mut compressed, mut rebuilt, mut again) = (0, Vec::new(), Vec::new());
    for (record, told) in find(Rmgr::HEAP, "HOT_UPDATE") {
        let update = heap::HeapUpdate::decode(record.main).expect("good");
        let data = record.blocks[0].data;
        let later = update.new_offset > view.item_count();
        if record.blocks[0].tag.rel != rel || data.is_empty() || later {
            continue;
        }
        let new = heap::UpdatedTuple::decode(update.flags, data).expect("good");
        let old = HeapTuple::new(view.item(update.old_offset).expect("an item")).expect("one");
        let at = ItemPointer::new(0, update.new_offset);
        new.rebuild(Some(old), &update, record.header.xid, at, &mut rebuilt).expect("good");
        let mut item = view.item(update.new_offset).expect("an item").to_vec();
        again.clear();
        let theirs = HeapTuple::new(&rebuilt).expect("a tuple");
        assert_eq!(theirs.xmax(), update.new_xmax);
        let flags = heap::UpdatedTuple::encode_new(theirs, Some(old), &mut again);
        assert_eq!((flags, again.as_slice()), (update.flags, data), "{told}");
        compressed += usize::from(new.prefix > 0 && new.suffix > 0);
        without_later_changes(&mut rebuilt);
        without_later_changes(&mut item);
        assert_eq!(rebuilt, item, "{told}");
        assert!(new.rebuild(None, &update, 7, at, &mut rebuilt).is_err());
    }
    assert!(compressed >= 3, "{compressed}");
}

#[test]
fn a_pruned_and_frozen_page_is_that_of_postgresql() {
    let mut ours = page(PAGE_P_BEFORE);
    let theirs = page(PAGE_P_AFTER);
    let (record, told) = find(Rmgr::HEAP2, "PRUNE_VACUUM_SCAN")
        .into_iter()
        .find(|(_, told)| told.contains("nredirected: 11"))
        .expect("the record of table p");
    let prune = prune::HeapPrune::decode(record.main, Some(record.blocks[0].data)).expect("good");
    assert!(prune.plans.len() == 2 && prune.unused.len() > 10, "{told}");
    prune.apply(&mut PageMut(&mut ours)).expect("a page that can be pruned");
    let mut view = PageMut(&mut ours);
    view.set_prune_xid(0);
    view.set_all_visible(true);
    let (view, after) = (Page::new(&ours), Page::new(&theirs));
    assert_eq!(
        (view.flags(), view.lower(), view.upper()),
        (after.flags(), after.lower(), after.upper())
    );
    assert_eq!(view.line_pointers(), after.line_pointers());
    assert_eq!(ours[view.upper()..], theirs[view.upper()..]);
    // The same freezing, as one plan for each tuple.
    let single = prune.plans.iter().flat_map(|plan| {
        let alone = prune::FreezePlan { offsets: Vec::new(), ..plan.clone() };
        plan.offsets.iter().rev().map(move |&n| (n, alone.clone()))
    });
    assert_eq!(prune::FreezePlan::group(single.collect()), prune.plans);
}

#[test]
fn multixact_files_have_the_created_members() {
    let (mut offsets, mut members) = ([[0; 8192]; 2], [[0; 8192]; 2]);
    for create in multixacts().values() {
        let next = multi_next(create.multi);
        let end = create.offset + create.members.len() as u32;
        for (multi, offset) in [(create.multi, create.offset), (next, end)] {
            let page = &mut offsets[multixact::offsets_page(multi) as usize];
            multixact::set_offset(page, multi, offset);
            assert_eq!(multixact::offset(page, multi), offset);
        }
        for (at, &member) in (create.offset..).zip(&create.members) {
            let page = &mut members[multixact::members_page(at) as usize];
            multixact::set_member(page, at, member);
            assert_eq!(multixact::member(page, at), Ok(Some(member)));
        }
    }
    assert_eq!([&offsets[0][8184..], &offsets[1][..64]].concat(), OFFSETS);
    assert_eq!([&members[0][8152..], &members[1][..64]].concat(), MEMBERS);
}

#[test]
fn parents_of_subtransactions_are_where_postgresql_put_them() {
    let mut page = [0; 8192];
    let theirs = |xid: u32| {
        let mut theirs = [0; 8192];
        theirs[8064..].copy_from_slice(SUBTRANS);
        subtrans::parent(&theirs, xid)
    };
    assert_eq!(subtrans::page_of(2_097_151), 1023);
    // Prepared transactions keep their children's parents only directly.
    for xid in 2_097_134..=2_097_151 {
        if theirs(xid) != 0 {
            subtrans::set_parent(&mut page, xid, theirs(xid));
        }
    }
    assert_eq!(page[8064..], *SUBTRANS);
    assert_eq!((theirs(2_097_134), theirs(2_097_133), theirs(2_097_137)), (2_097_133, 0, 0));
}

/// Block, free bytes, all-visible, all-frozen of each block of table f.
fn told_of_maps() -> Vec<(u32, usize, bool, bool)> {
    let line = |line: &'static str| {
        let fields: Vec<_> = line.split('|').collect();
        let number = |n: usize| fields[n].parse::<u32>().expect("a number");
        (number(0), number(1) as usize, fields[2] == "t", fields[3] == "t")
    };
    MAPS.lines().map(line).collect()
}

#[test]
fn the_free_space_map_has_the_bytes_of_postgresql() {
    let mut theirs = [[0; 8192]; 3];
    for line in FSM.lines() {
        let fields: Vec<usize> =
            line.split(' ').map(|field| field.parse().expect("a number")).collect();
        theirs[fields[0]][fields[1]] = fields[2] as u8;
    }
    let mut ours = [[0; 8192]; 3];
    ours.iter_mut().for_each(|page| PageMut(page).init(0));
    for (block, free, ..) in told_of_maps() {
        let (mut page, mut slot) = MapPage::of_block(block);
        loop {
            let category = if page.level() == 0 {
                fsm::category(free)
            } else {
                let child = page.child(slot).expect("a page below");
                fsm::greatest(Page::new(&ours[child.block() as usize]))
            };
            fsm::set(&mut PageMut(&mut ours[page.block() as usize]), slot, category);
            let Some(parent) = page.parent() else { break };
            (page, slot) = parent;
        }
    }
    for (ours, theirs) in ours.iter().zip(&theirs) {
        assert_eq!(ours[10..], theirs[10..]);
    }
}

#[test]
fn the_visibility_map_has_the_bytes_of_postgresql() {
    let mut ours = [0; 8192];
    let mut map = PageMut(&mut ours);
    map.init(0);
    let (mut visible, mut frozen) = (0, 0);
    for (block, _, all_visible, all_frozen) in told_of_maps() {
        let bits = u8::from(all_visible) | u8::from(all_frozen) << 1;
        visibility_map::set(&mut map, block, bits);
        (visible, frozen) = (visible + u32::from(all_visible), frozen + u32::from(all_frozen));
        assert_eq!(visibility_map::get(map.page(), block), bits);
    }
    assert_eq!(visibility_map::count(map.page()), (visible, frozen));
    assert!(visible > 10);
    assert_eq!(ours[10..64], VM_HEAD[10..]);
}

#[test]
fn images_are_compressed_to_the_bytes_of_postgresql() {
    let mut seen = 0;
    for (record, told) in records() {
        for image in record.blocks.iter().filter_map(|block| block.image) {
            let mut page = [0xee; 8192];
            image.restore(&mut page).expect("a whole page");
            if !image.is_compressed() {
                continue;
            }
            let view = Page::new(&page);
            assert!(view.header_is_sane() && view.lsn() < record.header.prev, "{told}");
            let (hole, len) = (usize::from(image.hole_offset), usize::from(image.hole_len));
            let stored = [&page[..hole], &page[hole + len..]].concat();
            assert_eq!(pglz::compress(&stored).as_deref(), Some(image.bytes), "{told}");
            seen += 1;
        }
    }
    assert!(seen >= 3, "{seen}");
}

#[test]
fn compressed_values_are_those_of_postgresql() {
    let bytes = page(PAGE_Z);
    let item = Page::new(&bytes).item(1).expect("a row");
    let mut walk = Deform::new(HeapTuple::new(item).expect("a tuple")).expect("a good header");
    let text: Vec<String> = (1..=500).map(|n| format!("value {n}")).collect();
    let text = text.join(",").into_bytes();
    for expected in [0, 1] {
        let value = walk.next(AttrLayout::VARLENA).expect("a good value");
        let Some(Varlena::Compressed { raw_size, method, data }) = value else {
            panic!("{value:?} is not compressed");
        };
        assert_eq!(method, expected);
        assert_eq!(varlena::decompress(raw_size, method, data).as_ref(), Ok(&text));
        if method == 0 {
            assert_eq!(pglz::compress(&text).as_deref(), Some(data));
        }
    }
}
