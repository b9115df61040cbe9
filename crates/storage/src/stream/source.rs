//! Where a stream gets its block numbers from.

use forebay_format::BlockNumber;

/// What names the blocks of a stream, in its order, which may be any.
///
/// A closure that returns block numbers until it returns None is one. [`WithData`] is one that
/// hands a value along with each block; a type of one's own can be led elsewhere between two passes
/// ([`ReadStream::source_mut`](super::ReadStream::source_mut)).
pub trait BlockSource {
    /// What comes out beside each page.
    type Data;

    /// The next block. None: there is none now. It is asked again only after the stream was told to
    /// [`resume`](super::ReadStream::resume), or was reset.
    fn next_block(&mut self) -> Option<(BlockNumber, Self::Data)>;
}

impl<F: FnMut() -> Option<BlockNumber>> BlockSource for F {
    type Data = ();

    fn next_block(&mut self) -> Option<(BlockNumber, ())> {
        self().map(|block| (block, ()))
    }
}

/// A closure that returns a block number and a value of the caller's, which comes out with the
/// block's page.
#[derive(Debug)]
pub struct WithData<F>(pub F);

impl<D, F: FnMut() -> Option<(BlockNumber, D)>> BlockSource for WithData<F> {
    type Data = D;

    fn next_block(&mut self) -> Option<(BlockNumber, D)> {
        (self.0)()
    }
}
