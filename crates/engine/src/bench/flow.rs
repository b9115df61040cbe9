//! One run: a window of reads or writes, kept full until the time is over.
//!
//! In no order: whatever has finished is taken, and each place is filled again at once, as fio
//! does. (Starting all that is missing in one batch takes a third less processor time for reads of
//! one block, and a twentieth of the rate: the device idles meanwhile.)

use std::hint::black_box;
use std::sync::Arc;

use forebay_aio::sync::{Duration, Instant};
use forebay_aio::{AlignedBuf, Backend, File, HugePages, OwnedIo, Target};
use forebay_format::checksum::checksum_pages;
use forebay_format::page::{PageMut, stored_checksum};
use forebay_format::{BLOCK_SIZE, PageBytes};

use super::BenchError;
use super::measure::{Noise, process_seconds};
use super::plan::{Case, Operation, Pattern};

/// What a run gave.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sample {
    pub bytes: u64,
    pub ios: u64,
    pub seconds: f64,
    /// Processor time, user and system.
    pub cpu_seconds: f64,
}

impl Sample {
    fn add(&mut self, other: Sample) {
        self.bytes += other.bytes;
        self.ios += other.ios;
        self.seconds += other.seconds;
        self.cpu_seconds += other.cpu_seconds;
    }
}

/// When a run is over.
#[derive(Clone, Copy)]
pub(super) enum Until {
    /// After so long.
    Time(Duration),
    /// When the whole file is done.
    Once,
}

struct Flight {
    block: u64,
    io: OwnedIo,
}

/// The I/Os under way, and what the next ones need.
struct Window {
    spare: Vec<AlignedBuf>,
    flights: Vec<Flight>,
    /// Room for the checksums of one I/O.
    sums: Vec<u16>,
    noise: Noise,
    /// I/Os that the file is made of.
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

pub(super) struct Flow<'a> {
    pub backend: &'a mut Backend,
    pub file: &'a File,
    /// Blocks of the file.
    pub blocks: u64,
    /// Every page of the file has its right checksum.
    pub intact: bool,
    pub case: Case,
}

impl Flow<'_> {
    /// Runs. Buffered reads find nothing in the kernel's cache: a lap over the file ends where all
    /// of it could be there, and the time that dropping it takes does not count.
    pub(super) fn run(&mut self, until: Until) -> Result<Sample, BenchError> {
        let mut window = Window {
            spare: self.buffers()?,
            flights: Vec::with_capacity(self.case.depth as usize),
            sums: vec![0; self.case.combine as usize],
            noise: Noise::new(self.blocks ^ u64::from(self.case.depth)),
            chunks: self.blocks / u64::from(self.case.combine),
            next: 0,
        };
        let cold = self.case.operation == Operation::Read && !self.case.direct;
        let names = Arc::clone(self.backend.aio().namespace());
        let mut sum = Sample::default();
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
            let begun = (Instant::now(), process_seconds());
            let most = if lap_ends { window.chunks } else { u64::MAX };
            let ios = self.lap(&mut window, time, most)?;
            sum.add(Sample {
                bytes: ios * self.case.io_bytes() as u64,
                ios,
                seconds: begun.0.elapsed().as_secs_f64(),
                cpu_seconds: process_seconds() - begun.1,
            });
            match until {
                Until::Time(time) if sum.seconds < time.as_secs_f64() => {}
                _ => return Ok(sum),
            }
        }
    }

    /// At most so many I/Os, for at most so long; how many there were. Writes are durable
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
                let flight = self.start(block, buffer, &mut window.sums);
                window.flights.push(flight);
                started += 1;
            }
            if window.flights.is_empty() {
                break;
            }
            for done in self.backend.wait_any() {
                let at = window.flights.iter().position(|flight| flight.io.wait_ref() == done);
                let flight =
                    window.flights.swap_remove(at.expect("the window has all I/O of the backend"));
                window.spare.push(self.finish(flight, &mut window.sums)?);
                finished += 1;
            }
        }
        if self.case.operation == Operation::Write {
            self.backend.fdatasync(self.file)?;
        }
        Ok(finished)
    }

    /// A buffer for each I/O of the window, in memory that the kernel knows where it can.
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

    fn start(&mut self, block: u64, mut buffer: AlignedBuf, sums: &mut [u16]) -> Flight {
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
        Flight { block, io }
    }

    fn finish(&mut self, flight: Flight, sums: &mut [u16]) -> Result<AlignedBuf, BenchError> {
        let (buffer, result) = self.backend.finish_owned(flight.io);
        result?;
        if self.case.checksums && self.case.operation == Operation::Read {
            checksum_pages(pages(&buffer), flight.block as u32, sums);
            let found = pages(&buffer).iter().map(stored_checksum);
            let wrong = black_box(found.zip(sums).position(|(found, sum)| found != *sum));
            if let Some(n) = wrong
                && self.intact
            {
                return Err(BenchError::Damaged { block: flight.block + n as u64 });
            }
        }
        Ok(buffer)
    }
}

fn pages(buffer: &AlignedBuf) -> &[PageBytes] {
    buffer.as_chunks::<BLOCK_SIZE>().0
}
