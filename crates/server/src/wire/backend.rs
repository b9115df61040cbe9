//! Encoding of the server's messages, appended to a byte vector that is sent when the client must see it.

use super::fields::Report;

/// A column of a RowDescription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Column name.
    pub name: String,
    /// The table's OID, or zero.
    pub table: u32,
    /// The column's number in the table, or zero.
    pub attnum: i16,
    /// Type OID.
    pub type_oid: u32,
    /// Length of the type; negative for variable length.
    pub type_len: i16,
    /// Type modifier, or -1.
    pub typmod: i32,
    /// 0 text, 1 binary.
    pub format: i16,
}

/// What a ReadyForQuery says of the transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TxStatus {
    /// No transaction block.
    Idle,
    /// In a block.
    InBlock,
    /// In a block that has failed.
    Failed,
}

/// Appends a message: type byte, length, and the body that `fill` writes.
pub fn message(out: &mut Vec<u8>, kind: u8, fill: impl FnOnce(&mut Vec<u8>)) {
    out.push(kind);
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    fill(out);
    patch_length(out, at);
}

/// Writes the length of what follows position `at` (the length included) into the four bytes there.
fn patch_length(out: &mut [u8], at: usize) {
    let len = u32::try_from(out.len() - at).expect("a message is under 4 GB");
    out[at..at + 4].copy_from_slice(&len.to_be_bytes());
}

fn cstring(out: &mut Vec<u8>, s: &str) {
    // A NUL would end the string early and shift everything after it.
    out.extend(s.bytes().filter(|&b| b != 0));
    out.push(0);
}

/// AuthenticationOk.
pub fn authentication_ok(out: &mut Vec<u8>) {
    message(out, b'R', |b| b.extend_from_slice(&0u32.to_be_bytes()));
}

/// ParameterStatus.
pub fn parameter_status(out: &mut Vec<u8>, name: &str, value: &str) {
    message(out, b'S', |b| {
        cstring(b, name);
        cstring(b, value);
    });
}

/// BackendKeyData.
pub fn backend_key_data(out: &mut Vec<u8>, pid: u32, key: &[u8]) {
    message(out, b'K', |b| {
        b.extend_from_slice(&pid.to_be_bytes());
        b.extend_from_slice(key);
    });
}

/// NegotiateProtocolVersion.
pub fn negotiate_protocol_version(out: &mut Vec<u8>, version: u32, unknown: &[&str]) {
    message(out, b'v', |b| {
        b.extend_from_slice(&version.to_be_bytes());
        b.extend_from_slice(&u32::try_from(unknown.len()).unwrap_or(0).to_be_bytes());
        unknown.iter().for_each(|name| cstring(b, name));
    });
}

/// ReadyForQuery.
pub fn ready_for_query(out: &mut Vec<u8>, status: TxStatus) {
    message(out, b'Z', |b| {
        b.push(match status {
            TxStatus::Idle => b'I',
            TxStatus::InBlock => b'T',
            TxStatus::Failed => b'E',
        });
    });
}

/// ErrorResponse or NoticeResponse, by severity.
pub fn report(out: &mut Vec<u8>, report: &Report) {
    let kind = if report.severity.is_error() { b'E' } else { b'N' };
    message(out, kind, |b| {
        let mut field = |code: u8, value: &str| {
            b.push(code);
            cstring(b, value);
        };
        field(b'S', report.severity.word());
        field(b'V', report.severity.word());
        field(b'C', &report.code);
        field(b'M', &report.message);
        if let Some(detail) = &report.detail {
            field(b'D', detail);
        }
        if let Some(hint) = &report.hint {
            field(b'H', hint);
        }
        if let Some(position) = report.position {
            field(b'P', &position.to_string());
        }
        if let Some(context) = &report.context {
            field(b'W', context);
        }
        b.push(0);
    });
}

/// CommandComplete.
pub fn command_complete(out: &mut Vec<u8>, tag: &str) {
    message(out, b'C', |b| cstring(b, tag));
}

/// EmptyQueryResponse.
pub fn empty_query(out: &mut Vec<u8>) {
    message(out, b'I', |_| {});
}

/// ParseComplete.
pub fn parse_complete(out: &mut Vec<u8>) {
    message(out, b'1', |_| {});
}

/// BindComplete.
pub fn bind_complete(out: &mut Vec<u8>) {
    message(out, b'2', |_| {});
}

/// CloseComplete.
pub fn close_complete(out: &mut Vec<u8>) {
    message(out, b'3', |_| {});
}

/// NoData.
pub fn no_data(out: &mut Vec<u8>) {
    message(out, b'n', |_| {});
}

/// PortalSuspended.
pub fn portal_suspended(out: &mut Vec<u8>) {
    message(out, b's', |_| {});
}

/// ParameterDescription.
pub fn parameter_description(out: &mut Vec<u8>, types: &[u32]) {
    message(out, b't', |b| {
        count(b, types.len());
        types.iter().for_each(|t| b.extend_from_slice(&t.to_be_bytes()));
    });
}

/// RowDescription.
pub fn row_description(out: &mut Vec<u8>, fields: &[Field]) {
    message(out, b'T', |b| {
        count(b, fields.len());
        for f in fields {
            cstring(b, &f.name);
            b.extend_from_slice(&f.table.to_be_bytes());
            b.extend_from_slice(&f.attnum.to_be_bytes());
            b.extend_from_slice(&f.type_oid.to_be_bytes());
            b.extend_from_slice(&f.type_len.to_be_bytes());
            b.extend_from_slice(&f.typmod.to_be_bytes());
            b.extend_from_slice(&f.format.to_be_bytes());
        }
    });
}

/// DataRow; `value` appends the bytes of column `i` and tells whether there is a value (false: NULL, nothing appended).
pub fn data_row<E>(
    out: &mut Vec<u8>,
    columns: usize,
    mut value: impl FnMut(usize, &mut Vec<u8>) -> Result<bool, E>,
) -> Result<(), E> {
    let start = out.len();
    out.push(b'D');
    out.extend_from_slice(&[0; 4]);
    count(out, columns);
    for i in 0..columns {
        let at = out.len();
        out.extend_from_slice(&[0; 4]);
        match value(i, out) {
            Ok(true) => {
                // A value's length does not count its own four bytes.
                let len = u32::try_from(out.len() - at - 4).expect("a value is under 4 GB");
                out[at..at + 4].copy_from_slice(&len.to_be_bytes());
            }
            Ok(false) => out[at..at + 4].copy_from_slice(&(-1i32).to_be_bytes()),
            Err(e) => {
                out.truncate(start);
                return Err(e);
            }
        }
    }
    patch_length(out, start + 1);
    Ok(())
}

/// CopyInResponse (`in_direction`) or CopyOutResponse.
pub fn copy_response(out: &mut Vec<u8>, in_direction: bool, binary: bool, columns: usize) {
    message(out, if in_direction { b'G' } else { b'H' }, |b| {
        b.push(u8::from(binary));
        count(b, columns);
        (0..columns).for_each(|_| b.extend_from_slice(&u16::from(binary).to_be_bytes()));
    });
}

/// CopyData.
pub fn copy_data(out: &mut Vec<u8>, data: &[u8]) {
    message(out, b'd', |b| b.extend_from_slice(data));
}

/// CopyDone.
pub fn copy_done(out: &mut Vec<u8>) {
    message(out, b'c', |_| {});
}

fn count(out: &mut Vec<u8>, n: usize) {
    out.extend_from_slice(&u16::try_from(n).expect("at most 1664 columns").to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::BytesMut;
    use pgwire::messages::{DecodeContext, PgWireBackendMessage as M, ProtocolVersion};

    /// Decodes with the pgwire crate, which must consume everything.
    fn witness(out: &[u8]) -> M {
        let mut ctx = DecodeContext::new(ProtocolVersion::PROTOCOL3_0);
        ctx.awaiting_frontend_ssl = false;
        let mut buf = BytesMut::from(out);
        let m = M::decode(&mut buf, &ctx).expect("decodes").expect("whole");
        assert!(buf.is_empty(), "{} bytes left of {m:?}", buf.len());
        m
    }

    #[test]
    fn an_independent_decoder_agrees() {
        let mut out = Vec::new();
        data_row::<()>(&mut out, 2, |i, b| {
            b.extend_from_slice(if i == 0 { b"abc" } else { b"" });
            Ok(i == 0)
        })
        .expect("encodes");
        let M::DataRow(row) = witness(&out) else { panic!("not a row") };
        assert_eq!((row.field_count, &row.data[..]), (2, &b"\0\0\0\x03abc\xff\xff\xff\xff"[..]));

        out.clear();
        let mut e = Report::error("42P01", "relation \"x\" does not exist");
        e.position = Some(15);
        report(&mut out, &e);
        let M::ErrorResponse(r) = witness(&out) else { panic!("not an error") };
        assert!(r.fields.contains(&(b'P', "15".into())) && r.fields.contains(&(b'V', "ERROR".into())));

        out.clear();
        let field = Field {
            name: "n".into(),
            table: 16384,
            attnum: 2,
            type_oid: 23,
            type_len: 4,
            typmod: -1,
            format: 1,
        };
        row_description(&mut out, &[field]);
        let M::RowDescription(d) = witness(&out) else { panic!("not a description") };
        let f = &d.fields[0];
        assert_eq!((f.name.as_str(), f.type_id, f.type_size, f.format_code), ("n", 23, 4, 1));

        for (encode, text) in [
            (portal_suspended as fn(&mut Vec<u8>), "PortalSuspended"),
            (copy_done, "CopyDone"),
            (no_data, "NoData"),
            (empty_query, "EmptyQueryResponse"),
            (|o| copy_response(o, true, true, 3), "column_formats: [1, 1, 1]"),
            (|o| negotiate_protocol_version(o, super::super::PROTOCOL_3_2, &["_pq_.x"]), "196610"),
            (|o| parameter_description(o, &[23, 25]), "[23, 25]"),
            (|o| command_complete(o, "SELECT 1"), "SELECT 1"),
        ] {
            out.clear();
            encode(&mut out);
            let got = format!("{:?}", witness(&out));
            assert!(got.contains(text), "{got} lacks {text}");
        }
    }

    #[test]
    fn a_failed_value_leaves_no_half_row() {
        let mut out = b"before".to_vec();
        assert_eq!(data_row(&mut out, 3, |i, _| if i == 2 { Err("no") } else { Ok(true) }), Err("no"));
        assert_eq!(out, b"before");
    }
}
