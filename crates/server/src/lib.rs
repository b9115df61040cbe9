//! The server: what a client and an operator see of Forebay.
//!
//! - `settings`: names, units, contexts; files, command line, SET
//! - `wire`: the protocol's bytes

#![forbid(unsafe_code)]

pub mod settings;
pub mod wire;
