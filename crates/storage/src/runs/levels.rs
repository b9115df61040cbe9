//! Sorted runs in temporary files.
//!
//! A file holds at most as many runs as can be merged at once ([`Runs::order`]). When it is full,
//! its runs are merged into one run of the next level's file, and the file is removed. So a sort
//! needs little more disk space than its items, and writes each item once for each level.
//!
//! ```text
//!   level 1   [################][################]      <- merged from a whole file of level 0
//!   level 0   [####][####][####]                        <- what fitted into memory
//! ```

use super::merge::Merge;
use super::{RunHost, RunItems};
use crate::tempfile::{TempOptions, TempReader, TempWriter};
use forebay_format::BLOCK_SIZE;
use std::ops::Range;

/// Bounds of the number of runs that are merged at once.
const LEAST_ORDER: usize = 6;
const MOST_ORDER: usize = 128;
/// Bytes of buffers that each run has at least while more than `LEAST_ORDER` are merged.
const BUFFER: usize = 128 << 10;
/// Writes in flight, at most.
const WRITES: u32 = 4;
/// Buffers for writing take at most this part of the sort's memory, in addition to it.
const WRITING_SHARE: usize = 4;

/// The runs of a sort.
#[derive(Debug)]
pub struct Runs<I> {
    items: I,
    memory: usize,
    options: TempOptions,
    /// The items of a level arrived before those of the levels below it.
    levels: Vec<Level>,
}

#[derive(Debug, Default)]
struct Level {
    writer: Option<TempWriter>,
    runs: Vec<Range<u64>>,
}

impl<I> Runs<I> {
    /// None yet. While they are merged their buffers take `memory` bytes.
    pub fn new(items: I, memory: usize, options: TempOptions) -> Runs<I> {
        Runs { items, memory, options, levels: Vec::new() }
    }

    /// What orders, writes and reads the items.
    pub fn items_mut(&mut self) -> &mut I {
        &mut self.items
    }

    /// How many runs are merged at once.
    fn order(&self) -> usize {
        (self.memory / BUFFER).clamp(LEAST_ORDER, MOST_ORDER)
    }

    /// Makes a run of sorted items.
    pub fn add<H: RunHost>(
        &mut self,
        items: impl Iterator<Item = <I as RunItems<H>>::Item>,
        host: &mut H,
    ) -> Result<(), H::Error>
    where
        I: RunItems<H>,
    {
        self.make_room(0, host)?;
        let mut items = items;
        self.write(0, host, |_| Ok(items.next()))
    }

    /// All items in order. The files are removed when the result is dropped.
    pub fn merge<H: RunHost>(
        mut self,
        host: &mut H,
    ) -> Result<Merge<I, <I as RunItems<H>>::Item>, H::Error>
    where
        I: RunItems<H>,
    {
        // The lowest level has the shortest runs.
        for level in 0.. {
            let runs: usize = self.levels.iter().map(|l| l.runs.len()).sum();
            if runs <= self.order() {
                break;
            }
            self.move_up(level, host)?;
        }
        let count = self.levels.iter().map(|l| l.runs.len()).sum();
        let mut readers = Vec::with_capacity(count);
        for level in (0..self.levels.len()).rev() {
            readers.extend(self.readers(level, count, host)?);
        }
        Merge::new(self.items, readers, host)
    }

    /// Makes sure that a level can take one more run.
    fn make_room<H: RunHost>(&mut self, level: usize, host: &mut H) -> Result<(), H::Error>
    where
        I: RunItems<H>,
    {
        if self.levels.len() <= level {
            self.levels.push(Level::default());
        }
        match self.levels.get(level) {
            Some(full) if full.runs.len() >= self.order() => self.move_up(level, host),
            _ => Ok(()),
        }
    }

    /// Merges a level's runs into one of the next level.
    fn move_up<H: RunHost>(&mut self, level: usize, host: &mut H) -> Result<(), H::Error>
    where
        I: RunItems<H>,
    {
        self.make_room(level + 1, host)?;
        let count = self.levels.get(level).map_or(0, |l| l.runs.len());
        if count == 0 {
            return Ok(());
        }
        let readers = self.readers(level, count, host)?;
        let mut merge = Merge::new(self.items.clone(), readers, host)?;
        self.write(level + 1, host, |host| merge.next(host))?;
        // Long idle, it needs no buffers.
        if let Some(writer) = self.levels.get_mut(level + 1).and_then(|l| l.writer.as_mut()) {
            host.run_io(|io| writer.rest(io))?;
        }
        Ok(())
    }

    /// Appends a run to a level's file.
    fn write<H: RunHost>(
        &mut self,
        level: usize,
        host: &mut H,
        mut next: impl FnMut(&mut H) -> Result<Option<<I as RunItems<H>>::Item>, H::Error>,
    ) -> Result<(), H::Error>
    where
        I: RunItems<H>,
    {
        let options = self.writing();
        let Some(level) = self.levels.get_mut(level) else { return Ok(()) };
        let writer = match &mut level.writer {
            Some(writer) => writer,
            none => none.insert(host.run_file(options)?),
        };
        let start = writer.len();
        while let Some(item) = next(host)? {
            host.step()?;
            self.items.write(&item, writer, host)?;
        }
        level.runs.push(start..writer.len());
        Ok(())
    }

    /// Takes a level's runs: a reader for each, where `count` readers share the memory.
    fn readers<H: RunHost>(
        &mut self,
        level: usize,
        count: usize,
        host: &mut H,
    ) -> Result<Vec<TempReader>, H::Error> {
        let options = self.sharing(count);
        let Some(level) = self.levels.get_mut(level).map(std::mem::take) else {
            return Ok(Vec::new());
        };
        let Some(writer) = level.writer else { return Ok(Vec::new()) };
        let file = host.run_io(|io| writer.finish(io))?;
        Ok(level.runs.into_iter().map(|run| file.reader_of(run, options)).collect())
    }

    /// How files are written.
    fn writing(&self) -> TempOptions {
        let depth = self.options.depth.min(WRITES);
        let blocks = self.memory / WRITING_SHARE / (depth as usize + 1) / BLOCK_SIZE;
        TempOptions { combine: self.combine(blocks), depth }
    }

    /// A number of blocks, within what the options allow.
    fn combine(&self, blocks: usize) -> u32 {
        u32::try_from(blocks).unwrap_or(u32::MAX).clamp(1, self.options.combine.max(1))
    }

    /// How each of `count` readers reads: their buffers together take no more than the memory.
    fn sharing(&self, count: usize) -> TempOptions {
        let each = self.memory / count.max(1);
        let combine = self.combine(each / 2 / BLOCK_SIZE);
        let buffers = u32::try_from(each / (combine as usize * BLOCK_SIZE)).unwrap_or(u32::MAX);
        // One buffer is consumed while the others are filled.
        let depth = buffers.saturating_sub(1).max(1).min(self.options.depth);
        TempOptions { combine, depth }
    }
}
