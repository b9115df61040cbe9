//! Archives in an object store, behind a proxy that injects faults.
//!
//! - `proxy`, `store`: the proxy in front of an S3 server, a bucket for each test
//! - `put`: a file is stored, whatever the store answers
//! - `get`: a file is fetched; what counts as absence
//! - `races`: many writers at once
//! - `whole`: verifying, listing, expiring; the archiver, archiverd

#[path = "../common/mod.rs"]
mod common;
mod get;
mod proxy;
mod put;
mod races;
mod store;
mod whole;
