//! Development only: a file system, under real servers, that loses what was not synced when its
//! power is cut.
//!
//! The kernel mounts it through FUSE, so a server runs on it unchanged: with its own threads, rings
//! and workers. Its contents are in memory, in the images of the simulated disk (crate `sim`).
//!
//! ```text
//!   server ──> kernel ──> FUSE ──> door ──> Disk: names and files, live, unsynced, durable
//!                                     │ cut: Survival decides what of the unsynced is left
//!                                     └──> the disk that the next mount shows
//! ```
//!
//! - `disk`: contents, attributes, what is in flight, and the power
//! - `change`: calls that change contents and names
//! - `door`: requests of the kernel, answered from a disk
//! - `mount`: mounting and unmounting
//! - `save`: a disk's contents as ordinary files, to look at
//!
//! Nothing hides in the kernel across a cut: there is no write-back cache, and an unmount drops the
//! rest. What is modelled and what is not is in docs/reliability.md.

#![forbid(unsafe_code)]

mod change;
mod disk;
mod door;
mod mount;
mod save;

pub use disk::{Disk, NamesRule, Rules};
pub use mount::{Mounted, refusal};
