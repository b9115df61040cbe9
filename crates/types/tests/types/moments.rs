//! Functions of dates, times and intervals.

use forebay_types::datetime::{extract, ops};
use forebay_types::{
    Datum, Interval, Numeric, SqlType, TextStyle, ValueError, Zone, text_in_as, to_text_as,
};

use crate::oracle::{Batch, answer, compare};

const STAMPS: &[&str] = &[
    "2001-02-03 04:05:06.789",
    "2000-02-29 23:59:59.999999",
    "1999-12-31 00:00",
    "0001-01-01 00:00",
    "0044-03-15 12:00 BC",
    "2024-03-31 02:30",
    "2024-10-27 02:30",
    "1970-01-01 00:00",
    "294276-12-31 23:59:59",
    "infinity",
    "-infinity",
    "2020-12-31 12:00",
    "2021-01-03 12:00",
    "1900-01-01 01:00",
    "2038-01-19 03:14:07",
];

const SPANS: &[&str] = &[
    "1 day",
    "1 mon",
    "-1 mon",
    "1 year 2 mons 3 days 04:05:06.789",
    "-1 year 5 days -00:00:01",
    "30 days 25:00",
    "1 mon -1 day 1 sec",
    "infinity",
    "-infinity",
    "0",
    "100 years",
    "-36:00",
    "12 mons 400 days -48:00:01",
    "999 days 999:59:59.5",
];

const FIELDS: &[&str] = &[
    "microseconds",
    "milliseconds",
    "second",
    "minute",
    "hour",
    "day",
    "week",
    "month",
    "quarter",
    "year",
    "decade",
    "century",
    "millennium",
    "julian",
    "isoyear",
    "isodow",
    "dow",
    "doy",
    "epoch",
    "timezone",
    "timezone_hour",
    "timezone_minute",
    "foo",
    "YEARS",
];

fn style() -> TextStyle<'static> {
    TextStyle { zone: Zone::named("Europe/Paris").expect("a zone"), ..TextStyle::default() }
}

fn read(text: &str, ty: SqlType) -> Datum<'static> {
    text_in_as(text, ty, -1, &style()).expect("a value").into_owned()
}

fn micros(text: &str, ty: SqlType) -> i64 {
    match read(text, ty) {
        Datum::Timestamp(micros) | Datum::Timestamptz(micros) | Datum::Time(micros) => micros,
        other => panic!("{other:?}"),
    }
}

fn days(text: &str) -> i32 {
    let Datum::Date(days) = read(text, SqlType::Date) else { panic!("{text}") };
    days
}

fn span(text: &str) -> Interval {
    let Datum::Interval(span) = read(text, SqlType::Interval) else { panic!("{text}") };
    span
}

fn shown(value: Result<Datum<'_>, ValueError>, ty: SqlType) -> String {
    answer(value.and_then(|value| to_text_as(&value, ty, &style())))
}

fn number(value: Result<Option<Numeric>, ValueError>) -> String {
    answer(value.map(|n| n.map_or("NULL".to_owned(), |n| n.to_string())))
}

/// Questions and our answers.
type Cases = Vec<(String, String)>;

fn stamps(cases: &mut Cases) {
    let (stamp, stamptz, interval) = (SqlType::Timestamp, SqlType::Timestamptz, SqlType::Interval);
    let paris = style().zone;
    for a in STAMPS {
        let (local, moment) = (micros(a, stamp), micros(a, stamptz));
        for b in SPANS {
            let plus = ops::timestamp_plus(local, &span(b)).map(Datum::Timestamp);
            cases.push((format!("timestamp '{a}' + interval '{b}'"), shown(plus, stamp)));
            let plus = ops::timestamptz_plus(moment, &span(b), &paris).map(Datum::Timestamptz);
            cases.push((format!("timestamptz '{a}' + interval '{b}'"), shown(plus, stamptz)));
            let bin = ops::date_bin(&span(b), local, 0).map(Datum::Timestamp);
            let question = format!("date_bin('{b}', timestamp '{a}', '2000-01-01')");
            cases.push((question, shown(bin, stamp)));
        }
        for b in STAMPS {
            let difference = ops::timestamp_minus(local, micros(b, stamp)).map(Datum::Interval);
            cases.push((format!("timestamp '{a}' - timestamp '{b}'"), shown(difference, interval)));
            let age = ops::age(local, micros(b, stamp)).map(Datum::Interval);
            cases.push((format!("age(timestamp '{a}', timestamp '{b}')"), shown(age, interval)));
            let age = ops::age_tz(moment, micros(b, stamptz), &paris).map(Datum::Interval);
            cases
                .push((format!("age(timestamptz '{a}', timestamptz '{b}')"), shown(age, interval)));
        }
        for field in FIELDS {
            let found = number(extract::extract_timestamp(field, local));
            cases.push((format!("extract('{field}' from timestamp '{a}')"), found));
            let found = number(extract::extract_timestamptz(field, moment, &paris));
            cases.push((format!("extract('{field}' from timestamptz '{a}')"), found));
            let cut = extract::trunc_timestamp(field, local).map(Datum::Timestamp);
            cases.push((format!("date_trunc('{field}', timestamp '{a}')"), shown(cut, stamp)));
            let cut = extract::trunc_timestamptz(field, moment, &paris).map(Datum::Timestamptz);
            cases.push((format!("date_trunc('{field}', timestamptz '{a}')"), shown(cut, stamptz)));
        }
        for zone in ["America/New_York", "PST", "msk", "CEST", "Foo/Bar", "UTC"] {
            let at = ops::timestamp_at_zone(local, zone, &paris).map(Datum::Timestamptz);
            cases.push((format!("timestamp '{a}' at time zone '{zone}'"), shown(at, stamptz)));
            let at = ops::timestamptz_at_zone(moment, zone, &paris).map(Datum::Timestamp);
            cases.push((format!("timestamptz '{a}' at time zone '{zone}'"), shown(at, stamp)));
        }
        let date = Datum::Date(ops::timestamp_to_date(local));
        cases.push((format!("(timestamp '{a}')::date"), shown(Ok(date), SqlType::Date)));
    }
}

fn spans(cases: &mut Cases) {
    let interval = SqlType::Interval;
    for a in SPANS {
        for b in SPANS {
            let sum = span(a).add(&span(b)).map(Datum::Interval);
            cases.push((format!("interval '{a}' + interval '{b}'"), shown(sum, interval)));
            let difference = span(a).sub(&span(b)).map(Datum::Interval);
            cases.push((format!("interval '{a}' - interval '{b}'"), shown(difference, interval)));
        }
        for factor in [0.0, 1.5, -2.0, 0.1, 1e10, f64::NAN, f64::INFINITY, 3.0] {
            let product = span(a).mul(factor).map(Datum::Interval);
            let literal =
                if factor.is_infinite() { "Infinity".to_owned() } else { factor.to_string() };
            cases.push((format!("interval '{a}' * '{literal}'::float8"), shown(product, interval)));
            let quotient = span(a).div(factor).map(Datum::Interval);
            cases
                .push((format!("interval '{a}' / '{literal}'::float8"), shown(quotient, interval)));
        }
        for field in FIELDS {
            let found = number(extract::extract_interval(field, &span(a)));
            cases.push((format!("extract('{field}' from interval '{a}')"), found));
            let cut = extract::trunc_interval(field, &span(a)).map(Datum::Interval);
            cases.push((format!("date_trunc('{field}', interval '{a}')"), shown(cut, interval)));
        }
        type Justify = fn(&Interval) -> Result<Interval, ValueError>;
        let functions: [(&str, Justify); 4] = [
            ("justify_hours", ops::justify_hours),
            ("justify_days", ops::justify_days),
            ("justify_interval", ops::justify_interval),
            ("-", Interval::neg),
        ];
        for (name, function) in functions {
            let ours = shown(function(&span(a)).map(Datum::Interval), interval);
            cases.push((format!("{name}(interval '{a}')"), ours));
        }
        for time in ["04:05:06", "23:59:59.5", "24:00"] {
            let at = micros(time, SqlType::Time);
            let sum = ops::time_plus(at, &span(a)).map(Datum::Time);
            cases.push((format!("time '{time}' + interval '{a}'"), shown(sum, SqlType::Time)));
            let rest = ops::time_minus(at, &span(a)).map(Datum::Time);
            cases.push((format!("time '{time}' - interval '{a}'"), shown(rest, SqlType::Time)));
        }
    }
}

fn dates(cases: &mut Cases) {
    let all =
        ["2001-02-03", "1970-01-01", "0044-03-15 BC", "infinity", "-infinity", "5874897-12-31"];
    for a in all {
        for field in FIELDS {
            let found = number(extract::extract_date(field, days(a)));
            cases.push((format!("extract('{field}' from date '{a}')"), found));
        }
        for b in all {
            let difference = answer(ops::date_minus_date(days(a), days(b)).map(|n| n.to_string()));
            cases.push((format!("date '{a}' - date '{b}'"), difference));
        }
        let stamp = ops::date_to_timestamp(days(a)).map(Datum::Timestamp);
        cases.push((format!("(date '{a}')::timestamp"), shown(stamp, SqlType::Timestamp)));
        let zone = style().zone;
        let stamp = ops::date_to_timestamptz(days(a), &zone).map(Datum::Timestamptz);
        cases.push((format!("(date '{a}')::timestamptz"), shown(stamp, SqlType::Timestamptz)));
        let next = ops::date_plus_days(days(a), 2_000_000_000).map(Datum::Date);
        cases.push((format!("date '{a}' + 2000000000"), shown(next, SqlType::Date)));
    }
    for (y, m, d) in [(2001, 2, 3), (2001, 2, 29), (-44, 3, 15), (0, 1, 1), (6_000_000, 1, 1)] {
        let date = ops::make_date(y, m, d).map(Datum::Date);
        cases.push((format!("make_date({y}, {m}, {d})"), shown(date, SqlType::Date)));
    }
    for (h, m, s) in [(4, 5, 6.789), (24, 0, 0.0), (24, 0, 0.1), (1, 60, 0.0), (1, 2, -1.0)] {
        let time = ops::make_time(h, m, s).map(Datum::Time);
        cases.push((format!("make_time({h}, {m}, {s})"), shown(time, SqlType::Time)));
    }
    for seconds in [0.0, 1e9, 1.5, -1e11, 1e20, 981_173_106.789_012_3] {
        let moment = ops::to_timestamp(seconds).map(Datum::Timestamptz);
        cases.push((
            format!("to_timestamp({seconds}::float8)"),
            shown(moment, SqlType::Timestamptz),
        ));
    }
    for counts in [[1, 2, 3, 4, 5, 6], [-1, 0, 0, 10, 0, 0], [200_000_000, 0, 0, 0, 0, 0]] {
        let list = counts.map(|n| n.to_string()).join(", ");
        let span = ops::make_interval(counts, 7.5).map(Datum::Interval);
        cases.push((format!("make_interval({list}, 7.5)"), shown(span, SqlType::Interval)));
    }
    for time in ["04:05:06.789", "00:00", "24:00"] {
        for field in FIELDS {
            let found = extract::extract_time(field, micros(time, SqlType::Time)).map(Some);
            cases.push((format!("extract('{field}' from time '{time}')"), number(found)));
        }
    }
}

#[test]
fn moments_are_computed() {
    let mut cases = Vec::new();
    stamps(&mut cases);
    spans(&mut cases);
    dates(&mut cases);
    compare(&[Batch { name: "moments", settings: &["timezone = 'Europe/Paris'"], cases }]);
}
