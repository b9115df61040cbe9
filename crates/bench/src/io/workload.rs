//! One run: a window of reads or writes that is kept full until the time is over.
//!
//! Completions are taken in any order, and each is replaced by a new I/O at once, as fio does.
//! Starting all missing I/Os in one batch would save processor time and leave the device idle.

use std::hint::black_box;
use std::sync::Arc;

use forebay_aio::sync::{Duration, Instant};
use forebay_aio::{AlignedBuf, File, HugePages, IoBackend, OwnedIo, Target};
use forebay_format::checksum::checksum_pages;
use forebay_format::page::{PageMut, stored_checksum};
use forebay_format::{BLOCK_SIZE, PageBytes};

use super::plan::{Case, Operation, Pattern};
use crate::error::BenchError;
use crate::measure::{Noise, Stopwatch};
use crate::stats::Transfer;

/// When a run is over.
#[derive(Clone, Copy)]
pub(super) enum Until {
    /// After so long.
    Time(Duration),
    /// At the end of the file.
    Once,
}

/// An I/O of the window.
struct Pending {
    block: u64,
    io: OwnedIo,
}

/// The I/Os in flight, and what the next ones need.
struct Window {
    spare: Vec<AlignedBuf>,
    pending: Vec<Pending>,
    /// Memory for the checksums of one I/O.
    sums: Vec<u16>,
    noise: Noise,
    /// The file's length in I/Os.
    chunks: u64,
    next: u64,
}

impl Window {
    fn next_chunk(&mut self, pattern: Pattern) -> u64 {
        self.next += 1;
        match pattern {
            Pattern::Sequential => (self.next - 1) % self.chunks,
            Pattern::Random => self.noise.next() % self.chunks,
        }
    }
}

pub(super) struct Workload<'a> {
    pub(super) backend: &'a mut IoBackend,
    pub(super) file: &'a File,
    /// Blocks of the file.
    pub(super) blocks: u64,
    /// Every page of the file has its right checksum.
    pub(super) intact: bool,
    pub(super) case: Case,
}

impl Workload<'_> {
    /// Runs. Buffered reads find nothing in the kernel's cache: it is emptied, off the clock, after
    /// every lap over the file.
    pub(super) fn run(&mut self, until: Until) -> Result<Transfer, BenchError> {
        let mut window = Window {
            spare: self.buffers()?,
            pending: Vec::with_capacity(self.case.depth as usize),
            sums: vec![0; self.case.combine as usize],
            noise: Noise::new(self.blocks ^ u64::from(self.case.depth)),
            chunks: self.blocks / u64::from(self.case.combine),
            next: 0,
        };
        let cold = self.case.operation == Operation::Read && !self.case.direct;
        let names = Arc::clone(self.backend.aio().namespace());
        let mut sum = Transfer::default();
        loop {
            if cold {
                names.forget_cached(self.file)?;
            }
            let (time, lap_ends) = match until {
                Until::Once => (Duration::MAX, true),
                Until::Time(time) => {
                    (time.saturating_sub(Duration::from_secs_f64(sum.seconds)), cold)
                }
            };
            let watch = Stopwatch::start();
            let most = if lap_ends { window.chunks } else { u64::MAX };
            let ios = self.lap(&mut window, time, most)?;
            sum.add(Transfer {
                bytes: ios * self.case.io_bytes() as u64,
                ios,
                seconds: watch.seconds(),
                cpu_seconds: watch.cpu_seconds(),
            });
            match until {
                Until::Time(time) if sum.seconds < time.as_secs_f64() => {}
                _ => return Ok(sum),
            }
        }
    }

    /// Makes at most `most` I/Os, for at most `time`, and returns their number. Writes are durable
    /// afterwards.
    fn lap(&mut self, window: &mut Window, time: Duration, most: u64) -> Result<u64, BenchError> {
        let begun = Instant::now();
        let (mut started, mut finished) = (0, 0);
        loop {
            while started < most
                && begun.elapsed() < time
                && let Some(buffer) = window.spare.pop()
            {
                let block = window.next_chunk(self.case.pattern) * u64::from(self.case.combine);
                let pending = self.start(block, buffer, &mut window.sums);
                window.pending.push(pending);
                started += 1;
            }
            if window.pending.is_empty() {
                break;
            }
            for done in self.backend.wait_any() {
                let at = window.pending.iter().position(|pending| pending.io.wait_ref() == done);
                let at = at.expect("the window has all I/O of the backend");
                let pending = window.pending.swap_remove(at);
                window.spare.push(self.finish(pending, &mut window.sums)?);
                finished += 1;
            }
        }
        if self.case.operation == Operation::Write {
            self.backend.fdatasync(self.file)?;
        }
        Ok(finished)
    }

    /// A buffer for each I/O of the window, registered with the kernel where the method can.
    fn buffers(&self) -> Result<Vec<AlignedBuf>, BenchError> {
        let mut noise = Noise::new(u64::from(self.case.combine));
        let mut buffers =
            AlignedBuf::several(self.case.depth as usize, self.case.io_bytes(), HugePages::Off)?;
        if let Some(buffer) = buffers.first() {
            self.backend.aio().register_buffer(buffer);
        }
        buffers.iter_mut().for_each(|buffer| noise.fill(buffer));
        Ok(buffers)
    }

    fn start(&mut self, block: u64, mut buffer: AlignedBuf, sums: &mut [u16]) -> Pending {
        let (offset, all) = (block * BLOCK_SIZE as u64, 0..self.case.io_bytes());
        let io = match self.case.operation {
            Operation::Read => {
                self.backend.start_read(self.file, offset, buffer, all, Target::File)
            }
            Operation::Write => {
                if self.case.checksums {
                    checksum_pages(pages(&buffer), block as u32, sums);
                    for (page, sum) in buffer.as_chunks_mut::<BLOCK_SIZE>().0.iter_mut().zip(sums) {
                        PageMut(page).set_checksum(*sum);
                    }
                }
                self.backend.start_write(self.file, offset, buffer, all, Target::File)
            }
        };
        Pending { block, io }
    }

    fn finish(&mut self, pending: Pending, sums: &mut [u16]) -> Result<AlignedBuf, BenchError> {
        let (buffer, result) = self.backend.finish_owned(pending.io);
        result?;
        if self.case.checksums && self.case.operation == Operation::Read {
            checksum_pages(pages(&buffer), pending.block as u32, sums);
            let found = pages(&buffer).iter().map(stored_checksum);
            let wrong = black_box(found.zip(sums).position(|(found, sum)| found != *sum));
            if let Some(n) = wrong
                && self.intact
            {
                return Err(BenchError::Damaged { block: pending.block + n as u64 });
            }
        }
        Ok(buffer)
    }
}

fn pages(buffer: &AlignedBuf) -> &[PageBytes] {
    buffer.as_chunks::<BLOCK_SIZE>().0
}
