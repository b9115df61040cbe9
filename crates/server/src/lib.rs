//! The server: what a client and an operator see of Forebay.
//!
//! - `wire`: the protocol's bytes

pub mod wire;
