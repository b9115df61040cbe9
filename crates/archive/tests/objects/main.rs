//! Archives in an object store, behind a proxy that does harm.
//!
//! - `moto`, `proxy`, `store`: an S3 server, the proxy before it, a bucket of one's own
//! - `put`: a file into the archive, whatever the store answers
//! - `get`: and out of it; what absence is
//! - `races`: many writers
//! - `whole`: verifying, listing, expiring; the archiver, archiverd

#[allow(dead_code)]
#[path = "../repository/bed.rs"]
mod bed;
mod get;
mod moto;
mod proxy;
mod put;
mod races;
mod store;
mod whole;
