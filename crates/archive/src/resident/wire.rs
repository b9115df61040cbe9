//! The messages on archiverd's socket: one request and one reply for each connection. A message is
//! its length (4 bytes) and its fields, each with a length of its own.

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::io::{self, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// The protocol's version.
const VERSION: &[u8] = b"forebay-archiverd 1";
/// Length limit of a message.
const LONGEST: u32 = 64 << 10;

/// A request to archiverd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// Is archiverd running?
    Ping,
    /// Store a file.
    Push {
        /// Its absolute path.
        path: PathBuf,
    },
    /// Restore a file.
    Get {
        /// Its name.
        name: String,
        /// The absolute path to restore it as.
        path: PathBuf,
    },
}

/// archiverd's reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// The file was stored or restored.
    Done,
    /// The file had been stored before.
    Identical,
    /// The archive does not have the file.
    Absent,
    /// The request failed; the reason.
    Failed(String),
    /// This archiverd serves another archive.
    Other,
}

/// Writes a request for an archive, which is named by its location and options.
pub(super) fn write_request(
    to: &mut impl Write,
    archive: &str,
    request: &Request,
) -> io::Result<()> {
    let archive = archive.as_bytes();
    match request {
        Request::Ping => write(to, &[VERSION, archive, b"ping"]),
        Request::Push { path } => write(to, &[VERSION, archive, b"push", bytes_of(path)]),
        Request::Get { name, path } => {
            write(to, &[VERSION, archive, b"get", name.as_bytes(), bytes_of(path)])
        }
    }
}

/// Reads a request, and the archive that it is for.
pub(super) fn read_request(from: &mut impl Read) -> io::Result<(String, Request)> {
    let fields = read(from)?;
    let fields: Vec<&[u8]> = fields.iter().map(Vec::as_slice).collect();
    let (archive, request) = match fields.as_slice() {
        [VERSION, archive, b"ping"] => (archive, Request::Ping),
        [VERSION, archive, b"push", path] => (archive, Request::Push { path: path_of(path) }),
        [VERSION, archive, b"get", name, path] => {
            let name = String::from_utf8_lossy(name).into_owned();
            (archive, Request::Get { name, path: path_of(path) })
        }
        _ => return Err(invalid("it is not a known request")),
    };
    Ok((String::from_utf8_lossy(archive).into_owned(), request))
}

/// Writes a reply.
pub(super) fn write_reply(to: &mut impl Write, reply: &Reply) -> io::Result<()> {
    match reply {
        Reply::Done => write(to, &[b"done"]),
        Reply::Identical => write(to, &[b"identical"]),
        Reply::Absent => write(to, &[b"absent"]),
        Reply::Failed(reason) => {
            let reason = reason.as_bytes();
            write(
                to,
                &[
                    b"failed",
                    reason.get(..reason.len().min(LONGEST as usize / 2)).unwrap_or_default(),
                ],
            )
        }
        Reply::Other => write(to, &[b"other"]),
    }
}

/// Reads a reply.
pub(super) fn read_reply(from: &mut impl Read) -> io::Result<Reply> {
    let fields = read(from)?;
    let fields: Vec<&[u8]> = fields.iter().map(Vec::as_slice).collect();
    match fields.as_slice() {
        [b"done"] => Ok(Reply::Done),
        [b"identical"] => Ok(Reply::Identical),
        [b"absent"] => Ok(Reply::Absent),
        [b"failed", reason] => Ok(Reply::Failed(String::from_utf8_lossy(reason).into_owned())),
        [b"other"] => Ok(Reply::Other),
        _ => Err(invalid("it is not a known reply")),
    }
}

fn bytes_of(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

fn path_of(bytes: &[u8]) -> PathBuf {
    PathBuf::from(std::ffi::OsString::from_vec(bytes.to_vec()))
}

fn invalid(reason: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

fn write(to: &mut impl Write, fields: &[&[u8]]) -> io::Result<()> {
    let mut body = Vec::new();
    for field in fields {
        let len = u32::try_from(field.len()).map_err(|_| invalid("it is too long"))?;
        body.extend_from_slice(&len.to_be_bytes());
        body.extend_from_slice(field);
    }
    let len = u32::try_from(body.len()).ok().filter(|len| *len <= LONGEST);
    let len = len.ok_or_else(|| invalid("it is too long"))?;
    let message = [&len.to_be_bytes(), body.as_slice()].concat();
    to.write_all(&message)?;
    to.flush()
}

fn read(from: &mut impl Read) -> io::Result<Vec<Vec<u8>>> {
    let mut len = [0; 4];
    from.read_exact(&mut len)?;
    let len = u32::from_be_bytes(len);
    if len > LONGEST {
        return Err(invalid("it is too long"));
    }
    let mut body = Vec::new();
    from.take(u64::from(len)).read_to_end(&mut body)?;
    if body.len() != len as usize {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let mut rest = body.as_slice();
    let mut fields = Vec::new();
    while !rest.is_empty() {
        let cut = || invalid("a field is cut off");
        let (len, after) = rest.split_first_chunk::<4>().ok_or_else(cut)?;
        let (field, after) =
            after.split_at_checked(u32::from_be_bytes(*len) as usize).ok_or_else(cut)?;
        fields.push(field.to_vec());
        rest = after;
    }
    Ok(fields)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn requests_and_replies_are_read_as_they_were_written() {
        let path = PathBuf::from("/data/pg_wal/000000010000000000000003");
        for request in [
            Request::Ping,
            Request::Push { path: path.clone() },
            Request::Get { name: "00000002.history".to_owned(), path },
        ] {
            let mut bytes = Vec::new();
            write_request(&mut bytes, "/archive", &request).unwrap();
            assert_eq!(
                read_request(&mut bytes.as_slice()).unwrap(),
                ("/archive".to_owned(), request)
            );
            bytes.pop();
            assert!(read_request(&mut bytes.as_slice()).is_err());
        }
        let failed = Reply::Failed("no room".to_owned());
        for reply in [Reply::Done, Reply::Identical, Reply::Absent, failed, Reply::Other] {
            let mut bytes = Vec::new();
            write_reply(&mut bytes, &reply).unwrap();
            assert_eq!(read_reply(&mut bytes.as_slice()).unwrap(), reply);
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>, body: Vec<u8>) {
            let _ = read_request(&mut bytes.as_slice());
            let len = u32::try_from(body.len()).unwrap().to_be_bytes();
            let framed = [&len, body.as_slice()].concat();
            let _ = read_request(&mut framed.as_slice());
            let _ = read_reply(&mut framed.as_slice());
        }
    }
}
