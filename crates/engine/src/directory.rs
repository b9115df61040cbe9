//! What a data directory must be before it is opened: its owner's alone, and of this version.

use std::path::Path;

use forebay_aio::{FileKind, FileStat, IoBackend};

use crate::error::EngineError;

/// The contents of PG_VERSION.
pub(crate) const VERSION: &str = "18";
/// Rights that nobody but the owner may have: to write for the group, any for others.
const TOO_OPEN: u32 = 0o027;

/// Refuses what others own or can get at, and what is not PostgreSQL 18's. Changes nothing.
pub(crate) fn check(io: &mut IoBackend, dir: &Path) -> Result<(), EngineError> {
    let Some(stat) = io.aio().namespace().stat(dir)? else {
        return Err(EngineError::statement(
            "58P01",
            format!("data directory \"{}\" does not exist", dir.display()),
        ));
    };
    check_kind_and_owner(dir, &stat)?;
    if stat.mode & TOO_OPEN != 0 {
        let message = format!("data directory \"{}\" has invalid permissions", dir.display());
        return Err(EngineError::statement("55000", message)
            .with_detail("Permissions should be u=rwx (0700) or u=rwx,g=rx (0750)."));
    }
    check_version(io, dir)
}

/// Refuses what is no directory, or belongs to someone else.
pub(crate) fn check_kind_and_owner(dir: &Path, stat: &FileStat) -> Result<(), EngineError> {
    if stat.kind != FileKind::Directory {
        let message = format!("specified data directory \"{}\" is not a directory", dir.display());
        return Err(EngineError::statement("55000", message));
    }
    if stat.uid != rustix::process::geteuid().as_raw() {
        let message = format!("data directory \"{}\" has wrong ownership", dir.display());
        return Err(EngineError::statement("55000", message)
            .with_hint("The server must be started by the user that owns the data directory."));
    }
    Ok(())
}

fn check_version(io: &mut IoBackend, dir: &Path) -> Result<(), EngineError> {
    let path = dir.join("PG_VERSION");
    let Some(version) = io.read_file_if_there(&path)? else {
        let error = EngineError::statement(
            "F0001",
            format!("\"{}\" is not a valid data directory", dir.display()),
        );
        return Err(error.with_detail(format!("File \"{}\" is missing.", path.display())));
    };
    let version = String::from_utf8_lossy(&version).trim().to_owned();
    if version != VERSION {
        let detail = format!(
            "The data directory was initialized by PostgreSQL version {version} (file \"{}\"), \
             which is not compatible with this version {VERSION}.",
            path.display(),
        );
        return Err(EngineError::statement("F0001", "database files are incompatible with server")
            .with_detail(detail));
    }
    Ok(())
}
