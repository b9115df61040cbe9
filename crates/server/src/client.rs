//! A small client of the wire protocol, for the demonstration and the tests.

use crate::wire::PROTOCOL_3_0;
use crate::wire::backend::message;
use crate::wire::frames::{FrameReader, Next};
use crate::wire::stream::Stream;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;

/// A client's error.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The server reports an error.
    #[error("{}: {} ({})", .0.get(b'S'), .0.get(b'M'), .0.get(b'C'))]
    Server(Fields),
    /// The connection broke.
    #[error("the connection broke: {0}")]
    Io(#[from] io::Error),
    /// The server closed the connection.
    #[error("the server closed the connection")]
    Closed,
    /// The server asks for authentication.
    #[error(
        "the server asks for a password or the like (authentication request {0}), which this \
         client does not give"
    )]
    Authentication(u32),
    /// The server sent an unexpected message.
    #[error("unexpected message '{}' from the server", char::from(*.0))]
    Unexpected(u8),
}

impl ClientError {
    /// The SQLSTATE of a server's error.
    pub fn sqlstate(&self) -> &str {
        match self {
            ClientError::Server(fields) => fields.get(b'C'),
            _ => "",
        }
    }
}

/// Fields of an ErrorResponse or NoticeResponse.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields(pub BTreeMap<u8, String>);

impl Fields {
    /// Reads them from a message's body.
    pub fn read(body: &[u8]) -> Fields {
        let mut fields = BTreeMap::new();
        for field in body.split(|b| *b == 0) {
            if let Some((code, text)) = field.split_first() {
                fields.insert(*code, String::from_utf8_lossy(text).into_owned());
            }
        }
        Fields(fields)
    }

    /// A field's text; empty if it is not there.
    pub fn get(&self, code: u8) -> &str {
        self.0.get(&code).map_or("", String::as_str)
    }
}

/// A row in text form.
pub type Row = Vec<Option<String>>;

/// The result of a simple query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Rows of all its statements.
    pub rows: Vec<Row>,
    /// Command tags, one for each statement.
    pub tags: Vec<String>,
    /// Notices.
    pub notices: Vec<Fields>,
    /// Data of COPY TO STDOUT.
    pub copied: Vec<u8>,
}

impl Answer {
    /// The only value of the only row.
    pub fn value(&self) -> Option<&str> {
        match self.rows.as_slice() {
            [row] if row.len() == 1 => row.first()?.as_deref(),
            _ => None,
        }
    }
}

/// A connection to a server.
#[derive(Debug)]
pub struct Client {
    reader: FrameReader<Stream>,
    stream: Stream,
    /// Values reported by ParameterStatus.
    pub parameters: BTreeMap<String, String>,
    /// The session's number.
    pub pid: u32,
    /// The session's key.
    pub key: Vec<u8>,
    /// Transaction status of the last ReadyForQuery.
    pub status: u8,
}

impl Client {
    /// Connects over TCP as postgres.
    pub fn tcp(port: u16) -> Result<Client, ClientError> {
        Client::start(
            Stream::Tcp(TcpStream::connect(("127.0.0.1", port))?),
            &[("user", "postgres")],
        )
    }

    /// Connects over a Unix socket as postgres.
    pub fn unix(directory: &Path, port: u16) -> Result<Client, ClientError> {
        let path = directory.join(format!(".s.PGSQL.{port}"));
        Client::start(Stream::Unix(UnixStream::connect(path)?), &[("user", "postgres")])
    }

    /// Starts a session with these startup parameters on a connected socket.
    pub fn start(stream: Stream, parameters: &[(&str, &str)]) -> Result<Client, ClientError> {
        let mut client = Client::raw(stream)?;
        client.send_startup(PROTOCOL_3_0, parameters)?;
        client.until_ready()?;
        Ok(client)
    }

    /// A client that has sent nothing yet.
    pub fn raw(stream: Stream) -> Result<Client, ClientError> {
        stream.prepare()?;
        Ok(Client {
            reader: FrameReader::new(stream.try_clone()?),
            stream,
            parameters: BTreeMap::new(),
            pid: 0,
            key: Vec::new(),
            status: b'?',
        })
    }

    /// Sends a startup packet.
    pub fn send_startup(
        &mut self,
        version: u32,
        parameters: &[(&str, &str)],
    ) -> Result<(), ClientError> {
        let mut body = version.to_be_bytes().to_vec();
        for (name, value) in parameters {
            body.extend([name.as_bytes(), b"\0", value.as_bytes(), b"\0"].concat());
        }
        body.push(0);
        let len = u32::try_from(body.len() + 4).unwrap_or(u32::MAX);
        self.send_bytes(&[&len.to_be_bytes()[..], &body].concat())
    }

    /// Sends bytes as they are.
    pub fn send_bytes(&mut self, bytes: &[u8]) -> Result<(), ClientError> {
        Ok((&self.stream).write_all(bytes)?)
    }

    /// Sends a message.
    pub fn send(&mut self, kind: u8, body: &[u8]) -> Result<(), ClientError> {
        let mut out = Vec::with_capacity(body.len() + 5);
        message(&mut out, kind, |b| b.extend_from_slice(body));
        self.send_bytes(&out)
    }

    /// The socket.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Waits for the next message. A long CopyData message comes as several.
    pub fn receive(&mut self) -> Result<(u8, Vec<u8>), ClientError> {
        match self.reader.next(|_| Some(i32::MAX.cast_unsigned()))? {
            Next::Message { kind, body } => Ok((kind, self.reader.body(body).to_vec())),
            _ => Err(ClientError::Closed),
        }
    }

    /// Reads to ReadyForQuery, and keeps what the server tells about the session.
    fn until_ready(&mut self) -> Result<(), ClientError> {
        loop {
            let (kind, body) = self.receive()?;
            match kind {
                b'S' => self.parameters.extend([cstr_pair(&body)]),
                b'K' => {
                    let (pid, key) =
                        body.split_first_chunk::<4>().ok_or(ClientError::Unexpected(kind))?;
                    self.pid = u32::from_be_bytes(*pid);
                    self.key = key.to_vec();
                }
                b'Z' => {
                    self.status = body.first().copied().unwrap_or(b'?');
                    return Ok(());
                }
                b'E' => return Err(ClientError::Server(Fields::read(&body))),
                b'R' => match body.first_chunk::<4>().map(|code| u32::from_be_bytes(*code)) {
                    Some(0) => {}
                    code => return Err(ClientError::Authentication(code.unwrap_or(u32::MAX))),
                },
                b'N' | b'v' => {}
                other => return Err(ClientError::Unexpected(other)),
            }
        }
    }

    /// Runs a simple query and collects its result. After an error the session can still be used.
    pub fn query(&mut self, sql: &str) -> Result<Answer, ClientError> {
        self.send_query(sql)?;
        self.answer()
    }

    /// Sends a simple query.
    pub fn send_query(&mut self, sql: &str) -> Result<(), ClientError> {
        self.send(b'Q', &[sql.as_bytes(), b"\0"].concat())
    }

    /// Collects the messages up to ReadyForQuery.
    pub fn answer(&mut self) -> Result<Answer, ClientError> {
        let mut answer = Answer::default();
        let mut error = None;
        loop {
            let (kind, body) = self.receive()?;
            match kind {
                b'D' => answer.rows.push(row(&body)),
                b'C' => answer.tags.push(cstr_pair(&body).0),
                b'd' => answer.copied.extend_from_slice(&body),
                b'N' => answer.notices.push(Fields::read(&body)),
                b'E' => error = error.or(Some(Fields::read(&body))),
                b'S' => self.parameters.extend([cstr_pair(&body)]),
                b'Z' => {
                    self.status = body.first().copied().unwrap_or(b'?');
                    return error.map_or(Ok(answer), |e| Err(ClientError::Server(e)));
                }
                b'G' => return Err(ClientError::Unexpected(kind)),
                _ => {}
            }
            // After a FATAL the server closes.
            if let Some(e) = error.take_if(|e| matches!(e.get(b'S'), "FATAL" | "PANIC")) {
                return Err(ClientError::Server(e));
            }
        }
    }

    /// Sends a COPY FROM STDIN and waits until the server takes its data.
    pub fn start_copy(&mut self, sql: &str) -> Result<(), ClientError> {
        self.send_query(sql)?;
        loop {
            match self.receive()? {
                (b'G', _) => return Ok(()),
                (b'E', body) => {
                    let error = ClientError::Server(Fields::read(&body));
                    self.until_ready()?;
                    return Err(error);
                }
                (b'N' | b'S', _) => {}
                (other, _) => return Err(ClientError::Unexpected(other)),
            }
        }
    }

    /// Sends data of a COPY.
    pub fn copy_data(&mut self, data: &[u8]) -> Result<(), ClientError> {
        self.send(b'd', data)
    }

    /// Ends a COPY's data and waits for the answer.
    pub fn finish_copy(&mut self) -> Result<Answer, ClientError> {
        self.send(b'c', &[])?;
        self.answer()
    }
}

/// Asks a server, over a connection of its own, to cancel what a session runs.
pub fn cancel(port: u16, pid: u32, key: &[u8]) -> Result<(), ClientError> {
    let stream = TcpStream::connect(("127.0.0.1", port))?;
    let len = u32::try_from(12 + key.len()).unwrap_or(16);
    let packet =
        [&len.to_be_bytes()[..], &80_877_102_u32.to_be_bytes(), &pid.to_be_bytes(), key].concat();
    (&stream).write_all(&packet)?;
    // The server closes the connection when it has handled the request.
    let _ = io::copy(&mut &stream, &mut io::sink());
    Ok(())
}

impl Drop for Client {
    fn drop(&mut self) {
        // A write that fails means that the server has gone.
        let _ = self.send(b'X', &[]);
    }
}

fn cstr_pair(body: &[u8]) -> (String, String) {
    let mut words = body.split(|b| *b == 0).map(|w| String::from_utf8_lossy(w).into_owned());
    (words.next().unwrap_or_default(), words.next().unwrap_or_default())
}

/// The values of a DataRow, as text.
pub fn row(body: &[u8]) -> Row {
    let mut row = Row::new();
    let mut rest = body.get(2..).unwrap_or_default();
    while let Some((len, tail)) = rest.split_first_chunk::<4>() {
        match usize::try_from(i32::from_be_bytes(*len)) {
            Ok(len) => {
                let (value, tail) = tail.split_at_checked(len).unwrap_or((tail, &[]));
                row.push(Some(String::from_utf8_lossy(value).into_owned()));
                rest = tail;
            }
            Err(_) => {
                row.push(None);
                rest = tail;
            }
        }
    }
    row
}
