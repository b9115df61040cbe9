//! The PostgreSQL wire protocol, versions 3.0 and 3.2: bytes and sockets, no meaning.
//!
//! - `frontend`: decoding of what a client sends (typed messages, borrowed from the read buffer)
//! - `backend`: encoding of what the server sends, into a plain byte vector
//! - `startup`: the packets before the first typed message
//! - `frames`: splitting a byte stream into messages, with every length checked before memory is
//!   allocated for it
//! - `stream`: one socket type over TCP and Unix sockets
//!
//! The codec is our own, since the pgwire crate's panics on a short Bind, reads beyond its own
//! message, and copies each CopyData. The tests use pgwire's to check that both sides mean the same
//! bytes.

pub mod backend;
pub mod frames;
pub mod frontend;
pub mod startup;
pub mod stream;

/// Protocol 3.0 as it stands in a startup packet.
pub const PROTOCOL_3_0: u32 = 3 << 16;
/// Protocol 3.2, the newest spoken here.
pub const PROTOCOL_3_2: u32 = (3 << 16) | 2;
