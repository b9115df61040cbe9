//! Times, as backups write them.

use forebay_aio::sync::{SystemTime, UNIX_EPOCH};
use forebay_types::time::date_and_time;

/// Seconds since 1970.
pub(super) fn seconds(time: SystemTime) -> i64 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_secs()).map_or(i64::MIN, |s| -s),
    }
}

/// "20261121T012139Z": such texts sort by time, and are valid file names.
pub(super) fn compact(seconds: i64) -> String {
    let mut text = date_and_time(seconds).replace(' ', "T");
    text.retain(|c| !matches!(c, '-' | ':'));
    text + "Z"
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_aio::sync::Duration;

    #[test]
    fn times_as_text() {
        assert_eq!(compact(1_795_224_099), "20261121T012139Z");
        assert_eq!(seconds(UNIX_EPOCH + Duration::from_secs(1_795_224_099)), 1_795_224_099);
        assert_eq!(seconds(UNIX_EPOCH - Duration::from_secs(7)), -7);
    }
}
