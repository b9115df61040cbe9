#![doc = include_str!("../README.md")]

mod case;
mod codeset;
mod collation;
mod definition;
mod error;
mod icu;
mod libc_locale;
mod version;

pub use codeset::{encoding_name, libc_encoding};
pub use collation::Collation;
pub use definition::{Definition, Provider};
pub use error::CollationError;
pub use icu::language_tag;
pub use version::{actual_version, version_agrees};
