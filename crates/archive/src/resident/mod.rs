//! `archiverd`: a process that stays, so that archive-push and archive-get find their work done.
//!
//! ```text
//!   server: archive-push pg_wal/A ──socket──▶ archiverd: stored already? answer. Under way? wait for it. Else store it now
//!                                                 │
//!                                                 └──▶ what else is `.ready`? B, C, D ... by several threads, ahead of the server
//! ```
//!
//! | Module | What |
//! |---|---|
//! | [`wire`] | what is said on the socket |
//! | [`client`] | archive-push and archive-get ask |
//! | [`server`](mod@server) | archiverd answers: the socket, its threads, its end |
//! | `memory` | which files are known to be stored |
//! | `ahead` | files that will be asked for: pushed or fetched before |
//!
//! The server asks for one file after another, so however many are stored at once, they are
//! acknowledged in order, without a gap. What archiverd knows it keeps in memory alone: when it
//! ends nothing is lost, and the commands do the work themselves.
//!
//! A file is known by its path, its length and the time of its last change, which the file system
//! keeps. A file that was changed so shortly before it was read that the clock might not tell is
//! not taken as known.

mod ahead;
pub mod client;
mod memory;
pub mod server;
pub mod wire;

pub use client::{Answer, ask};
pub use server::{ResidentOptions, Server, serve};

/// Name of the socket in the data directory.
pub const SOCKET: &str = "forebay-archiverd.sock";
