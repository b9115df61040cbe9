//! The order of values, and the keys by which they are grouped.

use forebay_types::{SqlType, compare_as, pack_key_as, text_in};

use crate::oracle::{Batch, compare};

const VALUES: &[(SqlType, &str, &[&str])] = &[
    (SqlType::Date, "date_cmp", &["2001-02-03", "infinity", "-infinity", "0044-03-15 BC"]),
    (SqlType::Time, "time_cmp", &["00:00", "24:00", "12:30:45.5"]),
    (
        SqlType::Timetz,
        "timetz_cmp",
        &["12:00+00", "13:00+01", "12:00+01", "00:00-15", "24:00+15", "12:00:00.5+00"],
    ),
    (SqlType::Timestamp, "timestamp_cmp", &["2001-02-03 04:05", "infinity", "-infinity", "epoch"]),
    (
        SqlType::Interval,
        "interval_cmp",
        &[
            "1 mon",
            "30 days",
            "720:00",
            "29 days 24:00",
            "-1 mon",
            "infinity",
            "-infinity",
            "0",
            "1 year",
        ],
    ),
    (
        SqlType::Uuid,
        "uuid_cmp",
        &["00000000-0000-0000-0000-00000000000a", "ffffffff-0000-0000-0000-000000000000"],
    ),
    (SqlType::Varbit, "bitcmp", &["", "0", "1", "10", "01", "00000000", "000000001", "1111111100"]),
    (
        SqlType::Macaddr,
        "macaddr_cmp",
        &["08:00:2b:01:02:03", "ff:00:2b:01:02:03", "08:00:2b:01:02:04"],
    ),
    (SqlType::Macaddr8, "macaddr8_cmp", &["08:00:2b:01:02:03:04:05", "ff:00:2b:01:02:03:04:05"]),
    (SqlType::Bpchar, "bpcharcmp", &["a", "a  ", "ab", "", "  ", "a-"]),
    (SqlType::Numeric, "numeric_cmp", &["1.0", "1.00", "NaN", "Infinity", "-1", "0", "-0.0"]),
    (SqlType::PgLsn, "pg_lsn_cmp", &["0/0", "FFFFFFFF/0", "1/2"]),
    (SqlType::Xid8, "xid8cmp", &["0", "18446744073709551615", "5"]),
    (
        SqlType::NumericArray,
        "btarraycmp",
        &["{}", "{1}", "{1.0}", "{NULL}", "{1,2}", "{{1,2}}", "[0:1]={1,2}", "{2}", "{NaN}"],
    ),
    (SqlType::BpcharArray, "btarraycmp", &["{a}", "{\"a  \"}", "{ab}", "{NULL,a}"]),
    (SqlType::OidVector, "btoidvectorcmp", &["", "1", "2 1", "1 9", "4294967295"]),
    (SqlType::Inet, "network_cmp", &["10.0.0.0/8", "10.0.0.1/8", "10.0.0.0/16", "::/0", "9.0.0.1"]),
];

#[test]
fn values_are_ordered_and_grouped() {
    let mut cases = Vec::new();
    for (ty, function, texts) in VALUES {
        let name = match ty.element() {
            Some(element) => format!("{}[]", element.typname()),
            None => ty.typname().to_owned(),
        };
        let key = |text: &str| {
            let mut key = Vec::new();
            let value = text_in(text, *ty).expect("a value");
            pack_key_as(&value, *ty, &mut key).expect("a key");
            key
        };
        for a in *texts {
            for b in *texts {
                let (x, y) = (text_in(a, *ty).expect("a value"), text_in(b, *ty).expect("a value"));
                let order = compare_as(&x, &y, *ty).expect("an order");
                assert_eq!(
                    order.is_eq(),
                    key(a) == key(b),
                    "{a} {b}: equal values have equal keys"
                );
                let question = format!("sign({function}('{a}'::{name}, '{b}'::{name}))");
                cases.push((question, (order as i32).to_string()));
            }
        }
    }
    compare(&[Batch { name: "order", settings: &["timezone = 'UTC'"], cases }]);
}
