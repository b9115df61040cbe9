//! WAL about changed rows that PostgreSQL wrote: each record is decoded as `pg_waldump` does, and
//! its payload is encoded to the same bytes.

mod support;

use forebay_format::wal::{
    BlockRef, DecodedRecord, RecordBuilder, Rmgr, clog, decode_record, desc, heap, heap_logical,
    invalidation::Invalidation,
    multixact::{self, MultiXactCreate, MultiXactTruncate},
    prune, standby, verify_crc, xact,
};
use support::row_records;

const WALDUMP: &str = include_str!("data/rows.waldump.txt");

/// A record with the description that `pg_waldump` gives of it, cut off after 400 bytes.
type Told = (DecodedRecord<'static>, &'static str);

fn records() -> Vec<Told> {
    let all = row_records();
    assert_eq!(all.len(), WALDUMP.lines().count());
    let told = WALDUMP.lines().map(|line| line.split_once("desc: ").expect("a description").1);
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
        _ => plain(multixact::encode_zero_page(multixact::decode_zero_page(main).expect("good"))),
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
        assert_eq!(multixact::decode_zero_page(find(Rmgr::MULTIXACT, kind)[0].0.main), Ok(1));
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
