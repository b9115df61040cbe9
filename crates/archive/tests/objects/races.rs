//! Many writers of one name.

use std::fs;
use std::sync::Barrier;

use forebay_aio::BackendType;
use forebay_archive::error::ArchiveError;
use forebay_archive::store::StoreOptions;
use forebay_archive::store::codec::Compression;
use forebay_archive::{Archived, SourceOptions, push};

use crate::bed::{Bed, SIZE, SYSTEM, door, segment_bytes};
use crate::store::{LONG, Store};

const WRITERS: usize = 16;

/// Each with a data directory and a client of its own. What came of each.
fn race(
    store: &Store,
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
                    let aio = door();
                    let mut be = aio.backend(BackendType::Standalone).unwrap();
                    let repository = store.repository(options[n % options.len()].clone(), LONG);
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
    let Some(store) = Store::new("sixteen_writers_of_the_same") else { return };
    let mut bed = Bed::new();
    let name = SIZE.file_name(1, 3);
    let bytes = segment_bytes(1, 3, SYSTEM);
    let results =
        race(&store, &bed, &name, &[StoreOptions::default()], std::slice::from_ref(&bytes));
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    let stored = results.iter().filter(|result| matches!(result, Ok(Archived::Stored))).count();
    assert!(stored <= 1, "{results:?}");
    assert!(bed.get(&store.plain(), &name).unwrap() == Some(bytes));
    assert_eq!(
        store.keys().len(),
        3,
        "the archive's file, the segment, its manifest: {:?}",
        store.keys()
    );
}

#[test]
fn sixteen_writers_of_different_contents_and_one_wins() {
    let Some(store) = Store::new("sixteen_writers_of_different_contents_and_one_wins") else {
        return;
    };
    let mut bed = Bed::new();
    let name = SIZE.file_name(1, 3);
    let contents: Vec<Vec<u8>> = (0..WRITERS)
        .map(|n| {
            let mut bytes = segment_bytes(1, 3, SYSTEM);
            bytes[100_000] = n as u8;
            bytes
        })
        .collect();
    // Compressed differently too: their objects have different names.
    let options = [Compression::None, Compression::Lz4, Compression::Zstd(1)]
        .map(|compression| StoreOptions { compression, ..StoreOptions::default() });
    let results = race(&store, &bed, &name, &options, &contents);
    let winners: Vec<usize> = (0..WRITERS).filter(|n| results[*n].is_ok()).collect();
    assert_eq!(winners.len(), 1, "{results:?}");
    for result in &results {
        assert!(matches!(result, Ok(_) | Err(ArchiveError::Different { .. })), "{result:?}");
    }
    assert!(bed.get(&store.plain(), &name).unwrap().as_ref() == Some(&contents[winners[0]]));
    assert_eq!(
        store.keys().len(),
        3,
        "the archive's file, the segment, its manifest: {:?}",
        store.keys()
    );
}
