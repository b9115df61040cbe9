//! The messages on archiverd's socket: one request and one reply for each connection. A message is
//! its length (4 bytes) and JSON.

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The protocol's version.
const VERSION: u32 = 2;
/// Length limit of a message.
const LONGEST: u32 = 64 << 10;

/// A request to archiverd.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub enum Request {
    /// Is archiverd running?
    Ping,
    /// Store a file.
    Push {
        /// Its absolute path.
        #[serde(serialize_with = "write_path", deserialize_with = "read_path")]
        path: PathBuf,
    },
    /// Restore a file.
    Get {
        /// Its name.
        name: String,
        /// The absolute path to restore it as.
        #[serde(serialize_with = "write_path", deserialize_with = "read_path")]
        path: PathBuf,
    },
}

/// archiverd's reply.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
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

/// A request with the protocol's version and the archive that it is for, which is named by its
/// location and options.
#[derive(Deserialize, Serialize)]
struct Addressed<R> {
    version: u32,
    archive: String,
    request: R,
}

/// Writes a request for an archive.
pub(super) fn write_request(
    to: &mut impl Write,
    archive: &str,
    request: &Request,
) -> io::Result<()> {
    write(to, &Addressed { version: VERSION, archive: archive.to_owned(), request })
}

/// Reads a request, and the archive that it is for.
pub(super) fn read_request(from: &mut impl Read) -> io::Result<(String, Request)> {
    let Addressed { version, archive, request } = read(from)?;
    if version != VERSION {
        return Err(invalid("it is of another version of the protocol"));
    }
    Ok((archive, request))
}

/// Writes a reply. A reason is cut to what surely fits.
pub(super) fn write_reply(to: &mut impl Write, reply: &Reply) -> io::Result<()> {
    match reply {
        Reply::Failed(reason) => {
            write(to, &Reply::Failed(reason.chars().take(LONGEST as usize / 8).collect()))
        }
        other => write(to, other),
    }
}

/// Reads a reply.
pub(super) fn read_reply(from: &mut impl Read) -> io::Result<Reply> {
    read(from)
}

/// A path need not be UTF-8.
fn write_path<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
    path.as_os_str().serialize(to)
}

fn read_path<'de, D: Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
    OsString::deserialize(from).map(PathBuf::from)
}

fn invalid(reason: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

fn write(to: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    let body = serde_json::to_vec(message)?;
    let len = u32::try_from(body.len()).ok().filter(|len| *len <= LONGEST);
    let len = len.ok_or_else(|| invalid("it is too long"))?;
    // A single write, so that most messages are one packet.
    to.write_all(&[&len.to_be_bytes(), body.as_slice()].concat())?;
    to.flush()
}

fn read<T: DeserializeOwned>(from: &mut impl Read) -> io::Result<T> {
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
    Ok(serde_json::from_slice(&body)?)
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
