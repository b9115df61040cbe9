//! Authentication of an archive's small texts: manifests, and the archive's own file.
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
//! A CRC tells damage apart; it does not keep anybody who can write to the archive from making a
//! manifest. With a key, only texts with a valid tag are believed, unless
//! [`StoreOptions::accept_unencrypted`](super::StoreOptions) says that the archive was begun
//! without one.

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use super::error::StoreError;
use super::seal::{AuthTag, Key, KeyId};
use super::text::{Writer, before_check, hex, unhex};

const WORD: &str = "auth:";
const CIPHER: &str = "xchacha20poly1305";

/// Appends the line that authenticates what the text says so far.
pub(super) fn sign(text: Writer, key: &Key) -> Result<Writer, StoreError> {
    let AuthTag { nonce, tag } = key.authenticate(text.so_far())?;
    let (nonce, tag) = (hex(&nonce), hex(&tag));
    Ok(text.line("auth", format_args!("{CIPHER} {} {nonce} {tag}", key.id())))
}

/// What a text says of its authentication.
pub(super) struct Signature<'a> {
    /// The text that is authenticated.
    signed: &'a str,
    /// With which key.
    pub(super) key: KeyId,
    tag: AuthTag,
}

impl<'a> Signature<'a> {
    /// Finds it: the last line but the check. None: there is none, or it makes no sense.
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

    /// Whether the holder of this key made it of this text.
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
    fn every_changed_byte_and_every_line_added_or_left_out_is_noticed() {
        let key = Key::from_bytes([1; 32]);
        let text = signed(&key);
        let end = text.find("auth: ").unwrap();
        let believed = |body: &str| {
            // A forger knows how to make a CRC.
            let check = forebay_format::crc::crc32c(body.as_bytes());
            let text = format!("{body}check: {check:08x}\n");
            Signature::find(text.as_bytes()).is_some_and(|found| found.is_of(&key))
        };
        let body = before_check(&text).unwrap();
        assert!(believed(body));
        for at in 0..body.len() {
            let mut bytes = body.to_owned().into_bytes();
            // Of the lines' characters, each becomes another one; hexadecimal digits stay some.
            bytes[at] = if bytes[at] == b'1' { b'2' } else { b'1' };
            assert!(!believed(std::str::from_utf8(&bytes).unwrap()), "byte {at}");
        }
        for forged in [
            body.replace("auth: ", "size: 9\nauth: "),
            format!("{body}size: 9\n"),
            body.replace("size: 7\n", ""),
            body[..end].to_owned(),
        ] {
            assert!(!believed(&forged), "{forged}");
        }
    }

    proptest::proptest! {
        #[test]
        fn arbitrary_texts_never_panic(bytes: Vec<u8>, text: String) {
            let _ = Signature::find(&bytes).is_some();
            let _ = Signature::find(format!("a\nauth: {CIPHER} {text}\ncheck: ").as_bytes()).is_some();
        }
    }
}
