//! Makes a data directory: PostgreSQL 18's layout, its catalogs, and a log that begins with a
//! shutdown checkpoint.
//!
//! - `layout`: directories and files, undone on failure
//! - `texts`: configuration files
//! - `pages`: the catalogs' pages
//! - `wal`: the first WAL segment

mod layout;
mod pages;
mod texts;
mod wal;

use std::path::Path;
use std::sync::Arc;

use forebay_aio::sync::{SystemTime, UNIX_EPOCH};
use forebay_aio::{Aio, BackendType, IoBackend};
use forebay_catalog::MAP_FILE;
use forebay_catalog::bootstrap::NewCluster;
use forebay_catalog::schema::{PG_CATALOG, POSTGRES_DB, POSTGRES_ROLE, TEMPLATE0_DB, TEMPLATE1_DB};
use forebay_format::control::{ControlFile, DbState, PATH};
use forebay_format::lsn::WAL_BLOCK_SIZE;
use forebay_format::multixact::{members_page, offsets_page};
use forebay_format::relmap::RelMap;
use forebay_format::wal::xlog::CheckPoint;
use forebay_format::{BLOCK_SIZE, Lsn, Oid, SegmentSize, slru};
use layout::Made;

use crate::clock::unix_seconds;
use crate::config::{FirstIds, InitOptions, IoMethod};
use crate::control::WAL_LEVEL;
use crate::directory::VERSION;
use crate::error::EngineError;
use crate::io::standalone;
use crate::locale::new_locale;
use crate::system_collations::system_collations;

/// First value of the counter for LSNs of unlogged pages.
const FIRST_UNLOGGED_LSN: Lsn = Lsn(1000);

/// Name of the one role that can log in.
const SUPERUSER: &str = "postgres";

/// The databases of a new cluster.
const DATABASES: [Oid; 3] = [TEMPLATE1_DB, TEMPLATE0_DB, POSTGRES_DB];

/// Makes a data directory on the operating system's file systems.
pub(crate) fn init(dir: &Path, options: &InitOptions) -> Result<(), EngineError> {
    init_on(dir, options, FirstIds::default(), &standalone(IoMethod::Worker, 1)?)
}

/// Makes a data directory over an I/O layer of the caller's. Its ids begin at `ids`.
pub(crate) fn init_on(
    dir: &Path,
    options: &InitOptions,
    ids: FirstIds,
    aio: &Arc<Aio>,
) -> Result<(), EngineError> {
    let segments = SegmentSize::new(options.wal_segment_size).ok_or_else(|| {
        EngineError::statement(
            "22023",
            format!(
                "invalid WAL segment size {}: it must be a power of two between 1 MB and 1 GB",
                options.wal_segment_size
            ),
        )
    })?;
    let mut backend = aio.backend(BackendType::Standalone)?;
    let mut made = Made::start(Arc::clone(aio.namespace()), dir, options.sync)?;
    for name in layout::DIRECTORIES {
        made.directory(name)?;
    }
    let collations = match options.system_collations {
        true => system_collations(PG_CATALOG, POSTGRES_ROLE).0,
        false => Vec::new(),
    };
    let cluster = NewCluster {
        superuser: SUPERUSER.to_owned(),
        oldest: ids.oldest,
        templates: options.templates,
        locale: new_locale(&options.locale)?,
        collations,
    };
    write_catalogs(&mut made, &mut backend, &cluster)?;
    let next_oid = cluster.next_oid()?;
    write_files(&mut made, &mut backend, (segments, next_oid), ids)?;
    made.keep()
}

fn write_files(
    made: &mut Made,
    io: &mut IoBackend,
    (segments, next_oid): (SegmentSize, Oid),
    ids: FirstIds,
) -> Result<(), EngineError> {
    let version = format!("{VERSION}\n");
    made.file(io, "postgresql.conf", texts::POSTGRESQL_CONF.as_bytes())?;
    made.file(io, "postgresql.auto.conf", texts::POSTGRESQL_AUTO_CONF.as_bytes())?;
    made.file(io, "pg_hba.conf", texts::PG_HBA_CONF.as_bytes())?;
    made.file(io, "pg_ident.conf", texts::PG_IDENT_CONF.as_bytes())?;
    for (slru, page) in [
        ("pg_xact", slru::xact_page(ids.xid.xid())),
        ("pg_subtrans", 0),
        ("pg_multixact/offsets", offsets_page(ids.multi)),
        ("pg_multixact/members", members_page(ids.member)),
    ] {
        let name = format!("{slru}/{}", slru::segment_name(slru::segment(page)));
        let len = slru::segment_offset(page) as usize + BLOCK_SIZE;
        made.file(io, &name, &vec![0; len])?;
    }
    let (checkpoint, control) = control_file((segments, next_oid), ids);
    let (segment, first_page) = wal::first_segment(segments, control.system_id, &checkpoint)?;
    let segment = format!("pg_wal/{segment}");
    made.file(io, &segment, &first_page)?;
    made.fill(io, &segment, WAL_BLOCK_SIZE as u64, segments.bytes())?;
    made.file(io, PATH, &control.encode())?;
    made.sync_files(io)?;
    // The last file: without it the directory is not a database.
    made.file(io, "PG_VERSION", version.as_bytes())?;
    made.sync_files(io)
}

/// The catalogs: the shared ones, and those of each database, which are alike.
fn write_catalogs(
    made: &mut Made,
    io: &mut IoBackend,
    cluster: &NewCluster,
) -> Result<(), EngineError> {
    let databases = if cluster.templates { &DATABASES[..] } else { &[POSTGRES_DB] };
    let folders: Vec<String> = databases.iter().map(|oid| format!("base/{oid}")).collect();
    let (mut shared_map, mut map) = (RelMap::new(), RelMap::new());
    for folder in &folders {
        made.directory(folder)?;
        made.file(io, &format!("{folder}/PG_VERSION"), format!("{VERSION}\n").as_bytes())?;
    }
    for table in cluster.tables()? {
        let (heap, places) = pages::heap_file(&table)?;
        let mut files = vec![(table.oid, heap)];
        for index in &table.indexes {
            files.push((index.oid, pages::index_file(&table, index, &places)?));
        }
        let shared = ["global".to_owned()];
        for (oid, bytes) in files {
            let (folders, map) = match table.shared {
                true => (&shared[..], &mut shared_map),
                false => (&folders[..], &mut map),
            };
            if table.mapped {
                map.set(oid, oid).map_err(|error| EngineError::internal(error.to_string()))?;
            }
            for folder in folders {
                made.file(io, &format!("{folder}/{oid}"), &bytes)?;
            }
        }
    }
    for folder in &folders {
        made.file(io, &format!("{folder}/{MAP_FILE}"), &map.encode())?;
    }
    made.file(io, &format!("global/{MAP_FILE}"), &shared_map.encode())
}

/// The first checkpoint and the control file that points to it.
fn control_file(
    (segments, next_oid): (SegmentSize, Oid),
    ids: FirstIds,
) -> (CheckPoint, ControlFile) {
    let redo = wal::first_record(segments);
    let checkpoint = CheckPoint {
        redo,
        timeline: wal::TIMELINE,
        prev_timeline: wal::TIMELINE,
        full_page_writes: true,
        wal_level: WAL_LEVEL,
        next_xid: ids.xid,
        // PostgreSQL's scripts for views may come first; other objects begin at FIRST_NORMAL_OID.
        next_oid,
        next_multi: ids.multi,
        next_multi_offset: ids.member,
        oldest_xid: ids.oldest.xid,
        oldest_xid_db: POSTGRES_DB,
        oldest_multi: ids.oldest.multi,
        oldest_multi_db: POSTGRES_DB,
        time: unix_seconds(),
        oldest_commit_ts_xid: 0,
        newest_commit_ts_xid: 0,
        oldest_active_xid: 0,
    };
    let control = ControlFile {
        system_id: system_id(),
        state: DbState::ShutDown,
        time: checkpoint.time,
        checkpoint: redo,
        checkpoint_copy: checkpoint,
        unlogged_lsn: FIRST_UNLOGGED_LSN,
        min_recovery_point: Lsn::INVALID,
        min_recovery_timeline: 0,
        backup_start: Lsn::INVALID,
        backup_end: Lsn::INVALID,
        backup_end_required: false,
        wal_level: WAL_LEVEL,
        wal_log_hints: false,
        max_connections: 100,
        max_worker_processes: 8,
        max_wal_senders: 10,
        max_prepared_transactions: 0,
        max_locks_per_transaction: 64,
        track_commit_timestamp: false,
        segment_size: segments,
        checksum_version: 1,
        char_signed: true,
        mock_nonce: layout::random_bytes(),
    };
    (checkpoint, control)
}

/// The system identifier, as PostgreSQL makes it: seconds in the upper half, microseconds and the
/// process in the lower.
fn system_id() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (now.as_secs() << 32)
        | (u64::from(now.subsec_micros()) << 12)
        | (u64::from(std::process::id()) & 0xfff)
}
