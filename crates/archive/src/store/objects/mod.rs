//! Object stores as depots: S3 and compatible ones, Google Cloud Storage, Azure Blob Storage.
//!
//! | Module | What |
//! |---|---|
//! | `timeout` | an HTTP client that ends requests without progress, and rejects invalid lists |
//! | `connect` | from a URL and environment variables to a client of the store |
//! | `bucket` | [`Bucket`]: a bucket, and the waiting for requests |
//! | `upload` | stores an object unless its name is taken |
//! | `download` | reads an object |
//! | `depot` | the [`Depot`](super::Depot) trait of a bucket |
//!
//! How object stores differ from directories:
//!
//! - An object appears as a whole or not at all: there are no temporary names, and an interrupted
//!   upload leaves nothing behind. Each object is stored by one conditional request
//!   (`If-None-Match: *` or its equivalent), with a checksum if the store takes one. Uploads in
//!   parts are never used, since completing one would replace an existing object. So an object is
//!   held in memory until it is stored.
//! - A visible object is durable: there is nothing to sync.
//! - An answer may be lost or wrong. After each upload the store is asked what it has under the
//!   name. An object that is not surely ours counts as another writer's, and the caller compares
//!   it. So an upload whose answer was lost ends as "identical" if it arrived.
//! - An object is absent only if the store answers "not found" for it, or lists its prefix without
//!   it. Every other failure is an error.
//!
//! Requests run on a tokio runtime of the bucket with two threads; the caller waits for them.

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

mod bucket;
mod connect;
mod depot;
mod download;
mod timeout;
mod upload;

pub use bucket::Bucket;
