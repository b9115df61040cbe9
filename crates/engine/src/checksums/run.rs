//! Checks, enables or disables the checksums of a cluster.

use std::path::Path;
use std::sync::Arc;

use forebay_aio::{BackendType, OpenOptions};
use forebay_format::control;

use super::cluster::{check_outline, not_shut_down, overwrite, read_outline};
use super::options::{ChecksumCounts, ChecksumMode, ChecksumObserver, ChecksumOptions};
use super::scan::Scan;
use super::sync::sync_cluster;
use super::walk::Tree;
use crate::clock::unix_seconds;
use crate::error::EngineError;
use crate::io;
use crate::lockfile;

/// Checks, enables or disables the checksums of a cluster at rest. Damaged pages are counted, and
/// are not an error.
pub fn checksums(
    dir: &Path,
    options: &ChecksumOptions,
    observer: &mut dyn ChecksumObserver,
) -> Result<ChecksumCounts, EngineError> {
    let aio = io::standalone(options.io_method, 1)?;
    let namespace = Arc::clone(aio.namespace());
    let mut io = aio.backend(BackendType::Standalone)?;

    let path = dir.join(control::PATH);
    let outline = read_outline(&mut io, &path)?;
    check_outline(&outline, options.mode)?;
    let _still = lockfile::hold_still(&mut io, dir)
        .map_err(|error| not_shut_down(error.hint().or_else(|| Some(error.to_string()))))?;

    let mut counts =
        ChecksumCounts { checksum_version: outline.checksum_version, ..ChecksumCounts::default() };
    if options.mode != ChecksumMode::Disable {
        let tree = Tree::find(&*namespace, dir, &outline, options.filenode.as_deref())?;
        if options.mode == ChecksumMode::Enable {
            tree.check_writable(&*namespace, options.direct)?;
            namespace.open(&path, &OpenOptions::READ_WRITE)?;
        }
        Scan::new(&mut io, &tree, options, observer, &mut counts)?.run()?;
        observer.scanned(&counts);
    }
    if options.mode != ChecksumMode::Check {
        if let Some(how) = options.sync {
            observer.step("syncing data directory");
            sync_cluster(&mut io, dir, how)?;
        }
        observer.step("updating control file");
        counts.checksum_version = u32::from(options.mode == ChecksumMode::Enable);
        let bytes = outline.with_checksum_version(counts.checksum_version, unix_seconds());
        let file = namespace.open(&path, &OpenOptions::READ_WRITE)?;
        overwrite(&mut io, &file, &bytes, options.sync.is_some())?;
    }
    Ok(counts)
}
