//! The server: what a client and an operator see of Forebay.
//!
//! - `cli`: the command line
//! - `client`: a small client of the protocol
//! - `demo`: the demonstration
//! - `hba`: who may connect from where
//! - `serve`: the server as a whole: sockets, signals, start and stop
//! - `session`: one client
//! - `settings`: names, units, contexts; files, command line, SET
//! - `wire`: the protocol's bytes
//! - `log`: lines on stderr

#![forbid(unsafe_code)]

pub mod cli;
pub mod client;
mod demo;
mod hba;
pub mod log;
pub mod serve;
mod session;
pub mod settings;
pub mod wire;
