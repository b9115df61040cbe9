//! Files that do not match their names.

use std::fs;

use forebay_archive::MAGICS;
use forebay_archive::{ArchiveError, Digest, Expected, Source, SourceOptions};
use forebay_format::SegmentSize;

use crate::common::segments::write_header;
use crate::fixture::*;

/// Reads a file to its end.
fn read(fixture: &mut Fixture, file: &str) -> Result<Digest, ArchiveError> {
    let mut source = fixture.source(&name(file))?;
    let digest = source.read_to_end(&mut fixture.io);
    source.close(&mut fixture.io);
    digest
}

#[test]
fn a_segment_is_read_once_and_hashed() {
    each(|fixture| {
        let file = segment(1, 5);
        let bytes = contents(1, 5);
        fixture.put(&file, &bytes);
        let mut source = fixture.source(&file).unwrap();
        let mut read = Vec::new();
        while let Some(piece) = source.next(&mut fixture.io).unwrap() {
            assert_eq!(piece.offset, read.len() as u64);
            read.extend_from_slice(piece.bytes());
            source.give_back(piece.buf);
        }
        assert!(read == bytes);
        assert_eq!(source.digest(), Some(Digest::of(&bytes)));
        let facts = source.facts().expect("they are known");
        assert_eq!((facts.start, facts.timeline, facts.system_id), (start(5), 1, SYSTEM));
        assert_eq!(facts.segment_size, SIZE);
        assert!(source.next(&mut fixture.io).unwrap().is_none(), "the end stays the end");
        source.rewind(&mut fixture.io);
        assert_eq!(source.read_to_end(&mut fixture.io).unwrap(), Digest::of(&bytes));
    });
}

#[test]
fn wrong_system_id_version_or_address() {
    let mut fixture = Fixture::plain();
    let file = segment(1, 5);
    let spoil = |at: usize, bytes: &[u8]| {
        let mut spoiled = contents(1, 5);
        spoiled[at..at + bytes.len()].copy_from_slice(bytes);
        spoiled
    };
    for (at, bytes, says) in [
        (0, &[0x17, 0xd1][..], "invalid magic number D117 in WAL page"),
        (0, &[0, 0], "invalid magic number 0000"),
        (2, &[0, 0], "wrong kind of header"),
        (3, &[0x40], "invalid info bits"),
        (8, &start(6).0.to_le_bytes(), "unexpected address 0/600000 in WAL page at 0/500000"),
        (24, &9_u64.to_le_bytes(), "its identifier is 9, not 7418000000000000001"),
        (32, &(2_u32 << 20).to_le_bytes(), "says segments have 2097152 bytes"),
        (36, &4096_u32.to_le_bytes(), "pages 4096"),
    ] {
        fixture.put(&file, &spoil(at, bytes));
        let error = read(&mut fixture, file.as_str()).unwrap_err();
        assert!(matches!(error, ArchiveError::Header { .. }), "{error:?}");
        assert!(error.to_string().contains(says), "{error}");
        assert!(error.to_string().contains(file.as_str()), "{error}");
    }
    fixture.put(&file, &contents(1, 5));
    assert!(read(&mut fixture, file.as_str()).is_ok());
}

#[test]
fn segments_of_postgresql_15_to_18_are_known() {
    let fixture = Fixture::plain();
    let mut io = fixture.aio.backend(forebay_aio::BackendType::Standalone).unwrap();
    for (magic, version) in MAGICS {
        let mut bytes = contents(1, 5);
        bytes[..2].copy_from_slice(&magic.to_le_bytes());
        fixture.put(&segment(1, 5), &bytes);
        let mut source = fixture.source(&segment(1, 5)).unwrap();
        source.read_to_end(&mut io).unwrap();
        assert_eq!(source.facts().map(|facts| facts.magic), Some(magic), "{version}");
        let expected = Expected { magic: Some(0xD118), ..expected() };
        let options = SourceOptions { expected, ..fixture.options() };
        let mut source =
            Source::open(&fixture.aio, &fixture.wal(), &segment(1, 5), &options).unwrap();
        assert_eq!(
            source.read_to_end(&mut io).is_ok(),
            version == 18,
            "a server knows its own version"
        );
    }
}

#[test]
fn wrong_timeline() {
    let mut fixture = Fixture::plain();
    // The first segment of timeline 2 begins with pages of timeline 1.
    let file = segment(2, 5);
    fixture.put(&file, &contents(1, 5));
    let error = read(&mut fixture, file.as_str()).unwrap_err();
    assert!(
        error.to_string().ends_with("it is of timeline 1, not 2, and there is no history file"),
        "{error}"
    );
    fixture.put(&name("00000002.history"), b"1\t0/5A0000\twhy\n");
    assert!(read(&mut fixture, file.as_str()).is_ok(), "its history says so");
    fixture.put(&name("00000002.history"), b"1\t0/4A0000\twhy\n");
    let error = read(&mut fixture, file.as_str()).unwrap_err();
    assert!(error.to_string().ends_with(", which its history does not tell"), "{error}");
    fixture.put(&name("00000002.history"), b"nonsense\n");
    assert!(matches!(read(&mut fixture, file.as_str()), Err(ArchiveError::History { .. })));
    fixture.put(&segment(1, 6), &contents(2, 6));
    let error = read(&mut fixture, segment(1, 6).as_str()).unwrap_err();
    assert!(error.to_string().ends_with("it is of timeline 2, not 1"), "{error}");
}

#[test]
fn short_file_long_file_empty_file() {
    let mut fixture = Fixture::plain();
    let file = segment(1, 5);
    for len in [0, 1, 8192, (1 << 20) - 1, (1 << 20) + 1] {
        let mut bytes = contents(1, 5);
        bytes.resize(len, 0);
        fixture.put(&file, &bytes);
        let error = read(&mut fixture, file.as_str()).unwrap_err();
        let ArchiveError::Length { expected, found, .. } = error else { panic!("{error}") };
        assert_eq!((expected, found), (1 << 20, len as u64));
    }
    // If the expected length is unknown, the header tells it.
    let options = SourceOptions::default();
    fixture.put(&file, &contents(1, 5)[..1 << 19]);
    let mut source = Source::open(&fixture.aio, &fixture.wal(), &file, &options).unwrap();
    assert!(matches!(source.read_to_end(&mut fixture.io), Err(ArchiveError::Length { .. })));
    fixture.put(&file, b"");
    let mut source = Source::open(&fixture.aio, &fixture.wal(), &file, &options).unwrap();
    let error = source.read_to_end(&mut fixture.io).unwrap_err();
    assert!(error.to_string().ends_with("it is empty"), "{error}");
}

#[test]
fn a_segment_with_two_links_or_none_is_refused() {
    let mut fixture = Fixture::plain();
    let file = segment(1, 5);
    fixture.put(&file, &contents(1, 5));
    let future = fixture.wal().join(segment(1, 9).as_str());
    fs::hard_link(fixture.wal().join(file.as_str()), &future).unwrap();
    assert!(matches!(read(&mut fixture, file.as_str()), Err(ArchiveError::Links { links: 2, .. })));
    fs::remove_file(&future).unwrap();
    assert!(read(&mut fixture, file.as_str()).is_ok());
    fs::create_dir(fixture.wal().join(segment(1, 6).as_str())).unwrap();
    assert!(matches!(
        read(&mut fixture, segment(1, 6).as_str()),
        Err(ArchiveError::NotAFile { .. })
    ));
    assert!(matches!(
        read(&mut fixture, segment(1, 7).as_str()),
        Err(ArchiveError::Vanished { .. })
    ));
}

/// A segment that is recycled was already archived, and what was read of it is not valid.
#[test]
fn a_segment_recycled_while_it_is_read_is_no_success() {
    each(|fixture| {
        let file = segment(1, 5);
        fixture.put(&file, &contents(1, 5));
        let mut source = fixture.source(&file).unwrap();
        let piece = source.next(&mut fixture.io).unwrap().expect("a piece");
        source.give_back(piece.buf);
        fs::rename(fixture.wal().join(file.as_str()), fixture.wal().join(segment(1, 9).as_str()))
            .unwrap();
        let error = source.read_to_end(&mut fixture.io).unwrap_err();
        assert!(matches!(error, ArchiveError::Vanished { .. }), "{error}");
        assert_eq!(source.digest(), None);
        source.close(&mut fixture.io);
    });
}

#[test]
fn partial_backup_and_history_files() {
    let mut fixture = Fixture::plain();
    let partial = format!("{}.partial", segment(1, 5));
    fixture.put(&name(&partial), &contents(1, 5));
    assert!(read(&mut fixture, &partial).is_ok());
    fixture.put(&name(&partial), &contents(1, 6));
    assert!(matches!(read(&mut fixture, &partial), Err(ArchiveError::Header { .. })));
    let backup = format!("{}.00000028.backup", segment(1, 5));
    fixture.put(&name(&backup), b"START WAL LOCATION: 0/500028 (file 000000010000000000000005)\n");
    assert!(read(&mut fixture, &backup).is_ok());
    fixture.put(&name(&backup), b"something else");
    assert!(matches!(read(&mut fixture, &backup), Err(ArchiveError::Contents { .. })));
    let history = "00000003.history";
    fixture.put(&name(history), b"1\t0/5A0000\twhy\n\n2\t0/6A0000\twhy\n");
    assert!(read(&mut fixture, history).is_ok());
    for wrong in [&b"3\t0/5A0000\twhy\n"[..], b"x", b"\xff\xfe"] {
        fixture.put(&name(history), wrong);
        let error = read(&mut fixture, history).unwrap_err();
        assert!(
            matches!(error, ArchiveError::History { .. } | ArchiveError::Contents { .. }),
            "{error}"
        );
    }
    fixture.put(&name(history), &vec![b'#'; 1 << 20]);
    assert!(matches!(read(&mut fixture, history), Err(ArchiveError::Contents { .. })), "too long");
}

#[test]
fn segments_of_one_megabyte_and_of_one_gigabyte() {
    let fixture = Fixture::plain();
    let mut io = fixture.aio.backend(forebay_aio::BackendType::Standalone).unwrap();
    for bytes in [1 << 20, 1 << 30] {
        let size = SegmentSize::new(bytes).unwrap();
        let file = name(&size.file_name(1, 2));
        // A sparse file: only the first page is written.
        let mut first = vec![0; 8192];
        write_header(&mut first, size, 1, 2, SYSTEM);
        fixture.put(&file, &first);
        let opened =
            fs::OpenOptions::new().write(true).open(fixture.wal().join(file.as_str())).unwrap();
        opened.set_len(u64::from(bytes)).unwrap();
        let options = SourceOptions::default();
        let mut source = Source::open(&fixture.aio, &fixture.wal(), &file, &options).unwrap();
        source.read_to_end(&mut io).unwrap();
        assert_eq!(source.len(), u64::from(bytes));
        assert_eq!(source.facts().map(|facts| facts.segment_size), Some(size));
    }
}
