//! Small files looked for on the disk after their write (checkpoint_verify_writes): pg_control, and pages of pg_xact. Relations' pages are the
//! buffer pool's.

use std::path::Path;

use forebay_aio::{AlignedBuf, Backend, OpenOptions};

use crate::error::EngineError;

/// Reads from the disk, past the kernel's cache, what was written to a file and synced.
///
/// # Errors
/// Something else is there, or it could not be read.
pub(crate) fn verify(io: &mut Backend, path: &Path, offset: u64, written: &[u8]) -> Result<(), EngineError> {
    if io.aio().has_bug("readback: pg_xact and pg_control are taken to be there") {
        return Ok(());
    }
    let file = io.aio().namespace().open(path, &OpenOptions::READ.direct(true))?;
    let mut found = AlignedBuf::zeroed(written.len())?;
    let got = io.read_at(&file, offset, &mut found)?;
    if got == written.len() && found[..] == *written {
        return Ok(());
    }
    Err(EngineError::corrupt(format!(
        "lost write of {} bytes at offset {offset} in file \"{}\": on disk is something else",
        written.len(),
        path.display()
    )))
}
