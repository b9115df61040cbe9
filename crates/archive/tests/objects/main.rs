//! Archives in an object store, behind a proxy that injects faults.
//!
//! - `moto`, `proxy`, `store`: an S3 server, the proxy in front of it, a bucket for each test
//! - `put`: a file is stored, whatever the store answers
//! - `get`: a file is fetched; what counts as absence
//! - `races`: many writers at once
//! - `whole`: verifying, listing, expiring; the archiver, archiverd

#[path = "../common/mod.rs"]
mod common;
mod get;
mod moto;
mod proxy;
mod put;
mod races;
mod store;
mod whole;
