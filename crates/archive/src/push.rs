//! `archive-push`: stores a file of a server's log in an archive, as the server's archive_command.

use std::path::{Path, PathBuf};

use forebay_aio::sync::Arc;
use forebay_aio::{Aio, AlignedBuf, IfFound, IoBackend, OpenOptions};
use forebay_format::control::is_known_version;

use crate::error::{ArchiveError, Result};
use crate::module::Archived;
use crate::names::WalName;
use crate::source::{Expected, Source, SourceOptions};
use crate::store::Repository;

/// Bytes of the control file that are read: system identifier and version, whose places are the
/// same in every version.
const HEAD: usize = 16;

/// Stores the file `path`, which lies in `pg_wal` of a data directory. It must belong to the
/// cluster of that directory's control file.
pub fn push(
    aio: &Arc<Aio>,
    io: &mut IoBackend,
    repository: &Repository,
    path: &Path,
    options: &SourceOptions,
) -> Result<Archived> {
    let name = file_name(path)?;
    let system = system_of(aio, io, path)?;
    let options = SourceOptions {
        expected: Expected { system_id: system.or(options.expected.system_id), ..options.expected },
        ..options.clone()
    };
    let dir = path.parent().unwrap_or(Path::new(""));
    let mut source = Source::open_as(aio, dir, path, &name, &options)?;
    repository.put(io, &mut source, options.expected.system_id)
}

fn file_name(path: &Path) -> Result<WalName> {
    path.file_name().unwrap_or_default().to_string_lossy().parse()
}

/// The data directory of a file in `pg_wal`. Only the path is looked at, since `pg_wal` may be a
/// symbolic link.
fn data_dir(path: &Path) -> PathBuf {
    let dir = path.parent().and_then(Path::parent).unwrap_or(Path::new(""));
    if dir.as_os_str().is_empty() { PathBuf::from(".") } else { dir.to_path_buf() }
}

/// The system identifier in the control file. None: the file `path` is in no data directory.
pub(crate) fn system_of(aio: &Arc<Aio>, io: &mut IoBackend, path: &Path) -> Result<Option<u64>> {
    let control = data_dir(path).join("global").join("pg_control");
    let opened = aio.namespace().open(&control, &OpenOptions::READ).if_found();
    let Some(file) = opened.map_err(ArchiveError::io("open", &control))? else {
        return Ok(None);
    };
    let read = AlignedBuf::zeroed(HEAD)
        .and_then(|mut buf| io.read_at(&file, 0, &mut buf).map(|got| (buf, got)));
    let (buf, got) = read.map_err(ArchiveError::io("read", &control))?;
    let head = &buf[..got];
    let damaged = |reason: String| ArchiveError::damaged(control.display(), reason);
    let (Some(system), Some(version)) =
        (head.first_chunk::<8>(), head.get(8..12).and_then(|v| v.first_chunk::<4>()))
    else {
        return Err(damaged("it is too short for a control file".to_owned()));
    };
    let version = u32::from_le_bytes(*version);
    if !is_known_version(version) {
        return Err(damaged(format!("it has the unknown version {version}")));
    }
    Ok(Some(u64::from_le_bytes(*system)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_directories_are_found_by_name() {
        for (path, dir) in [
            ("pg_wal/000000010000000000000003", "."),
            ("/data/pg_wal/00000002.history", "/data"),
            ("000000010000000000000003", "."),
        ] {
            assert_eq!(data_dir(Path::new(path)), Path::new(dir), "{path}");
        }
        assert!(file_name(Path::new("pg_wal/xlogtemp.12")).is_err());
        assert!(file_name(Path::new("/")).is_err());
    }
}
