//! WAL between PostgreSQL 18 and this engine: compressed images, timelines.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use crate::common::*;
use forebay_engine::{Engine, ImageCompression, IoMethod, ShutdownMode};
use forebay_format::wal::PageHeader;
use forebay_format::{BLOCK_SIZE, Fork, Lsn, SegmentSize};
use forebay_testkit::peer::Peer;
use forebay_wal::{ReaderConfig, WalReader, WalRecord};

/// Where the first record begins in the segments from `number` on: behind the rest of one that
/// began earlier.
fn first_record(pg_wal: &Path, size: SegmentSize, number: u64) -> Lsn {
    let start = size.start(number);
    let page = std::fs::read(pg_wal.join(size.file_name(1, number))).expect("segment");
    let header = PageHeader::decode(&page).expect("a page");
    let rest =
        if header.is_continuation() { u64::from(header.rem_len).next_multiple_of(8) } else { 0 };
    let offset = header.size() as u64 + rest;
    if offset < 8192 { start.add(offset) } else { first_record(pg_wal, size, number + 1) }
}

/// The records of a log, from its first segment on.
fn records(pg_wal: &Path, size: SegmentSize) -> Vec<WalRecord> {
    let (aio, mut io) = log::backend();
    let names =
        std::fs::read_dir(pg_wal).expect("pg_wal").map(|entry| entry.expect("entry").file_name());
    let first = names
        .filter_map(|name| size.parse_file_name(name.to_str()?))
        .map(|(_, number)| number)
        .min();
    let start = first_record(pg_wal, size, first.expect("a segment"));
    let config = ReaderConfig {
        dir: pg_wal.to_owned(),
        segment_size: size,
        timeline: 1,
        system_id: None,
        direct: false,
    };
    let mut reader = WalReader::new(aio, config, start);
    let mut records = Vec::new();
    while let Some(record) = reader.next(&mut io).expect("readable") {
        records.push(record);
    }
    reader.check_end(&mut io).expect("no damage");
    records
}

/// The pages that `pg_waldump --save-fullpage` wrote, by the record's position, the block's number,
/// and whether of the main fork.
fn saved_pages(dir: &Path) -> BTreeMap<(Lsn, u32, bool), Vec<u8>> {
    let mut pages = BTreeMap::new();
    for entry in std::fs::read_dir(dir).expect("pages") {
        let entry = entry.expect("entry");
        let name = entry.file_name().into_string().expect("name");
        // TTTTTTTT-HHHHHHHH-LLLLLLLL.tablespace.database.relation.block_fork
        let (place, block) = name
            .split_once('.')
            .zip(name.rsplit_once('.'))
            .map(|(a, b)| (a.0, b.1))
            .expect("a name");
        let lsn: Vec<u64> =
            place.split('-').map(|n| u64::from_str_radix(n, 16).expect("digits")).collect();
        let (block, fork) = block.split_once('_').expect("a fork");
        let at = (Lsn(lsn[1] << 32 | lsn[2]), block.parse().expect("a number"), fork == "main");
        pages.insert(at, std::fs::read(entry.path()).expect("page"));
    }
    pages
}

/// Checks every image of a log against what pg_waldump makes of it. How many were compressed.
fn compare_images(records: &[WalRecord], pages: &BTreeMap<(Lsn, u32, bool), Vec<u8>>) -> usize {
    let (mut compressed, mut compared) = (0, 0);
    for record in records {
        let decoded = record.decode().expect("decodable");
        for block in &decoded.blocks {
            let Some(image) = block.image else { continue };
            let mut page = [0xee; BLOCK_SIZE];
            image
                .restore(&mut page)
                .unwrap_or_else(|e| panic!("{decoded} at {}: {e}", record.start));
            if let Some(theirs) =
                pages.get(&(record.start, block.tag.block, block.tag.fork == Fork::Main))
            {
                assert!(theirs[..] == page[..], "{decoded} at {}", record.start);
                compared += 1;
            }
            compressed += usize::from(image.is_compressed());
        }
    }
    assert!(compared >= compressed, "{compared} images compared, {compressed} compressed");
    compressed
}

const LOAD: &str = "create table t as select g as id, 'row number ' || g as note from \
                    generate_series(1, 5000) g; create index on t (id); checkpoint; update t set \
                    note = note || '!' where id % 3 = 0; delete from t where id % 7 = 0; vacuum \
                    t; checkpoint; update t set id = -id where id < 100";

#[test]
fn images_compressed_by_postgresql_are_read() {
    let Some(peer) = Peer::find("images_compressed_by_postgresql_are_read") else { return };
    peer.init_with("data", &["--wal-segsize=1"]);
    let scratch = scratch();
    for method in ["off", "lz4", "zstd", "pglz"] {
        let server = peer.start(
            "data",
            &format!("-c autovacuum=off -c wal_keep_size=1GB -c wal_compression={method}"),
        );
        server.query("drop table if exists t");
        for statement in LOAD.split(';') {
            server.query(statement);
        }
        drop(server);
        let there = scratch.path().join(method);
        peer.fetch("data/pg_wal", &there);
        let found = records(&there, SegmentSize::new(1 << 20).expect("size"));
        let (first, last) = (found[0].start, found[found.len() - 1].end);
        let (data, out) = (peer.inside("data/pg_wal"), peer.inside(&format!("pages-{method}")));
        let range = ["--start", &first.to_string(), "--end", &last.to_string()];
        peer.run(
            "pg_waldump",
            &[
                "--path",
                &data,
                range[0],
                range[1],
                range[2],
                range[3],
                "--quiet",
                "--save-fullpage",
                &out,
            ],
        );
        let pages = saved_pages(&peer.outside(&format!("pages-{method}")));
        let compressed = compare_images(&found, &pages);
        println!(
            "{method}: {} records, {} images, {compressed} compressed so far",
            found.len(),
            pages.len()
        );
        assert!(pages.len() > 50, "{}", pages.len());
        assert_eq!(
            compressed > 20,
            method != "off",
            "{method}: {compressed} images were compressed"
        );
    }
}

#[test]
fn postgresql_recovers_images_compressed_here() {
    let Some(peer) = Peer::find("postgresql_recovers_images_compressed_here") else { return };
    for (name, method) in ImageCompression::NAMES {
        let (scratch, dir) = new_dir();
        let mut config = config(IoMethod::Worker, false);
        config.writing.wal_compression = Some(method);
        let (engine, mut session) = open_session(&dir, &config);
        create(&mut session, "t");
        insert(&mut session, "t", 0..20_000);
        for round in 0..5 {
            session.checkpoint().expect("checkpoint");
            insert(&mut session, "t", 20_000 + round * 10..20_010 + round * 10);
        }
        engine.shutdown(ShutdownMode::Immediate).expect("stop");
        drop((session, engine));
        let found = records(&dir.join("pg_wal"), SegmentSize::new(1 << 20).expect("size"));
        let is_compressed = |record: &&WalRecord| {
            let decoded = record.decode().expect("decodable");
            decoded
                .blocks
                .iter()
                .any(|block| block.image.is_some_and(|image| image.is_compressed()))
        };
        assert!(found.iter().filter(is_compressed).count() >= 5, "{name}");
        let folder = format!("data-{name}");
        peer.adopt(&dir, &folder);
        let server = peer.start(&folder, "-c autovacuum=off");
        let log = peer.log();
        assert!(log.contains("redo done at"), "{log}");
        drop(server);
        let there = scratch.path().join("recovered");
        peer.fetch(&folder, &there);
        let sum: i64 = (0..20_050).sum();
        for dir in [&there, &dir] {
            let (engine, mut session) = open_session(dir, &config);
            assert_eq!(
                count_and_sum(&mut session, "t"),
                (20_050, sum),
                "{name}, {}",
                dir.display()
            );
            drop(session);
            engine.shutdown(ShutdownMode::Fast).expect("shutdown");
        }
    }
}

#[test]
fn a_directory_on_a_later_timeline_goes_on_there() {
    let Some(peer) = Peer::find("a_directory_on_a_later_timeline_goes_on_there") else {
        return;
    };
    peer.init_with("data", &["--wal-segsize=1"]);
    let server = peer.start("data", "-c autovacuum=off");
    // Made here, so that it has no type or index of its own that this engine can't write.
    server.query("create table t as select g::int8 as id from generate_series(0, 999) g");
    drop(server);
    std::fs::write(peer.outside("data/standby.signal"), "").expect("signal");
    peer.give_to_postgres();
    let server = peer.start("data", "-c autovacuum=off");
    peer.run("pg_ctl", &["promote", "-w", "-D", &peer.inside("data")]);
    server.query("insert into t select g from generate_series(1000, 1999) g");
    drop(server);
    let scratch = scratch();
    let dir = scratch.path().join("data");
    peer.fetch("data", &dir);
    assert!(dir.join("pg_wal/00000002.history").exists(), "the promotion made a timeline");

    let config = config(IoMethod::Sync, true);
    let rows =
        |engine: &Arc<Engine>| count(&mut engine.session().expect("session"), "t").expect("count");
    // Each stop leaves WAL on timeline 2 that the next start recovers.
    for round in 0..3_u64 {
        let engine = open(&dir, &config);
        assert_eq!(rows(&engine), 2000 + round * 50);
        let mut session = engine.session().expect("session");
        transaction(&mut session, |s| {
            let table = s.open_table(None, "t", forebay_engine::LockMode::RowExclusive)?;
            let mut batch = forebay_engine::RowBatch::new(&table);
            for id in 0..50 {
                batch.push(&[forebay_engine::Datum::Int8(id)])?;
            }
            s.insert_batch(&table, &mut batch)
        })
        .expect("insert");
        engine.shutdown(ShutdownMode::Immediate).expect("stop");
    }
    let engine = open(&dir, &config);
    assert_eq!(rows(&engine), 2150);
    engine.shutdown(ShutdownMode::Fast).expect("stop");
    drop(engine);
    // And PostgreSQL goes on there, too.
    peer.adopt(&dir, "back");
    let server = peer.start("back", "-c autovacuum=off");
    assert_eq!(
        server.query("select count(*), sum(id) from t"),
        format!("2150|{}", (0..2000).sum::<i64>() + 3 * (0..50).sum::<i64>())
    );
    assert_eq!(server.query("select timeline_id from pg_control_checkpoint()"), "2");
}
