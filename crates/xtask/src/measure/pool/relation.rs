//! A frozen table of a PostgreSQL cluster: read by Forebay while the cluster is at rest, and by
//! PostgreSQL itself.

use std::path::PathBuf;

use super::own::{WORKERS, Way};
use crate::measure::cold::Caches;
use crate::measure::servers::Subject;
use crate::measure::work::{SOURCE, TABLE};

const SEGMENT: u64 = 1 << 30;
/// How many rows of [`SOURCE`] fit on a page.
const ROWS_A_PAGE: u64 = 107;

/// The table, at rest.
pub struct Relation {
    postgres: Subject,
    data: PathBuf,
    path: String,
    /// Its rows, as PostgreSQL counts them.
    pub rows: u64,
    /// Bytes of its main fork.
    pub bytes: u64,
    /// Files of its main fork.
    pub segments: Vec<PathBuf>,
}

/// Seconds that PostgreSQL took.
pub struct Times {
    /// count(*), in one process.
    pub scan: f64,
    /// pg_prewarm with "read".
    pub prewarm_read: f64,
    /// pg_prewarm with "buffer".
    pub prewarm_buffer: f64,
}

impl Relation {
    /// Makes a table of about this size in a fresh cluster, and stops the server.
    ///
    /// # Errors
    /// When PostgreSQL refuses.
    pub fn make(postgres: Subject, bytes: u64) -> Result<Relation, String> {
        let Subject::Postgres { outside, .. } = &postgres else {
            return Err("not a cluster of PostgreSQL".into());
        };
        let data = outside.join("data");
        let quick = ["fsync=off", "wal_level=minimal", "max_wal_senders=0", "autovacuum=off"];
        let server = postgres.start(&quick)?;
        let rows = (bytes / 8192).max(1) * ROWS_A_PAGE;
        server.create_extensions()?;
        // One transaction: the rows need not be logged.
        let fill = format!(
            "BEGIN; {TABLE}; INSERT INTO t {}; COMMIT",
            SOURCE.replace("ROWS", &rows.to_string())
        );
        server.query(&fill)?;
        server.query("VACUUM (FREEZE) t")?;
        let number = |sql: &str| {
            let text = server.query(sql)?;
            text.parse::<u64>().map_err(|e| format!("{sql}: {text}: {e}"))
        };
        let rows = number("SELECT count(*) FROM t")?;
        let bytes = number("SELECT pg_relation_size('t')")?;
        let path = server.query("SELECT pg_relation_filepath('t')")?;
        drop(server);
        let file = |n: u64| data.join(if n == 0 { path.clone() } else { format!("{path}.{n}") });
        let segments = (0..bytes.div_ceil(SEGMENT)).map(file).collect();
        Ok(Relation { data, path, rows, bytes, segments, postgres })
    }

    /// The options of `forebay bench` that name it.
    pub fn words(&self) -> Vec<String> {
        ["-D", &self.data.display().to_string(), "--relation", &self.path]
            .map(str::to_string)
            .to_vec()
    }

    /// The number of segments of full size. A single segment counts as full.
    pub fn full_segments(&self) -> usize {
        ((self.bytes / SEGMENT) as usize).max(1)
    }

    /// Starts PostgreSQL on it, and reads it cold in three ways.
    ///
    /// # Errors
    /// When PostgreSQL fails, or counts something else.
    pub fn read_by_postgres(&self, way: Way, caches: &Caches) -> Result<Times, String> {
        let settings = [
            format!("shared_buffers={}kB", self.bytes / 8 * 9 / 1024),
            format!("io_method={}", way.method),
            self.postgres.direct_setting(way.direct),
            format!("io_workers={WORKERS}"),
            "effective_io_concurrency=32".into(),
            "maintenance_io_concurrency=32".into(),
            "max_parallel_workers_per_gather=0".into(),
            "autovacuum=off".into(),
        ];
        let server = self.postgres.start(&settings.each_ref().map(String::as_str))?;
        let buffer = "SELECT pg_prewarm('t', 'buffer')";
        // First all of the pool's memory is touched, as in the bench.
        server.query(buffer)?;
        let cold = |sql| caches.cold(&server, sql);
        let (_, prewarm_read) = cold("SELECT pg_prewarm('t', 'read')")?;
        let (_, prewarm_buffer) = cold(buffer)?;
        let (count, scan) = cold("SELECT count(*) FROM t")?;
        if count != self.rows.to_string() {
            return Err(format!("count(*) gave {count}, not {}", self.rows));
        }
        Ok(Times { scan, prewarm_read, prewarm_buffer })
    }

    /// Removes the cluster.
    pub fn remove(&self) {
        self.postgres.remove();
    }
}
