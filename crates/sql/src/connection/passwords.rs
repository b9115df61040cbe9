//! Passwords as pg_authid has them: SCRAM-SHA-256 verifiers, in PostgreSQL's form.
//!
//! ```text
//! SCRAM-SHA-256$<iterations>:<salt>$<StoredKey>:<ServerKey>      each in base64
//! ```

use crate::error::{Result, SqlError, state};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};

/// Bytes of a salt.
const SALT: usize = 16;
/// Bytes of a key.
const KEY: usize = 32;

fn mac(key: &[u8], message: &[u8]) -> [u8; KEY] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("a key may have any length");
    mac.update(message);
    mac.finalize().into_bytes().into()
}

/// The verifier of a password.
fn verifier_with(password: &str, salt: &[u8], iterations: u32) -> String {
    // What is no valid string by SASLprep is taken as it is, as in PostgreSQL.
    let prepared = stringprep::saslprep(password).unwrap_or(password.into());
    let mut salted = [0; KEY];
    pbkdf2::pbkdf2_hmac::<Sha256>(prepared.as_bytes(), salt, iterations, &mut salted);
    let stored_key = Sha256::digest(mac(&salted, b"Client Key"));
    let server_key = mac(&salted, b"Server Key");
    let [salt, stored, server] =
        [salt, stored_key.as_slice(), server_key.as_slice()].map(|bytes| BASE64.encode(bytes));
    format!("SCRAM-SHA-256${iterations}:{salt}${stored}:{server}")
}

/// Whether a text is a verifier already: of SCRAM, or of MD5.
fn is_verifier(text: &str) -> bool {
    let md5 = text.strip_prefix("md5").is_some_and(|hex| {
        hex.len() == 32 && hex.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
    });
    md5 || is_scram(text).is_some()
}

fn is_scram(text: &str) -> Option<()> {
    let (head, keys) = text.strip_prefix("SCRAM-SHA-256$")?.split_once('$')?;
    let ((iterations, salt), (stored, server)) = (head.split_once(':')?, keys.split_once(':')?);
    iterations.parse::<u32>().ok()?;
    BASE64.decode(salt).ok()?;
    let is_key = |text: &str| BASE64.decode(text).is_ok_and(|key| key.len() == KEY);
    (is_key(stored) && is_key(server)).then_some(())
}

/// What pg_authid stores of a password; None: an empty one, which is none.
pub(super) fn stored(password: &str, iterations: u32, method: &str) -> Result<Option<String>> {
    if password.is_empty() {
        return Ok(None);
    }
    if is_verifier(password) {
        return Ok(Some(password.to_owned()));
    }
    if method != "scram-sha-256" {
        return Err(SqlError::unsupported(format!("password_encryption = {method}")));
    }
    let mut salt = [0; SALT];
    getrandom::fill(&mut salt).map_err(|e| {
        SqlError::new(state::INTERNAL_ERROR, format!("could not generate random salt: {e}"))
    })?;
    Ok(Some(verifier_with(password, &salt, iterations.max(1))))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 7677.
    #[test]
    fn a_verifier_is_that_of_the_standard() {
        let salt = BASE64.decode("W22ZaJ0SNY7soEsUEjb6gQ==").expect("base64");
        let made = verifier_with("pencil", &salt, 4096);
        let want = "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$\
                    WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:\
                    wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=";
        assert_eq!(made, want);
        assert!(is_verifier(&made));
    }

    #[test]
    fn verifiers_are_stored_as_they_are() {
        let kept =
            |text: &str| stored(text, 1, "scram-sha-256").expect("stored").as_deref() == Some(text);
        assert!(kept("md5c4ca4238a0b923820dcc509a6f75849b"));
        assert!(!kept("md5c4ca4238a0b923820dcc509a6f75849B"));
        assert!(!kept("SCRAM-SHA-256$1:AA==$AA==:AA=="));
        assert_eq!(stored("", 1, "scram-sha-256").expect("none"), None);
        let [a, b] = [(); 2].map(|()| stored("x", 2, "scram-sha-256").expect("stored"));
        assert_ne!(a, b, "salts differ");
        assert_eq!(stored("x", 1, "md5").expect_err("refused").sqlstate, "0A000");
    }
}
