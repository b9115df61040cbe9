//! What memory that is not aligned costs.
//!
//! Forebay's own I/O memory always begins at a multiple of 4096, and `aio` asserts it; so these
//! reads go past it, by pread on the descriptor, into a buffer at offsets from a multiple of 2 MiB.
//! They show what that rule is worth: the kernel's copy into other memory is slower, and direct I/O
//! refuses most of it.

use forebay_aio::sync::{Duration, Instant};
use forebay_aio::{AioError, AlignedBuf, Errno, File};
use forebay_format::checksum::page_checksum;
use forebay_format::{BLOCK_SIZE, PageBytes};
use rustix::io::pread;

use super::BenchError;
use super::measure::{Spread, thread_seconds};

/// The offsets that are measured, in bytes from a multiple of 2 MiB.
pub const ALIGNMENT_OFFSETS: [usize; 9] = [0, 8, 9, 32, 512, 513, 4096, 8192, HUGE];

const HUGE: usize = 2 << 20;
/// Blocks of the file that are read again and again, so that they stay in the kernel's cache.
const CACHED_BLOCKS: u64 = 128;

/// One offset.
#[derive(Clone, Debug)]
pub struct AlignmentRow {
    /// Bytes from a multiple of 2 MiB.
    pub offset: usize,
    /// Bytes a second of processor time that the kernel copies out of its cache.
    pub buffered: Spread,
    /// Bytes a second of direct reads, one at a time; None: see `refusal`.
    pub direct: Option<Spread>,
    /// Why there are no direct reads.
    pub refusal: Option<String>,
    /// Bytes a second of the page checksum there, in the cache.
    pub checksum: Spread,
}

#[derive(Default)]
struct Samples {
    buffered: Vec<f64>,
    direct: Vec<f64>,
    refusal: Option<String>,
    checksum: Vec<f64>,
}

/// Measures all offsets, in rounds.
pub(super) fn measure(
    buffered: &File,
    direct: Result<&File, String>,
    blocks: u64,
    run_time: Duration,
    rounds: usize,
) -> Result<Vec<AlignmentRow>, BenchError> {
    let mut memory = AlignedBuf::zeroed(2 * HUGE + BLOCK_SIZE + HUGE)?;
    let base = memory.as_ptr().align_offset(HUGE);
    let mut samples: Vec<Samples> = ALIGNMENT_OFFSETS.iter().map(|_| Samples::default()).collect();
    for _ in 0..rounds {
        for (offset, samples) in ALIGNMENT_OFFSETS.into_iter().zip(&mut samples) {
            let at = base + offset;
            let Some(page) =
                memory.get_mut(at..).and_then(|rest| rest.first_chunk_mut::<BLOCK_SIZE>())
            else {
                continue;
            };
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
    let rows = ALIGNMENT_OFFSETS.into_iter().zip(samples).map(|(offset, samples)| AlignmentRow {
        offset,
        buffered: Spread::of(samples.buffered),
        direct: (!samples.direct.is_empty()).then(|| Spread::of(samples.direct)),
        refusal: samples.refusal,
        checksum: Spread::of(samples.checksum),
    });
    Ok(rows.collect())
}

/// Bytes a second: of processor time where it is a copy, of the clock where it is the device.
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
                // Cut since it was opened.
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

fn sums(page: &PageBytes, run_time: Duration) -> f64 {
    let (wall, cpu) = (Instant::now(), thread_seconds());
    let mut done = 0_u64;
    loop {
        for block in 0..64 {
            std::hint::black_box(page_checksum(std::hint::black_box(page), block));
        }
        done += 64 * BLOCK_SIZE as u64;
        if wall.elapsed() >= run_time.min(Duration::from_millis(20)) {
            return done as f64 / (thread_seconds() - cpu);
        }
    }
}
