//! Segments of every size that there may be, compressed and encrypted.

use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};

use forebay_archive::store::StoreOptions;
use forebay_archive::store::codec::Compression;
use forebay_archive::store::layout::LayoutKind;
use forebay_archive::store::seal::Key;
use forebay_archive::store::verify::VerifyOptions;
use forebay_archive::{Archived, SourceOptions, push};
use forebay_format::wal::page_header::{LongHeader, PageHeader};
use forebay_format::{Lsn, SegmentSize};

use crate::bed::{Bed, SYSTEM, wal_name};

/// A segment that is a hole but for its header and a few bytes in its middle and at its end.
fn sparse(bed: &Bed, size: SegmentSize, number: u64) -> String {
    let name = size.file_name(1, number);
    let long = LongHeader { system_id: SYSTEM, segment_size: size.get(), block_size: 8192 };
    let mut head = vec![0; 8192];
    let page_addr = Lsn(number * size.bytes());
    PageHeader { info: 0, timeline: 1, page_addr, rem_len: 0, long: Some(long) }.encode(&mut head);
    let mut file = File::create(bed.wal(&name)).unwrap();
    file.write_all(&head).unwrap();
    for at in [size.bytes() / 2 - 3, size.bytes() - 7] {
        file.seek(SeekFrom::Start(at)).unwrap();
        file.write_all(b"forebay").unwrap();
    }
    name
}

fn sealed(layout: LayoutKind, compression: Compression) -> StoreOptions {
    let key = Some(Key::from_bytes([9; 32]));
    StoreOptions { layout: Some(layout), compression, key, ..StoreOptions::default() }
}

#[test]
fn segments_of_1_4_and_64_megabytes() {
    for (shift, compression) in
        [(20, Compression::None), (22, Compression::Lz4), (26, Compression::Zstd(1))]
    {
        let size = SegmentSize::new(1 << shift).expect("a size");
        let mut bed = Bed::new();
        let repository = bed.repository(sealed(LayoutKind::Plain, compression));
        let name = sparse(&bed, size, 5);
        assert_eq!(bed.push(&repository, &name).unwrap(), Archived::Stored);
        assert_eq!(bed.push(&repository, &name).unwrap(), Archived::Identical);
        let restored = bed.get(&repository, &name).unwrap();
        assert!(restored == Some(fs::read(bed.wal(&name)).unwrap()), "{compression:?}");
        let found = repository.verify(&bed.aio, &VerifyOptions::default(), &|_, _| ()).unwrap();
        assert_eq!(found.problems, []);
    }
}

/// The largest there are; one, sparse, so that it costs little.
#[test]
fn a_segment_of_a_gigabyte() {
    let size = SegmentSize::new(1 << 30).expect("a size");
    let mut bed = Bed::new();
    let repository = bed.repository(sealed(LayoutKind::Hashed, Compression::Zstd(1)));
    let name = sparse(&bed, size, 3);
    let path = bed.wal(&name);
    let options = SourceOptions::default();
    let pushed = push::push(&bed.aio, &mut bed.be, &repository, &path, &options).unwrap();
    assert_eq!(pushed, Archived::Stored);
    // Read back without being restored anywhere; that it is the same is told by its hash.
    let mut bytes = 0;
    let fetched = repository.fetch(&mut bed.be, &wal_name(&name), &mut |_, piece| {
        bytes += piece.len() as u64;
        Ok(())
    });
    let fetched = fetched.unwrap().expect("it is there");
    assert_eq!((bytes, fetched.size), (1 << 30, 1 << 30));
    assert_eq!(fetched.manifest.expect("it has one").sha256, fetched.sha256);
    let stored: u64 = bed.contents().values().map(|bytes| bytes.len() as u64).sum();
    assert!(stored < 4 << 20, "{stored} bytes are stored");
}
