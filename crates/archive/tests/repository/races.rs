//! Many at once.

use std::fs;
use std::sync::Barrier;

use forebay_aio::BackendType;
use forebay_archive::error::ArchiveError;
use forebay_archive::store::StoreOptions;
use forebay_archive::store::codec::Compression;
use forebay_archive::{Archived, SourceOptions, push};

use crate::bed::{Bed, SYSTEM, all_options, segment_bytes};

const WRITERS: usize = 16;

/// Each with a data directory of its own, all into one archive. What came of each.
fn race(
    bed: &Bed,
    name: &str,
    options: &[StoreOptions],
    contents: &[Vec<u8>],
) -> Vec<Result<Archived, ArchiveError>> {
    let barrier = Barrier::new(WRITERS);
    std::thread::scope(|scope| {
        let started: Vec<_> = (0..WRITERS)
            .map(|n| {
                let barrier = &barrier;
                scope.spawn(move || {
                    let wal = bed.dir.path().join(format!("data{n}/pg_wal"));
                    fs::create_dir_all(&wal).unwrap();
                    fs::write(wal.join(name), &contents[n % contents.len()]).unwrap();
                    // As processes of their own would: nothing is shared but the directory.
                    let aio = crate::bed::door();
                    let mut be = aio.backend(BackendType::Standalone).unwrap();
                    let location = bed.archive().to_string_lossy().into_owned();
                    let options = options[n % options.len()].clone();
                    let repository =
                        forebay_archive::store::Repository::open(&aio, &location, options).unwrap();
                    barrier.wait();
                    push::push(
                        &aio,
                        &mut be,
                        &repository,
                        &wal.join(name),
                        &SourceOptions::default(),
                    )
                })
            })
            .collect();
        started.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn sixteen_writers_of_the_same() {
    let mut bed = Bed::new();
    for (number, options) in (3..).zip([StoreOptions::default(), all_options().pop().expect("one")])
    {
        let name = crate::bed::SIZE.file_name(1, number);
        fs::remove_dir_all(bed.archive()).unwrap();
        fs::create_dir(bed.archive()).unwrap();
        let bytes = segment_bytes(1, number, SYSTEM);
        let results =
            race(&bed, &name, std::slice::from_ref(&options), std::slice::from_ref(&bytes));
        let stored = results.iter().filter(|result| matches!(result, Ok(Archived::Stored))).count();
        assert!(results.iter().all(Result::is_ok), "{results:?}");
        assert!(stored <= 1, "{results:?}");
        let repository = bed.repository(options);
        assert!(bed.get(&repository, &name).unwrap() == Some(bytes));
        bed.check_tidy();
    }
}

#[test]
fn sixteen_writers_of_different_contents_and_one_wins() {
    let mut bed = Bed::new();
    let name = crate::bed::SIZE.file_name(1, 3);
    let contents: Vec<Vec<u8>> = (0..WRITERS)
        .map(|n| {
            let mut bytes = segment_bytes(1, 3, SYSTEM);
            bytes[100_000] = n as u8;
            bytes
        })
        .collect();
    // Compressed differently too: their stored files have different names.
    let options = [Compression::None, Compression::Lz4, Compression::Zstd(1)]
        .map(|compression| StoreOptions { compression, ..StoreOptions::default() });
    let results = race(&bed, &name, &options, &contents);
    let winners: Vec<usize> = (0..WRITERS).filter(|n| results[*n].is_ok()).collect();
    assert_eq!(winners.len(), 1, "{results:?}");
    for result in &results {
        assert!(matches!(result, Ok(_) | Err(ArchiveError::Different { .. })), "{result:?}");
    }
    let repository = bed.plain();
    assert!(bed.get(&repository, &name).unwrap().as_ref() == Some(&contents[winners[0]]));
    let names: Vec<_> = bed.contents().into_keys().collect();
    assert_eq!(names.len(), 3, "the archive's file, the segment, its manifest: {names:?}");
    bed.check_tidy();
}

#[test]
fn writers_that_compress_differently_store_one_file() {
    let mut bed = Bed::new();
    let name = crate::bed::SIZE.file_name(1, 3);
    let bytes = segment_bytes(1, 3, SYSTEM);
    let options = [Compression::None, Compression::Lz4, Compression::Zstd(1)]
        .map(|compression| StoreOptions { compression, ..StoreOptions::default() });
    let results = race(&bed, &name, &options, std::slice::from_ref(&bytes));
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    let repository = bed.plain();
    assert!(bed.get(&repository, &name).unwrap() == Some(bytes));
    bed.check_tidy();
}
