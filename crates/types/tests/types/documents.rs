//! json and jsonb: forms, stored bytes, order and functions.

use forebay_types::json::Json;
use forebay_types::{Encoding, SqlType, TextStyle, ValueError, compare as order, text_in, to_text};

use crate::oracle::{Batch, Cases, answer, compare};

const DOCUMENTS: &[&str] = &[
    "null",
    "true",
    "false",
    "1",
    "1.50",
    "-0.1e3",
    "\"a\"",
    "\"\"",
    "[]",
    "{}",
    "[1, 2, \"x\", null]",
    "{\"b\": 1, \"a\": {\"c\": [true, {\"d\": null}]}, \"cc\": \"\\u00e4\\n\\\"\"}",
    "[[1], [2, [3]]]",
    "{\"a\": 1, \"a\": 2}",
    "[1.0, 1.00]",
    "{\"a\": \"b\"}",
    "[\"a\", \"b\"]",
    " [ 1 ,2 ] ",
    "[{\"a\": 1}]",
    "{\"a\": [1, 2]}",
    "\"\\ud83d\\ude00\"",
    "[0]",
    "{\"key\": null, \"x\": [null]}",
];

const BAD: &[&str] = &[
    "",
    "{",
    "[1,]",
    "{\"a\" 1}",
    "tru",
    "\"\\u00\"",
    "{\"a\":1,}",
    "1 2",
    "\"a",
    "[1 2]",
    "{1:2}",
    "\"\\ud800\"",
    "\"\\u0000\"",
    "01",
    "-",
    "1.",
    "{\"a\":}",
    "\"\\x\"",
    "\"a\tb\"",
    "[",
    "[,",
    "nul]",
    "{\"a\":1 \"b\"}",
    "\"\\ud800\\ud800\"",
    "1e",
    "@",
    "{,}",
    "[1}",
    "\"\\udc00\"",
    "1a",
];

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn long() -> String {
    let items: Vec<String> =
        (0..100).map(|n| format!("{{\"k{n}\": [{n}, \"{}\"]}}", n * n)).collect();
    format!("[{}]", items.join(", "))
}

fn json(text: &str) -> Json {
    Json::parse(text, Encoding::Utf8).expect("JSON")
}

fn flag(is: bool) -> String {
    if is { "true" } else { "false" }.to_owned()
}

/// Two documents: their order, and what is made of both.
fn pairs(a: &str, cases: &mut Cases) {
    for b in DOCUMENTS {
        let value = |text: &str| text_in(text, SqlType::Jsonb).expect("JSON").into_owned();
        let is = order(&value(a), &value(b)).map(|order| (order as i32).to_string());
        cases.push((format!("sign(jsonb_cmp({}, {}))", quoted(a), quoted(b)), answer(is)));
        let question = format!("{}::jsonb @> {}", quoted(a), quoted(b));
        cases.push((question, flag(json(a).contains(&json(b)))));
        if a.len() < 100 {
            let both = json(a).concat(json(b)).map(|json| json.to_text());
            let question = format!("{}::jsonb || {}::jsonb", quoted(a), quoted(b));
            cases.push((question, answer(both)));
        }
    }
}

/// One document: its parts, and what is left without some of them.
fn parts(a: &str, cases: &mut Cases) {
    let q = quoted(a);
    cases.push((format!("jsonb_typeof({q})"), json(a).type_name().to_owned()));
    cases.push((format!("jsonb_pretty({q})"), json(a).to_pretty()));
    let null = |text: Option<String>| text.unwrap_or("NULL".to_owned());
    let text = |json: &Json| json.to_text();
    cases.push((format!("{q}::jsonb -> 'a'"), null(json(a).field("a").map(text))));
    for n in [0, -1, 5] {
        cases.push((format!("{q}::jsonb -> {n}"), null(json(a).item(n).map(text))));
    }
    let found = json(a);
    let found = found.path(&["a", "c", "0"]).map(text);
    cases.push((format!("{q}::jsonb #> '{{a,c,0}}'"), null(found)));
    let found = json(a).item(0).and_then(|json| json.as_text().map(|text| text.into_owned()));
    cases.push((format!("{q}::jsonb ->> 0"), null(found)));
    cases.push((format!("{q}::jsonb ? 'a'"), flag(json(a).has_key("a"))));
    let len = json(a).array_length().map(|n| n.to_string());
    cases.push((format!("jsonb_array_length({q})"), answer(len)));
    let without = json(a).without_key("a").map(|json| json.to_text());
    cases.push((format!("{q}::jsonb - 'a'"), answer(without)));
    let without = json(a).without_item(-1).map(|json| json.to_text());
    cases.push((format!("{q}::jsonb - (-1)"), answer(without)));
    for in_arrays in [false, true] {
        let stripped = json(a).strip_nulls(in_arrays).to_text();
        cases.push((format!("jsonb_strip_nulls({q}, {in_arrays})"), stripped));
    }
    let size = json(a).to_stored().map(|bytes| (bytes.len() + 4).to_string());
    // A short value has a length word of one byte in a row, and of four else.
    cases.push((format!("pg_column_size({q}::jsonb)"), answer(size)));
}

/// Documents made of values of other types.
fn made(cases: &mut Cases) {
    let style = TextStyle::default();
    for (literal, ty) in [
        ("1", SqlType::Int4),
        ("1.5", SqlType::Numeric),
        ("NaN", SqlType::Float8),
        ("t", SqlType::Bool),
        ("a\"b", SqlType::Text),
        ("2001-02-03", SqlType::Date),
        ("2001-02-03 04:05:06", SqlType::Timestamp),
        ("2001-02-03 04:05:06+00", SqlType::Timestamptz),
        ("{1,2}", SqlType::Int4Array),
        ("{{a,NULL},{b,c}}", SqlType::TextArray),
        ("{}", SqlType::Int4Array),
        ("[1]", SqlType::Jsonb),
        ("1 day", SqlType::Interval),
        ("infinity", SqlType::Date),
    ] {
        let value = text_in(literal, ty).expect("a value");
        let name = match ty.element() {
            Some(element) => format!("{}[]", element.typname()),
            None => ty.typname().to_owned(),
        };
        let shown: Result<String, ValueError> =
            forebay_types::functions::json::to_json(&value, ty, &style);
        cases.push((format!("to_json('{literal}'::{name})"), answer(shown)));
        let shown = forebay_types::functions::json::to_jsonb(&value, ty, &style);
        cases.push((
            format!("to_jsonb('{literal}'::{name})"),
            answer(shown.map(|json| json.to_text())),
        ));
    }
}

#[test]
fn documents_are_read_written_and_ordered() {
    let mut cases = Vec::new();
    let long = long();
    let good = DOCUMENTS.iter().copied().chain([long.as_str()]);
    for text in good.clone().chain(BAD.iter().copied()) {
        for ty in [SqlType::Json, SqlType::Jsonb] {
            let ours = text_in(text, ty).and_then(|value| to_text(&value, ty));
            cases.push((format!("{}::{}", quoted(text), ty.typname()), answer(ours)));
        }
    }
    for a in good {
        pairs(a, &mut cases);
        parts(a, &mut cases);
    }
    made(&mut cases);
    compare(&[Batch { name: "documents", settings: &["timezone = 'UTC'"], cases }]);
}
