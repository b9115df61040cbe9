//! Checkpoints.
//!
//! - `requests`: who wants one, and who waits for it

pub(crate) mod requests;
