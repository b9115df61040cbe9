//! The buffer of messages to the client.

use crate::wire::backend;
use crate::wire::stream::Stream;
use forebay_sql::pieces::{LongValue, show_pieces, whole_length};
use forebay_sql::{ColumnDesc, Encoding, Format, RowRef, RowSink, Severity, SqlError};
use std::io::{self, Write};

/// A buffer with so many bytes is sent.
const FULL: usize = 64 * 1024;

/// Buffered output of a session.
#[derive(Debug)]
pub struct Output {
    stream: Stream,
    buffer: Vec<u8>,
    broken: bool,
    /// Notices are sent (client_min_messages).
    notices: bool,
    /// Warnings are sent.
    warnings: bool,
    /// That of the database.
    encoding: Encoding,
}

impl Output {
    /// An empty buffer for this socket.
    pub fn new(stream: Stream) -> Output {
        Output {
            stream,
            buffer: Vec::with_capacity(FULL + 8192),
            broken: false,
            notices: true,
            warnings: true,
            encoding: Encoding::Utf8,
        }
    }

    /// The encoding of the texts that are sent.
    pub fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// The session has entered a database with this encoding.
    pub fn set_encoding(&mut self, encoding: Encoding) {
        self.encoding = encoding;
    }

    /// The bytes, to which messages are appended.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    /// Whether a write has failed: the client can't be reached any more.
    pub fn is_broken(&self) -> bool {
        self.broken
    }

    /// Takes the value of client_min_messages.
    pub fn set_least_severity(&mut self, level: &str) {
        self.warnings = level != "error";
        self.notices = self.warnings && level != "warning";
    }

    /// Sends what is buffered.
    pub fn flush(&mut self) -> io::Result<()> {
        if self.broken {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let sent = (&self.stream).write_all(&self.buffer);
        self.buffer.clear();
        if self.buffer.capacity() > 16 * FULL {
            self.buffer.shrink_to(FULL);
        }
        self.broken = sent.is_err();
        sent
    }

    /// Sends a message with its long values, behind what is buffered.
    fn send_pieces(&mut self, message: &[u8], long: &[LongValue<'_>]) -> Result<(), SqlError> {
        show_pieces(message, long, &mut |piece| {
            self.buffer.extend_from_slice(piece);
            self.flush_if_full()
        })
    }

    /// Sends what is buffered if it is much. Called after each message that can come many times.
    pub fn flush_if_full(&mut self) -> Result<(), SqlError> {
        if self.buffer.len() >= FULL {
            self.flush().map_err(|_| SqlError::new("08006", "connection to client lost"))?;
        }
        Ok(())
    }
}

/// Turns results of statements into messages. Sends large results while they are produced.
impl RowSink for Output {
    fn columns(&mut self, columns: &[ColumnDesc], formats: &[Format]) -> Result<(), SqlError> {
        backend::row_description(&mut self.buffer, (columns, formats), self.encoding);
        self.flush_if_full()
    }

    fn row(&mut self, row: &RowRef<'_>) -> Result<(), SqlError> {
        let mut long = Vec::new();
        backend::data_row(&mut self.buffer, row, &mut long)?;
        if long.is_empty() {
            return self.flush_if_full();
        }
        // The places of long values are counted from the buffer's beginning.
        let message = std::mem::take(&mut self.buffer);
        self.send_pieces(&message, &long)
    }

    fn copy_out_start(&mut self, format: Format, columns: usize) -> Result<(), SqlError> {
        backend::copy_response(&mut self.buffer, false, format == Format::Binary, columns);
        Ok(())
    }

    fn copy_data(&mut self, data: &[u8]) -> Result<(), SqlError> {
        backend::copy_data(&mut self.buffer, data);
        self.flush_if_full()
    }

    fn copy_pieces(&mut self, data: &[u8], long: &[LongValue<'_>]) -> Result<(), SqlError> {
        backend::copy_data_header(&mut self.buffer, whole_length(data, long));
        self.send_pieces(data, long)
    }

    fn copy_out_end(&mut self) -> Result<(), SqlError> {
        backend::copy_done(&mut self.buffer);
        Ok(())
    }

    fn notice(&mut self, notice: &SqlError) -> Result<(), SqlError> {
        let wanted = match notice.severity {
            Severity::Info => true,
            Severity::Warning => self.warnings,
            _ => self.notices,
        };
        if wanted {
            backend::report(&mut self.buffer, notice, self.encoding);
        }
        self.flush_if_full()
    }
}
