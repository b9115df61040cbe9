//! `to_char`, `to_timestamp`, `to_date`.

use forebay_types::functions::format;
use forebay_types::{Datum, SqlType, TextStyle, Zone, text_in_as, to_text_as};

use crate::oracle::{Batch, Cases, answer, compare};

const FORMATS: &[&str] = &[
    "YYYY-MM-DD HH24:MI:SS.US",
    "HH12:MI:SS AM",
    "hh:mi:ss p.m.",
    "Day, DD Month YYYY",
    "FMDay, FMDD FMMonth YYYY",
    "DY Dy dy MON Mon mon",
    "DDDth DDth Dth",
    "FMDDTH of FMMonth",
    "Y,YYY YYY YY Y",
    "IYYY-IW-ID IDDD",
    "CC Q RM rm FMRM",
    "WW W J",
    "SSSS SSSSS MS US",
    "FF1 FF2 FF3 FF4 FF5 FF6",
    "BC b.c. AD A.D.",
    "\"Day\" DD \\\"x",
    "YYYYMMDD",
    "HH24MISS",
    "FMHH24:FMMI",
    "IYY IY I",
    "",
    "day DAY",
];

/// Texts and the formats by which they are read.
const READ: &[(&str, &str)] = &[
    ("2001-02-03", "YYYY-MM-DD"),
    ("20010203", "YYYYMMDD"),
    ("03 Feb 2001", "DD Mon YYYY"),
    ("February 3, 2001", "Month DD, YYYY"),
    ("2001-02-30", "YYYY-MM-DD"),
    ("2001-13-01", "YYYY-MM-DD"),
    ("01/02/03", "DD/MM/YY"),
    ("2001 034", "YYYY DDD"),
    ("J2451944", "\"J\"J"),
    ("44 BC", "YYYY BC"),
    ("2001-02-03 04:05:06", "YYYY-MM-DD HH24:MI:SS"),
    ("04:05 PM", "HH12:MI AM"),
    ("x", "YYYY"),
    ("2001-02-03 13:00", "YYYY-MM-DD HH12:MI"),
    ("2001 Foo 03", "YYYY Mon DD"),
    ("05 Dec 2000", "DD Mon YYYY"),
    ("2000/JUN/01", "YYYY/MON/DD"),
    ("12:30:45.678", "HH24:MI:SS.MS"),
    ("70-01-01", "YY-MM-DD"),
    ("2001-02-03 04:05:06+05", "YYYY-MM-DD HH24:MI:SSTZH"),
    ("86399", "SSSSS"),
    ("2001", "YYYY"),
];

fn written(style: &TextStyle, cases: &mut Cases) {
    let micros = |text: &str, ty| match text_in_as(text, ty, -1, style).expect("a moment") {
        Datum::Timestamp(micros) | Datum::Timestamptz(micros) => micros,
        other => panic!("{other:?}"),
    };
    let shown = |text: Result<Option<String>, _>| {
        answer(text.map(|text| text.unwrap_or("NULL".to_owned())))
    };
    for stamp in [
        "2001-02-03 04:05:06.789",
        "1999-12-31 23:59:59.999999",
        "0044-03-15 12:00 BC",
        "infinity",
        "2024-02-29 00:00",
        "12345-06-07 13:09:10",
        "2021-01-03 12:30",
        "0001-01-01 00:00",
    ] {
        for pattern in FORMATS {
            let literal = pattern.replace('\'', "''");
            let ours = format::timestamp_to_char(micros(stamp, SqlType::Timestamp), pattern);
            cases.push((format!("to_char(timestamp '{stamp}', '{literal}')"), shown(ours)));
        }
        for pattern in ["TZ tz OF", "TZH:TZM", "HH24 OF"] {
            let moment = micros(stamp, SqlType::Timestamptz);
            let ours = format::timestamptz_to_char(moment, pattern, &style.zone);
            cases.push((format!("to_char(timestamptz '{stamp}', '{pattern}')"), shown(ours)));
        }
    }
    for span in ["1 year 2 mons 3 days 04:05:06.789", "100:00:00", "-1 day -02:00", "0"] {
        let Datum::Interval(interval) =
            text_in_as(span, SqlType::Interval, -1, style).expect("an interval")
        else {
            panic!("{span}")
        };
        for pattern in ["YYYY-MM-DD HH24:MI:SS.MS", "HH12 AM", "Q CC", "Day", "TZ", "FMDD FMHH24"] {
            let ours = format::interval_to_char(&interval, pattern);
            cases.push((format!("to_char(interval '{span}', '{pattern}')"), shown(ours)));
        }
    }
}

fn read(style: &TextStyle, cases: &mut Cases) {
    for (text, pattern) in READ {
        let date = format::to_date(text, pattern).map(Datum::Date);
        let date = date.and_then(|date| to_text_as(&date, SqlType::Date, style));
        cases.push((format!("to_date('{text}', '{pattern}')"), answer(date)));
        let moment = format::to_timestamp(text, pattern, &style.zone).map(Datum::Timestamptz);
        let moment = moment.and_then(|m| to_text_as(&m, SqlType::Timestamptz, style));
        cases.push((format!("to_timestamp('{text}', '{pattern}')"), answer(moment)));
    }
}

#[test]
fn formats_are_followed() {
    let style =
        TextStyle { zone: Zone::named("Europe/Paris").expect("a zone"), ..TextStyle::default() };
    let mut cases = Vec::new();
    written(&style, &mut cases);
    read(&style, &mut cases);
    compare(&[Batch { name: "formats", settings: &["timezone = 'Europe/Paris'"], cases }]);
}
