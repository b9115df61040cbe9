//! The clock, in the units of the log and of pg_control.

use forebay_aio::sync::{SystemTime, UNIX_EPOCH};
use forebay_types::time::{self, POSTGRES_EPOCH};

pub(crate) use forebay_types::time::log_time as at_time;
pub(crate) use forebay_types::time::timestamp as show;

/// Now, in microseconds since 2000, as in the log.
pub(crate) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX).saturating_sub(POSTGRES_EPOCH * 1_000_000)
}

/// Reads a time, in microseconds since 2000. Without a zone it is in UTC. None if it is malformed.
pub fn parse_timestamp(text: &str) -> Option<i64> {
    time::parse(text).map(|written| written.micros)
}

/// Now, in seconds since 1970, as in pg_control.
pub(crate) fn unix_seconds() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}
