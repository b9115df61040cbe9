//! PostgreSQL 18's own pg_waldump reads what this crate writes.

use std::collections::HashMap;
use std::process::Output;
use std::sync::Mutex;

use crate::common::*;
use forebay_aio::{IoBackend, MethodKind};
use forebay_format::{
    BLOCK_SIZE, Fork, Lsn, PageBytes, PageMut, PageTag, RelFileLocator,
    wal::{
        self, ImageCompression, RecordHeader, Rmgr,
        xlog::{FPI, SWITCH},
    },
};
use forebay_testkit::peer::Peer;
use forebay_wal::{BlockFlags, BlockRef, CheckpointKind, Record, Wal, WalRecord};

/// Runs pg_waldump on the segments of `rig`, from `start` to `end`.
fn dump(peer: &Peer, rig: &Rig, start: Lsn, end: Lsn, options: &[&str]) -> Output {
    for name in rig.names() {
        std::fs::copy(rig.config.dir.join(&name), peer.outside(&name)).expect("copy");
    }
    peer.give_to_postgres();
    let mut command = peer.command("pg_waldump");
    command.args(["--path", &peer.inside("")]);
    command.args(["--start", &start.to_string(), "--end", &end.to_string()]).args(options);
    command.output().expect("pg_waldump runs")
}

fn lines(output: &Output) -> Vec<String> {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

fn page(fill: u8) -> PageBytes {
    let mut bytes = [0; BLOCK_SIZE];
    let mut page = PageMut(&mut bytes);
    page.init(0);
    page.add_item(&[fill; 500], None);
    bytes
}

#[test]
fn pg_waldump_reads_segments_of_records() {
    let Some(peer) = Peer::find("pg_waldump_reads_segments_of_records") else { return };
    let mut rig = Rig::new(MethodKind::Sync);
    let wal = rig.fresh();
    let mut numbers = Dice::new(2026);
    let mut places = Vec::new();
    let mut last_redo = Lsn(0);
    for n in 0..400u32 {
        let at = match n % 20 {
            3 => {
                last_redo = wal
                    .begin_checkpoint(&mut rig.io, CheckpointKind::Online { wal_level: 1 })
                    .expect("redo");
                forebay_wal::Inserted { start: last_redo, end: wal.end_lsn() }
            }
            5 => {
                let image = page(n as u8);
                let tag = PageTag::new(RelFileLocator::in_default(5, 16384), Fork::Main, n);
                let flags = BlockFlags::FORCE_IMAGE | BlockFlags::STANDARD;
                let block = BlockRef { id: 0, tag, page: Some(&image), flags, data: &[] };
                let record =
                    Record { rmgr: Rmgr::XLOG, info: FPI, xid: 0, main: &[], blocks: &[block] };
                wal.insert(&mut rig.io, &record).expect("insert")
            }
            _ => {
                let len = if n % 20 == 7 { 150_000 } else { numbers.below(900) as usize + 1 };
                insert(&wal, &mut rig.io, &vec![n as u8; len])
            }
        };
        places.push(at);
    }
    wal.flush_all(&mut rig.io).expect("flush");
    assert!(wal.end_lsn().0 > BEGIN.0 + 2 * SEGMENT);
    let dumped = lines(&dump(&peer, &rig, places[0].start, wal.end_lsn(), &[]));
    assert_eq!(dumped.len(), places.len());
    let mut prev = Lsn(0);
    for (line, at) in dumped.iter().zip(&places) {
        let (high, low) = (at.start.0 >> 32, at.start.0 as u32);
        assert!(
            line.contains(&format!(
                "lsn: {high:X}/{low:08X}, prev {:X}/{:08X}",
                prev.0 >> 32,
                prev.0 as u32
            )),
            "{line}"
        );
        prev = at.start;
    }
    assert_eq!(dumped.iter().filter(|line| line.contains("CHECKPOINT_REDO")).count(), 20);
    assert_eq!(
        dumped.iter().filter(|line| line.contains("FPW") || line.contains("FPI")).count(),
        20
    );
    assert!(last_redo > BEGIN);
}

#[test]
fn pg_waldump_reads_past_restarts_and_an_incomplete_record() {
    let test = "pg_waldump_reads_past_restarts_and_an_incomplete_record";
    let Some(peer) = Peer::find(test) else { return };
    let mut rig = Rig::new(MethodKind::Sync);
    let wal = rig.fresh();
    let restart = |rig: &mut Rig, wal: Wal| {
        wal.flush_all(&mut rig.io).expect("flush");
        drop(wal);
        rig.recover().1
    };
    let first = insert(&wal, &mut rig.io, &[1; 100]).start;
    let mut wal = restart(&mut rig, wal);
    insert(&wal, &mut rig.io, &[2; 20_000]);
    wal = restart(&mut rig, wal);
    // A record across the end of a segment, of which the part in the second segment is lost.
    let end = BEGIN.add(SEGMENT - 512);
    fill_up_to(&wal, &mut rig.io, end, 3);
    insert(&wal, &mut rig.io, &[4; 5000]);
    wal.flush_all(&mut rig.io).expect("flush");
    drop(wal);
    rig.patch(BEGIN.add(SEGMENT), |bytes| bytes.fill(0));
    let (records, wal) = rig.recover();
    assert_eq!(records.len(), 3);
    insert(&wal, &mut rig.io, &[5; 700]);
    let wal = restart(&mut rig, wal);
    insert(&wal, &mut rig.io, &[6; 700]);
    wal.flush_all(&mut rig.io).expect("flush");
    let dumped = lines(&dump(&peer, &rig, first, wal.end_lsn(), &[]));
    assert_eq!(dumped.len(), 6, "{dumped:#?}");
    assert!(dumped[3].contains("OVERWRITE_CONTRECORD"), "{}", dumped[3]);
}

/// A page with rows that compress like real ones, filled to a random degree.
fn rows(numbers: &mut Dice) -> PageBytes {
    let mut bytes = [0; BLOCK_SIZE];
    let mut page = PageMut(&mut bytes);
    page.init(0);
    for n in 0..numbers.below(110) {
        let text = format!("row {n} of thread {} and more {}", numbers.below(8), numbers.any());
        page.add_item(text.as_bytes(), None);
    }
    bytes
}

/// The pages that `pg_waldump --save-fullpage` wrote, by the position of their record.
fn saved_pages(peer: &Peer, name: &str) -> HashMap<Lsn, Vec<u8>> {
    let mut pages = HashMap::new();
    for entry in std::fs::read_dir(peer.outside(name)).expect("saved pages") {
        let path = entry.expect("entry").path();
        // TTTTTTTT-HHHHHHHH-LLLLLLLL.tablespace.database.relation.block_fork
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name").to_owned();
        let half = |range| u64::from_str_radix(&name[range], 16).expect("digits");
        pages.insert(Lsn(half(9..17) << 32 | half(18..26)), std::fs::read(&path).expect("page"));
    }
    pages
}

/// Eight threads write several segments, with some switches, and images compressed by each method.
/// PostgreSQL must find all records in order, and restore each image to the same page.
#[test]
fn pg_waldump_reads_what_was_written_under_load() {
    let Some(peer) = Peer::find("pg_waldump_reads_what_was_written_under_load") else { return };
    for compression in [None, Some(ImageCompression::Lz4), Some(ImageCompression::Zstd)] {
        let name = compression.map_or("none".to_owned(), |method| format!("{method:?}"));
        let mut rig = Rig::new(methods().pop().expect("a method"));
        rig.config.buffers = 32;
        let wal = rig.fresh();
        wal.set_compression(compression);
        let pages = Mutex::new(HashMap::new());
        std::thread::scope(|scope| {
            for thread in 0..8_u64 {
                let (wal, pages, mut io) = (&wal, &pages, rig.backend());
                scope.spawn(move || write_load(wal, &mut io, thread, pages));
            }
        });
        wal.flush_all(&mut rig.io).expect("flush");
        let end = wal.end_lsn();
        assert!(end.0 > BEGIN.0 + 2 * SEGMENT, "{name}: up to {end}");
        let (records, found) = rig.read_all(BEGIN);
        assert_eq!(found.end, end, "{name}");
        check_load(&records, compression, &name);
        let out = peer.inside(&name);
        let save = ["--save-fullpage", &out];
        let dumped = lines(&dump(&peer, &rig, records[0].start, end, &save));
        assert_eq!(dumped.len(), records.len(), "{name}");
        for (line, record) in dumped.iter().zip(&records) {
            let at = format!("lsn: {:X}/{:08X}, ", record.start.0 >> 32, record.start.0 as u32);
            assert!(line.contains(&at), "{name}: {line}");
        }
        let (saved, pages) = (saved_pages(&peer, &name), pages.into_inner().expect("pages"));
        assert_eq!((saved.len(), pages.len()), (400, 400), "{name}");
        for (at, page) in pages {
            let is_same = saved.get(&at).is_some_and(|theirs| theirs[..] == page[..]);
            assert!(is_same, "{name}: the image at {at}");
        }
        for name in rig.names() {
            std::fs::remove_file(peer.outside(&name)).expect("removed");
        }
    }
}

/// Inserts the records of one thread, and adds the pages of their images to `pages`.
fn write_load(wal: &Wal, io: &mut IoBackend, thread: u64, pages: &Mutex<HashMap<Lsn, PageBytes>>) {
    let mut numbers = Dice::new(1000 + thread);
    for n in 0..250_u32 {
        let at = if n % 5 == 0 {
            let image = rows(&mut numbers);
            let rel = RelFileLocator::in_default(5, 16384 + thread as u32);
            let flags = BlockFlags::FORCE_IMAGE | BlockFlags::STANDARD;
            let tag = PageTag::new(rel, Fork::Main, n);
            let blocks = [BlockRef { id: 0, tag, page: Some(&image), flags, data: &[] }];
            let record = Record { rmgr: Rmgr::XLOG, info: FPI, xid: 0, main: &[], blocks: &blocks };
            let at = wal.insert(io, &record).expect("insert");
            pages.lock().expect("pages").insert(at.start, image);
            at
        } else {
            let limit = if n % 50 == 7 { 120_000 } else { 900 };
            let len = numbers.below(limit) as usize + 1;
            insert(wal, io, &vec![n as u8; len])
        };
        if numbers.below(10) == 0 {
            wal.flush(io, at.end).expect("flush");
        }
        if n % 100 == thread as u32 * 10 + 5 && thread < 3 {
            wal.switch_segment(io).expect("switch");
        }
    }
}

/// Checks how many records there are, and how many of them have compressed images.
fn check_load(records: &[WalRecord], compression: Option<ImageCompression>, name: &str) {
    let decoded = || records.iter().map(|record| record.decode().expect("decodable"));
    let is_switch = |header: RecordHeader| header.rmgr == Rmgr::XLOG && header.kind() == SWITCH;
    let switches = decoded().filter(|record| is_switch(record.header)).count();
    assert!((1..=9).contains(&switches), "{name}: {switches} switches");
    assert_eq!(records.len(), 2000 + switches, "{name}");
    let is_compressed = |block: &wal::BlockRef<'_>| block.image.is_some_and(|i| i.is_compressed());
    let compressed = decoded().filter(|record| record.blocks.iter().any(is_compressed)).count();
    assert_eq!(compressed > 300, compression.is_some(), "{name}");
}
