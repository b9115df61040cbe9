//! PostgreSQL's limit of 1 GB for one value, line or row, checked before memory is allocated.

use crate::error::{Problem, Result, ValueError};

/// The largest allocation that PostgreSQL makes, in bytes.
pub const MAX_ALLOC: usize = 0x3fff_ffff;
/// Bytes of it that a value's length takes.
pub const HEADER: usize = 4;

/// Checks that a buffer of `len` bytes may get `by` more. `most` is [`MAX_ALLOC`], except in tests.
pub fn check_enlarge(len: usize, by: usize, most: usize) -> Result<()> {
    if by < most.saturating_sub(len) {
        Ok(())
    } else {
        Err(Problem::TooLong { len, by, most }.into())
    }
}

/// The error of an allocation of so many bytes that failed.
pub fn out_of_memory(bytes: usize) -> ValueError {
    Problem::OutOfMemory { bytes }.into()
}

/// Makes room for `by` more bytes of a string that begins at `start` of the buffer.
pub fn enlarge(buffer: &mut Vec<u8>, start: usize, by: usize, most: usize) -> Result<()> {
    let len = buffer.len().checked_sub(start).expect("a string begins within its buffer");
    check_enlarge(len, by, most)?;
    buffer.try_reserve(by).map_err(|_| out_of_memory(by))
}

/// An empty text with room for so many bytes.
pub fn text_of(len: usize) -> Result<String> {
    let mut text = String::new();
    text.try_reserve_exact(len).map_err(|_| out_of_memory(len))?;
    Ok(text)
}

/// Appends a text so many times, by copies of what was appended already.
pub fn push_repeated(out: &mut String, piece: &str, times: usize) {
    let (start, whole) = (out.len(), piece.len() * times);
    if whole > 0 {
        out.push_str(piece);
    }
    while out.len() - start < whole {
        let done = out.len() - start;
        out.extend_from_within(start..start + done.min(whole - done));
    }
}

/// Checks that a value of so many bytes, its length word included, can be allocated.
pub fn check_alloc(bytes: usize) -> Result<()> {
    if bytes <= MAX_ALLOC {
        return Ok(());
    }
    Err(ValueError::new("XX000", format!("invalid memory alloc request size {bytes}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_repeated() {
        for (piece, times) in [("", 7), ("ab", 0), ("ab", 1), ("\u{e9}x", 7), ("x", 1000)] {
            let mut out = "at ".to_owned();
            push_repeated(&mut out, piece, times);
            assert_eq!(out, "at ".to_owned() + &piece.repeat(times));
        }
    }

    #[test]
    fn a_string_ends_where_postgresqls_does() {
        assert!(check_enlarge(0, MAX_ALLOC - 1, MAX_ALLOC).is_ok());
        assert!(check_enlarge(1_073_741_820, 2, MAX_ALLOC).is_ok());
        let e = check_enlarge(1_073_741_822, 2, MAX_ALLOC).expect_err("too long");
        assert_eq!(e.sqlstate(), "54000");
        let message = "string buffer exceeds maximum allowed length (1073741823 bytes)";
        assert_eq!(e.to_string(), message);
        let detail = "Cannot enlarge string buffer containing 1073741822 bytes by 2 more bytes.";
        assert_eq!(e.detail().as_deref(), Some(detail));
        assert!(check_enlarge(usize::MAX, usize::MAX, MAX_ALLOC).is_err());
        assert_eq!(text_of(usize::MAX).expect_err("no memory").sqlstate(), "53200");
    }
}
