//! The statistics in a file, from a clean stop to the next start.
//!
//! ```text
//!  0        8           16            24      28
//! ┌────────┬───────────┬─────────────┬───────┬─────────────────────────┬─────┐
//! │ magic  │ system id │ checkpoint  │ count │ count * 208 bytes       │ CRC │
//! └────────┴───────────┴─────────────┴───────┴─────────────────────────┴─────┘
//! ```
//!
//! All numbers are little-endian. The checkpoint is that of the clean stop: if another server has
//! run on the directory since then, pg_control has a later one, and the file is out of date.
//!
//! PostgreSQL keeps its own statistics in pg_stat/pgstat.stat, an image of its structures in
//! memory, and reads that file at its next clean start, whoever has changed the tables meanwhile.
//! So it is removed. A crash makes both files worthless.

use std::collections::HashMap;
use std::path::Path;

use forebay_aio::{AioError, IfFound, IoBackend};
use forebay_format::control::ControlFile;
use forebay_format::crc::crc32c;
use forebay_txn::CountedRelation;

use super::row::{MaintenanceRuns, RelationStats};

const NAME: &str = "pg_stat/forebay.stat";
const UNFINISHED: &str = "pg_stat/forebay.tmp";
const OF_POSTGRESQL: &str = "pg_stat/pgstat.stat";
const MAGIC: u64 = u64::from_le_bytes(*b"FBSTAT01");
/// Stands for no time.
const NEVER: i64 = i64::MIN;

type All = HashMap<CountedRelation, RelationStats>;

/// Numbers of a file, one after the other.
struct Numbers<'a>(&'a [u8]);

impl Numbers<'_> {
    fn next<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }

    fn u32(&mut self) -> Option<u32> {
        self.next().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.next().map(u64::from_le_bytes)
    }

    fn time(&mut self) -> Option<Option<i64>> {
        let time = self.next().map(i64::from_le_bytes)?;
        Some((time != NEVER).then_some(time))
    }

    fn runs(&mut self) -> Option<MaintenanceRuns> {
        Some(MaintenanceRuns { count: self.u64()?, last: self.time()?, micros: self.u64()? })
    }

    fn relation(&mut self) -> Option<(CountedRelation, RelationStats)> {
        let of = CountedRelation { db: self.u32()?, rel: self.u32()? };
        let stats = RelationStats {
            scans: self.u64()?,
            last_scan: self.time()?,
            returned: self.u64()?,
            fetched: self.u64()?,
            inserted: self.u64()?,
            updated: self.u64()?,
            deleted: self.u64()?,
            hot_updated: self.u64()?,
            newpage_updated: self.u64()?,
            live: self.u64()?,
            dead: self.u64()?,
            changed_since_analyze: self.u64()?,
            inserted_since_vacuum: self.u64()?,
            vacuums: self.runs()?,
            autovacuums: self.runs()?,
            analyzes: self.runs()?,
            autoanalyzes: self.runs()?,
        };
        Some((of, stats))
    }
}

fn put_relation(out: &mut Vec<u8>, of: CountedRelation, stats: &RelationStats) {
    out.extend(of.db.to_le_bytes());
    out.extend(of.rel.to_le_bytes());
    let mut put = |number: u64| out.extend(number.to_le_bytes());
    let time = |time: Option<i64>| time.unwrap_or(NEVER).cast_unsigned();
    put(stats.scans);
    put(time(stats.last_scan));
    for number in [stats.returned, stats.fetched, stats.inserted, stats.updated, stats.deleted] {
        put(number);
    }
    for number in [stats.hot_updated, stats.newpage_updated, stats.live, stats.dead] {
        put(number);
    }
    put(stats.changed_since_analyze);
    put(stats.inserted_since_vacuum);
    for runs in [stats.vacuums, stats.autovacuums, stats.analyzes, stats.autoanalyzes] {
        put(runs.count);
        put(time(runs.last));
        put(runs.micros);
    }
}

fn encode(all: &All, control: &ControlFile) -> Vec<u8> {
    let mut out = Vec::new();
    for number in [MAGIC, control.system_id, control.checkpoint.0] {
        out.extend(number.to_le_bytes());
    }
    out.extend(u32::try_from(all.len()).unwrap_or(u32::MAX).to_le_bytes());
    let mut sorted: Vec<_> = all.iter().collect();
    sorted.sort_unstable_by_key(|(of, _)| **of);
    sorted.into_iter().for_each(|(of, stats)| put_relation(&mut out, *of, stats));
    out.extend(crc32c(&out).to_le_bytes());
    out
}

/// None: the file is damaged, or not of this cluster's last stop.
fn decode(bytes: &[u8], control: &ControlFile) -> Option<All> {
    let (body, crc) = bytes.split_last_chunk()?;
    let mut numbers = Numbers(body);
    let head = [numbers.u64()?, numbers.u64()?, numbers.u64()?];
    let expected = [MAGIC, control.system_id, control.checkpoint.0];
    if u32::from_le_bytes(*crc) != crc32c(body) || head != expected {
        return None;
    }
    let count = numbers.u32()?;
    let all: Option<All> = (0..count).map(|_| numbers.relation()).collect();
    all.filter(|_| numbers.0.is_empty())
}

/// What the last clean stop kept. Nothing if there was none, or its file is out of date.
pub(crate) fn read(io: &mut IoBackend, dir: &Path, control: &ControlFile) -> All {
    match io.read_file_if_there(&dir.join(NAME)) {
        Ok(None) => All::new(),
        Ok(Some(bytes)) => decode(&bytes, control).unwrap_or_else(|| {
            tracing::info!("the statistics in \"{NAME}\" are out of date");
            All::new()
        }),
        Err(error) => {
            tracing::warn!("could not read statistics: {error}");
            All::new()
        }
    }
}

/// Removes the files, also PostgreSQL's: from now on they are out of date.
pub(crate) fn discard(io: &mut IoBackend, dir: &Path) {
    for name in [NAME, UNFINISHED, OF_POSTGRESQL] {
        if let Err(error) = io.aio().namespace().unlink(&dir.join(name)).if_found() {
            tracing::warn!("could not remove file \"{name}\": {error}");
        }
    }
}

/// Keeps the statistics, after the checkpoint of a clean stop. If they get lost, only they are.
pub(crate) fn write(io: &mut IoBackend, dir: &Path, all: &All, control: &ControlFile) {
    let mut written = || -> Result<(), AioError> {
        let unfinished = dir.join(UNFINISHED);
        io.write_file(&unfinished, &encode(all, control))?;
        io.aio().namespace().rename(&unfinished, &dir.join(NAME))
    };
    if let Err(error) = written() {
        tracing::warn!("could not write statistics: {error}");
    }
}
