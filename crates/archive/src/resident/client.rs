//! archive-push and archive-get ask archiverd.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;

use super::wire::{self, Reply, Request};

/// What came of asking.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// This.
    Reply(Reply),
    /// There is none, or it ended meanwhile, or it is not to be trusted; why. Who asked does the
    /// work.
    Nobody(String),
}

/// Asks the archiverd behind this socket, which serves the archive that is called so. Waits as long
/// as it takes: an archiverd that ends closes its sockets.
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

/// What somebody else says is stored may not be.
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
