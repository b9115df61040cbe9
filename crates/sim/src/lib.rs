#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod care;
mod disk;
pub mod explore;
mod faults;
mod file;
mod file_layer;
mod image;
mod model;
mod names;
mod rows;
mod sql;
mod survival;
pub mod workload;

pub use disk::{Ending, Forgotten, SimDisk};
pub use faults::{CallKind, Failure, FaultClass, FaultRates, Fired};
pub use file::{InFlight, SimFile};
pub use image::Image;
pub use model::{Contradiction, Fate, Model};
pub use names::{Names, Node};
pub use rows::{indexed_long_values_disk, indexed_rows_disk, long_values_disk, rows_disk};
pub use survival::{SECTOR, Survival};
