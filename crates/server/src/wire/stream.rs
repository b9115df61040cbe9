//! One socket type over TCP and Unix sockets.

use forebay_aio::sync::Duration;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, TcpStream};
use std::os::unix::net::UnixStream;

/// A connected socket.
#[derive(Debug)]
pub enum Stream {
    /// Over TCP.
    Tcp(TcpStream),
    /// Over a Unix socket.
    Unix(UnixStream),
}

/// The same for either kind of socket.
macro_rules! either {
    ($stream:expr, $socket:ident => $what:expr) => {
        match $stream {
            Stream::Tcp($socket) => $what,
            Stream::Unix($socket) => $what,
        }
    };
}

impl Stream {
    /// Another handle of the same socket.
    pub fn try_clone(&self) -> io::Result<Stream> {
        Ok(match self {
            Stream::Tcp(s) => Stream::Tcp(s.try_clone()?),
            Stream::Unix(s) => Stream::Unix(s.try_clone()?),
        })
    }

    /// Shuts a half or both down; threads blocked in it wake up.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        either!(self, s => s.shutdown(how))
    }

    /// Sends small messages at once and notices dead peers.
    pub fn prepare(&self) -> io::Result<()> {
        if let Stream::Tcp(s) = self {
            s.set_nodelay(true)?;
            rustix::net::sockopt::set_socket_keepalive(s, true)?;
        }
        Ok(())
    }

    /// Bounds how long a read may block.
    pub fn set_read_timeout(&self, limit: Option<Duration>) -> io::Result<()> {
        either!(self, s => s.set_read_timeout(limit))
    }

    /// Bounds how long a write may block.
    pub fn set_write_timeout(&self, limit: Option<Duration>) -> io::Result<()> {
        either!(self, s => s.set_write_timeout(limit))
    }

    /// The peer's address; none over a Unix socket.
    pub fn peer_ip(&self) -> io::Result<Option<IpAddr>> {
        match self {
            Stream::Tcp(s) => Ok(Some(s.peer_addr()?.ip())),
            Stream::Unix(_) => Ok(None),
        }
    }

    /// The peer, for log lines.
    pub fn peer(&self) -> String {
        match self {
            Stream::Tcp(s) => {
                s.peer_addr().map_or_else(|_| "unknown".to_owned(), |a| a.to_string())
            }
            Stream::Unix(_) => "[local]".to_owned(),
        }
    }
}

impl Read for &Stream {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        either!(self, s => (&mut &*s).read(buf))
    }
}

impl Write for &Stream {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        either!(self, s => (&mut &*s).write(buf))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Stream {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        (&*self).read(buf)
    }
}
