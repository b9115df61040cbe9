//! Segments of all sizes, compressed and encrypted.

use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};

use forebay_archive::store::StoreOptions;
use forebay_archive::store::codec::Compression;
use forebay_archive::store::layout::LayoutKind;
use forebay_archive::store::seal::Key;
use forebay_archive::store::verify::VerifyOptions;
use forebay_archive::{Archived, SourceOptions, push};
use forebay_format::SegmentSize;

use crate::common::fixture::Fixture;
use crate::common::segments::{SYSTEM, wal_name, write_header};

/// Writes a sparse segment: its header, and a few bytes in its middle and at its end.
fn sparse(fixture: &Fixture, size: SegmentSize, number: u64) -> String {
    let name = size.file_name(1, number);
    let mut head = vec![0; 8192];
    write_header(&mut head, size, 1, number, SYSTEM);
    let mut file = File::create(fixture.wal(&name)).unwrap();
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
        let mut fixture = Fixture::new();
        let repository = fixture.repository(sealed(LayoutKind::Plain, compression));
        let name = sparse(&fixture, size, 5);
        assert_eq!(fixture.push(&repository, &name).unwrap(), Archived::Stored);
        assert_eq!(fixture.push(&repository, &name).unwrap(), Archived::Identical);
        let restored = fixture.get(&repository, &name).unwrap();
        assert!(restored == Some(fs::read(fixture.wal(&name)).unwrap()), "{compression:?}");
        let found = repository.verify(&fixture.aio, &VerifyOptions::default(), &|_, _| ()).unwrap();
        assert_eq!(found.problems, []);
    }
}

/// The largest size, as a sparse file.
#[test]
fn a_segment_of_a_gigabyte() {
    let size = SegmentSize::new(1 << 30).expect("a size");
    let mut fixture = Fixture::new();
    let repository = fixture.repository(sealed(LayoutKind::Hashed, Compression::Zstd(1)));
    let name = sparse(&fixture, size, 3);
    let path = fixture.wal(&name);
    let options = SourceOptions::default();
    let pushed = push::push(&fixture.aio, &mut fixture.io, &repository, &path, &options).unwrap();
    assert_eq!(pushed, Archived::Stored);
    // It is only read back, not restored; the hash verifies it.
    let mut bytes = 0;
    let fetched = repository.fetch(&mut fixture.io, &wal_name(&name), &mut |_, piece| {
        bytes += piece.len() as u64;
        Ok(())
    });
    let fetched = fetched.unwrap().expect("it is there");
    assert_eq!((bytes, fetched.size), (1 << 30, 1 << 30));
    assert_eq!(fetched.manifest.expect("it has one").sha256, fetched.sha256);
    let stored: u64 = fixture.contents().values().map(|bytes| bytes.len() as u64).sum();
    assert!(stored < 4 << 20, "{stored} bytes are stored");
}
