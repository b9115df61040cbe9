//! PostgreSQL's limit of 1 GB for one value, line or row, checked before memory is asked for.

use crate::error::{Result, SqlError, state};

/// The longest piece of memory that PostgreSQL gives out at once.
pub const MAX_ALLOC: usize = 0x3fff_ffff;
/// What a value's length takes of it.
pub const HEADER: usize = 4;

/// May a buffer of so many bytes get `by` more? `most`: [`MAX_ALLOC`], but in tests.
pub fn check_enlarge(len: usize, by: usize, most: usize) -> Result<()> {
    if by < most.saturating_sub(len) {
        return Ok(());
    }
    let message = format!("string buffer exceeds maximum allowed length ({most} bytes)");
    let detail = format!("Cannot enlarge string buffer containing {len} bytes by {by} more bytes.");
    Err(SqlError::new(state::PROGRAM_LIMIT_EXCEEDED, message).detail(detail))
}

/// There is no memory for so many bytes.
pub fn out_of_memory(bytes: usize) -> SqlError {
    SqlError::new(state::OUT_OF_MEMORY, "out of memory")
        .detail(format!("Failed on request of size {bytes}."))
}

/// Makes room for `by` more bytes of a string that begins at `start` of the buffer.
pub fn enlarge(buffer: &mut Vec<u8>, start: usize, by: usize, most: usize) -> Result<()> {
    check_enlarge(buffer.len().saturating_sub(start), by, most)?;
    buffer.try_reserve(by).map_err(|_| out_of_memory(by))
}

/// An empty text with room for so many bytes.
pub fn text_of(len: usize) -> Result<String> {
    let mut text = String::new();
    text.try_reserve_exact(len).map_err(|_| out_of_memory(len))?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_string_ends_where_postgresqls_does() {
        assert!(check_enlarge(0, MAX_ALLOC - 1, MAX_ALLOC).is_ok());
        assert!(check_enlarge(1_073_741_820, 2, MAX_ALLOC).is_ok());
        let e = check_enlarge(1_073_741_822, 2, MAX_ALLOC).expect_err("too long");
        assert_eq!(e.sqlstate, "54000");
        assert_eq!(e.message, "string buffer exceeds maximum allowed length (1073741823 bytes)");
        let detail = "Cannot enlarge string buffer containing 1073741822 bytes by 2 more bytes.";
        assert_eq!(e.detail.as_deref(), Some(detail));
        assert!(check_enlarge(usize::MAX, usize::MAX, MAX_ALLOC).is_err());
        assert_eq!(text_of(usize::MAX).expect_err("no memory").sqlstate, "53200");
    }
}
