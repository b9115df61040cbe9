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

/// What a server keeps of a password: the stored key and the server's.
fn keys(password: &str, salt: &[u8], iterations: u32) -> [[u8; KEY]; 2] {
    // What is no valid string by SASLprep is taken as it is, as in PostgreSQL.
    let prepared = stringprep::saslprep(password).unwrap_or(password.into());
    let mut salted = [0; KEY];
    pbkdf2::pbkdf2_hmac::<Sha256>(prepared.as_bytes(), salt, iterations, &mut salted);
    [Sha256::digest(mac(&salted, b"Client Key")).into(), mac(&salted, b"Server Key")]
}

/// The verifier of a password.
fn verifier_with(password: &str, salt: &[u8], iterations: u32) -> String {
    let [stored, server] = keys(password, salt, iterations).map(|key| BASE64.encode(key));
    format!("SCRAM-SHA-256${iterations}:{}${stored}:{server}", BASE64.encode(salt))
}

/// A password of a role as an MD5 hash.
fn md5(role: &str, password: &str) -> String {
    format!("md5{}", forebay_types::functions::bytes::md5([password, role].concat().as_bytes()))
}

/// Whether a stored password is an MD5 hash.
pub(super) fn is_md5(stored: &str) -> bool {
    let digit = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    stored.strip_prefix("md5").is_some_and(|hex| hex.len() == 32 && hex.bytes().all(digit))
}

/// A verifier of SCRAM.
struct Verifier {
    iterations: u32,
    salt: Vec<u8>,
    server: Vec<u8>,
}

impl Verifier {
    fn parse(text: &str) -> Option<Verifier> {
        let (head, keys) = text.strip_prefix("SCRAM-SHA-256$")?.split_once('$')?;
        let ((iterations, salt), (stored, server)) = (head.split_once(':')?, keys.split_once(':')?);
        let (iterations, salt) = (iterations.parse().ok()?, BASE64.decode(salt).ok()?);
        let key = |text: &str| BASE64.decode(text).ok().filter(|key| key.len() == KEY);
        key(stored)?;
        Some(Verifier { iterations, salt, server: key(server)? })
    }
}

/// Whether a text is what is stored of an empty password.
fn is_empty(role: &str, stored: &str) -> bool {
    /// With more iterations it would take too long to find out.
    const MOST: u32 = 1_000_000;
    match Verifier::parse(stored) {
        Some(Verifier { iterations, salt, server }) => {
            (1..=MOST).contains(&iterations) && keys("", &salt, iterations)[1] == server[..]
        }
        None => stored.is_empty() || stored == md5(role, ""),
    }
}

/// What pg_authid stores of a password; None: an empty one, which is none.
pub(super) fn stored(
    (role, password): (&str, &str),
    iterations: u32,
    method: &str,
) -> Result<Option<String>> {
    /// As long as PostgreSQL allows.
    const LONGEST: usize = 512;
    if is_empty(role, password) {
        return Ok(None);
    }
    if is_md5(password) || Verifier::parse(password).is_some() {
        if password.len() > LONGEST {
            let error = SqlError::new("54000", "encrypted password is too long");
            let detail = format!("Encrypted passwords must be no longer than {LONGEST} bytes.");
            return Err(error.detail(detail));
        }
        return Ok(Some(password.to_owned()));
    }
    if method == "md5" {
        return Ok(Some(md5(role, password)));
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
        assert!(Verifier::parse(&made).is_some());
    }

    #[test]
    fn verifiers_are_stored_as_they_are() {
        let stored = |text: &str| stored(("joe", text), 1, "scram-sha-256").expect("stored");
        let kept = |text: &str| stored(text).as_deref() == Some(text);
        assert!(kept("md5c4ca4238a0b923820dcc509a6f75849b"));
        assert!(!kept("md5c4ca4238a0b923820dcc509a6f75849B"));
        assert!(!kept("SCRAM-SHA-256$1:AA==$AA==:AA=="));
        let [a, b] = [(); 2].map(|()| stored("x"));
        assert_ne!(a, b, "salts differ");
        assert!(kept(&a.expect("a verifier")));
    }

    #[test]
    fn an_empty_password_is_none_in_whatever_form() {
        let stored = |text: &str| stored(("joe", text), 1, "scram-sha-256").expect("stored");
        assert_eq!(stored(""), None);
        assert_eq!(stored(&md5("joe", "")), None);
        assert!(stored(&md5("jim", "")).is_some());
        assert_eq!(stored(&verifier_with("", b"salt", 7)), None);
        assert!(stored(&verifier_with("x", b"salt", 7)).is_some());
    }

    #[test]
    fn an_md5_hash_is_salted_with_the_role() {
        let made = stored(("joe", "secret"), 1, "md5").expect("stored").expect("a hash");
        assert_eq!(made, format!("md5{}", forebay_types::functions::bytes::md5(b"secretjoe")));
        assert!(is_md5(&made));
    }
}
