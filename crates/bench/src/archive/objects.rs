//! One run with an archive in an object store, which it empties again.

use forebay_aio::sync::Arc;
use forebay_aio::{Aio, BackendType, IoBackend};
use forebay_archive::ArchiveError;
use forebay_archive::modules::Archive;
use forebay_archive::store::{Repository, StoreOptions};

use super::files::{EXPECTED, Files};
use super::store::{Time, run_store};
use crate::error::BenchError;

/// Stores the marked segments, `transfers` at a time.
pub(super) fn run(
    aio: &Arc<Aio>,
    files: &Files,
    url: &str,
    run: u64,
    segments: u64,
    transfers: usize,
) -> Result<Time, BenchError> {
    let pid = std::process::id();
    let place = format!("{}/forebay-bench-{pid}-{run}", url.trim_end_matches('/'));
    let open = || Repository::open(aio, &place, StoreOptions::default());
    let module = Arc::new(Archive::of(aio, open()?, EXPECTED.system_id));
    let mut backend = aio.backend(BackendType::Standalone)?;
    let time = run_store(aio, files, module, false, transfers);
    let counted = open().and_then(|repository| count_and_empty(&mut backend, &repository));
    let (time, stored) = (time?, counted?);
    if stored != segments {
        return Err(BenchError::Failed(format!(
            "{stored} of {segments} segments were archived at {place}"
        )));
    }
    Ok(time)
}

/// Counts the archive's files, and removes them.
fn count_and_empty(backend: &mut IoBackend, repository: &Repository) -> Result<u64, ArchiveError> {
    let inventory = repository.inventory(backend)?;
    let whole = inventory
        .files
        .iter()
        .filter(|stored| stored.manifest.is_some() && stored.files.len() == 1);
    let count = whole.count() as u64;
    let objects = repository.depot().list(backend, "")?;
    let keys: Vec<&str> = objects.iter().map(|object| object.key.as_str()).collect();
    repository.depot().remove_all(backend, &keys)?;
    Ok(count)
}
