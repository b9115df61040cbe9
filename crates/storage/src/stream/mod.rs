//! Streams: many pages, read or written ahead of need.
//!
//! | module | what it holds |
//! |---|---|
//! | `read` | [`ReadStream`]: the pages that a callback names, read ahead |
//! | `source` | [`BlockSource`]: the callback |
//! | `distance` | how far to look ahead, and how much to read at once |
//! | `write` | [`WriteStream`]: dirty pages, sorted and written together |

mod distance;
mod read;
mod source;
mod write;

pub(crate) use distance::Distance;
pub use read::{ReadStream, StreamFlags, StreamSettings, StreamStats};
pub use source::{BlockSource, WithData};
pub use write::{Locked, WriteOptions, WriteReport, WriteStream, Written};
