#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod dice;
pub mod env;
pub mod files;
#[cfg(feature = "aio")]
pub mod io;
pub mod made;
pub mod moto;
pub mod peer;
mod ports;
pub mod process;

pub use dice::Dice;
pub use ports::free_port;
