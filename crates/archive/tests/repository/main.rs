//! An archive, on real files.
//!
//! - `bed`: a data directory with segments, an archive
//! - `put`: the same again, something else, whose, half done
//! - `races`: many at once
//! - `fetch`: absent or not to be told, damaged
//! - `outages`: a store that fails while it is asked
//! - `verify`: what a verification finds
//! - `expire`: what goes and what stays
//! - `resident`: archiverd
//! - `restorer`: the source of a recovery, which fetches ahead
//! - `sealed`: with a key, what others could have planted is refused
//! - `killed`: SIGKILL at every call of a push
//! - `sizes`: segments of a megabyte to a gigabyte

mod bed;
mod expire;
mod fetch;
mod killed;
mod outages;
mod put;
mod races;
mod resident;
mod restorer;
mod sealed;
mod sizes;
mod verify;
