//! What the device gives, by fio: reads of the relation's own files, writes of files as large as those of the bench.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use super::Extent;
use super::relation::Relation;
use crate::measure::fio::{self, Done};

/// The pool whose fourfold is changed at random.
pub const EVICT_POOL: u64 = 128 << 20;

/// The best that fio can do: memory and files registered, as Forebay registers its memory.
const REGISTERED: [&str; 2] = ["--fixedbufs=1", "--registerfiles=1"];

/// A job of fio's.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Job {
    /// All of the relation, in order.
    Read,
    /// Random blocks of the relation.
    Random,
    /// Random blocks, as many read as written.
    Mixed,
    /// A file, in order.
    Write,
}

impl Job {
    /// Its row.
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
    /// Where files are written, by fio as by the bench.
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
        fill(&mixed, 4 * EVICT_POOL)?;
        fill(&written, extent.bytes)?;
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

    /// How much of the relation random lists have.
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
                (self.relation.clone(), vec!["--rw=read", "--bs=128k", "--iodepth=32", "--readonly", order])
            }
            Job::Random => (
                self.segments.clone(),
                vec!["--rw=randread", "--bs=8k", "--iodepth=32", "--readonly", &bytes],
            ),
            Job::Mixed => {
                let mix = ["--rw=randrw", "--rwmixread=50", "--bs=8k", "--iodepth=32", "--overwrite=1"];
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

/// Writes every block of a file: one that is merely allocated would have its blocks converted by the first write.
fn fill(path: &Path, bytes: u64) -> Result<(), String> {
    let text = |e: std::io::Error| format!("{}: {e}", path.display());
    let mut file = File::create(path).map_err(text)?;
    let mut noise = 1_u64;
    let mut chunk = vec![0_u8; 1 << 20];
    let mut left = bytes;
    while left > 0 {
        for word in chunk.as_chunks_mut::<8>().0 {
            noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *word = noise.to_le_bytes();
        }
        let part = left.min(chunk.len() as u64);
        file.write_all(&chunk[..part as usize]).map_err(text)?;
        left -= part;
    }
    file.sync_all().map_err(text)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn files_are_written_and_not_merely_allocated() {
        let path = std::env::temp_dir().join(format!("forebay-xtask-fill-{}", std::process::id()));
        super::fill(&path, (1 << 20) + 8192).expect("written");
        let (meta, bytes) = (path.metadata().expect("there"), std::fs::read(&path).expect("read"));
        std::fs::remove_file(&path).expect("removed");
        assert_eq!(meta.len(), (1 << 20) + 8192);
        assert!(meta.blocks() * 512 >= meta.len(), "no holes");
        assert!(bytes.chunks(4096).all(|block| block.iter().any(|&byte| byte != 0)));
    }
}
