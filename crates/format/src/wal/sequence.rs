//! Records of sequences. A sequence is a page with one heap tuple.
//!
//! ```text
//!   main data:  relation, 12 bytes | the tuple, header included
//!   block 0:    the page, which redo makes anew
//! ```

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::{
    bytes::Cursor,
    ids::RelFileLocator,
    page::PageMut,
    sequence,
    wal::error::{PayloadError, damaged},
};

/// A sequence's tuple changed.
pub const LOG: u8 = 0x00;

/// Name of a record's kind.
pub const fn name(kind: u8) -> &'static str {
    match kind {
        LOG => "LOG",
        _ => "UNKNOWN",
    }
}

/// Main data of [`LOG`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SequenceLog<'a> {
    /// The sequence.
    pub rel: RelFileLocator,
    /// Its tuple.
    pub tuple: &'a [u8],
}

impl<'a> SequenceLog<'a> {
    /// Encodes it.
    pub fn encode(&self) -> Vec<u8> {
        [&self.rel.encode()[..], self.tuple].concat()
    }

    /// Decodes it.
    pub fn decode(main: &'a [u8]) -> Result<Self, PayloadError> {
        let mut cursor = Cursor::new(main);
        let rel = cursor.array().ok_or(damaged("LOG"))?;
        Ok(Self { rel: RelFileLocator::decode(rel), tuple: cursor.rest() })
    }

    /// Makes the sequence's page. Returns whether the tuple fits.
    pub fn init_page(&self, page: &mut PageMut<'_>) -> bool {
        sequence::init_page(page, self.tuple)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;
    use crate::{BLOCK_SIZE, page::Page};

    #[test]
    fn a_page_has_the_tuple_and_the_magic_number() {
        let log = SequenceLog { rel: RelFileLocator::in_default(5, 7), tuple: &[3; 60] };
        let bytes = log.encode();
        assert_eq!(SequenceLog::decode(&bytes), Ok(log));
        assert!(SequenceLog::decode(&bytes[..11]).is_err());
        let mut page = [0xaa; BLOCK_SIZE];
        assert!(log.init_page(&mut PageMut::new(&mut page)));
        assert_eq!(Page::new(&page).item(1), Some(&[3; 60][..]));
        assert_eq!(Page::new(&page).special_bytes(), [0x17, 0x17, 0, 0, 0, 0, 0, 0]);
        for tuple in [&[][..], &[1; 8200]] {
            let log = SequenceLog { tuple, ..log };
            assert!(!log.init_page(&mut PageMut::new(&mut page)));
        }
    }
}
