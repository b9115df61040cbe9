//! Many writers of one name.

use std::fs;
use std::sync::{Arc, Barrier};

use forebay_aio::{Aio, BackendType};
use forebay_archive::store::codec::Compression;
use forebay_archive::store::{Repository, StoreOptions};
use forebay_archive::{ArchiveError, Archived, SourceOptions, push};

use super::fixture::Fixture;
use super::segments::{SYSTEM, segment_bytes};
use forebay_aio::MethodKind;
use forebay_testkit::io;

pub const WRITERS: usize = 16;

/// Pushes the file `name` from [`WRITERS`] data directories at once. The nth writer has the nth of
/// `contents`, and opens the archive by itself with `open`, as a process would. Returns the
/// results.
pub fn race(
    fixture: &Fixture,
    name: &str,
    contents: &[Vec<u8>],
    open: impl Fn(usize, &Arc<Aio>) -> Repository + Sync,
) -> Vec<Result<Archived, ArchiveError>> {
    let (barrier, open) = (&Barrier::new(WRITERS), &open);
    std::thread::scope(|scope| {
        let started: Vec<_> = (0..WRITERS)
            .map(|n| {
                scope.spawn(move || {
                    let wal = fixture.dir.path().join(format!("data{n}/pg_wal"));
                    fs::create_dir_all(&wal).unwrap();
                    let path = wal.join(name);
                    fs::write(&path, &contents[n % contents.len()]).unwrap();
                    let aio = io::open(MethodKind::Sync);
                    let mut io = aio.backend(BackendType::Standalone).unwrap();
                    let repository = open(n, &aio);
                    barrier.wait();
                    push::push(&aio, &mut io, &repository, &path, &SourceOptions::default())
                })
            })
            .collect();
        started.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// Different contents of one segment for each writer.
pub fn different_contents() -> Vec<Vec<u8>> {
    let contents = |n| {
        let mut bytes = segment_bytes(1, 3, SYSTEM);
        bytes[100_000] = n as u8;
        bytes
    };
    (0..WRITERS).map(contents).collect()
}

/// Different compressions, so that the stored files have different names.
pub fn different_options() -> [StoreOptions; 3] {
    [Compression::None, Compression::Lz4, Compression::Zstd(1)]
        .map(|compression| StoreOptions { compression, ..StoreOptions::default() })
}

/// All succeeded, and at most one stored the file.
pub fn check_all_succeeded(results: &[Result<Archived, ArchiveError>]) {
    let stored = results.iter().filter(|result| matches!(result, Ok(Archived::Stored))).count();
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    assert!(stored <= 1, "{results:?}");
}

/// One succeeded, and the others found different contents. Which one.
pub fn the_winner(results: &[Result<Archived, ArchiveError>]) -> usize {
    let winners: Vec<usize> = (0..results.len()).filter(|n| results[*n].is_ok()).collect();
    assert_eq!(winners.len(), 1, "{results:?}");
    for result in results {
        assert!(matches!(result, Ok(_) | Err(ArchiveError::Different { .. })), "{result:?}");
    }
    winners[0]
}
