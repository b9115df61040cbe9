//! Comparisons of dates, timestamps and timestamps with time zone with one another.

use super::Area;
use super::arguments::wrong_argument;
use crate::error::Result;
use crate::exec::host::Host;
use forebay_types::Datum;
use forebay_types::datetime::ops;
use std::cmp::Ordering;

/// The functions of each pair of types, in the order of their OIDs: <, <=, =, >, >=, <>.
pub(super) const TABLE: Area = &[
    // date and timestamp
    (2338, |_, args, host| test(args, host, Ordering::is_lt)),
    (2339, |_, args, host| test(args, host, Ordering::is_le)),
    (2340, |_, args, host| test(args, host, Ordering::is_eq)),
    (2341, |_, args, host| test(args, host, Ordering::is_gt)),
    (2342, |_, args, host| test(args, host, Ordering::is_ge)),
    (2343, |_, args, host| test(args, host, Ordering::is_ne)),
    // date and timestamptz
    (2351, |_, args, host| test(args, host, Ordering::is_lt)),
    (2352, |_, args, host| test(args, host, Ordering::is_le)),
    (2353, |_, args, host| test(args, host, Ordering::is_eq)),
    (2354, |_, args, host| test(args, host, Ordering::is_gt)),
    (2355, |_, args, host| test(args, host, Ordering::is_ge)),
    (2356, |_, args, host| test(args, host, Ordering::is_ne)),
    // timestamp and date
    (2364, |_, args, host| test(args, host, Ordering::is_lt)),
    (2365, |_, args, host| test(args, host, Ordering::is_le)),
    (2366, |_, args, host| test(args, host, Ordering::is_eq)),
    (2367, |_, args, host| test(args, host, Ordering::is_gt)),
    (2368, |_, args, host| test(args, host, Ordering::is_ge)),
    (2369, |_, args, host| test(args, host, Ordering::is_ne)),
    // timestamptz and date
    (2377, |_, args, host| test(args, host, Ordering::is_lt)),
    (2378, |_, args, host| test(args, host, Ordering::is_le)),
    (2379, |_, args, host| test(args, host, Ordering::is_eq)),
    (2380, |_, args, host| test(args, host, Ordering::is_gt)),
    (2381, |_, args, host| test(args, host, Ordering::is_ge)),
    (2382, |_, args, host| test(args, host, Ordering::is_ne)),
    // timestamp and timestamptz
    (2520, |_, args, host| test(args, host, Ordering::is_lt)),
    (2521, |_, args, host| test(args, host, Ordering::is_le)),
    (2522, |_, args, host| test(args, host, Ordering::is_eq)),
    (2523, |_, args, host| test(args, host, Ordering::is_gt)),
    (2524, |_, args, host| test(args, host, Ordering::is_ge)),
    (2525, |_, args, host| test(args, host, Ordering::is_ne)),
    // timestamptz and timestamp
    (2527, |_, args, host| test(args, host, Ordering::is_lt)),
    (2528, |_, args, host| test(args, host, Ordering::is_le)),
    (2529, |_, args, host| test(args, host, Ordering::is_eq)),
    (2530, |_, args, host| test(args, host, Ordering::is_gt)),
    (2531, |_, args, host| test(args, host, Ordering::is_ge)),
    (2532, |_, args, host| test(args, host, Ordering::is_ne)),
];

fn test<'a>(
    args: &[Datum<'_>],
    host: &Host,
    holds: impl FnOnce(Ordering) -> bool,
) -> Result<Datum<'a>> {
    // If one is a moment, so is the other: in the session's time zone.
    let moments = args.iter().any(|arg| matches!(arg, Datum::Timestamptz(_)));
    let order = micros(args, 0, moments, host)?.cmp(&micros(args, 1, moments, host)?);
    Ok(Datum::Bool(holds(order)))
}

/// A value in microseconds, local or as a moment. One that is too large for that is later or
/// earlier than all others that are finite.
fn micros(args: &[Datum<'_>], place: usize, moments: bool, host: &Host) -> Result<i64> {
    /// The finite values that come last and first, which no timestamp has.
    const LAST: i64 = i64::MAX - 1;
    const FIRST: i64 = i64::MIN + 1;
    let zone = &host.style.zone;
    Ok(match (args.get(place), moments) {
        (Some(Datum::Date(date)), false) => ops::date_to_timestamp(*date).unwrap_or(LAST),
        (Some(Datum::Date(date)), true) => ops::date_to_timestamptz(*date, zone).unwrap_or(LAST),
        (Some(Datum::Timestamp(local)), true) => {
            let beyond = if *local < 0 { FIRST } else { LAST };
            ops::timestamp_to_timestamptz(*local, zone).unwrap_or(beyond)
        }
        (Some(Datum::Timestamp(micros) | Datum::Timestamptz(micros)), _) => *micros,
        _ => return Err(wrong_argument(args, place)),
    })
}
