#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod change;
mod disk;
mod fuse;
mod mount;
mod save;

pub use disk::{Disk, NamesRule, Rules};
pub use mount::{Mounted, refusal};
