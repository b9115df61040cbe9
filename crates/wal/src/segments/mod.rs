//! Segment files: made ahead of need, recycled or removed, marked for the archive.
//!
//! - `files`: the segment files of one log, and their names
//! - `ready`: makes segments ready for writing
//! - `make`: makes a new segment, zero-filled by several large writes in flight
//! - `demand`: how many segments will be needed, and waking the thread that makes them
//! - `retire`: recycles or removes old segments
//! - `status`: which files are archived (`archive_status`)
//! - `dir`: lists and syncs a directory
//!
//! A segment gets its final name only when it has its full size and is synced. The directory is
//! synced before anything is written under the new name.
//!
//! A segment is recycled by one rename, so it has exactly one name at any time. With link and
//! unlink, a crash could leave one file with two names, of which one is archived while the other is
//! written. A rename never replaces a file: all names change under one lock, and a new name is
//! looked up first.
//!
//! A failure before the final name is given leaves nothing behind and can be retried. A failed sync
//! of the directory is final, like any failed sync.

mod demand;
mod dir;
mod files;
mod make;
mod ready;
mod retire;
mod status;

pub use files::{GrowthWatcher, SegmentPolicy, SegmentStats};
pub(crate) use files::{Segments, TEMPORARY};
pub use retire::OldSegments;
pub use status::ArchiveFeed;
