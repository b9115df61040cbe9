//! COPY FROM STDIN: from CopyInResponse to CopyDone.
//!
//! After an error the rest of the client's CopyData, CopyDone or CopyFail still arrives. The
//! session's loop discards it (simple query), or skips it with everything else up to Sync (extended
//! query), so that client and server stay in step.

use super::{End, Flow, Session, leaving};
use crate::wire::backend;
use crate::wire::frontend::{self, Frontend};
use forebay_sql::{CommandTag, CopyIn, Format, SqlError};

impl Session {
    /// Runs a COPY. The outer result is that of the session, the inner one of the statement.
    pub(super) fn copy_in(&mut self, mut copy: CopyIn) -> Flow<Result<CommandTag, SqlError>> {
        let binary = copy.format() == Format::Binary;
        backend::copy_response(self.out.buffer(), true, binary, copy.columns());
        self.flush()?;
        loop {
            let raw = match self.next_message() {
                Ok(raw) => raw,
                Err(end) => {
                    // The client has gone, or the server stops: the COPY is undone.
                    let _ = copy.abort(&mut self.conn, "unexpected EOF on client connection");
                    return Err(end);
                }
            };
            if self.registration.connection.is_leaving() {
                let _ = copy.abort(&mut self.conn, "the server is stopping");
                return Err(End::Fatal(leaving()));
            }
            match frontend::decode(raw.kind, self.reader.body(raw.body.clone()), self.encodings()) {
                Ok(Frontend::CopyData(data)) => {
                    if let Err(e) = copy.push(&mut self.conn, data) {
                        return Ok(Err(e));
                    }
                }
                Ok(Frontend::CopyDone) => return Ok(copy.finish(&mut self.conn)),
                Ok(Frontend::CopyFail(reason)) => {
                    let reason = reason.into_owned();
                    return Ok(Err(copy.abort(&mut self.conn, &reason)));
                }
                // A driver may have sent these ahead, before it learned that its query is a COPY.
                Ok(Frontend::Flush | Frontend::Sync) => {}
                Ok(Frontend::Terminate) => {
                    let _ = copy.abort(&mut self.conn, "the client has left");
                    return Err(End::Gone);
                }
                Ok(_) => {
                    let _ = copy.abort(&mut self.conn, "unexpected message");
                    return Ok(Err(SqlError::new(
                        "08P01",
                        format!(
                            "unexpected message type 0x{:02X} during COPY from stdin",
                            raw.kind
                        ),
                    )));
                }
                Err(e) => {
                    let _ = copy.abort(&mut self.conn, "invalid message");
                    return Ok(Err(e));
                }
            }
        }
    }
}
