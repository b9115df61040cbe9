//! Runs the entry points of the fuzz targets on damaged samples, which are the same in each run.

#[path = "../../../fuzz/src/entry.rs"]
mod entry;
mod support;

use forebay_format::wal::desc::kind_name;
use forebay_format::wal::{Rmgr, decode_record};
use forebay_format::{PageMut, free_space_map as fsm};
use forebay_testkit::Dice;
use support::{WAL, btree_records, index_records, map_clear_records, records, row_records};

const HEAP: &[u8] = include_bytes!("data/heap_t_after.page");
const INDEX: &[u8] = include_bytes!("data/pg_class_oid_index.block1");
const BTREE: &[u8] = include_bytes!("data/btree.pages");
const MAP_PAGE: &[u8] = include_bytes!("data/pg_xact_block1_head");
const ROWS: [&[u8]; 3] = [
    include_bytes!("data/rows_r.page"),
    include_bytes!("data/rows_p_before.page"),
    include_bytes!("data/rows_z.page"),
];
const CONTROL: &[u8] = include_bytes!("data/pg_control");
const MAP: &[u8] = include_bytes!("data/shared_filenode.map");

/// Runs a target on a sample: once unchanged, and `times` times with up to four of the first
/// `within` bytes changed, sometimes truncated.
fn damage(target: fn(&[u8]), sample: &[u8], within: usize, times: usize) {
    target(sample);
    let mut numbers = Dice::new(1);
    for _ in 0..times {
        let mut bytes = sample.to_vec();
        for _ in 0..=numbers.index(4) {
            let at = numbers.index(within.min(bytes.len()));
            bytes[at] = match numbers.index(4) {
                0 => 0,
                1 => 0xff,
                2 => bytes[at] ^ 1 << numbers.index(8),
                _ => numbers.index(256) as u8,
            };
        }
        if numbers.index(4) == 0 {
            bytes.truncate(numbers.index(bytes.len()));
        }
        target(&bytes);
    }
}

#[test]
fn pages() {
    for sample in [HEAP, INDEX, &[0; 8192]].into_iter().chain(ROWS).chain(BTREE.chunks(8192)) {
        damage(entry::page, sample, 80, 1500);
        damage(entry::page, sample, 8192, 500);
    }
}

#[test]
fn pages_of_maps_and_transactions() {
    for sample in [HEAP, MAP_PAGE] {
        damage(entry::map_page, sample, sample.len(), 1000);
    }
    let mut space = [0; 8192];
    let mut page = PageMut::new(&mut space);
    page.init(0);
    for slot in (0..fsm::SLOTS).step_by(7) {
        fsm::set(&mut page, slot, slot as u8);
    }
    damage(entry::map_page, &space, 40, 1000);
    damage(entry::map_page, &space, space.len(), 1000);
}

#[test]
fn compressed_values() {
    for sample in ROWS {
        let compressed = forebay_format::pglz::compress(sample).expect("a page gets shorter");
        let sample = [&8192_u16.to_le_bytes()[..], &compressed].concat();
        damage(entry::compressed, &sample, sample.len(), 1000);
    }
}

#[test]
fn tuples() {
    let page = HEAP.try_into().expect("a page");
    for (_, item) in forebay_format::Page::new(page).items() {
        let mut sample = vec![7, 2, 3, 0, 3, 8, 2, 8];
        sample.extend_from_slice(item);
        damage(entry::tuple, &sample, sample.len(), 1500);
    }
}

#[test]
fn wal_records() {
    let plain = records().into_iter().map(|(_, record)| record);
    for record in plain.chain(row_records()).chain(map_clear_records()).chain(btree_records()) {
        damage(entry::wal_record, &record[4..], 120, 600);
    }
}

const INDEX_RECORDS: &str = include_str!("data/indexes.waldump.txt");

/// PostgreSQL's records are decoded, under the names that it gives them; and damaged ones.
#[test]
fn wal_records_of_other_indexes() {
    let records = index_records();
    assert_eq!(records.len(), INDEX_RECORDS.lines().count());
    for (bytes, line) in records.iter().zip(INDEX_RECORDS.lines()) {
        let record = decode_record(bytes).expect("a record");
        let described = line.split_once("desc: ").expect("a description").1;
        let rmgr = record.header.rmgr;
        let name = kind_name(rmgr, record.header.info).expect("a kind that is known");
        assert_eq!(described.split(' ').next(), Some(name), "{line}");
        let is_index = ![Rmgr::COMMIT_TS, Rmgr::ORIGIN, Rmgr::GENERIC].contains(&rmgr);
        let payload = if is_index { entry::index_payload } else { entry::other_payload };
        assert_eq!(payload(&record), Some(()), "{line}");
        damage(entry::wal_record, &bytes[4..], 160, 300);
        damage(entry::wal_record, &bytes[4..], bytes.len() - 4, 100);
    }
}

#[test]
fn wal_pages() {
    for page in WAL.chunks(8192) {
        damage(entry::wal_page, page, 8192, 100);
        damage(entry::wal_page, page, 40, 100);
    }
}

#[test]
fn control_files() {
    let fixed = |data: &[u8]| {
        entry::control_file(data);
        let mut data = data.to_vec();
        if let Some(crc) = data.get(..292).map(forebay_format::crc::crc32c) {
            if let Some(stored) = data.get_mut(292..296) {
                stored.copy_from_slice(&crc.to_le_bytes());
            }
            entry::control_file(&data);
        }
    };
    damage(fixed, CONTROL, 296, 3000);
    damage(entry::control_file, MAP, MAP.len(), 500);
}

#[test]
fn histories() {
    let sample = b"\x051\t0/3000000\tno recovery target specified\n\n# a comment\n\
        2\t0/5000148\tbefore noon\n4\t1/28\t\n";
    damage(entry::history, sample, sample.len(), 5000);
}

/// Compressed images, with damage.
#[test]
fn compressed_images() {
    use forebay_format::wal::{Image, ImageCompression, RecordBuilder, Rmgr};
    use forebay_format::{Fork, PageTag, RelFileLocator};
    let page = HEAP.try_into().expect("a page");
    for (_, method) in ImageCompression::NAMES {
        for standard in [false, true] {
            let tag = PageTag::new(RelFileLocator::in_default(5, 16384), Fork::Main, 3);
            let image = Image { page, standard, apply: true };
            let builder = RecordBuilder::new(Rmgr::XLOG, 0xb0, 0)
                .block(0, tag, false, Some(image))
                .compress(method);
            let record = builder.finish().expect("a record").to_vec();
            damage(entry::wal_record, &record[4..], 60, 1000);
            damage(entry::wal_record, &record[4..], record.len() - 4, 2000);
        }
    }
}
