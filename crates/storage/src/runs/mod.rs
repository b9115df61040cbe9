//! Sorting more than fits into memory: sorted runs in temporary files, which are merged.
//!
//! - `levels.rs`: [`Runs`], sorted runs in files
//! - `merge.rs`: [`Merge`], the merging of runs
//!
//! What is sorted, in which order, and how an item is written is the caller's: [`RunItems`].

mod levels;
mod merge;

pub use levels::Runs;
pub use merge::Merge;

use crate::error::StorageError;
use crate::tempfile::{TempOptions, TempReader, TempWriter};
use forebay_aio::IoBackend;
use std::cmp::Ordering;

/// What a sort needs from its surroundings.
pub trait RunHost {
    /// What can fail.
    type Error;

    /// Does I/O on temporary files.
    fn run_io<T>(
        &mut self,
        body: impl FnOnce(&mut IoBackend) -> Result<T, StorageError>,
    ) -> Result<T, Self::Error>;

    /// Makes a temporary file.
    fn run_file(&mut self, options: TempOptions) -> Result<TempWriter, Self::Error>;

    /// Called for each item: fails if the sort is to end.
    fn step(&mut self) -> Result<(), Self::Error>;
}

/// What is sorted.
pub trait RunItems<H: RunHost>: Clone {
    /// An item.
    type Item;

    /// Which of two items comes first. Equal ones come out in the order of their arrival.
    fn order(&self, a: &Self::Item, b: &Self::Item) -> Result<Ordering, H::Error>;

    /// Appends an item to a file.
    fn write(
        &mut self,
        item: &Self::Item,
        writer: &mut TempWriter,
        host: &mut H,
    ) -> Result<(), H::Error>;

    /// The next item of a run; None at its end.
    fn read(
        &mut self,
        reader: &mut TempReader,
        host: &mut H,
    ) -> Result<Option<Self::Item>, H::Error>;
}
