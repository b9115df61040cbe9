//! The cluster's control file and lock, and which clusters are refused.

use std::path::{Path, PathBuf};

use forebay_access::check::Counters;
use forebay_aio::{File, IoBackend};
use forebay_catalog::at_rest::RowReader;
use forebay_format::control::{self, DbState, Outline};
use forebay_format::ids::{DEFAULT_TABLESPACE, GLOBAL_TABLESPACE};
use forebay_format::{BLOCK_SIZE, Fork, RELSEG_BLOCKS};
use forebay_types::Oid;

use crate::checksums::read_outline;
use crate::disk::TABLESPACES;
use crate::error::EngineError;
use crate::lockfile;

/// A cluster that no server has open, locked until this is dropped.
pub(super) struct Cluster {
    pub dir: PathBuf,
    /// PostgreSQL's major version.
    pub major: u32,
    pub checksums: bool,
    pub counters: Counters,
    /// Whether it was shut down as a primary. Pages of any other may be newer than its counters.
    pub shut_down: bool,
    pub rows: RowReader,
    version_directory: String,
    /// pg_control as it was when the directory was locked.
    outline: Outline,
    _lock: File,
}

impl Cluster {
    /// Locks a data directory. With `crashed`, its cluster need not have been shut down.
    pub(super) fn lock(
        io: &mut IoBackend,
        dir: &Path,
        crashed: bool,
    ) -> Result<Cluster, EngineError> {
        let lock = lockfile::hold_still(io, dir)?;
        let outline = read_outline(io, &dir.join(control::PATH))?;
        if outline.block_size as usize != BLOCK_SIZE || outline.segment_blocks != RELSEG_BLOCKS {
            return Err(EngineError::statement("F0001", "database cluster is not compatible")
                .with_detail(format!(
                    "Its blocks have {} bytes and its segments {} blocks.",
                    outline.block_size, outline.segment_blocks
                )));
        }
        let in_recovery = outline.state == DbState::ShutDownInRecovery;
        let shut_down = outline.state == DbState::ShutDown;
        if !shut_down && !in_recovery && !crashed {
            return Err(EngineError::statement("F0001", "cluster must be shut down")
                .with_detail(format!("Its state is \"{}\".", outline.state.name()))
                .with_hint("With --crashed it is checked as far as that is possible."));
        }
        Ok(Cluster {
            dir: dir.to_owned(),
            major: outline.major,
            checksums: outline.checksum_version != 0,
            counters: Counters::from(&outline.checkpoint_copy),
            shut_down,
            rows: row_reader(&outline)?,
            version_directory: outline.tablespace_directory(),
            outline,
            _lock: lock,
        })
    }

    /// Refuses if a server has changed pg_control since. PostgreSQL's looks only at postmaster.pid,
    /// which a check does not write, so that it can start beside a check.
    pub(super) fn confirm(&self, io: &mut IoBackend) -> Result<(), EngineError> {
        if read_outline(io, &self.dir.join(control::PATH))? == self.outline {
            return Ok(());
        }
        Err(EngineError::statement("55006", "cluster was changed while it was checked")
            .with_detail("What was found may be wrong: pg_control is not what it was."))
    }

    /// The directory of a database's relations in a tablespace.
    pub(super) fn directory(&self, tablespace: Oid, database: Oid) -> PathBuf {
        match tablespace {
            GLOBAL_TABLESPACE => self.dir.join("global"),
            DEFAULT_TABLESPACE => self.dir.join("base").join(database.to_string()),
            other => self
                .dir
                .join(TABLESPACES)
                .join(other.to_string())
                .join(&self.version_directory)
                .join(database.to_string()),
        }
    }
}

/// A file of a relation, whose first one is `path`.
pub(super) fn file_of(path: &Path, fork: Fork, segment: u32) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(fork.suffix());
    if segment > 0 {
        name.push(format!(".{segment}"));
    }
    name.into()
}

fn row_reader(outline: &Outline) -> Result<RowReader, EngineError> {
    RowReader::new(outline.major).ok_or_else(|| {
        let message = format!("catalogs of PostgreSQL {} are not known", outline.major);
        EngineError::statement("F0001", message)
    })
}
