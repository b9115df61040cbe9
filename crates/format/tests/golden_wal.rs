//! WAL that PostgreSQL wrote: each record is found, verified, decoded as `pg_waldump` does, and
//! encoded to the same bytes.

mod support;

use forebay_format::{
    Fork, ItemPointer, Lsn, Page, PageBytes, SegmentSize,
    control::ControlFile,
    syscache,
    tuple::{HeapTuple, HeapTupleMut},
    wal::{
        DecodedRecord, PageHeader, RecordBuilder, Rmgr, clog, decode_record, desc, heap,
        invalidation::Invalidation, prune, smgr, standby, verify_crc, xact, xlog,
    },
};
use support::{WAL, WAL_START, records, row_records};

const WALDUMP: &str = include_str!("data/waldump.txt");
const CONTROL: &[u8] = include_bytes!("data/pg_control");
const HEAP_T_AFTER: &[u8] = include_bytes!("data/heap_t_after.page");

/// A line of `pg_waldump`.
#[derive(Debug)]
struct Told {
    rmgr: &'static str,
    total_len: u32,
    xid: u32,
    lsn: Lsn,
    prev: Lsn,
    kind: &'static str,
    rest: &'static str,
}

fn told() -> Vec<Told> {
    WALDUMP.lines().map(parse_line).collect()
}

fn parse_line(line: &'static str) -> Told {
    let field = |label: &str| {
        let at = line.find(label).unwrap_or_else(|| panic!("no {label} in {line}")) + label.len();
        line[at..].trim_start().split([',', ' ']).next().expect("a word")
    };
    let total = line.split_once('/').and_then(|(_, rest)| rest.split_once('/')).expect("lengths").1;
    let rest = line.split_once("desc: ").expect("a description").1;
    Told {
        rmgr: field("rmgr: "),
        total_len: total
            .trim_start()
            .split(',')
            .next()
            .expect("a number")
            .parse()
            .expect("a number"),
        xid: field("tx: ").parse().expect("a number"),
        lsn: field("lsn: ").parse().expect("a position"),
        prev: field("prev ").parse().expect("a position"),
        kind: rest.split(' ').next().expect("a kind"),
        rest,
    }
}

/// The nth record of a kind.
fn find<'a>(all: &'a [(Lsn, Vec<u8>)], rmgr: Rmgr, name: &str, nth: usize) -> DecodedRecord<'a> {
    let decoded = all.iter().map(|(_, bytes)| decode_record(bytes).expect("a good record"));
    let matching = |record: &DecodedRecord<'_>| {
        record.header.rmgr == rmgr && desc::kind_name(rmgr, record.header.info) == Some(name)
    };
    decoded.filter(matching).nth(nth).unwrap_or_else(|| panic!("no {name}"))
}

#[test]
fn page_headers_are_decoded_and_encoded() {
    let system_id = ControlFile::decode(CONTROL).expect("a good control file").system_id;
    let segments = SegmentSize::new(1 << 20).expect("a good size");
    let mut continued = 0;
    for (n, page) in WAL.chunks(8192).enumerate() {
        let at = WAL_START.add(n as u64 * 8192);
        let header = PageHeader::decode(page).expect("a good header");
        assert_eq!(header.check(at, segments, system_id), Ok(()));
        assert_eq!((header.long.is_some(), header.timeline), (n == 0, 1));
        continued += u32::from(header.is_continuation());
        let mut again = [0xff; 40];
        let size = header.encode(&mut again);
        assert_eq!(again[..size], page[..size]);
    }
    assert!(continued >= 3, "records of the samples continue over pages");
}

#[test]
fn records_are_those_that_pg_waldump_finds() {
    let (found, told) = (records(), told());
    assert_eq!(found.len(), told.len());
    for ((lsn, bytes), told) in found.iter().zip(&told) {
        assert_eq!(verify_crc(bytes), Ok(()), "{told:?}");
        let record = decode_record(bytes).unwrap_or_else(|error| panic!("{error}: {told:?}"));
        let header = record.header;
        assert_eq!((*lsn, header.prev), (told.lsn, told.prev));
        assert_eq!((header.total_len, header.xid), (told.total_len, told.xid));
        assert_eq!(header.rmgr.name(), Some(told.rmgr));
        match desc::kind_name(header.rmgr, header.info) {
            Some(name) => assert_eq!(name, told.kind),
            None => assert_eq!(told.rmgr, "Btree"),
        }
        let blocks: Vec<_> = record
            .blocks
            .iter()
            .map(|block| {
                let (rel, image) = (block.tag.rel, if block.image.is_some() { " FPW" } else { "" });
                let fork = match block.tag.fork {
                    Fork::Main => String::new(),
                    fork => format!(" fork {}", fork.name()),
                };
                format!(
                    "blkref #{}: rel {}/{}/{}{fork} blk {}{image}",
                    block.id, rel.spc, rel.db, rel.rel, block.tag.block
                )
            })
            .collect();
        let references: Vec<_> =
            told.rest.split(", ").filter(|part| part.starts_with("blkref")).collect();
        assert_eq!(blocks, references);
    }
}

#[test]
fn records_are_encoded_to_the_same_bytes() {
    for (_, bytes) in records() {
        let record = decode_record(&bytes).expect("a good record");
        let mut again =
            RecordBuilder::from_decoded(&record).finish().expect("a record that can be");
        again.seal(record.header.prev);
        assert_eq!(again.total_len(), bytes.len());
        assert_eq!(again.to_vec(), bytes, "{record}");
    }
}

#[test]
fn payloads_are_encoded_to_the_same_bytes() {
    let mut seen = 0;
    for (_, bytes) in records() {
        let record = decode_record(&bytes).expect("a good record");
        if record.header.rmgr != Rmgr::BTREE {
            assert_eq!(payload_again(&record), record.main, "{record}");
            seen += 1;
        }
    }
    assert!(seen > 30);
}

/// Decodes and encodes the main data of a record.
fn payload_again(record: &DecodedRecord<'_>) -> Vec<u8> {
    let (info, main) = (record.header.info, record.main);
    match (record.header.rmgr, desc::kind_name(record.header.rmgr, info).expect("a kind")) {
        (Rmgr::XLOG, kind) => xlog_again(kind, main),
        (Rmgr::XACT, _) => {
            let mut out = Vec::new();
            let has_info = xact::XactEnd::decode(info, main).expect("good").encode(&mut out);
            assert_eq!(has_info, info & xact::HAS_INFO);
            out
        }
        (Rmgr::SMGR, "CREATE") => smgr::SmgrCreate::decode(main).expect("good").encode().to_vec(),
        (Rmgr::CLOG, "ZEROPAGE") => {
            clog::encode_zero_page(clog::decode_zero_page(main).expect("good")).to_vec()
        }
        (Rmgr::STANDBY, kind) => standby_again(kind, main),
        (Rmgr::HEAP, "INSERT") => heap::HeapInsert::decode(main).expect("good").encode().to_vec(),
        (Rmgr::HEAP, "DELETE" | "LOCK") => {
            heap::HeapDelete::decode(main).expect("good").encode().to_vec()
        }
        (Rmgr::HEAP, "UPDATE" | "HOT_UPDATE") => update_again(record),
        (Rmgr::HEAP, "INPLACE") => inplace_again(main),
        (Rmgr::HEAP2, "VISIBLE") => {
            heap::HeapVisible::decode(main).expect("good").encode().to_vec()
        }
        (Rmgr::HEAP2, "PRUNE_VACUUM_SCAN") => prune_again(record),
        (Rmgr::HEAP2, _) => multi_insert_again(record),
        other => panic!("no test for {other:?}"),
    }
}

fn xlog_again(kind: &str, main: &[u8]) -> Vec<u8> {
    match kind {
        "CHECKPOINT_SHUTDOWN" | "CHECKPOINT_ONLINE" => {
            xlog::CheckPoint::decode(main).expect("good").encode().to_vec()
        }
        "CHECKPOINT_REDO" => {
            let level = xlog::decode_checkpoint_redo(main).expect("good");
            xlog::encode_checkpoint_redo(level).to_vec()
        }
        "NEXTOID" => xlog::encode_next_oid(xlog::decode_next_oid(main).expect("good")).to_vec(),
        "PARAMETER_CHANGE" => {
            let mut bytes = xlog::ParameterChange::decode(main).expect("good").encode().to_vec();
            bytes[26..].copy_from_slice(&main[26..]); // padding, which PostgreSQL does not clear
            bytes
        }
        "FPI_FOR_HINT" => Vec::new(),
        other => panic!("no test for XLOG {other}"),
    }
}

fn standby_again(kind: &str, main: &[u8]) -> Vec<u8> {
    let mut bytes = match kind {
        "LOCK" => return standby::encode_locks(&standby::decode_locks(main).expect("good")),
        "RUNNING_XACTS" => standby::RunningXacts::decode(main).expect("good").encode(),
        "INVALIDATIONS" => standby::Invalidations::decode(main).expect("good").encode(),
        other => panic!("no test for Standby {other}"),
    };
    bytes[9..12].copy_from_slice(&main[9..12]); // padding
    bytes
}

fn update_again(record: &DecodedRecord<'_>) -> Vec<u8> {
    let update = heap::HeapUpdate::decode(record.main).expect("good");
    let data = record.blocks[0].data;
    let tuple = heap::UpdatedTuple::decode(update.flags, data).expect("good");
    let mut out = Vec::new();
    tuple.encode(update.flags, &mut out);
    assert_eq!(out, data);
    update.encode().to_vec()
}

fn inplace_again(main: &[u8]) -> Vec<u8> {
    let mut bytes = heap::HeapInplace::decode(main).expect("good").encode();
    bytes[2..4].copy_from_slice(&main[2..4]); // padding
    bytes[13..16].copy_from_slice(&main[13..16]); // padding
    bytes
}

fn prune_again(record: &DecodedRecord<'_>) -> Vec<u8> {
    let theirs = record.blocks[0].data;
    let prune = prune::HeapPrune::decode(record.main, Some(theirs)).expect("good");
    let frozen: Vec<_> = prune.plans.iter().map(|plan| plan.offsets.clone()).collect();
    assert_eq!(frozen, [vec![1, 5, 6], vec![7]]);
    assert_eq!(
        (prune.conflict_horizon, prune.redirected.as_slice()),
        (Some(32_776), &[(3, 7)][..])
    );
    assert_eq!((prune.dead.len(), prune.unused.as_slice()), (0, &[2, 4][..]));
    let (mut main, mut data) = (Vec::new(), Vec::new());
    prune.encode(&mut main, &mut data);
    data[2..4].copy_from_slice(&theirs[2..4]); // padding
    for plan in 0..prune.plans.len() {
        data[4 + plan * 12 + 9] = theirs[4 + plan * 12 + 9]; // padding
    }
    assert_eq!(data, theirs);
    main
}

/// Encodes main and block data of a multi-insert again, from whole tuples.
fn multi_insert_again(record: &DecodedRecord<'_>) -> Vec<u8> {
    let multi = heap::HeapMultiInsert::decode(record.header.info, record.main).expect("good");
    let theirs = record.blocks[0].data;
    let (mut ours, mut tuple) = (Vec::new(), Vec::new());
    for stored in multi.tuples(theirs) {
        let (header, data) = stored.expect("a good tuple");
        header.rebuild(data, record.header.xid, ItemPointer::new(0, 1), &mut tuple);
        let before = ours.len();
        heap::HeapMultiInsert::push_tuple(HeapTuple::new(&tuple).expect("a tuple"), &mut ours);
        if before % 2 == 1 {
            ours[before] = theirs[before]; // padding, which PostgreSQL does not clear
        }
    }
    assert_eq!(ours, theirs);
    let mut main = Vec::new();
    multi.encode(&mut main);
    main[1] = record.main[1]; // padding
    main
}

#[test]
fn payloads_have_the_expected_values() {
    let all = records();
    let commit = find(&all, Rmgr::XACT, "COMMIT", 5);
    let end = xact::XactEnd::decode(commit.header.info, commit.main).expect("good");
    assert_eq!((commit.header.xid, end.subxacts), (32_770, vec![32_771]));
    let commit = find(&all, Rmgr::XACT, "COMMIT", 7);
    let end = xact::XactEnd::decode(commit.header.info, commit.main).expect("good");
    assert_eq!((end.rels.len(), end.invalidations.len(), end.db.map(|db| db.0)), (1, 3, Some(5)));
    let running = standby::RunningXacts::decode(find(&all, Rmgr::STANDBY, "RUNNING_XACTS", 0).main)
        .expect("good");
    assert_eq!(
        (running.next_xid, running.latest_completed, running.xids.len()),
        (32_774, 32_773, 0)
    );
    assert_eq!(clog::decode_zero_page(find(&all, Rmgr::CLOG, "ZEROPAGE", 0).main), Ok(1));
    let online = find(&all, Rmgr::XLOG, "CHECKPOINT_ONLINE", 0);
    let redo = find(&all, Rmgr::XLOG, "CHECKPOINT_REDO", 0);
    let checkpoint = xlog::CheckPoint::decode(online.main).expect("good");
    let position =
        all.iter().find(|(_, bytes)| decode_record(bytes).as_ref() == Ok(&redo)).expect("there").0;
    assert_eq!((checkpoint.redo, checkpoint.oldest_active_xid), (position, 32_774));
    assert_eq!(xlog::decode_checkpoint_redo(redo.main), Ok(xlog::WalLevel::Replica as i32));
    let last = all.last().expect("a record");
    let control = ControlFile::decode(CONTROL).expect("good");
    assert_eq!(control.checkpoint, last.0);
    let checkpoint = decode_record(&last.1).expect("good");
    assert_eq!(xlog::CheckPoint::decode(checkpoint.main), Ok(control.checkpoint_copy));
    let create = smgr::SmgrCreate::decode(find(&all, Rmgr::SMGR, "CREATE", 0).main).expect("good");
    assert_eq!(create.rel.to_string(), "base/5/16397");
    let init = find(&all, Rmgr::HEAP2, "MULTI_INSERT+INIT", 0);
    assert!(init.blocks[0].will_init && init.blocks[0].image.is_none());
}

#[test]
fn inserted_tuples_are_those_on_the_page() {
    let all = records();
    let page: PageBytes = HEAP_T_AFTER.try_into().expect("a page");
    let record = find(&all, Rmgr::HEAP2, "MULTI_INSERT", 0);
    let multi = heap::HeapMultiInsert::decode(record.header.info, record.main).expect("good");
    let mut tuple = Vec::new();
    for (index, stored) in (0..).zip(multi.tuples(record.blocks[0].data)) {
        let (header, data) = stored.expect("a good tuple");
        let n = multi.offset(index).expect("an offset");
        header.rebuild(data, record.header.xid, ItemPointer::new(0, n), &mut tuple);
        let item = Page::new(&page).item(n).expect("an item");
        let hint = HeapTuple::new(item).expect("a tuple").infomask();
        HeapTupleMut::new(&mut tuple).expect("a tuple").set_infomask(hint);
        assert_eq!(tuple, item);
    }
}

#[test]
fn images_are_whole_pages() {
    let mut images = 0;
    for (lsn, bytes) in records() {
        let record = decode_record(&bytes).expect("a good record");
        for (block, image) in record.blocks.iter().filter_map(|block| Some((block, block.image?))) {
            let mut page = [0xff; 8192];
            image.restore(&mut page).expect("a whole page");
            let view = Page::new(&page);
            assert!(view.header_is_sane() && view.lsn() < lsn, "{record}");
            // Maps have no line pointers, so their pages are stored whole.
            let standard = block.tag.fork == Fork::Main;
            let hole = if standard { (view.lower(), view.upper() - view.lower()) } else { (0, 0) };
            assert_eq!((usize::from(image.hole_offset), usize::from(image.hole_len)), hole);
            assert!(image.apply());
            images += 1;
        }
    }
    assert_eq!(images, WALDUMP.matches(" FPW").count());
}

#[test]
fn an_in_place_update_of_pg_class_invalidates_the_keys_of_its_row() {
    let all = row_records();
    let records = all.iter().map(|bytes| decode_record(bytes).expect("a good record"));
    let record = records
        .into_iter()
        .find(|record| {
            record.header.rmgr == Rmgr::HEAP && record.header.info & heap::OPMASK == heap::INPLACE
        })
        .expect("INPLACE");
    let inplace = heap::HeapInplace::decode(record.main).expect("good");
    let values = record.blocks[0].data;
    let word = |at: usize| u32::from_le_bytes(values[at..at + 4].try_into().expect("4 bytes"));
    let name = values[4..68].split(|byte| *byte == 0).next().expect("a name");
    let name = std::str::from_utf8(name).expect("text");
    let (oid, namespace) = (word(0), word(68));
    let by_name = syscache::hash_key(&[syscache::hash_name(name), syscache::hash_oid(namespace)]);
    let entry = |cache, hash| Invalidation::Entry { cache, db: 5, hash };
    let expected = [
        entry(syscache::CLASS_BY_OID, syscache::hash_oid(oid)),
        entry(syscache::CLASS_BY_NAME, by_name),
        Invalidation::Relation { db: 5, rel: oid },
    ];
    let stored = inplace.invalidations.iter().map(|m| Invalidation::decode(*m).expect("known"));
    assert!(stored.eq(expected));
    assert!((inplace.db, inplace.tablespace, inplace.relcache_file) == (5, 1663, false));
    // As hashtext() gives them. Names of 12 bytes and more are hashed in parts.
    let known = [
        ("", -1_477_818_771),
        ("pg_class", -267_801_108),
        ("twelve_bytes", 2_008_336_335),
        ("a_name_longer_than_twelve_bytes", 1_744_381_629),
    ];
    assert!(known.iter().all(|(name, hash)| syscache::hash_name(name).cast_signed() == *hash));
}
