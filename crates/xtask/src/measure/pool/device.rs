//! The device's rates, by fio: reads of the relation's own files, and writes of files as large as
//! the bench's.

use std::path::{Path, PathBuf};

use super::relation::Relation;
use crate::measure::fio::{self, Done, REGISTERED};

/// The pool of random updates; their file is four times as large.
pub const EVICT_POOL: u64 = 128 << 20;

/// How much is measured.
#[derive(Clone, Copy)]
pub struct Extent {
    /// Interleaved rounds.
    pub rounds: usize,
    /// Bytes of the relation, and of the pool that a checkpoint writes.
    pub bytes: u64,
    /// Length of a run of random updates.
    pub seconds: u64,
}

/// A job of fio.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Job {
    /// Reads the relation in order.
    Read,
    /// Reads random blocks of the relation.
    Random,
    /// Reads and writes random blocks, half and half.
    Mixed,
    /// Writes a file in order.
    Write,
}

impl Job {
    /// The row's name.
    pub fn row(self) -> &'static str {
        match self {
            Job::Read => "fio, direct 128 KiB read, depth 32",
            Job::Random => "fio, direct 8 KiB random read, depth 32",
            Job::Mixed => "fio, direct 8 KiB random, half written, depth 32",
            Job::Write => "fio, direct 128 KiB write, depth 16",
        }
    }
}

/// Files for fio.
pub struct Device {
    /// The folder in which fio and the bench write.
    pub folder: String,
    relation: String,
    /// Segments of the same size: fio takes a block of each in turn.
    segments: String,
    random_bytes: u64,
    mixed: PathBuf,
    written: PathBuf,
    extent: Extent,
}

impl Device {
    /// Writes the files that are to be overwritten.
    ///
    /// # Errors
    /// When that fails.
    pub fn prepare(relation: &Relation, folder: &Path, extent: Extent) -> Result<Device, String> {
        let (mixed, written) = (folder.join("fio-mixed"), folder.join("fio-written"));
        fio::fill(&mixed, 4 * EVICT_POOL)?;
        fio::fill(&written, extent.bytes)?;
        let names = |segments: &[PathBuf]| {
            segments.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(":")
        };
        Ok(Device {
            folder: folder.display().to_string(),
            relation: names(&relation.segments),
            segments: names(&relation.segments[..relation.full_segments()]),
            random_bytes: relation.bytes / 4 / 8192 * 8192,
            mixed,
            written,
            extent,
        })
    }

    /// Bytes that random lists read.
    pub fn random_bytes(&self) -> u64 {
        self.random_bytes
    }

    /// Runs a job.
    ///
    /// # Errors
    /// When fio fails.
    pub fn run(&self, job: Job) -> Result<Done, String> {
        let path = |path: &PathBuf| path.display().to_string();
        let bytes = format!("--io_size={}", self.random_bytes);
        let seconds = format!("--runtime={}", self.extent.seconds);
        let (files, arguments) = match job {
            Job::Read => {
                let order = "--file_service_type=sequential";
                (
                    self.relation.clone(),
                    vec!["--rw=read", "--bs=128k", "--iodepth=32", "--readonly", order],
                )
            }
            Job::Random => (
                self.segments.clone(),
                vec!["--rw=randread", "--bs=8k", "--iodepth=32", "--readonly", &bytes],
            ),
            Job::Mixed => {
                let mix =
                    ["--rw=randrw", "--rwmixread=50", "--bs=8k", "--iodepth=32", "--overwrite=1"];
                (path(&self.mixed), [&mix[..], &["--time_based", &seconds]].concat())
            }
            Job::Write => {
                let write = vec!["--rw=write", "--bs=128k", "--iodepth=16", "--overwrite=1"];
                (path(&self.written), write)
            }
        };
        fio::run(&files, &[&arguments[..], &REGISTERED].concat())
    }
}
