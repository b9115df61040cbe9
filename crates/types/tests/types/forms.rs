//! Text and binary forms.

use forebay_types::{
    ByteaOutput, DateFormat, DateOrder, Encoding, IntervalStyle, SqlType, TextStyle, ValueError,
    Zone, binary_in, binary_out, coerce, text_in_as, to_text_as, typmod_in,
};

use crate::oracle::{Batch, answer, compare};

/// Inputs of a type; the numbers in its parentheses, if there are any.
#[derive(Clone)]
struct Inputs {
    ty: SqlType,
    numbers: &'static [i32],
    texts: Vec<String>,
}

fn of(ty: SqlType, texts: &[&str]) -> Inputs {
    with(ty, &[], texts)
}

fn with(ty: SqlType, numbers: &'static [i32], texts: &[&str]) -> Inputs {
    Inputs { ty, numbers, texts: texts.iter().map(|text| (*text).to_owned()).collect() }
}

/// A literal of SQL.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn type_name(ty: SqlType, numbers: &[i32]) -> String {
    let list: Vec<String> = numbers.iter().map(i32::to_string).collect();
    let (name, array) = match ty.element() {
        Some(element) => (element.typname(), "[]"),
        None => (ty.typname(), ""),
    };
    let name =
        if name == "char" || name == "bit" { format!("\"{name}\"") } else { name.to_owned() };
    if numbers.is_empty() {
        format!("{name}{array}")
    } else {
        format!("{name}({}){array}", list.join(","))
    }
}

fn send(ty: SqlType) -> String {
    if ty.element().is_some() {
        return "array_send".to_owned();
    }
    match ty {
        SqlType::Bool => "boolsend".to_owned(),
        SqlType::Char => "charsend".to_owned(),
        SqlType::Name
        | SqlType::Text
        | SqlType::Bytea
        | SqlType::Oid
        | SqlType::Tid
        | SqlType::Xid => format!("{}send", ty.typname()),
        SqlType::Int2
        | SqlType::Int4
        | SqlType::Int8
        | SqlType::Float4
        | SqlType::Float8
        | SqlType::Bpchar
        | SqlType::Varchar
        | SqlType::Xid8 => format!("{}send", ty.typname()),
        _ => format!("{}_send", ty.typname()),
    }
}

/// The text form and the binary form in hexadecimal digits. Both are read back.
fn ours(text: &str, inputs: &Inputs, style: &TextStyle<'_>) -> Result<String, ValueError> {
    let ty = inputs.ty;
    let typmod = if inputs.numbers.is_empty() { -1 } else { typmod_in(ty, inputs.numbers)? };
    // A literal with a type is read without the type modifier, which a cast then applies.
    let value = match ty {
        SqlType::Interval => text_in_as(text, ty, typmod, style)?,
        _ => coerce(text_in_as(text, ty, -1, style)?, ty, typmod, true)?,
    };
    let shown = to_text_as(&value, ty, style)?;
    let mut bytes = Vec::new();
    binary_out(&value, ty, Encoding::Utf8, &mut bytes)?;
    assert_eq!(
        binary_in(&bytes, ty, Encoding::Utf8).map(|back| to_text_as(&back, ty, style)),
        Ok(Ok(shown.clone())),
        "{text}"
    );
    let hex: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
    Ok(format!("{shown} {hex}"))
}

fn batch(
    name: &'static str,
    settings: &'static [&'static str],
    style: &TextStyle<'_>,
    inputs: &[Inputs],
) -> Batch {
    let mut cases = Vec::new();
    for of in inputs {
        let (name, send) = (type_name(of.ty, of.numbers), send(of.ty));
        for text in &of.texts {
            let literal = quoted(text);
            let expression = format!(
                "format('%s %s', {literal}::{name}, encode({send}({literal}::{name}), 'hex'))"
            );
            cases.push((expression, answer(ours(text, of, style))));
        }
    }
    Batch { name, settings, cases }
}

const DATES: &[&str] = &[
    "1999-01-08",
    "January 8, 1999",
    "1/8/1999",
    "1/18/1999",
    "01/02/03",
    "1999-Jan-08",
    "Jan-08-1999",
    "08-Jan-1999",
    "99-Jan-08",
    "08-Jan-99",
    "Jan-08-99",
    "19990108",
    "990108",
    "1999.008",
    "J2451187",
    "January 8, 99 BC",
    "infinity",
    "-infinity",
    "epoch",
    "2000-02-30",
    "2000-13-01",
    "1900-02-29",
    "2000-02-29",
    "0000-01-01",
    "4714-11-24 BC",
    "4714-11-23 BC",
    "5874897-12-31",
    "5874898-01-01",
    "294277-01-01",
    "",
    " ",
    "x",
    "1999-01",
    "1999-01-08 BC",
    "2001-02-03 04:05:06",
    "20010203T040506",
    "2001-366",
    "2000-366",
    "2000.366",
    "1.2.2003",
    "13.02.2003",
    "Monday, 8 January 1999",
    "8 January",
    "1999-01-08x",
    "1999-01-08 foo",
    "now x",
    "Sept 5 2001",
    "5-sept-2001",
    "99999-01-01",
    "1-1-1",
    "1-1-70",
    "1-1-69",
    "1-1-100",
    "2001 Feb 3",
    "3 Feb 2001",
    "Feb 3 2001",
    "20010203",
    "2001-2-3",
    "2001/2/3",
    "2001.2.3",
    "+2001-02-03",
    "2001-02-03-04",
    "y2001m02d04",
    "99-1-8",
    "1999 008",
    "J2451187.5",
    "julian 1",
    "j 0",
    "j -1",
    "2001-02-03 24:00",
    "2001-02-03 25:00",
    "2001-02-03 +05",
    "2001-02-03 EST",
];

const MOMENTS: &[&str] = &[
    "2001-02-03 04:05:06",
    "2001-02-03 04:05:06.789",
    "2001-02-03 04:05:06.7890123",
    "2001-02-03 04:05:06.9999995",
    "2001-02-03T04:05:06",
    "2001-02-03 04:05",
    "2001-02-03 04:05 pm",
    "2001-02-03 12:05 am",
    "2001-02-03 13:05 pm",
    "2001-02-03 040506",
    "20010203 040506",
    "20010203T040506",
    "20010203T0405",
    "2001-02-03 04:05:06 PST",
    "2001-02-03 04:05:06 CEST",
    "2001-02-03 04:05:06+05:30",
    "2001-02-03 04:05:06-0800",
    "2001-02-03 04:05:06 +8",
    "2001-02-03 04:05:06 America/New_York",
    "2001-07-03 04:05:06 America/New_York",
    "2001-02-03 04:05:06 Foo/Bar",
    "2001-02-03 04:05:06 MSK",
    "1985-02-03 04:05:06 MSK",
    "2001-02-03 04:05:06 MET DST",
    "2001-02-03 24:00:00",
    "2001-02-03 24:00:01",
    "2001-02-03 23:59:60",
    "2001-02-03 23:60:00",
    "2001-02-03 04:05:06+16",
    "2001-02-03 4:5:6",
    "Sat Feb 03 04:05:06 2001 PST",
    "Feb 3 04:05:06 2001",
    "infinity",
    "-infinity",
    "epoch",
    "2001-02-03 allballs",
    "294276-12-31 23:59:59.999999",
    "294277-01-01 00:00:00",
    "4714-11-24 00:00:00 BC",
    "4713-01-01 00:00:00 BC",
    "0044-03-15 12:00 BC",
    "1890-01-01 00:00",
    "12345-06-07 08:09:10",
    "2024-03-31 02:30:00",
    "2024-10-27 02:30:00",
    "2024-06-15 12:00:00",
    "2001-02-03 04:05:06 BC AD",
    "04:05:06",
    "2001-02-03 04",
    "2001-02-03 04:05:06 x",
    "2001-02-03 04:05:06 +05:30:15",
    "J2451545.25",
    "2001-02-03 t 040506",
    "2001-034 04:05",
    "20010203040506",
    "2001-02-03 04:05:06.1.2",
    "2001-02-03 at 04:05",
    "Z2001-02-03",
    "2001-02-03 04:05:06Z",
    "2001-02-03 04:05:06 zulu",
    "2001-02-03 04:05:06 GMT+2",
    "2001-02-03 04:05:06 EST5EDT",
    "2001-02-03 -04:05:06",
    "2001-02-03 04:05:06.5-07",
    "2038-07-01 00:00",
    "2500-07-01 00:00",
    "2001-02-03 LMT",
    "tomorrow x",
    "1999-12-31 23:59:59.9999999",
];

const TIMES: &[&str] = &[
    "04:05:06.789",
    "04:05:06",
    "04:05",
    "040506",
    "04:05 AM",
    "04:05 PM",
    "12:00 am",
    "12:00 pm",
    "04:05:06.789-8",
    "04:05:06-08:00",
    "04:05-08:00",
    "040506-08",
    "040506+0730",
    "040506+07:30:00",
    "04:05:06 PST",
    "2003-04-12 04:05:06 America/New_York",
    "24:00:00",
    "24:00:01",
    "23:59:60",
    "25:00:00",
    "allballs",
    "04:05:06 America/New_York",
    "T040506",
    "T04:05:06",
    "4:5:6",
    "",
    "now x",
    "04.05",
    "04:05:06 UTC",
    "0405",
    "040506.789",
    "123",
    "04:05:60",
    "04:60:00",
    "-04:05",
    "13:00 PM",
    "2001-02-03",
    "J2451545 04:05",
    "23:59:59.9999999",
    "04:05:06+15:59",
    "04:05:06+16:00",
];

const INTERVALS: &[&str] = &[
    "1 day",
    "1 year 2 months 3 days 4 hours 5 minutes 6 seconds",
    "1-2",
    "3 4:05:06",
    "-1-2",
    "P1Y2M3DT4H5M6S",
    "P0001-02-03T04:05:06",
    "P1W",
    "PT-1.5S",
    "P",
    "PT",
    "P1.5Y",
    "P1.5M",
    "P20200102T030405",
    "P1Y-2M",
    "1.5 days",
    "1.5 months",
    "1.5 years",
    "0.1 centuries",
    "1 decade",
    "2 millennia",
    "1 week 2 days",
    "-1 day +02:03",
    "1 day -2 hours",
    "1 day ago",
    "@ 1 year 2 mons -3 days 4 hours 5 mins 6 secs ago",
    "1 microsecond",
    "1.5 milliseconds",
    "infinity",
    "-infinity",
    "infinity 1 day",
    "1 infinity",
    "",
    "x",
    "1",
    "1.5",
    "1:30",
    "1:30.5",
    "1:30:40.5",
    "-1:30",
    "90 minutes",
    "100 hours",
    "1 day 1 day",
    "1 fortnight",
    "1 day day",
    "2147483647 days",
    "2147483648 days",
    "178956970 years 7 months",
    "178956971 years",
    "9223372036854 seconds",
    "9223372036855 seconds",
    "1 qtr",
    "1e3 days",
    "0",
    "00:00:00",
    "-1.5 years",
    "1 mon -1 day",
    "-1 mon 1 day 1 sec",
    "1 year -1 mon",
    "1 h 2 m 3 s",
    "5 us",
    "1 day ago ago",
    "ago 1 day",
    "1-13",
    "12-11",
    "0.5 seconds",
    "-0.5 seconds",
    "1 y 1 d",
    "10.999999999 seconds",
    "-10.9999995 seconds",
    "1000000:00:00",
    "2562047788:00:54.775807",
    "1.1 weeks",
    "-1 -2:03",
    "1 +2:03",
    "1 day 25:00",
    "- 1 day",
    "+1 day",
    "1 day,2 hours",
    "P1Y2M10DT2H30M",
    "P2Y",
    "PT36H",
    "P-1Y-2M",
    "PT1.123456789S",
    "1 years 1.5 mons 1.5 days",
];

fn times() -> Vec<Inputs> {
    vec![
        of(SqlType::Date, DATES),
        of(SqlType::Timestamp, MOMENTS),
        of(SqlType::Timestamptz, MOMENTS),
        of(SqlType::Time, TIMES),
        of(SqlType::Timetz, TIMES),
        of(SqlType::Interval, INTERVALS),
    ]
}

#[test]
fn times_are_read_and_written() {
    let style = TextStyle::default();
    let rounded = [
        with(SqlType::Timestamp, &[3], &MOMENTS[..10]),
        with(SqlType::Timestamptz, &[0], &MOMENTS[..10]),
        with(SqlType::Time, &[2], &TIMES[..10]),
        with(SqlType::Timetz, &[9], &TIMES[..10]),
    ];
    compare(&[
        batch("times_utc", &["timezone = 'UTC'"], &style, &times()),
        batch("times_rounded", &["timezone = 'UTC'"], &style, &rounded),
    ]);
}

#[test]
fn times_follow_the_styles_of_europe_and_asia() {
    let plain = TextStyle::default();
    let paris = TextStyle {
        zone: Zone::named("Europe/Paris").expect("a zone"),
        date_order: DateOrder::Dmy,
        interval: IntervalStyle::PostgresVerbose,
        ..plain.clone()
    };
    let sql = TextStyle {
        zone: Zone::named("Asia/Kolkata").expect("a zone"),
        date_format: DateFormat::Sql,
        date_order: DateOrder::Dmy,
        interval: IntervalStyle::Iso8601,
        ..plain.clone()
    };
    let german =
        TextStyle { date_format: DateFormat::German, date_order: DateOrder::Ymd, ..paris.clone() };
    compare(&[
        batch(
            "times_paris",
            &[
                "timezone = 'Europe/Paris'",
                "datestyle = ISO, DMY",
                "intervalstyle = postgres_verbose",
            ],
            &paris,
            &times(),
        ),
        batch(
            "times_sql",
            &["timezone = 'Asia/Kolkata'", "datestyle = SQL, DMY", "intervalstyle = iso_8601"],
            &sql,
            &times(),
        ),
        batch(
            "times_german",
            &[
                "timezone = 'Europe/Paris'",
                "datestyle = German, YMD",
                "intervalstyle = postgres_verbose",
            ],
            &german,
            &times(),
        ),
    ]);
}

#[test]
fn times_follow_the_styles_of_america() {
    let new_york = TextStyle {
        zone: Zone::named("America/New_York").expect("a zone"),
        date_format: DateFormat::Postgres,
        interval: IntervalStyle::SqlStandard,
        ..TextStyle::default()
    };
    let postgres = TextStyle { date_order: DateOrder::Dmy, ..new_york.clone() };
    compare(&[
        batch(
            "times_new_york",
            &[
                "timezone = 'America/New_York'",
                "datestyle = Postgres, MDY",
                "intervalstyle = sql_standard",
            ],
            &new_york,
            &times(),
        ),
        batch(
            "times_postgres",
            &[
                "timezone = 'America/New_York'",
                "datestyle = Postgres, DMY",
                "intervalstyle = sql_standard",
            ],
            &postgres,
            &times(),
        ),
    ]);
}

const FLOATS: &[&str] =
    &["1.5", "0.1", "1e20", "123456789.123456789", "NaN", "-Infinity", "1e-300", "100"];

fn numbers() -> Vec<Inputs> {
    vec![
        of(SqlType::Bool, &["t", "off", "yes", " true ", "x", "o", "1"]),
        of(SqlType::Int4, &["1", "-2147483648", "0x1F", "1_000", "2147483648", "", "1 2"]),
        of(SqlType::Float8, FLOATS),
        of(SqlType::Float4, &["1.5", "0.1", "1e20", "3.4028235e38", "1e39", "x"]),
        of(
            SqlType::Numeric,
            &["1.50", "NaN", "-Infinity", "1e-5", "0x1f", "12_3.4", "1e131072", "x"],
        ),
        with(SqlType::Numeric, &[5, 2], &["1.005", "999.994", "999.995", "-999.999", "NaN", "inf"]),
        with(SqlType::Numeric, &[3, -2], &["12345", "99949", "99950", "49", "50"]),
        with(SqlType::Numeric, &[2, 4], &["0.00123", "0.0099", "0.00999", "0.01"]),
        with(SqlType::Numeric, &[0, 0], &["1"]),
        with(SqlType::Numeric, &[1, 1001], &["1"]),
    ]
}

fn strings() -> Vec<Inputs> {
    vec![
        with(SqlType::Bpchar, &[3], &["ab", "abc", "abcd", "abc  ", "äöü", ""]),
        with(SqlType::Varchar, &[3], &["ab", "abc", "abcd", "abc  ", "äöüß", ""]),
        with(SqlType::Bpchar, &[0], &["x"]),
        with(SqlType::Varchar, &[10_485_761], &["x"]),
        of(SqlType::Bytea, &["\\x00ff", "a\\\\b\\001c", "\\x0", "\\xzz", "\\8", "ä"]),
    ]
}

fn identifiers_and_bits() -> Vec<Inputs> {
    vec![
        of(
            SqlType::Uuid,
            &[
                "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
                "{A0EEBC999C0B4EF8BB6D6BB9BD380A11}",
                "x",
                "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a1",
                "a-0eebc999c0b4ef8bb6d6bb9bd380a11",
            ],
        ),
        of(SqlType::PgLsn, &["0/0", "16/B374D848", "FFFFFFFF/FFFFFFFF", "1", "/1", "123456789/1"]),
        of(
            SqlType::Xid8,
            &["1", "18446744073709551615", "0x10", "010", "-1", "x", "18446744073709551616"],
        ),
        of(SqlType::Tid, &["(0,1)", "(4294967295,65535)", "(-1,0)", "(1)", "(1,65536)"]),
        of(SqlType::Varbit, &["101", "b101", "x1f", "", "102", "xg", "1010101010"]),
        with(SqlType::Varbit, &[3], &["101", "1010", "1"]),
        with(SqlType::Bit, &[3], &["101", "1010", "1", "x1"]),
        of(SqlType::Bit, &["101", "xff"]),
    ]
}

fn networks() -> Vec<Inputs> {
    vec![
        of(
            SqlType::Inet,
            &[
                "192.168.0.1",
                "192.168.0.1/24",
                "10/8",
                "10",
                "10.1.2.3.4",
                "256.1.1.1",
                "1.2.3.4/33",
                "::1",
                "fe80::1/64",
                "::ffff:1.2.3.4",
                "::1.2.3.4",
                "1:2:3:4:5:6:7:8",
                "1::8",
                "::",
                "1:0:0:2::3",
                "x",
                "",
                "::1/129",
                "2001:db8::/32",
                "10.0.0.0/24",
            ],
        ),
        of(
            SqlType::Cidr,
            &[
                "192.168.0.0/24",
                "192.168.0.1/24",
                "10",
                "172.16",
                "192.168.1",
                "224.1",
                "240",
                "10.1.2.3",
                "::/0",
                "fe80::/10",
                "fe80::1/10",
                "x",
                "192.168",
            ],
        ),
    ]
}

fn hardware_addresses() -> Vec<Inputs> {
    vec![
        of(
            SqlType::Macaddr,
            &[
                "08:00:2b:01:02:03",
                "08-00-2b-01-02-03",
                "08002b:010203",
                "08002b-010203",
                "0800.2b01.0203",
                "0800-2b01-0203",
                "08002b010203",
                "8:0:2b:1:2:3",
                "08:00:2b:01:02:100",
                "x",
                "08:00:2b:01:02",
                "08:00:2b:01:02:03:04",
            ],
        ),
        of(
            SqlType::Macaddr8,
            &[
                "08:00:2b:01:02:03:04:05",
                "08002b0102030405",
                "08:00:2b:01:02:03",
                "x",
                "08-00-2b-01-02-03-04-05",
                "08:00-2b:01:02:03:04:05",
                "08002b:0102030405",
            ],
        ),
    ]
}

fn arrays() -> Vec<Inputs> {
    vec![
        of(
            SqlType::Int4Array,
            &["{1,2}", "{{1,2},{3,4}}", "[0:1]={1,NULL}", "{}", "{1", "{a}", "{{1},{2,3}}"],
        ),
        of(
            SqlType::TextArray,
            &["{a,\"b c\",NULL,\"null\",\"\",a\\\\b}", "{{a},{b}}", "[2:3][0:0]={{x},{y}}"],
        ),
        of(SqlType::DateArray, &["{2001-02-03,NULL,infinity}"]),
        of(SqlType::NumericArray, &["{1.50,NaN,1e10}"]),
        with(SqlType::NumericArray, &[4, 1], &["{1.55,NULL}"]),
        with(SqlType::VarcharArray, &[2], &["{ab,abc}", "{ab,\"a  \"}"]),
        of(SqlType::InetArray, &["{10.0.0.1,::1/64}"]),
        of(SqlType::BitArray, &["{1,0}"]),
        of(SqlType::IntervalArray, &["{1 day,\"1 mon 2 days\"}"]),
    ]
}

#[test]
fn other_values_are_read_and_written() {
    let style = TextStyle::default();
    let escaped =
        TextStyle { extra_float_digits: 0, bytea: ByteaOutput::Escape, ..TextStyle::default() };
    let inputs =
        [numbers(), strings(), identifiers_and_bits(), networks(), hardware_addresses(), arrays()]
            .concat();
    let other = [
        of(SqlType::Bytea, &["\\x00ff", "a\\\\b\\001c", "ä"]),
        of(SqlType::Float8, FLOATS),
        of(SqlType::Float4, &["1.5", "0.1", "1e20", "3.4028235e38"]),
        of(SqlType::Float8Array, &["{0.1,0.3333333333333333}"]),
    ];
    let settings: &[&str] = &["extra_float_digits = 0", "bytea_output = escape"];
    compare(&[
        batch("values", &["timezone = 'UTC'"], &style, &inputs),
        batch("values_escaped", settings, &escaped, &other),
    ]);
}
