//! The server: what a client and an operator see of Forebay.
//!
//! - `cli`: the command line
//! - `demo`: the demonstration
//! - `serve`: the server as a whole: sockets, signals, start and stop
//! - `session`: one client
//! - `shared`: what the sessions share; `registry`: the connections, cancels and deadlines
//! - `client`: a small client of the protocol
//! - `settings`: names, units, contexts; files, command line, SET
//! - `hba`: who may connect from where
//! - `wire`: the protocol's bytes
//! - `log`: lines on stderr

#![forbid(unsafe_code)]

pub mod cli;
pub mod client;
mod demo;
mod hba;
mod log;
mod registry;
mod serve;
mod session;
mod settings;
mod shared;
mod terminal;
pub mod wire;
