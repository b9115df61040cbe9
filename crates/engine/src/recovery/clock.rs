//! Moments of the log.

use forebay_aio::sync::{SystemTime, UNIX_EPOCH};
use forebay_types::time::{self, POSTGRES_EPOCH};

pub(crate) use forebay_types::time::log_time as at_time;
pub(super) use forebay_types::time::timestamp as show;

/// Now, as the log has it: in microseconds since 2000.
pub(crate) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX).saturating_sub(POSTGRES_EPOCH * 1_000_000)
}

/// Reads a moment, in microseconds since 2000; without a zone it is in UTC. None if it is none.
pub fn parse_timestamp(text: &str) -> Option<i64> {
    time::parse(text).map(|written| written.micros)
}
