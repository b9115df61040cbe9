//! What a check has found, and where.

use std::fmt;

use forebay_format::{BlockNumber, Fork, OffsetNumber};

/// Something in a relation that can't be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The fork.
    pub fork: Fork,
    /// The block in it.
    pub block: BlockNumber,
    /// The line pointer, if it is about one.
    pub offset: Option<OffsetNumber>,
    /// The attribute, from 0, if it is about one.
    pub attribute: Option<u16>,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for Finding {
    /// The place and the message, in one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.fork != Fork::Main {
            write!(f, "fork {}, ", self.fork.name())?;
        }
        write!(f, "block {}", self.block)?;
        if let Some(offset) = self.offset {
            write!(f, ", offset {offset}")?;
        }
        if let Some(attribute) = self.attribute {
            write!(f, ", attribute {attribute}")?;
        }
        write!(f, ": {}", self.message)
    }
}

/// Passes findings on, with the place that is being checked.
pub(super) struct Report<'s> {
    fork: Fork,
    block: BlockNumber,
    offset: Option<OffsetNumber>,
    attribute: Option<u16>,
    sink: &'s mut dyn FnMut(Finding),
}

impl<'s> Report<'s> {
    pub(super) fn new(
        fork: Fork,
        block: BlockNumber,
        sink: &'s mut dyn FnMut(Finding),
    ) -> Report<'s> {
        Report { fork, block, offset: None, attribute: None, sink }
    }

    /// What follows is about a line pointer.
    pub(super) fn at(&mut self, offset: OffsetNumber) -> &mut Self {
        (self.offset, self.attribute) = (Some(offset), None);
        self
    }

    /// What follows is about an attribute of that tuple; `None`: about the tuple.
    pub(super) fn at_attribute(&mut self, attribute: Option<u16>) {
        self.attribute = attribute;
    }

    pub(super) fn say(&mut self, message: impl Into<String>) {
        let Report { fork, block, offset, attribute, .. } = *self;
        (self.sink)(Finding { fork, block, offset, attribute, message: message.into() });
    }
}
