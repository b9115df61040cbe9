//! Reads into memory that is not aligned.
//!
//! Forebay's own I/O memory always begins at a multiple of 4096, and `aio` asserts it. So these
//! reads bypass `aio`: they call pread on the descriptor, with buffers at offsets from a multiple
//! of 2 MiB. They show what the rule is worth: the kernel's copy into other memory is slower, and
//! most such direct reads are refused.

use forebay_aio::sync::{Duration, Instant};
use forebay_aio::{AioError, AlignedBuf, Errno, File};
use forebay_format::checksum::page_checksum;
use forebay_format::{BLOCK_SIZE, PageBytes};
use rustix::io::pread;
use serde::Serialize;

use crate::error::BenchError;
use crate::measure::{rate, thread_seconds};
use crate::stats::Spread;

/// The offsets that are measured, in bytes from a multiple of 2 MiB.
const OFFSETS: [usize; 9] = [0, 8, 9, 32, 512, 513, 4096, 8192, HUGE];

pub(super) const HUGE: usize = 2 << 20;
/// Blocks of the file that are read again and again, so that they stay in the kernel's cache.
const CACHED_BLOCKS: u64 = 128;

/// The figures of one offset.
#[derive(Clone, Debug, Serialize)]
pub(super) struct AlignmentRow {
    pub(super) offset: usize,
    /// The kernel's copies out of its cache.
    #[serde(rename = "buffered_bytes_per_cpu_second")]
    pub(super) buffered: Spread,
    /// Direct reads, one at a time. None: see `refusal`.
    #[serde(rename = "direct_bytes_per_second")]
    pub(super) direct: Option<Spread>,
    /// Why there are no direct reads.
    #[serde(rename = "direct_refusal")]
    pub(super) refusal: Option<String>,
    /// The page checksum of a page there.
    #[serde(rename = "checksum_bytes_per_cpu_second")]
    pub(super) checksum: Spread,
}

#[derive(Default)]
struct Samples {
    buffered: Vec<f64>,
    direct: Vec<f64>,
    refusal: Option<String>,
    checksum: Vec<f64>,
}

/// Measures all offsets, round after round.
pub(super) fn measure(
    buffered: &File,
    direct: Result<&File, String>,
    blocks: u64,
    run_time: Duration,
    rounds: usize,
) -> Result<Vec<AlignmentRow>, BenchError> {
    let mut memory = AlignedBuf::zeroed(2 * HUGE + BLOCK_SIZE + HUGE)?;
    let base = memory.as_ptr().align_offset(HUGE);
    let mut samples: Vec<Samples> = OFFSETS.iter().map(|_| Samples::default()).collect();
    for _ in 0..rounds {
        for (offset, samples) in OFFSETS.into_iter().zip(&mut samples) {
            let at = base + offset;
            let page = memory[at..].first_chunk_mut::<BLOCK_SIZE>();
            let page = page.expect("there is memory behind the last offset");
            // The first pass only fills the kernel's cache.
            let copies = reads(buffered, page, blocks, Duration::ZERO, true)
                .and_then(|_| reads(buffered, page, blocks, run_time, true))
                .map_err(|e| AioError::os("read file", buffered.path(), e))?;
            samples.buffered.push(copies);
            match &direct {
                Ok(file) => match reads(file, page, blocks, run_time, false) {
                    Ok(rate) => samples.direct.push(rate),
                    Err(e) => samples.refusal = Some(e.to_string()),
                },
                Err(reason) => samples.refusal = Some(reason.clone()),
            }
            samples.checksum.push(sums(page, run_time));
        }
    }
    let rows = OFFSETS.into_iter().zip(samples).map(|(offset, samples)| AlignmentRow {
        offset,
        buffered: Spread::of(samples.buffered),
        direct: Spread::of_some(samples.direct),
        refusal: samples.refusal,
        checksum: Spread::of(samples.checksum),
    });
    Ok(rows.collect())
}

/// Bytes a second of processor time (for copies out of the cache) or of the clock.
fn reads(
    file: &File,
    page: &mut PageBytes,
    blocks: u64,
    run_time: Duration,
    by_processor: bool,
) -> Result<f64, Errno> {
    let fd = file.borrow_fd().ok_or(Errno::BADF)?;
    let (wall, cpu) = (Instant::now(), thread_seconds());
    let mut done = 0_u64;
    loop {
        for block in 0..blocks.min(CACHED_BLOCKS) {
            let got = match pread(fd, &mut page[..], block * BLOCK_SIZE as u64) {
                Err(rustix::io::Errno::INTR) => continue,
                // The file was truncated after it was opened.
                Ok(got) if got < BLOCK_SIZE => return Err(Errno::IO),
                other => other?,
            };
            done += got as u64;
        }
        if wall.elapsed() >= run_time && done > 0 {
            let taken =
                if by_processor { thread_seconds() - cpu } else { wall.elapsed().as_secs_f64() };
            return Ok(done as f64 / taken);
        }
    }
}

/// Bytes a second of processor time.
fn sums(page: &PageBytes, run_time: Duration) -> f64 {
    rate(64 * BLOCK_SIZE, run_time.as_secs_f64().min(0.02), || {
        for block in 0..64 {
            std::hint::black_box(page_checksum(std::hint::black_box(page), block));
        }
    })
}
