//! Tests of the storage crate through its public interface, over every I/O method, buffered and
//! direct.

#[path = "../shared/alone.rs"]
mod alone;
mod cleaner;
mod concurrent;
mod damage;
mod drop_and_truncate;
mod files;
mod fixture;
mod growth;
mod in_flight;
mod inspect;
mod intact_pages;
mod joined_reads;
mod model;
mod pace;
mod pages;
mod pins;
mod prefetch;
mod read_policy;
mod readback;
mod replacement;
mod resize;
mod small_pools;
mod streams;
mod temp_relations;
mod tempfile;
mod trace;
mod transfers;
mod wal;
mod write_faults;
mod write_stream;
