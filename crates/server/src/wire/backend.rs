//! Encoding of the server's messages, appended to a byte vector that is sent when the client must
//! see it. Texts are sent in the database's encoding, whatever client_encoding says: UTF8 and
//! SQL_ASCII need no conversion.

use forebay_sql::pieces::{LongValue, whole_length};
use forebay_sql::{ColumnDesc, Encoding, Format, RowRef, Severity, SqlError, TransactionStatus};

/// Appends a message: type byte, length, and the body that `fill` writes.
pub fn message(out: &mut Vec<u8>, kind: u8, fill: impl FnOnce(&mut Vec<u8>)) {
    out.push(kind);
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    fill(out);
    let end = out.len();
    patch_length(out, at, end);
}

/// Writes the length from position `at` (the length included) to `end` into the four bytes there.
fn patch_length(out: &mut [u8], at: usize, end: usize) {
    let len = u32::try_from(end - at).expect("a message is under 4 GB");
    out[at..at + 4].copy_from_slice(&len.to_be_bytes());
}

fn cstring(out: &mut Vec<u8>, s: &str, encoding: Encoding) {
    // A NUL would end the string early and shift everything after it.
    out.extend(encoding.sent(s).iter().filter(|&&b| b != 0));
    out.push(0);
}

/// AuthenticationOk.
pub fn authentication_ok(out: &mut Vec<u8>) {
    message(out, b'R', |b| b.extend_from_slice(&0u32.to_be_bytes()));
}

/// ParameterStatus.
pub fn parameter_status(out: &mut Vec<u8>, (name, value): (&str, &str), encoding: Encoding) {
    message(out, b'S', |b| {
        cstring(b, name, encoding);
        cstring(b, value, encoding);
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
        unknown.iter().for_each(|name| cstring(b, name, Encoding::Utf8));
    });
}

/// ReadyForQuery.
pub fn ready_for_query(out: &mut Vec<u8>, status: TransactionStatus) {
    message(out, b'Z', |b| b.push(status.as_byte()));
}

/// ErrorResponse or NoticeResponse, by severity.
pub fn report(out: &mut Vec<u8>, report: &SqlError, encoding: Encoding) {
    let notice = matches!(report.severity, Severity::Warning | Severity::Notice | Severity::Info);
    let kind = if notice { b'N' } else { b'E' };
    message(out, kind, |b| {
        let mut field = |code: u8, value: &str| {
            b.push(code);
            cstring(b, value, encoding);
        };
        field(b'S', report.severity.as_str());
        field(b'V', report.severity.as_str());
        field(b'C', report.sqlstate);
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
        if let Some(column) = &report.column {
            field(b's', &column.schema);
            field(b't', &column.table);
            field(b'c', &column.column);
        }
        if let Some(object) = &report.object {
            field(b's', &object.schema);
            field(b't', &object.table);
            field(b'n', &object.constraint);
        }
        b.push(0);
    });
}

/// CommandComplete.
pub fn command_complete(out: &mut Vec<u8>, tag: &str) {
    message(out, b'C', |b| cstring(b, tag, Encoding::Utf8));
}

/// Messages without a body.
macro_rules! bare {
    ($($(#[$what:meta])* $name:ident = $kind:literal;)*) => {
        $($(#[$what])*
        pub fn $name(out: &mut Vec<u8>) {
            message(out, $kind, |_| {});
        })*
    };
}

bare! {
    /// EmptyQueryResponse.
    empty_query = b'I';
    /// ParseComplete.
    parse_complete = b'1';
    /// BindComplete.
    bind_complete = b'2';
    /// CloseComplete.
    close_complete = b'3';
    /// NoData.
    no_data = b'n';
    /// PortalSuspended.
    portal_suspended = b's';
    /// CopyDone.
    copy_done = b'c';
}

/// ParameterDescription.
pub fn parameter_description(out: &mut Vec<u8>, types: &[u32]) {
    message(out, b't', |b| {
        count(b, types.len());
        types.iter().for_each(|t| b.extend_from_slice(&t.to_be_bytes()));
    });
}

/// RowDescription. Columns without a format of their own come as text.
pub fn row_description(
    out: &mut Vec<u8>,
    (columns, formats): (&[ColumnDesc], &[Format]),
    encoding: Encoding,
) {
    message(out, b'T', |b| {
        count(b, columns.len());
        for (i, c) in columns.iter().enumerate() {
            cstring(b, &c.name, encoding);
            b.extend_from_slice(&c.table_oid.to_be_bytes());
            b.extend_from_slice(&c.attnum.to_be_bytes());
            b.extend_from_slice(&c.type_oid().to_be_bytes());
            b.extend_from_slice(&c.type_len().to_be_bytes());
            b.extend_from_slice(&c.typmod.to_be_bytes());
            b.extend_from_slice(&formats.get(i).copied().unwrap_or_default().code().to_be_bytes());
        }
    });
}

/// DataRow, without its long values. A row that can't be encoded leaves nothing behind.
pub fn data_row<'r>(
    out: &mut Vec<u8>,
    row: &RowRef<'r>,
    long: &mut Vec<LongValue<'r>>,
) -> Result<(), SqlError> {
    let start = out.len();
    out.extend_from_slice(&[b'D', 0, 0, 0, 0]);
    match row.encode_data_row(out, long) {
        Ok(()) => {
            let end = whole_length(out, long);
            patch_length(out, start + 1, end);
            Ok(())
        }
        Err(e) => {
            out.truncate(start);
            Err(e)
        }
    }
}

/// CopyInResponse (`in_direction`) or CopyOutResponse.
pub fn copy_response(out: &mut Vec<u8>, in_direction: bool, binary: bool, columns: usize) {
    message(out, if in_direction { b'G' } else { b'H' }, |b| {
        b.push(u8::from(binary));
        count(b, columns);
        (0..columns).for_each(|_| b.extend_from_slice(&u16::from(binary).to_be_bytes()));
    });
}

/// The beginning of a CopyData message with so many bytes.
pub fn copy_data_header(out: &mut Vec<u8>, len: usize) {
    out.extend_from_slice(&[b'd', 0, 0, 0, 0]);
    let at = out.len() - 4;
    patch_length(out, at, at + 4 + len);
}

/// CopyData.
pub fn copy_data(out: &mut Vec<u8>, data: &[u8]) {
    message(out, b'd', |b| b.extend_from_slice(data));
}

fn count(out: &mut Vec<u8>, n: usize) {
    out.extend_from_slice(&u16::try_from(n).expect("at most 1664 columns").to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::BytesMut;
    use forebay_sql::SqlType;
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
        let e = SqlError::new("42P01", "relation \"x\" does not exist").at(15);
        report(&mut out, &e, Encoding::Utf8);
        let M::ErrorResponse(r) = witness(&out) else { panic!("not an error") };
        assert!(
            r.fields.contains(&(b'P', "15".into())) && r.fields.contains(&(b'V', "ERROR".into()))
        );

        out.clear();
        let column = ColumnDesc {
            name: "n".into(),
            table_oid: 16384,
            attnum: 2,
            ty: SqlType::Int4,
            typmod: -1,
            collation: 0,
        };
        row_description(&mut out, (&[column], &[Format::Binary]), Encoding::Utf8);
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
}
