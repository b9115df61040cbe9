//! Tests of the storage crate through its public interface, over every I/O method, buffered and direct.

mod ahead;
mod bed;
mod cleaner;
mod concurrent;
mod damage;
mod files;
mod flight;
mod growth;
mod inspect;
mod joined;
mod local;
mod log;
mod model;
mod paced;
mod pages;
mod pins;
mod policy;
mod readback;
mod reuse;
mod streams;
mod tempfile;
mod tiny;
mod transfers;
mod write_faults;
mod write_stream;
mod written;
