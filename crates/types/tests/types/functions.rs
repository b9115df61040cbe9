//! Functions of texts, bytes, bits, arrays and networks.

use forebay_types::functions::{arrays, bits, bytes, network, strings};
use forebay_types::{
    Array, Datum, Encoding, Inet, SqlType, TextStyle, ValueError, oids, text_in, text_in_as,
    to_text,
};

use crate::oracle::{Batch, Cases, answer, compare};

const TEXTS: &[&str] = &["", "abc", "Straße", "a,b,,c", "  x  ", "héllo wörld", "aaa", "%_\\"];

fn ok(text: impl Into<String>) -> String {
    text.into()
}

fn texts(cases: &mut Cases) {
    let q = |text: &str| format!("'{}'", text.replace('\'', "''"));
    for t in TEXTS {
        let l = q(t);
        cases.push((format!("length({l})"), strings::length(t).to_string()));
        cases.push((format!("reverse({l})"), ok(strings::reverse(t))));
        cases.push((format!("ascii({l})"), strings::ascii(t).to_string()));
        cases.push((format!("quote_literal({l})"), strings::quote_literal(t)));
        cases.push((format!("quote_ident({l})"), strings::quote_ident(t, |_| false).into_owned()));
        cases.push((format!("initcap({l} collate \"C\")"), strings::initcap_c(t)));
        cases.push((format!("md5({l})"), bytes::md5(t.as_bytes())));
        for n in [-3, -1, 0, 1, 2, 5, 100] {
            cases.push((format!("left({l}, {n})"), ok(strings::left(t, n))));
            cases.push((format!("right({l}, {n})"), ok(strings::right(t, n))));
            let part = answer(strings::substr(t, n, None).map(str::to_owned));
            cases.push((format!("substr({l}, {n})"), part));
            cases.push((format!("lpad({l}, {n}, 'xyü')"), answer(strings::lpad(t, n, "xyü"))));
            cases.push((format!("rpad({l}, {n}, '')"), answer(strings::rpad(t, n, ""))));
            let part = answer(strings::split_part(t, ",", n).map(str::to_owned));
            cases.push((format!("split_part({l}, ',', {n})"), part));
            for m in [-1, 0, 2, i32::MAX] {
                let part = answer(strings::substr(t, n, Some(m)).map(str::to_owned));
                cases.push((format!("substr({l}, {n}, {m})"), part));
            }
            let part = answer(strings::overlay(t, "XY", n, Some(1)));
            cases.push((format!("overlay({l} placing 'XY' from {n} for 1)"), part));
            if n < 10 {
                cases.push((format!("repeat({l}, {n})"), answer(strings::repeat(t, n))));
            }
        }
        for p in ["", "a", "ß", "aa", ",", "l%"] {
            let m = q(p);
            cases.push((format!("strpos({l}, {m})"), strings::strpos(t, p).to_string()));
            let replaced = strings::replace(t, p, "<>").map(|t| t.into_owned());
            cases.push((format!("replace({l}, {m}, '<>')"), answer(replaced)));
            cases.push((format!("translate({l}, {m}, 'xy')"), strings::translate(t, p, "xy")));
            cases.push((format!("btrim({l}, {m})"), ok(strings::btrim(t, p))));
            cases.push((format!("ltrim({l}, {m})"), ok(strings::ltrim(t, p))));
        }
        for p in ["%", "_b%", "%ß%", "a_c", "", "%a", "a%a", "\\%\\_\\\\", "%\\", "%,%,%c"] {
            let like = strings::like(t, p, Some('\\'), false);
            let shown = answer(like.map(|is| if is { "true" } else { "false" }.to_owned()));
            cases.push((format!("{l} like {}", q(p)), shown));
        }
    }
    for n in [-1, 0, 65, 8364, 55296, 1_114_111, 1_114_112] {
        cases.push((format!("chr({n})"), answer(strings::chr(n, Encoding::Utf8))));
    }
}

fn octets(cases: &mut Cases) {
    let shown = |value: Result<Vec<u8>, ValueError>| {
        answer(value.and_then(|bytes| to_text(&Datum::Bytes(bytes.into()), SqlType::Bytea)))
    };
    let long: Vec<u8> = (0..=255).cycle().take(200).collect();
    for b in [&b""[..], b"\0a\\\xff", b"abcd", &long] {
        let hex: String = b.iter().map(|b| format!("{b:02x}")).collect();
        let l = format!("'\\x{hex}'::bytea");
        for format in ["hex", "base64", "escape", "foo"] {
            let text = bytes::encode(b, format);
            if let Ok(text) = &text {
                assert_eq!(bytes::decode(text, format, Encoding::Utf8).as_deref(), Ok(b));
            }
            cases.push((format!("encode({l}, '{format}')"), answer(text)));
        }
        for n in [-1, 0, 2, 9] {
            let byte = bytes::get_byte(b, n).map(|n| n.to_string());
            cases.push((format!("get_byte({l}, {n})"), answer(byte)));
            let bit = bytes::get_bit(b, i64::from(n)).map(|n| n.to_string());
            cases.push((format!("get_bit({l}, {n})"), answer(bit)));
            cases.push((format!("set_byte({l}, {n}, 300)"), shown(bytes::set_byte(b, n, 300))));
            let set = bytes::set_bit(b, i64::from(n), 1);
            cases.push((format!("set_bit({l}, {n}, 1)"), shown(set)));
            let part = bytes::substr(b, n, Some(3)).map(<[u8]>::to_vec);
            cases.push((format!("substr({l}, {n}, 3)"), shown(part)));
        }
        cases.push((format!("sha224({l})"), shown(Ok(bytes::sha224(b)))));
        cases.push((format!("sha256({l})"), shown(Ok(bytes::sha256(b)))));
        cases.push((format!("sha512({l})"), shown(Ok(bytes::sha512(b)))));
        cases.push((format!("bit_count({l})"), bytes::bit_count(b).to_string()));
    }
    for (text, format) in [
        ("0g", "hex"),
        ("0", "hex"),
        ("0 1", "hex"),
        ("YQ", "base64"),
        ("YQ=", "base64"),
        ("YQ==", "base64"),
        ("Y Q==\n", "base64"),
        ("=", "base64"),
        ("Y!==", "base64"),
        ("\\", "escape"),
    ] {
        let question =
            format!("decode(e'{}', '{format}')", text.replace('\\', "\\\\").replace('\n', "\\n"));
        cases.push((question, shown(bytes::decode(text, format, Encoding::Utf8))));
    }
}

fn bit_strings(cases: &mut Cases) {
    let read = |text: &str| match text_in(text, SqlType::Varbit).expect("bits") {
        Datum::Bits(len, bytes) => (len, bytes.into_owned()),
        other => panic!("{other:?}"),
    };
    let shown = |bits: Result<bits::Bits, ValueError>| {
        answer(
            bits.and_then(|(len, bytes)| to_text(&Datum::Bits(len, bytes.into()), SqlType::Varbit)),
        )
    };
    let all = ["", "1", "101", "11110000", "1111000011", "0101010101"];
    for a in all {
        let (m, x) = read(a);
        for b in all {
            let (n, y) = read(b);
            cases
                .push((format!("varbit '{a}' & varbit '{b}'"), shown(bits::and((m, &x), (n, &y)))));
            cases
                .push((format!("varbit '{a}' # varbit '{b}'"), shown(bits::xor((m, &x), (n, &y)))));
            cases.push((
                format!("varbit '{a}' || varbit '{b}'"),
                shown(bits::concat((m, &x), (n, &y))),
            ));
            let at = bits::position((m, &x), (n, &y)).to_string();
            cases.push((format!("position(varbit '{a}' in varbit '{b}')"), at));
        }
        for n in [-1, 0, 2, 9] {
            cases.push((
                format!("varbit '{a}' << {n}"),
                shown(Ok(bits::shift((m, &x), i64::from(n)))),
            ));
            let part = bits::substr((m, &x), n, Some(2));
            cases.push((format!("substring(varbit '{a}' from {n} for 2)"), shown(part)));
            let bit = bits::get_bit((m, &x), n).map(|n| n.to_string());
            cases.push((format!("get_bit(varbit '{a}', {n})"), answer(bit)));
            cases.push((
                format!("set_bit(varbit '{a}', {n}, 0)"),
                shown(bits::set_bit((m, &x), n, 0)),
            ));
        }
        cases.push((format!("~ varbit '{a}'"), shown(Ok(bits::not((m, &x))))));
    }
    for n in [5_i32, -5] {
        for len in [1, 4, 40] {
            let bits = bits::of_int(i64::from(n), 32, len);
            cases.push((format!("({n})::bit({len})"), shown(Ok(bits))));
        }
    }
}

fn read_array(text: &str, ty: SqlType) -> Array<'static> {
    match text_in_as(text, ty, -1, &TextStyle::default()).expect("an array").into_owned() {
        Datum::Array(array) => array,
        other => panic!("{other:?}"),
    }
}

const LISTS: &[&str] =
    &["{}", "{1,2,3}", "[0:2]={1,NULL,1}", "{{1,2},{3,4}}", "{NULL}", "[-1:0][2:3]={{5,6},{7,8}}"];

fn shown(array: Result<Array<'_>, ValueError>) -> String {
    answer(array.and_then(|array| to_text(&Datum::Array(array), SqlType::Int4Array)))
}

fn shown_int(value: Result<Option<i32>, ValueError>) -> String {
    answer(value.map(|n| n.map_or("NULL".to_owned(), |n| n.to_string())))
}

/// The bounds of an array, and parts of it.
fn list_parts(x: &Array<'_>, l: &str, cases: &mut Cases) {
    cases.push((format!("array_ndims({l})"), shown_int(arrays::ndims(x))));
    let dims = arrays::dims(x).map(|dims| dims.unwrap_or("NULL".to_owned()));
    cases.push((format!("array_dims({l})"), answer(dims)));
    cases.push((format!("cardinality({l})"), shown_int(arrays::cardinality(x).map(Some))));
    for n in [-1, 0, 1, 2] {
        cases.push((format!("array_lower({l}, {n})"), shown_int(arrays::lower(x, n))));
        cases.push((format!("array_upper({l}, {n})"), shown_int(arrays::upper(x, n))));
        cases.push((format!("array_length({l}, {n})"), shown_int(arrays::length(x, n))));
        let element = arrays::element(x, &[n]).map(|v| match v {
            Datum::Int4(v) => Some(v),
            _ => None,
        });
        cases.push((format!("({l})[{n}]"), shown_int(element)));
        cases.push((format!("({l})[{n}:2]"), shown(arrays::slice(x, &[(Some(n), Some(2))]))));
        let both = [(None, Some(n)), (Some(1), None)];
        cases.push((format!("({l})[:{n}][1:]"), shown(arrays::slice(x, &both))));
        cases.push((format!("trim_array({l}, {n})"), shown(arrays::trim(x, n))));
    }
}

/// An array and an element; an array as a text.
fn list_elements(x: &Array<'_>, l: &str, cases: &mut Cases) {
    let (one, null) = (Datum::Int4(1), Datum::Null);
    for (value, name) in [(&one, "1"), (&null, "NULL::int4")] {
        cases.push((format!("array_append({l}, {name})"), shown(arrays::append(x, value))));
        cases.push((format!("array_prepend({name}, {l})"), shown(arrays::prepend(value, x))));
        cases.push((format!("array_remove({l}, {name})"), shown(arrays::remove(x, value))));
        let replaced = arrays::replace(x, value, &Datum::Int4(9));
        cases.push((format!("array_replace({l}, {name}, 9)"), shown(replaced)));
        cases.push((
            format!("array_position({l}, {name})"),
            shown_int(arrays::position(x, value, i32::MIN)),
        ));
    }
    cases.push((format!("array_reverse({l})"), shown(arrays::reverse(x))));
    let style = TextStyle::default();
    let text = arrays::to_string(x, ", ", Some("*"), &style);
    cases.push((format!("array_to_string({l}, ', ', '*')"), answer(text)));
    cases.push((
        format!("array_to_string({l}, '-')"),
        answer(arrays::to_string(x, "-", None, &style)),
    ));
}

fn list_pairs(x: &Array<'_>, l: &str, cases: &mut Cases) {
    for b in LISTS {
        let (y, m) = (read_array(b, SqlType::Int4Array), format!("'{b}'::int4[]"));
        let is = |is: Result<bool, ValueError>| {
            answer(is.map(|is| if is { "true" } else { "false" }.to_owned()))
        };
        cases.push((format!("array_cat({l}, {m})"), shown(arrays::cat(x, &y))));
        cases.push((format!("{l} @> {m}"), is(arrays::contains(x, &y))));
        cases.push((format!("{l} && {m}"), is(arrays::overlaps(x, &y))));
        let order = forebay_types::compare(&Datum::Array(x.clone()), &Datum::Array(y));
        cases
            .push((format!("btarraycmp({l}, {m})"), answer(order.map(|o| (o as i32).to_string()))));
    }
}

fn lists(cases: &mut Cases) {
    for a in LISTS {
        let (x, l) = (read_array(a, SqlType::Int4Array), format!("'{a}'::int4[]"));
        list_parts(&x, &l, cases);
        list_elements(&x, &l, cases);
        list_pairs(&x, &l, cases);
    }
    for (text, delimiter, null) in [
        ("a,b,,c", Some(","), Some("")),
        ("a,b", Some(""), None),
        ("", Some(","), None),
        ("äb", None, None),
        ("a--b", Some("--"), Some("b")),
    ] {
        let q = |text: Option<&str>| text.map_or("NULL".to_owned(), |t| format!("'{t}'"));
        let array = arrays::of_string(text, delimiter, null);
        let ours = answer(array.and_then(|a| to_text(&Datum::Array(a), SqlType::TextArray)));
        let null = null.map_or(String::new(), |n| format!(", '{n}'"));
        cases.push((format!("string_to_array('{text}', {}{null})", q(delimiter)), ours));
    }
    let filled = arrays::fill(oids::INT4, &Datum::Int4(1), &[2, 3], Some(&[0, 5]));
    cases.push(("array_fill(1, '{2,3}', '{0,5}')".to_owned(), shown(filled)));
}

fn networks(cases: &mut Cases) {
    let read = |text: &str| match text_in(text, SqlType::Inet).expect("inet") {
        Datum::Inet(inet) => inet,
        other => panic!("{other:?}"),
    };
    // A cast to text shows the bits always.
    let shown = |inet: Result<Inet, ValueError>| answer(inet.map(|inet| network::text(&inet)));
    let all =
        ["192.168.1.5/24", "192.168.1.0/16", "10.0.0.1", "::1", "2001:db8::5/64", "0.0.0.0/0"];
    for a in all {
        let (x, l) = (read(a), format!("inet '{a}'"));
        cases.push((format!("host({l})"), network::host(&x)));
        cases.push((format!("text({l})"), network::text(&x)));
        cases.push((format!("abbrev({l})"), network::abbrev(&x)));
        cases.push((format!("family({l})"), network::family(&x).to_string()));
        cases.push((format!("masklen({l})"), network::masklen(&x).to_string()));
        cases.push((format!("network({l})"), shown(Ok(network::network(&x)))));
        cases.push((format!("broadcast({l})"), shown(Ok(network::broadcast(&x)))));
        cases.push((format!("netmask({l})"), shown(Ok(network::netmask(&x)))));
        cases.push((format!("hostmask({l})"), shown(Ok(network::hostmask(&x)))));
        cases.push((format!("~ {l}"), shown(Ok(network::not(&x)))));
        for n in [-1, 8, 33, 129] {
            cases.push((format!("set_masklen({l}, {n})"), shown(network::set_masklen(&x, n))));
            let n = i64::from(n);
            cases.push((format!("{l} + ({n})"), shown(network::plus(&x, n))));
            cases.push((format!("{l} - ({n})"), shown(network::minus(&x, n))));
        }
        for b in all {
            let (y, m) = (read(b), format!("inet '{b}'"));
            let is = |is: bool| if is { "true" } else { "false" }.to_owned();
            cases.push((format!("{l} << {m}"), is(network::is_within(&x, &y))));
            cases.push((format!("{l} <<= {m}"), is(network::is_within_or_equal(&x, &y))));
            cases.push((format!("{l} && {m}"), is(network::overlaps(&x, &y))));
            cases.push((format!("inet_merge({l}, {m})"), shown(network::merge(&x, &y))));
            cases.push((format!("{l} & {m}"), shown(network::and(&x, &y))));
            let far = network::distance(&x, &y).map(|n| n.to_string());
            cases.push((format!("{l} - {m}"), answer(far)));
            cases.push((format!("sign(network_cmp({l}, {m}))"), (x.order(&y) as i32).to_string()));
        }
    }
}

#[test]
fn functions_are_computed() {
    let mut cases = Vec::new();
    texts(&mut cases);
    octets(&mut cases);
    bit_strings(&mut cases);
    lists(&mut cases);
    networks(&mut cases);
    compare(&[Batch { name: "functions", settings: &["timezone = 'UTC'"], cases }]);
}
