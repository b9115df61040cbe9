//! The storage manager: relation forks as files of 1 GB segments.
//!
//! A fork is stored as `base/DB/REL` (or `global/REL`) with the fork's suffix. Its later segments
//! end with `.1`, `.2` and so on.
//!
//! Each module uses only modules below it in this table.
//!
//! | module | what it holds |
//! |---|---|
//! | `databases` | the directories of databases |
//! | `tablespaces` | the directories and links of tablespaces |
//! | `grow` | appending blocks of zeros, and taking them back after a failure |
//! | `shrink` | truncating and removing files once their I/O has ended |
//! | `transfer` | [`Transfer`]: reads and writes of blocks, across segments |
//! | `sync` | the checkpoint's syncs of all files with a pending request |
//! | `leftovers` | removing the temporary relations that a crash left behind |
//! | `manager` | [`Smgr`]: names, existence, sizes and open files |
//! | `fork` | [`RelFork`]: one fork's size, extension lock and segment files |
//! | `extension_queue` | `ExtensionQueue`: backends that extend a fork at the same time |
//! | `extend_method` | [`ExtendMethod`]: how files grow |
//! | `sync_queue` | [`SyncQueue`]: files and directories to sync before the next checkpoint ends |
//! | `written` | [`WrittenPages`]: pages to read back before the next checkpoint ends |
//!
//! A fork's size is read from the file system once and then kept, since all changes go through this
//! module. All segments before the last are full. An I/O never crosses a segment border:
//! [`Smgr::start_read`] and [`Smgr::start_write`] split a range there, and callers that combine
//! blocks themselves ask [`Smgr::room_in_segment`].
mod databases;
mod extend_method;
mod extension_queue;
mod fork;
mod grow;
mod leftovers;
mod manager;
mod shrink;
mod sync;
mod sync_queue;
mod tablespaces;
mod transfer;
mod written;

pub use extend_method::ExtendMethod;
pub use leftovers::{database_dirs, remove_temp_relations};
pub use manager::{Smgr, SmgrConfig};
pub use sync::SyncReport;
pub use transfer::Transfer;

pub(crate) use extension_queue::Turn;
pub(crate) use fork::RelFork;
pub(crate) use sync_queue::SyncQueue;
pub(crate) use written::{Version, WrittenPages, WrittenRun};
