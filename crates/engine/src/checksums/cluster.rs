//! Reads pg_control, and refuses clusters that cannot be processed.

use std::path::Path;
use std::sync::Arc;

use forebay_aio::{AioError, AlignedBuf, File, IoBackend, OpenOptions};
use forebay_format::control::{self, ControlError, DbState, Outline};
use forebay_format::ids::BLOCK_SIZE;

use super::options::ChecksumMode;
use crate::error::EngineError;

/// Reads at most as many bytes as the file should have.
pub(crate) fn read_outline(io: &mut IoBackend, path: &Path) -> Result<Outline, EngineError> {
    let unreadable = |error: AioError| match error.errno() {
        Some(errno) => EngineError::statement(
            "58P01",
            format!("could not open file \"{}\" for reading: {errno}", path.display()),
        ),
        None => error.into(),
    };
    let names = Arc::clone(io.aio().namespace());
    let file = names.open(path, &OpenOptions::READ).map_err(unreadable)?;
    let mut buf = AlignedBuf::zeroed(control::FILE_SIZE)?;
    let got = io.read_at(&file, 0, &mut buf).map_err(|error| match error.errno() {
        Some(errno) => EngineError::statement(
            "58030",
            format!("could not read file \"{}\": {errno}", path.display()),
        ),
        None => error.into(),
    })?;
    Outline::decode(buf.get(..got).unwrap_or_default()).map_err(|error| {
        let detail = format!("The file is \"{}\".", path.display());
        match error {
            ControlError::TooShort(got) => EngineError::corrupt(format!(
                "could not read file \"{}\": read {got} of {}",
                path.display(),
                control::STRUCT_SIZE
            )),
            ControlError::BadCrc => {
                EngineError::corrupt("pg_control CRC value is incorrect").with_detail(detail)
            }
            ControlError::Incompatible { what, found, .. } => EngineError::statement(
                "F0001",
                "cluster is not compatible with this version of forebay",
            )
            .with_detail(format!(
                "It has {what} {found}, and PostgreSQL 15 to 18 are known. {detail}"
            )),
            other @ ControlError::Impossible { .. } => {
                EngineError::corrupt(other.to_string()).with_detail(detail)
            }
        }
    })
}

/// Refuses in pg_checksums' order and words.
pub(super) fn check_outline(outline: &Outline, mode: ChecksumMode) -> Result<(), EngineError> {
    let refuse = |message: &str| Err(EngineError::statement("F0001", message));
    if outline.block_size as usize != BLOCK_SIZE {
        return Err(EngineError::statement(
            "F0001",
            "database cluster is not compatible",
        )
        .with_detail(format!(
            "The database cluster was initialized with block size {}, but forebay checksums was \
             compiled with block size {BLOCK_SIZE}.",
            outline.block_size
        )));
    }
    if !matches!(outline.state, DbState::ShutDown | DbState::ShutDownInRecovery) {
        return Err(not_shut_down(Some(format!("Its state is \"{}\".", outline.state.name()))));
    }
    match (outline.checksum_version, mode) {
        (0, ChecksumMode::Check) => refuse("data checksums are not enabled in cluster"),
        (0, ChecksumMode::Disable) => refuse("data checksums are already disabled in cluster"),
        (0, ChecksumMode::Enable) | (1, ChecksumMode::Check | ChecksumMode::Disable) => Ok(()),
        (1, ChecksumMode::Enable) => refuse("data checksums are already enabled in cluster"),
        (other, _) => refuse(&format!("data checksum version {other} is not supported")),
    }
}

pub(super) fn not_shut_down(detail: Option<String>) -> EngineError {
    let error = EngineError::statement("F0001", "cluster must be shut down");
    match detail {
        Some(text) => error.with_detail(text),
        None => error,
    }
}

/// Writes the whole control file in place, in one write.
pub(super) fn overwrite(
    io: &mut IoBackend,
    file: &File,
    bytes: &[u8; control::FILE_SIZE],
    sync: bool,
) -> Result<(), EngineError> {
    if sync {
        return Ok(crate::control::overwrite(io, file, bytes)?);
    }
    Ok(io.write_all_at(file, 0, &AlignedBuf::copy_of(bytes)?)?)
}
