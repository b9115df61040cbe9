//! Reads history files from the log's directory.

use std::path::Path;

use forebay_aio::IoBackend;
use forebay_format::{
    Lsn,
    timeline::{TimelineHistory, history_file_name},
};

use crate::error::WalReadError;

/// Reads the history of a timeline. A timeline without a history file has no ancestors; timeline 1
/// never has one.
pub fn read_history(
    io: &mut IoBackend,
    dir: &Path,
    timeline: u32,
) -> Result<TimelineHistory, WalReadError> {
    let file = dir.join(history_file_name(timeline));
    if timeline <= 1 {
        return Ok(TimelineHistory::alone(timeline));
    }
    let bytes = match io.read_file(&file) {
        Ok(bytes) => bytes,
        Err(e) if e.is_not_found() => return Ok(TimelineHistory::alone(timeline)),
        Err(e) => return Err(WalReadError::io("read", file, 0, Lsn::INVALID, e)),
    };
    let text = String::from_utf8_lossy(&bytes);
    TimelineHistory::parse(timeline, &text).map_err(|source| WalReadError::History { file, source })
}
