#![doc = include_str!("../README.md")]

mod case;
mod collation;
mod definition;
mod error;
mod icu;
mod libc_locale;
mod version;

pub use collation::Collation;
pub use definition::{Definition, Provider};
pub use error::CollationError;
pub use version::{actual_version, version_agrees};
