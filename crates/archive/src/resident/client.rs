//! Sends a request of archive-push or archive-get to archiverd.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;

use super::wire::{self, Reply, Request};

/// The result of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// archiverd replied.
    Reply(Reply),
    /// No archiverd runs, it ended meanwhile, or it can't be trusted; the reason. The caller must
    /// do the work itself.
    Nobody(String),
}

/// Sends a request to the archiverd at this socket, which must serve the archive `archive`. Waits
/// without limit: an archiverd that ends closes its connections.
pub fn ask(socket: &Path, archive: &str, request: &Request) -> Answer {
    match try_ask(socket, archive, request) {
        Ok(Reply::Other) => {
            Answer::Nobody("archiverd serves another archive, or with other options".to_owned())
        }
        Ok(reply) => Answer::Reply(reply),
        Err(error) => Answer::Nobody(error.to_string()),
    }
}

fn try_ask(socket: &Path, archive: &str, request: &Request) -> io::Result<Reply> {
    let mut stream = UnixStream::connect(socket)?;
    check_peer(&stream)?;
    wire::write_request(&mut stream, archive, request)?;
    wire::read_reply(&mut stream)
}

/// Refuses a peer of another user, whose answers can't be trusted.
pub(super) fn check_peer(stream: &UnixStream) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        let peer = rustix::net::sockopt::socket_peercred(stream)?;
        let ours = rustix::process::geteuid();
        if peer.uid != ours && !peer.uid.is_root() {
            let reason = format!("the other end of the socket is user {}'s", peer.uid.as_raw());
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, reason));
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = stream;
    Ok(())
}
