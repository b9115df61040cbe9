//! The packets before the first typed message: startup, SSL and GSS requests, cancel.
#![deny(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use super::PROTOCOL_3_2;
use forebay_sql::{Encoding, Severity, SqlError};

/// Largest startup packet, its length not counted, as in PostgreSQL.
pub const MAX_STARTUP: u32 = 10_000;

const CANCEL: u32 = (1234 << 16) | 5678;
const SSL: u32 = (1234 << 16) | 5679;
const GSS: u32 = (1234 << 16) | 5680;

/// A packet of the first phase.
#[derive(Debug, PartialEq, Eq)]
pub enum StartupPacket {
    /// The client asks for TLS.
    Ssl,
    /// The client asks for GSSAPI encryption.
    Gss,
    /// The client cancels the statement of another session.
    Cancel {
        /// The session's number.
        pid: u32,
        /// The session's key, which only its client knows.
        key: Vec<u8>,
    },
    /// The session begins.
    Startup(Startup),
}

impl StartupPacket {
    /// The number in place of a startup packet's protocol version.
    pub fn code(&self) -> u32 {
        match self {
            StartupPacket::Ssl => SSL,
            StartupPacket::Gss => GSS,
            StartupPacket::Cancel { .. } => CANCEL,
            StartupPacket::Startup(startup) => startup.version,
        }
    }
}

/// A startup packet.
#[derive(Debug, PartialEq, Eq, Default)]
pub struct Startup {
    /// Protocol version asked for.
    pub version: u32,
    /// Names and values in the client's order.
    pub parameters: Vec<(String, String)>,
}

impl Startup {
    /// A parameter's value; the last one counts.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.parameters.iter().rev().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }

    /// Protocol options (`_pq_.` names) that this server does not know: all.
    pub fn unknown_options(&self) -> Vec<&str> {
        self.parameters.iter().map(|(n, _)| n.as_str()).filter(|n| n.starts_with("_pq_.")).collect()
    }

    /// The version to speak, or None if the major number is not 3.
    pub fn negotiated(&self) -> Option<u32> {
        (self.version >> 16 == 3).then_some(self.version.min(PROTOCOL_3_2))
    }
}

/// Decodes what follows the length of a startup packet.
pub fn decode(body: &[u8]) -> Result<StartupPacket, SqlError> {
    let (code, rest) = body
        .split_first_chunk::<4>()
        .ok_or_else(|| violation("invalid length of startup packet"))?;
    match u32::from_be_bytes(*code) {
        SSL if rest.is_empty() => Ok(StartupPacket::Ssl),
        GSS if rest.is_empty() => Ok(StartupPacket::Gss),
        CANCEL => {
            let (pid, key) = rest
                .split_first_chunk::<4>()
                .filter(|(_, key)| !key.is_empty())
                .ok_or_else(|| violation("invalid length of cancel request packet"))?;
            Ok(StartupPacket::Cancel { pid: u32::from_be_bytes(*pid), key: key.to_vec() })
        }
        version => {
            Ok(StartupPacket::Startup(Startup { version, parameters: parameters(version, rest)? }))
        }
    }
}

fn violation(message: &str) -> SqlError {
    SqlError::report(Severity::Fatal, "08P01", message)
}

fn parameters(version: u32, mut rest: &[u8]) -> Result<Vec<(String, String)>, SqlError> {
    if version >> 16 != 3 {
        return Ok(Vec::new());
    }
    let layout = || violation("invalid startup packet layout: expected terminator as last byte");
    let mut found = Vec::new();
    loop {
        let name = cstring(&mut rest).ok_or_else(layout)?;
        if name.is_empty() {
            return if rest.is_empty() { Ok(found) } else { Err(layout()) };
        }
        let value = cstring(&mut rest).ok_or_else(layout)?;
        let text = |bytes| match Encoding::Utf8.checked(bytes) {
            Ok(text) => Ok(text.into_owned()),
            Err(e) => Err(SqlError::from(e).severity(Severity::Fatal)),
        };
        found.push((text(name)?, text(value)?));
    }
}

fn cstring<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let end = rest.iter().position(|&b| b == 0)?;
    let (head, tail) = rest.split_at_checked(end)?;
    *rest = tail.get(1..)?;
    Some(head)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]
mod tests {
    use super::*;

    #[test]
    fn startup_and_its_broken_forms() {
        let mut body = PROTOCOL_3_2.to_be_bytes().to_vec();
        body.extend(b"user\0me\0database\0postgres\0_pq_.x\0y\0\0");
        let StartupPacket::Startup(s) = decode(&body).unwrap() else { panic!("not a startup") };
        assert_eq!(
            (s.get("user"), s.get("database"), s.get("options")),
            (Some("me"), Some("postgres"), None)
        );
        assert_eq!(s.unknown_options(), ["_pq_.x"]);
        for n in 0..body.len() {
            assert!(decode(&body[..n]).is_err(), "{n} bytes");
        }
    }

    #[test]
    fn versions() {
        let of = |version| Startup { version, parameters: vec![] }.negotiated();
        assert_eq!(of(3 << 16), Some(3 << 16));
        assert_eq!(of((3 << 16) | 9999), Some(PROTOCOL_3_2));
        assert_eq!(of(2 << 16), None);
    }

    #[test]
    fn cancel_needs_a_key() {
        let mut body = CANCEL.to_be_bytes().to_vec();
        body.extend([0, 0, 0, 9]);
        assert!(decode(&body).is_err());
        body.extend([1; 32]);
        assert_eq!(decode(&body).unwrap(), StartupPacket::Cancel { pid: 9, key: vec![1; 32] });
    }
}
