//! Merging runs: a heap of runs, ordered by their next items.

use super::{RunHost, RunItems};
use crate::tempfile::TempReader;
use std::cmp::Ordering;

/// Runs being merged.
#[derive(Debug)]
pub struct Merge<I, T> {
    items: I,
    /// Runs that have items left, as a binary heap.
    runs: Vec<Run<T>>,
}

#[derive(Debug)]
struct Run<T> {
    reader: TempReader,
    /// Its next item.
    next: T,
    /// Equal items come out in the order of their runs.
    number: usize,
}

impl<I, T> Merge<I, T> {
    /// Merges runs that are given in the order in which their items arrived.
    pub(super) fn new<H: RunHost>(
        items: I,
        readers: Vec<TempReader>,
        host: &mut H,
    ) -> Result<Self, H::Error>
    where
        I: RunItems<H, Item = T>,
    {
        let mut merge = Merge { items, runs: Vec::new() };
        for (number, mut reader) in readers.into_iter().enumerate() {
            if let Some(next) = merge.items.read(&mut reader, host)? {
                merge.runs.push(Run { reader, next, number });
            }
        }
        for at in (0..merge.runs.len() / 2).rev() {
            merge.sift(at)?;
        }
        Ok(merge)
    }

    /// The next item of all.
    pub fn next<H: RunHost>(&mut self, host: &mut H) -> Result<Option<T>, H::Error>
    where
        I: RunItems<H, Item = T>,
    {
        host.step()?;
        let Some(first) = self.runs.first_mut() else { return Ok(None) };
        let item = match self.items.read(&mut first.reader, host)? {
            Some(next) => std::mem::replace(&mut first.next, next),
            None => self.runs.swap_remove(0).next,
        };
        self.sift(0)?;
        Ok(Some(item))
    }

    /// Whether the next item of run `a` comes before that of run `b`; false if there is no such
    /// run.
    fn before<H: RunHost>(&self, a: usize, b: usize) -> Result<bool, H::Error>
    where
        I: RunItems<H, Item = T>,
    {
        let (Some(a), Some(b)) = (self.runs.get(a), self.runs.get(b)) else { return Ok(false) };
        let order = self.items.order(&a.next, &b.next)?.then(a.number.cmp(&b.number));
        Ok(order == Ordering::Less)
    }

    /// Moves a run down to its place.
    fn sift<H: RunHost>(&mut self, mut at: usize) -> Result<(), H::Error>
    where
        I: RunItems<H, Item = T>,
    {
        loop {
            let mut first = at;
            for child in [2 * at + 1, 2 * at + 2] {
                if self.before(child, first)? {
                    first = child;
                }
            }
            if first == at {
                return Ok(());
            }
            self.runs.swap(at, first);
            at = first;
        }
    }
}
