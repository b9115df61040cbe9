//! Functions of SQL on values, without their names and OIDs: `sql` maps those.
//!
//! - `strings`: texts
//! - `bytes`: bytea, `encode` and `decode`, digests
//! - `bits`: bit strings
//! - `arrays`: arrays
//! - `format`: `to_char`, `to_timestamp`, `to_date`
//! - `json`: json and jsonb
//! - `network`: inet and cidr
//! - `uuid`: UUIDs

pub mod arrays;
pub mod bits;
pub mod bytes;
pub mod format;
pub mod json;
pub mod network;
pub mod strings;
pub mod uuid;
