//! `archiverd`: a process that stays, so that archive-push and archive-get find their work done.
//!
//! ```text
//!   server ──▶ archive-push pg_wal/A ──socket──▶ archiverd: stored? answer. Being stored? wait.
//!                                                    │      Else store it now
//!                                                    └──▶ which other files are `.ready`?
//!                                                         threads store B, C, D ... ahead
//! ```
//!
//! | Module | What |
//! |---|---|
//! | [`wire`] | the messages on the socket |
//! | `client` | archive-push and archive-get send a request: [`ask`] |
//! | `stored` | which files are known to be stored |
//! | `work` | stores and fetches files, on request or ahead |
//! | `server` | archiverd's socket and threads: [`serve`] |
//!
//! The server requests one file after another. So files are acknowledged in order and without a
//! gap, however many are stored at once. What archiverd knows is only in memory: when it ends,
//! nothing is lost, and the commands do the work themselves.
//!
//! A file is known by its path, its length and the time of its last change. A file that was changed
//! so shortly before it was read that its times may not show the next change is not remembered.

mod client;
mod server;
mod stored;
pub mod wire;
mod work;

pub use client::{Answer, ask};
pub use server::{ResidentOptions, Server, serve};

/// Name of the socket in the data directory.
pub const SOCKET: &str = "forebay-archiverd.sock";
