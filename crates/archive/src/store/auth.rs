//! Authentication of an archive's manifests and of its marker file.
//!
//! ```text
//!   forebay archive manifest 1
//!   name: 000000010000000000000003
//!   ...
//!   auth: xchacha20poly1305 KEYID NONCE TAG     over every byte before this line
//!   check: 5f0c1e22
//! ```
//!
//! The tag is that of XChaCha20-Poly1305 over an empty message, with the text as associated data
//! and a random nonce. The pieces of stored files use the same key; their associated data begins
//! with the magic bytes of [`seal`](super::seal), a text's with its title, so neither tag can be
//! passed off as the other.
//!
//! A CRC detects damage, but anybody who can write to the archive could forge a manifest. With a
//! key, only texts with a valid tag are accepted, unless
//! [`StoreOptions::accept_unencrypted`](super::StoreOptions) says that the archive was begun
//! without one.

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use super::seal::{AuthTag, Key, KeyId};
use super::text::{Writer, before_check, unhex};
use crate::error::Result;

const WORD: &str = "auth:";
const CIPHER: &str = "xchacha20poly1305";

/// Appends the line that authenticates the text so far.
pub(super) fn sign(text: Writer, key: &Key) -> Result<Writer> {
    let AuthTag { nonce, tag } = key.authenticate(text.so_far())?;
    let (nonce, tag) = (hex::encode(nonce), hex::encode(tag));
    Ok(text.line("auth", format_args!("{CIPHER} {} {nonce} {tag}", key.id())))
}

/// The authentication of a text.
pub(super) struct Signature<'a> {
    /// The text that is authenticated.
    signed: &'a str,
    /// The key's id.
    pub(super) key: KeyId,
    tag: AuthTag,
}

impl<'a> Signature<'a> {
    /// Parses the last line before the check. None: there is none, or it is invalid.
    pub(super) fn find(bytes: &'a [u8]) -> Option<Signature<'a>> {
        let body = before_check(std::str::from_utf8(bytes).ok()?)?.strip_suffix('\n')?;
        let (signed, line) = body.split_at_checked(body.rfind('\n')? + 1)?;
        let [word, cipher, key, nonce, tag] =
            line.split(' ').collect::<Vec<_>>().try_into().ok()?;
        if (word, cipher) != (WORD, CIPHER) {
            return None;
        }
        let tag = AuthTag { nonce: unhex(nonce)?, tag: unhex(tag)? };
        Some(Signature { signed, key: KeyId(unhex(key)?), tag })
    }

    /// Whether it was made of this text with this key.
    pub(super) fn is_of(&self, key: &Key) -> bool {
        self.key == key.id() && key.is_authentic(self.signed, &self.tag)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;

    fn signed(key: &Key) -> String {
        sign(Writer::new("kind 1").line("name", "A").line("size", 7), key).unwrap().finish()
    }

    #[test]
    fn a_text_is_authentic_under_its_own_key_alone() {
        let (key, other) = (Key::from_bytes([1; 32]), Key::from_bytes([2; 32]));
        let text = signed(&key);
        let found = Signature::find(text.as_bytes()).unwrap();
        assert_eq!(found.key, key.id());
        assert!(found.is_of(&key));
        assert!(!found.is_of(&other));
        assert_ne!(signed(&key), text, "each has a nonce of its own");
    }

    #[test]
    fn every_changed_byte_and_every_added_or_missing_line_is_detected() {
        let key = Key::from_bytes([1; 32]);
        let text = signed(&key);
        let end = text.find("auth: ").unwrap();
        let accepted = |body: &str| {
            // A forger can compute a CRC.
            let check = forebay_format::crc::crc32c(body.as_bytes());
            let text = format!("{body}check: {check:08x}\n");
            Signature::find(text.as_bytes()).is_some_and(|found| found.is_of(&key))
        };
        let body = before_check(&text).unwrap();
        assert!(accepted(body));
        for at in 0..body.len() {
            let mut bytes = body.to_owned().into_bytes();
            // A hexadecimal digit becomes another one.
            bytes[at] = if bytes[at] == b'1' { b'2' } else { b'1' };
            assert!(!accepted(std::str::from_utf8(&bytes).unwrap()), "byte {at}");
        }
        for forged in [
            body.replace("auth: ", "size: 9\nauth: "),
            format!("{body}size: 9\n"),
            body.replace("size: 7\n", ""),
            body[..end].to_owned(),
        ] {
            assert!(!accepted(&forged), "{forged}");
        }
    }

    proptest::proptest! {
        #[test]
        fn arbitrary_texts_never_panic(bytes: Vec<u8>, text: String) {
            let _ = Signature::find(&bytes).is_some();
            let text = format!("a\nauth: {CIPHER} {text}\ncheck: ");
            let _ = Signature::find(text.as_bytes()).is_some();
        }
    }
}
