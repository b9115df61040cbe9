//! `pg_logical/replorigin_checkpoint`: how far the changes of replication origins were applied at
//! the last checkpoint. Recovery reads it and goes on from there. Nothing advances an origin while
//! the engine runs, so only recovery writes it.
//!
//! It is written before the checkpoint that ends recovery. If that does not come about, a repeated
//! recovery comes to the same positions from the newer ones.

use std::path::Path;

use forebay_aio::IoBackend;
use forebay_format::origins::{Origins, PATH};

use crate::error::EngineError;

/// What PostgreSQL calls the file while it is written.
const TEMPORARY: &str = "pg_logical/replorigin_checkpoint.tmp";

/// Reads the file. Without one, no origin was advanced.
pub(super) fn read(io: &mut IoBackend, dir: &Path) -> Result<Origins, EngineError> {
    let path = dir.join(PATH);
    let Some(bytes) = io.read_file_if_there(&path)? else { return Ok(Origins::default()) };
    Origins::decode(&bytes).map_err(|error| {
        EngineError::corrupt(error.to_string())
            .with_detail(format!("The file is \"{}\".", path.display()))
    })
}

/// Writes the file, if it says something else. The file is complete, or as it was.
pub(super) fn write(io: &mut IoBackend, dir: &Path, origins: &Origins) -> Result<(), EngineError> {
    if read(io, dir)? == *origins {
        return Ok(());
    }
    let (temporary, path) = (dir.join(TEMPORARY), dir.join(PATH));
    io.write_file(&temporary, &origins.encode())?;
    let namespace = io.aio().namespace();
    namespace.rename(&temporary, &path)?;
    Ok(namespace.sync_dir(&dir.join("pg_logical"))?)
}
