//! Development only: a disk that lies no more than real ones do, behind aio's one door.
//!
//! The production code runs on it unchanged: [`SimDisk`] is a namespace and an executor. It keeps
//! what everybody reads apart from what is surely on the medium. Everything follows from seeds.
//!
//! ```text
//!   engine, wal, storage ──> aio ──> SimDisk: names (live, unsynced, durable), files (live, unsynced, durable), faults
//!                                        │ crash: Survival decides what of the unsynced is left
//!                                        └──> restart: the disk that is found
//! ```
//!
//! - `image`: bytes of a file, sparse and cheap to copy
//! - `file`: a file's live and durable image, and the changes in between
//! - `names`: the same for names
//! - `survival`: what of the unsynced survives
//! - `faults`: errors by chance or at a chosen call, and what has fired
//! - `disk`: the disk, its power, its restart
//! - `door`: the two halves of aio's door
//! - `model`: what was acknowledged
//! - `workload`: lives of an engine, chosen by a seed
//! - [`explore`]: what the battery runs
//! - `dice`: choices that follow from a seed
//!
//! What is assumed of real disks, what is run, and what it came to is in docs/reliability.md.

#![forbid(unsafe_code)]

mod dice;
mod disk;
mod door;
pub mod explore;
mod faults;
mod file;
mod image;
mod model;
mod names;
mod survival;
pub mod workload;

pub use dice::Dice;
pub use disk::{Ending, Forgotten, SimDisk};
pub use faults::{CallKind, Failure, FaultClass, FaultRates, Fired};
pub use file::{InFlight, SECTOR, SimFile};
pub use image::Image;
pub use model::{Contradiction, Fate, Model};
pub use names::{Names, Node};
pub use survival::Survival;
