//! Fields to a date and a time.
//!
//! Numbers get their meaning by their order and length, by the words beside them, and by what has
//! been found already: PostgreSQL's rules.

use crate::style::{DateOrder, TextStyle};

use super::calendar::{
    Civil, EPOCH_JULIAN, USECS_PER_DAY, USECS_PER_SEC, civil_of, days_of, month_days,
};
use super::fields::{Field, Kind};
use super::numbers::{Fault, fraction, fraction_of_second, leading, time, zone};
use super::words::{Unit, Word, date_word};
use super::zone::{Meaning, Zone, session_abbreviation};

/// What was found: sets of these bits.
type Found = u32;

const YEAR: Found = 1;
const MONTH: Found = 1 << 1;
const DAY: Found = 1 << 2;
const HOUR: Found = 1 << 3;
const MINUTE: Found = 1 << 4;
const SECOND: Found = 1 << 5;
const ZONE: Found = 1 << 6;
/// A zone's daylight saving time, by the word `dst`.
const SUMMER: Found = 1 << 7;
const DAY_OF_YEAR: Found = 1 << 8;
const WEEKDAY: Found = 1 << 9;
const HALF: Found = 1 << 10;
const ERA: Found = 1 << 11;
/// A date.
const DATE: Found = YEAR | MONTH | DAY;
/// A time.
const TIME: Found = HOUR | MINUTE | SECOND;

/// A moment in a text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Moment {
    /// Fields, and seconds east of Greenwich of the zone.
    Civil(Civil, i32),
    Epoch,
    Infinity,
    NegInfinity,
}

/// Reads the fields of a date, with a time or without.
pub(crate) fn decode(fields: &[Field], style: &TextStyle<'_>) -> Result<Moment, Fault> {
    Decoder::new(fields, style, false).run()
}

/// Reads the fields of a time of day.
pub(crate) fn decode_time(fields: &[Field], style: &TextStyle<'_>) -> Result<Moment, Fault> {
    Decoder::new(fields, style, true).run()
}

struct Decoder<'s, 'n> {
    fields: &'s [Field],
    style: &'s TextStyle<'n>,
    /// Only a time is wanted.
    time_only: bool,
    found: Found,
    civil: Civil,
    day_of_year: i64,
    /// Seconds east of Greenwich.
    offset: i32,
    /// A zone whose offset depends on the date.
    zone: Option<Zone>,
    /// An abbreviation, and the zone that knows it.
    abbreviation: Option<(String, Zone)>,
    /// A word that tells what the next number is.
    prefix: Option<Unit>,
    text_month: bool,
    julian: bool,
    two_digits: bool,
    before_christ: bool,
    afternoon: Option<bool>,
    special: Option<Moment>,
}

impl<'s, 'n> Decoder<'s, 'n> {
    fn new(fields: &'s [Field], style: &'s TextStyle<'n>, time_only: bool) -> Self {
        Decoder {
            fields,
            style,
            time_only,
            found: 0,
            civil: Civil::default(),
            day_of_year: 0,
            offset: 0,
            zone: None,
            abbreviation: None,
            prefix: None,
            text_month: false,
            julian: false,
            two_digits: false,
            before_christ: false,
            afternoon: None,
            special: None,
        }
    }

    fn run(mut self) -> Result<Moment, Fault> {
        for (n, field) in self.fields.iter().enumerate() {
            let text = field.text.as_str();
            let found = match field.kind {
                Kind::Date => self.date_field(n, text)?,
                Kind::Time => {
                    self.take_time_prefix()?;
                    let read = time(text, false)?;
                    let date = self.civil;
                    self.civil =
                        Civil { year: date.year, month: date.month, day: date.day, ..read };
                    if !self.time_only {
                        self.check_time()?;
                    }
                    TIME
                }
                Kind::Zone => {
                    self.offset = zone(text)?;
                    ZONE
                }
                Kind::Number => self.number_field(n, text)?,
                Kind::Word | Kind::Special => match self.word(text)? {
                    Some(found) => found,
                    None => continue,
                },
            };
            if self.found & found != 0 {
                return Err(Fault::Format);
            }
            self.found |= found;
        }
        if self.prefix.is_some() {
            return Err(Fault::Format);
        }
        if let Some(special) = self.special {
            return Ok(special);
        }
        self.finish()
    }

    fn take_time_prefix(&mut self) -> Result<(), Fault> {
        match self.prefix.take() {
            None | Some(Unit::Hour) => Ok(()),
            Some(_) => Err(Fault::Format),
        }
    }

    /// The fields that a number may still be. Where a time is wanted the date counts as found.
    fn known(&self) -> Found {
        if self.time_only { self.found | DATE } else { self.found }
    }

    fn may_be_date(&self, n: usize) -> bool {
        let kind = |n: usize| self.fields.get(n).map(|field| field.kind);
        let last = self.fields.len() - 1;
        n == 0 && last > 0 && (kind(last) == Some(Kind::Date) || kind(1) == Some(Kind::Time))
    }

    fn date_field(&mut self, n: usize, text: &str) -> Result<Found, Fault> {
        if self.time_only {
            if self.may_be_date(n) {
                return self.date(text);
            }
            return self.late_date(text);
        }
        if self.prefix == Some(Unit::Julian) {
            // A Julian day with a zone behind it.
            let (day, rest) = leading(text)?;
            self.set_julian(day)?;
            self.offset = zone(rest)?;
            self.prefix = None;
            return Ok(DATE | TIME | ZONE);
        }
        let has_date = self.found & (MONTH | DAY) == MONTH | DAY;
        if self.prefix.is_some() || has_date {
            return self.late_date(text);
        }
        self.date(text)
    }

    /// A zone's name, or a time with a zone, behind a date.
    fn late_date(&mut self, text: &str) -> Result<Found, Fault> {
        let digit = text.as_bytes().first().is_some_and(u8::is_ascii_digit);
        if !digit && (self.time_only || self.prefix.is_none()) {
            let named = Zone::named(text).ok_or_else(|| Fault::Zone(text.to_owned()))?;
            self.zone = Some(named);
            return Ok(ZONE);
        }
        self.take_time_prefix()?;
        if self.found & TIME == TIME {
            return Err(Fault::Format);
        }
        let at = text.find('-').ok_or(Fault::Format)?;
        let (clock, east) = text.split_at(at);
        self.offset = zone(east)?;
        Ok(self.run_together(clock, self.known())? | ZONE)
    }

    fn number_field(&mut self, n: usize, text: &str) -> Result<Found, Fault> {
        if let Some(prefix) = self.prefix.take() {
            let (value, rest) = leading(text)?;
            if !rest.is_empty() && !rest.starts_with('.') {
                return Err(Fault::Format);
            }
            return match prefix {
                Unit::Julian => {
                    self.set_julian(value)?;
                    if rest.is_empty() {
                        return Ok(DATE);
                    }
                    let micros = (fraction(rest)? * USECS_PER_DAY as f64) as i64;
                    self.set_time(Civil::of_time(micros));
                    Ok(DATE | TIME)
                }
                Unit::Hour => match self.run_together(text, self.known() | DATE)? {
                    TIME => Ok(TIME),
                    _ => Err(Fault::Format),
                },
                _ => Err(Fault::Format),
            };
        }
        let point = text.find('.');
        if self.time_only {
            return match point {
                Some(at) => {
                    let last = self.fields.len() - 1;
                    let date_behind =
                        self.fields.get(last).is_some_and(|field| field.kind == Kind::Date);
                    if n == 0 && last > 0 && date_behind {
                        self.date(text)
                    } else if at > 2 {
                        self.run_together(text, self.known())
                    } else {
                        Err(Fault::Format)
                    }
                }
                None if text.len() > 4 => self.run_together(text, self.known()),
                None => self.number(text, self.known()),
            };
        }
        match point {
            Some(_) if self.found & DATE == 0 => self.date(text),
            Some(at) if at > 2 => self.run_together(text, self.found),
            None if text.len() >= 6 && (self.found & DATE == 0 || self.found & TIME == 0) => {
                self.run_together(text, self.found)
            }
            _ => self.number(text, self.found),
        }
    }

    fn set_julian(&mut self, day: i64) -> Result<(), Fault> {
        if day < 0 {
            return Err(Fault::Range);
        }
        (self.civil.year, self.civil.month, self.civil.day) = civil_of(day - EPOCH_JULIAN);
        self.julian = true;
        Ok(())
    }

    fn set_time(&mut self, time: Civil) {
        let Civil { year, month, day, .. } = self.civil;
        self.civil = Civil { year, month, day, ..time };
    }

    fn word(&mut self, text: &str) -> Result<Option<Found>, Fault> {
        if let Some(meaning) = session_abbreviation(text, &self.style.zone, self.style.now) {
            match meaning {
                Meaning::Offset(offset) => self.offset = offset,
                Meaning::Zone(zone) => self.abbreviation = Some((text.to_owned(), zone)),
            }
            return Ok(Some(ZONE));
        }
        let Some(word) = date_word(text) else {
            self.zone = Some(Zone::named(text).ok_or(Fault::Format)?);
            return Ok(Some(ZONE));
        };
        if self.time_only && !self.is_time_word(word) {
            return Err(Fault::Format);
        }
        Ok(Some(match word {
            Word::Ignored => return Ok(None),
            Word::Month(month) => self.month(month),
            Word::Weekday => WEEKDAY,
            Word::Pm(pm) => {
                self.afternoon = Some(pm);
                HALF
            }
            Word::Bc(bc) => {
                self.before_christ = bc;
                ERA
            }
            Word::Unit(unit) => self.set_prefix(unit)?,
            Word::Time => {
                if !self.time_only && self.found & DATE != DATE {
                    return Err(Fault::Format);
                }
                self.set_prefix(Unit::Hour)?
            }
            Word::Summer => {
                self.offset += 3600;
                SUMMER
            }
            Word::Midnight => {
                self.set_time(Civil::default());
                self.offset = 0;
                TIME | ZONE
            }
            Word::Now | Word::Today | Word::Tomorrow | Word::Yesterday => self.today(word),
            Word::Epoch | Word::Infinity | Word::NegInfinity => {
                self.special = Some(match word {
                    Word::Epoch => Moment::Epoch,
                    Word::Infinity => Moment::Infinity,
                    _ => Moment::NegInfinity,
                });
                DATE | TIME | ZONE
            }
        }))
    }

    fn is_time_word(&self, word: Word) -> bool {
        matches!(
            word,
            Word::Ignored
                | Word::Pm(_)
                | Word::Bc(_)
                | Word::Unit(_)
                | Word::Time
                | Word::Summer
                | Word::Midnight
                | Word::Now
        )
    }

    fn set_prefix(&mut self, unit: Unit) -> Result<Found, Fault> {
        match self.prefix.replace(unit) {
            None => Ok(0),
            Some(_) => Err(Fault::Format),
        }
    }

    /// A month's name. A number that was taken for the month is the day then.
    fn month(&mut self, month: i64) -> Found {
        let taken = self.found & MONTH != 0 && self.found & DAY == 0 && !self.text_month;
        let found = if taken && (1..=31).contains(&self.civil.month) {
            self.civil.day = self.civil.month;
            DAY
        } else {
            MONTH
        };
        self.text_month = true;
        self.civil.month = month;
        found
    }

    fn today(&mut self, word: Word) -> Found {
        let now = self.style.now;
        let east = self.style.zone.at(now).offset;
        let local = Civil::of(now.saturating_add(i64::from(east) * USECS_PER_SEC));
        let days = local.days()
            + match word {
                Word::Tomorrow => 1,
                Word::Yesterday => -1,
                _ => 0,
            };
        if word == Word::Now {
            self.offset = east;
            if self.time_only {
                self.set_time(local);
                return TIME;
            }
            self.civil = local;
            return DATE | TIME | ZONE;
        }
        (self.civil.year, self.civil.month, self.civil.day) = civil_of(days);
        DATE
    }

    /// A date in one field: numbers and a month's name with punctuation between them.
    fn date(&mut self, text: &str) -> Result<Found, Fault> {
        let mut parts: Vec<&str> = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            rest = rest.trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
            let first = rest.as_bytes().first().ok_or(Fault::Format)?;
            let digit = first.is_ascii_digit();
            let same = |c: char| {
                if digit { c.is_ascii_digit() } else { c.is_ascii_alphabetic() }
            };
            let end = rest.find(|c| !same(c)).unwrap_or(rest.len());
            let (part, behind) = rest.split_at(end);
            parts.push(part);
            // One character between two parts is dropped, whatever it is.
            let mut chars = behind.chars();
            chars.next();
            rest = chars.as_str();
        }
        let (mut found, mut known) = (0, self.found);
        let add = |new: Found, found: &mut Found, known: &mut Found| {
            if *known & new != 0 {
                return Err(Fault::Format);
            }
            *known |= new;
            *found |= new;
            Ok(())
        };
        let is_word = |part: &&str| part.as_bytes().first().is_some_and(u8::is_ascii_alphabetic);
        for part in parts.iter().filter(|part| is_word(part)) {
            match date_word(part) {
                Some(Word::Month(month)) => {
                    self.civil.month = month;
                    self.text_month = true;
                    add(MONTH, &mut found, &mut known)?;
                }
                Some(Word::Ignored) => {}
                _ => return Err(Fault::Format),
            }
        }
        let text_month = found & MONTH != 0;
        for part in parts.iter().filter(|part| !is_word(part)) {
            let saved = std::mem::replace(&mut self.text_month, text_month);
            let new = self.number(part, known);
            self.text_month = saved;
            add(new?, &mut found, &mut known)?;
        }
        if known & !(DAY_OF_YEAR | ZONE) & (DATE | TIME) != DATE {
            return Err(Fault::Format);
        }
        Ok(found)
    }

    /// A single number.
    fn number(&mut self, text: &str, known: Found) -> Result<Found, Fault> {
        let (value, rest) = leading(text)?;
        if rest.len() == text.len() {
            return Err(Fault::Format);
        }
        if !rest.is_empty() {
            if !rest.starts_with('.') {
                return Err(Fault::Format);
            }
            if text.len() - rest.len() > 2 {
                return self.run_together(text, known | DATE);
            }
            self.civil.micros = fraction_of_second(rest)?;
        }
        let (len, ymd) = (text.len(), self.style.date_order == DateOrder::Ymd);
        if len == 3 && known & DATE == YEAR && (1..=366).contains(&value) {
            self.day_of_year = value;
            return Ok(DAY_OF_YEAR | MONTH | DAY);
        }
        let found = match known & DATE {
            0 if len >= 3 || ymd => YEAR,
            0 if self.style.date_order == DateOrder::Dmy => DAY,
            0 => MONTH,
            YEAR => MONTH,
            MONTH if self.text_month && (len >= 3 || ymd) => YEAR,
            MONTH => DAY,
            found if found == YEAR | MONTH => {
                if self.text_month && len >= 3 && self.two_digits {
                    // What was taken for the year is the day.
                    self.civil.day = self.civil.year;
                    self.civil.year = value;
                    self.two_digits = false;
                    return Ok(DAY);
                }
                DAY
            }
            DAY => MONTH,
            found if found == MONTH | DAY => YEAR,
            DATE => return self.run_together(text, known),
            _ => return Err(Fault::Format),
        };
        match found {
            YEAR => {
                self.civil.year = value;
                self.two_digits = len <= 2;
            }
            MONTH => self.civil.month = value,
            _ => self.civil.day = value,
        }
        Ok(found)
    }

    /// Digits without punctuation: `yyyymmdd`, `hhmmss`, `hhmm`.
    fn run_together(&mut self, text: &str, known: Found) -> Result<Found, Fault> {
        let (digits, behind) = text.split_at(text.find('.').unwrap_or(text.len()));
        if !digits.bytes().all(|b| b.is_ascii_digit()) {
            return Err(Fault::Format);
        }
        let part = |from: usize, to: usize| -> Result<i64, Fault> {
            Ok(leading(digits.get(from..to).unwrap_or_default())?.0)
        };
        let len = digits.len();
        if !behind.is_empty() {
            self.civil.micros = fraction_of_second(behind)?;
        } else if known & DATE != DATE && len >= 6 {
            self.civil.day = part(len - 2, len)?;
            self.civil.month = part(len - 4, len - 2)?;
            self.civil.year = part(0, len - 4)?;
            if len == 6 {
                self.two_digits = true;
            }
            return Ok(DATE);
        }
        if known & TIME != TIME && matches!(len, 4 | 6) {
            self.civil.hour = part(0, 2)?;
            self.civil.minute = part(2, 4)?;
            self.civil.second = part(4, 6)?;
            return Ok(TIME);
        }
        Err(Fault::Format)
    }

    fn check_time(&self) -> Result<(), Fault> {
        let Civil { hour, minute, second, micros, .. } = self.civil;
        let fits = (0..=24).contains(&hour)
            && (0..60).contains(&minute)
            && (0..=60).contains(&second)
            && (0..=USECS_PER_SEC).contains(&micros)
            && self.civil.time() <= USECS_PER_DAY;
        if fits { Ok(()) } else { Err(Fault::Range) }
    }

    /// Checks the date and makes the year a whole one.
    fn check_date(&mut self) -> Result<(), Fault> {
        let civil = &mut self.civil;
        if self.found & YEAR != 0 && !self.julian {
            if self.before_christ {
                if civil.year <= 0 {
                    return Err(Fault::Range);
                }
                civil.year = 1 - civil.year;
            } else if self.two_digits {
                if civil.year < 0 {
                    return Err(Fault::Range);
                }
                if civil.year < 70 {
                    civil.year += 2000;
                } else if civil.year < 100 {
                    civil.year += 1900;
                }
            } else if civil.year <= 0 {
                return Err(Fault::Range);
            }
        }
        if self.found & DAY_OF_YEAR != 0 {
            let days = days_of(civil.year, 1, 1) + self.day_of_year - 1;
            (civil.year, civil.month, civil.day) = civil_of(days);
        }
        if self.found & MONTH != 0 && !(1..=12).contains(&civil.month)
            || self.found & DAY != 0 && !(1..=31).contains(&civil.day)
        {
            return Err(Fault::MonthDay);
        }
        if self.found & DATE == DATE && civil.day > month_days(civil.year, civil.month) {
            return Err(Fault::Range);
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Moment, Fault> {
        self.check_date()?;
        if let Some(pm) = self.afternoon {
            if self.civil.hour > 12 {
                return Err(Fault::Range);
            }
            self.civil.hour = self.civil.hour % 12 + if pm { 12 } else { 0 };
        }
        if self.time_only {
            self.check_time()?;
            if self.found & TIME != TIME {
                return Err(Fault::Format);
            }
        } else if self.found & DATE != DATE {
            return Err(Fault::Format);
        }
        self.resolve_zone()?;
        Ok(Moment::Civil(self.civil, self.offset))
    }

    /// The offset of a zone that depends on the date.
    fn resolve_zone(&mut self) -> Result<(), Fault> {
        let summer = self.found & SUMMER != 0;
        if let Some(zone) = self.zone.take() {
            if summer {
                return Err(Fault::Format);
            }
            self.offset = match zone.always() {
                Some(offset) => offset,
                None if self.found & DATE != DATE => return Err(Fault::Format),
                None => zone.offset_of_local(self.local()?),
            };
        } else if let Some((word, zone)) = self.abbreviation.take() {
            let local = self.local()?;
            let guess = local - i64::from(zone.offset_of_local(local)) * USECS_PER_SEC;
            let (offset, _) = zone.abbreviated(&word, guess).ok_or(Fault::Format)?;
            self.offset += offset;
        } else if self.found & ZONE == 0 {
            if summer || self.found & DATE != 0 && self.found & DATE != DATE {
                return Err(Fault::Format);
            }
            self.offset = self.style.zone.offset_of_local(self.local()?);
        }
        Ok(())
    }

    /// The local time; of today, if only a time is wanted.
    fn local(&self) -> Result<i64, Fault> {
        let mut civil = self.civil;
        if self.found & DATE != DATE {
            let now = self.style.now;
            let east = i64::from(self.style.zone.at(now).offset) * USECS_PER_SEC;
            let today = Civil::of(now.saturating_add(east));
            (civil.year, civil.month, civil.day) = (today.year, today.month, today.day);
        }
        Ok(civil.timestamp().unwrap_or(0))
    }
}
