//! The archive's commands: for a server's archive_command and restore_command, and for
//! administrators.
//!
//! - `push`, `get`: archive-push, archive-get
//! - `daemon`: archiverd
//! - `verify`, `list`, `expire`: archive-verify, archive-list, archive-expire
//! - `options`: options and output that they share

mod daemon;
mod expire;
mod get;
mod list;
mod options;
mod push;
mod verify;

pub(super) use daemon::DaemonArgs;
pub(super) use expire::ExpireArgs;
pub(super) use get::GetArgs;
pub(super) use list::ListArgs;
pub(super) use push::PushArgs;
pub(super) use verify::VerifyArgs;

pub(super) use {
    daemon::run as archiverd, expire::run as expire, get::run as get, list::run as list,
};
pub(super) use {get::refuse as refuse_get, push::run as push, verify::run as verify};
