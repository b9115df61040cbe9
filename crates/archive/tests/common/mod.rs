//! What the test programs share.
//!
//! - `segments`: names and contents of segments
//! - `fixture`: a data directory with WAL files, and an archive beside it
//! - `writers`: many writers of one name
//! - `killed`: a child process that is killed at a file system call

// Each program uses only a part of it.
#![allow(dead_code)]

pub mod fixture;
pub mod killed;
pub mod segments;
pub mod writers;
