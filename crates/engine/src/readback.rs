//! Small files looked for on the disk after their write (checkpoint_verify_writes): pg_control, and pages of pg_xact. Relations' pages are the
//! buffer pool's.

use std::path::Path;

use forebay_aio::{AioError, AlignedBuf, Backend, File, Namespace, OpenOptions};

use crate::error::EngineError;

/// Opens a file for reading past the kernel's cache. To be done before it is written: descriptors may be short, and that is no reason to
/// doubt what was written.
pub(crate) fn open(names: &dyn Namespace, path: &Path) -> Result<File, AioError> {
    names.open(path, &OpenOptions::READ.direct(true))
}

/// Reads from the disk what was written to a file and synced.
///
/// # Errors
/// Something else is there, or it could not be read, twice.
pub(crate) fn verify(io: &mut Backend, file: &File, offset: u64, written: &[u8]) -> Result<(), EngineError> {
    if io.aio().has_bug("readback: pg_xact and pg_control are taken to be there") {
        return Ok(());
    }
    let mut found = AlignedBuf::zeroed(written.len())?;
    let got = io.read_at(file, offset, &mut found).or_else(|_| io.read_at(file, offset, &mut found))?;
    if got == written.len() && found[..] == *written {
        return Ok(());
    }
    Err(EngineError::corrupt(format!(
        "lost write of {} bytes at offset {offset} in file \"{}\": on disk is something else",
        written.len(),
        file.path().display()
    )))
}
