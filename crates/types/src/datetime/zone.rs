//! Time zones: the system's time zone database, or the one that comes with `jiff` where the system
//! has none, so that a machine's PostgreSQL and its Forebay agree.

use std::borrow::Cow;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, Dst, TimeZone};

use super::calendar::{USECS_PER_DAY, USECS_PER_SEC, civil_of, days_of};
use super::words::{Abbreviation, abbreviation};

/// Seconds from 1970 to 2000.
const EPOCH: i64 = 946_684_800;
/// Hours that a zone may be ahead or behind.
const MAX_HOURS: i64 = 168;
/// Years that the calendar repeats in, with the days of the week.
const CYCLE: i64 = 400;
/// The last years that `jiff` counts begin here, at a multiple of [`CYCLE`].
const LATE: i64 = 9200;

/// A time zone.
#[derive(Clone, Debug, PartialEq)]
pub struct Zone {
    name: Cow<'static, str>,
    zone: TimeZone,
}

/// What holds in a zone at a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneInfo {
    /// Seconds east of Greenwich.
    pub offset: i32,
    /// Whether it is daylight saving time.
    pub dst: bool,
    /// How the zone is called then.
    pub abbreviation: String,
}

impl Zone {
    /// Coordinated universal time.
    pub fn utc() -> Zone {
        Zone { name: Cow::Borrowed("UTC"), zone: TimeZone::UTC }
    }

    /// The zone of a name (`Europe/Paris`) or of a rule as POSIX has it (`EST5EDT`). None if there
    /// is no such zone.
    pub fn named(name: &str) -> Option<Zone> {
        if name.is_empty() || name.len() > 255 || name.starts_with(['.', '/']) {
            return None;
        }
        if let Ok(zone) = TimeZone::get(name) {
            let canonical = zone.iana_name().unwrap_or(name).to_owned();
            return Some(Zone { name: canonical.into(), zone });
        }
        let is_rule = name.contains(|c: char| c.is_ascii_digit());
        let zone = TimeZone::posix(name).ok().filter(|_| is_rule)?;
        Some(Zone { name: name.to_ascii_uppercase().into(), zone })
    }

    /// The zone that is so many seconds east of Greenwich, named as POSIX has it.
    pub fn fixed(east: i32) -> Option<Zone> {
        if i64::from(east).abs() > MAX_HOURS * 3600 {
            return None;
        }
        let (sign, size) = (if east < 0 { '-' } else { '+' }, east.unsigned_abs());
        let mut clock = format!("{:02}", size / 3600);
        if size % 3600 != 0 {
            clock.push_str(&format!(":{:02}", size / 60 % 60));
        }
        if size % 60 != 0 {
            clock.push_str(&format!(":{:02}", size % 60));
        }
        let behind = if sign == '+' { '-' } else { '+' };
        let zone = TimeZone::fixed(jiff::tz::Offset::from_seconds(east).ok()?);
        Some(Zone { name: format!("<{sign}{clock}>{behind}{clock}").into(), zone })
    }

    /// Its name, as `SHOW TimeZone` has it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What holds at a moment, in microseconds since 2000 in UTC.
    pub fn at(&self, micros: i64) -> ZoneInfo {
        let seconds = micros.div_euclid(USECS_PER_SEC) + EPOCH;
        let (year, _, _) = civil_of(micros.div_euclid(USECS_PER_DAY));
        let seconds = if (-9998..=9998).contains(&year) {
            seconds
        } else {
            seconds + (days_of(alike(year), 1, 1) - days_of(year, 1, 1)) * 86_400
        };
        let moment = Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX);
        let info = self.zone.to_offset_info(moment);
        ZoneInfo {
            offset: info.offset().seconds(),
            dst: info.dst() == Dst::Yes,
            abbreviation: self.shown(info.abbreviation()),
        }
    }

    /// A zone of a fixed offset has its offset as its abbreviation.
    fn shown(&self, abbreviation: &str) -> String {
        match self.name.strip_prefix('<').and_then(|rest| rest.split_once('>')) {
            Some((name, _)) => name.to_owned(),
            None => abbreviation.to_owned(),
        }
    }

    /// Seconds east of Greenwich of a local time. A time that was skipped is that of the zone
    /// before, one that there is twice is the later one.
    pub fn offset_of_local(&self, local: i64) -> i32 {
        let (year, month, day) = civil_of(local.div_euclid(USECS_PER_DAY));
        let year = if (-9998..=9998).contains(&year) { year } else { alike(year) };
        let time = local.rem_euclid(USECS_PER_DAY) / USECS_PER_SEC;
        let civil = DateTime::new(
            year as i16,
            month as i8,
            day as i8,
            (time / 3600) as i8,
            (time / 60 % 60) as i8,
            (time % 60) as i8,
            0,
        );
        let Ok(civil) = civil else { return 0 };
        match self.zone.to_ambiguous_timestamp(civil).offset() {
            AmbiguousOffset::Unambiguous { offset } => offset.seconds(),
            AmbiguousOffset::Gap { before, .. } => before.seconds(),
            AmbiguousOffset::Fold { after, .. } => after.seconds(),
        }
    }

    /// Its offset, if it always has the same.
    pub(crate) fn always(&self) -> Option<i32> {
        let moment = Timestamp::UNIX_EPOCH;
        let changes = self.zone.preceding(Timestamp::MAX).take(1).count();
        (changes == 0).then(|| self.zone.to_offset(moment).seconds())
    }

    /// Offset and daylight saving of an abbreviation of this zone: the one that was in use last
    /// before a moment, or else first after it. None if the zone has no such abbreviation.
    pub(crate) fn abbreviated(&self, abbreviation: &str, micros: i64) -> Option<(i32, bool)> {
        let seconds = micros.div_euclid(USECS_PER_SEC).saturating_add(EPOCH);
        let moment = Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX);
        let is = |name: &str| name.eq_ignore_ascii_case(abbreviation);
        let now = self.zone.to_offset_info(moment);
        if is(now.abbreviation()) {
            return Some((now.offset().seconds(), now.dst() == Dst::Yes));
        }
        // Rules for the time to come have two names at most.
        let before = self.zone.preceding(moment).find(|t| is(t.abbreviation()));
        let found = before
            .or_else(|| self.zone.following(moment).take(400).find(|t| is(t.abbreviation())))
            .map(|t| (t.offset().seconds(), t.dst() == Dst::Yes));
        found.or_else(|| {
            // What held before the first change.
            let first = self.zone.to_offset_info(Timestamp::MIN);
            is(first.abbreviation()).then(|| (first.offset().seconds(), first.dst() == Dst::Yes))
        })
    }
}

/// A year that `jiff` counts, of the same calendar.
fn alike(year: i64) -> i64 {
    LATE + year.rem_euclid(CYCLE)
}

/// What a zone's abbreviation means in a session: first that of the session's zone, then those of
/// PostgreSQL's default list. Seconds east of Greenwich, or a zone that tells them.
pub(crate) fn session_abbreviation(word: &str, session: &Zone, now: i64) -> Option<Meaning> {
    if session.zone != TimeZone::UTC && session.abbreviated(word, now).is_some() {
        return Some(Meaning::Zone(session.clone()));
    }
    match abbreviation(word)? {
        Abbreviation::Offset(offset) => Some(Meaning::Offset(offset)),
        Abbreviation::Zone(name) => Zone::named(name).map(Meaning::Zone),
    }
}

/// What an abbreviation means.
pub(crate) enum Meaning {
    /// Always the same: seconds east of Greenwich.
    Offset(i32),
    /// Different at different times.
    Zone(Zone),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_are_found_by_name_and_by_rule() {
        let paris = Zone::named("europe/paris").expect("a zone");
        assert_eq!(paris.name(), "Europe/Paris");
        assert_eq!(paris.at(0).offset, 3600);
        assert_eq!(paris.at(0).abbreviation, "CET");
        let summer = days_of(2024, 7, 1) * USECS_PER_DAY;
        assert_eq!((paris.at(summer).offset, paris.at(summer).dst), (7200, true));
        assert_eq!(paris.offset_of_local(days_of(20_024, 7, 1) * USECS_PER_DAY), 7200);
        // 02:30 was skipped, and there twice.
        let half_past_two = 9_000 * USECS_PER_SEC;
        let gap = days_of(2024, 3, 31) * USECS_PER_DAY + half_past_two;
        let fold = days_of(2024, 10, 27) * USECS_PER_DAY + half_past_two;
        assert_eq!((paris.offset_of_local(gap), paris.offset_of_local(fold)), (3600, 3600));
        assert!(Zone::named("Mars/Olympus").is_none() && Zone::named("../etc/passwd").is_none());
        assert_eq!(Zone::named("EST5EDT").expect("a zone").at(0).offset, -18_000);
        assert_eq!(Zone::fixed(-9_000).expect("a zone").name(), "<-02:30>+02:30");
    }
}
