//! The source of a stream's block numbers.

use forebay_format::BlockNumber;

/// Names the blocks of a stream, in any order.
///
/// A closure that returns block numbers until it returns None is a source. [`WithData`] adds a
/// value to each block. A type of the caller's own can be changed during the scan through
/// `ReadStream::source_mut`.
pub trait BlockSource {
    /// The value that the stream returns with each page.
    type Data;

    /// Returns the next block; None if there is none now. After that it is asked again only if the
    /// stream is resumed or reset.
    fn next_block(&mut self) -> Option<(BlockNumber, Self::Data)>;
}

impl<F: FnMut() -> Option<BlockNumber>> BlockSource for F {
    type Data = ();

    fn next_block(&mut self) -> Option<(BlockNumber, ())> {
        self().map(|block| (block, ()))
    }
}

/// A closure that returns a block number and a value, which the stream returns with the block's
/// page.
#[derive(Debug)]
pub struct WithData<F>(pub F);

impl<D, F: FnMut() -> Option<(BlockNumber, D)>> BlockSource for WithData<F> {
    type Data = D;

    fn next_block(&mut self) -> Option<(BlockNumber, D)> {
        (self.0)()
    }
}
