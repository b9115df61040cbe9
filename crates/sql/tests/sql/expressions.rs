//! Expressions, series, VALUES, names, syntax errors and transactions, against answers recorded
//! from PostgreSQL 18.

use crate::support;

#[test]
fn answers_as_postgresql_does() {
    let golden = include_str!("../golden/expressions.txt");
    assert!(support::cases(golden).len() > 200, "too few cases were read");
    let wrong = support::differences(&mut support::without_tables(), golden);
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// Checks rows, or errors, against those that PostgreSQL 18 gave.
fn check(cases: &[(&str, &str)]) {
    let mut conn = support::without_tables();
    for (expressions, expected) in cases {
        let lines = support::run(&mut conn, &format!("select {expressions}"));
        let answer = lines.iter().find_map(|l| l.strip_prefix("| ").or(l.strip_prefix("! ERROR ")));
        assert_eq!(answer, Some(*expected), "{expressions}: {lines:?}");
    }
}

#[test]
fn a_null_in_a_path_finds_nothing() {
    check(&[
        ("'{\"a\":1}'::jsonb #> array['a',null], '{\"a\":1}'::jsonb #> array[null]", "\\N\t\\N"),
        ("'{\"a\":1}'::jsonb #>> array['a',null]", "\\N"),
        ("'{\"a\":1}'::json #> array['a',null]", "\\N"),
        ("'{\"a\":1}'::json #>> array['a',null]", "\\N"),
        ("jsonb_extract_path('{\"a\":1}', 'a', null)", "\\N"),
        ("json_extract_path_text('{\"a\":1}', 'a', null)", "\\N"),
        ("'{\"a\":1}'::jsonb #> '{}', '{\"a\":1}'::json #> '{}'", "{\"a\": 1}\t{\"a\":1}"),
    ]);
}

#[test]
fn a_numeric_that_a_float_would_lose_is_refused() {
    check(&[
        (
            "1e-50::numeric::float4",
            "22003 \"0.00000000000000000000000000000000000000000000000001\" is out of range for \
             type real",
        ),
        ("4.9e-324::numeric::float8, 1e-40::numeric::float4, 0.0::float8", "5e-324\t1e-40\t0"),
        ("1e-16384", "22003 value overflows numeric format"),
        ("('[0.' || repeat('1', 20000) || ']')::jsonb", "22003 value overflows numeric format"),
    ]);
    let lines = support::run(&mut support::without_tables(), "select 1e-400::numeric::float8");
    assert!(lines[0].starts_with("! ERROR 22003 \"0.000"), "{lines:?}");
    assert!(lines[0].ends_with("1\" is out of range for type double precision"), "{lines:?}");
}

#[test]
fn times_out_of_range_are_refused() {
    const ZONE: &str = "at time zone interval";
    check(&[
        ("make_time(3, 1, 1e20)", "22008 time field value out of range: 3:01:1e+20"),
        ("make_time(3, 1, 'nan')", "22008 time field value out of range: 3:01:NaN"),
        ("make_time(3, 1, -1)", "22008 time field value out of range: 3:01:-1"),
        ("make_time(24, 0, 0.5)", "22008 time field value out of range: 24:00:0.5"),
        ("make_time(24, 0, 0), make_time(23, 59, 60)", "24:00:00\t24:00:00"),
        (
            "make_timestamp(2020, 1, 1, 3, 1, 'infinity')",
            "22008 time field value out of range: 3:01:Infinity",
        ),
        (
            "make_timestamptz(2020, 1, 1, 3, 1, '-infinity')",
            "22008 time field value out of range: 3:01:-Infinity",
        ),
        (
            "make_timestamptz(2020, 1, 1, 3, 1, 1e300, 'UTC')",
            "22008 time field value out of range: 3:01:1e+300",
        ),
        (
            &format!("timestamptz '294276-12-31' {ZONE} '2562047788 hours'"),
            "22008 timestamp out of range",
        ),
        (
            &format!("timestamptz '4713-01-01 BC' {ZONE} '-500000 hours'"),
            "22008 timestamp out of range",
        ),
        (
            &format!("timestamp '294276-12-31' {ZONE} '-500000 hours'"),
            "22008 timestamp out of range",
        ),
        (&format!("timestamp 'infinity' {ZONE} '-500000 hours'"), "infinity"),
    ]);
}

#[test]
fn arguments_at_their_limits_are_taken_as_postgresql_takes_them() {
    check(&[
        (
            "right('abc', -2147483648), left('abc', -2147483648), right('abc', 2147483647)",
            "abc\t\tabc",
        ),
        ("array_position(array[1,2], 1, null)", "22004 initial position must not be null"),
        ("array_position(null::int[], 1, null)", "\\N"),
        ("sign('NaN'::float8), sign('-0'::float8), sign('-infinity'::float8)", "0\t0\t-1"),
        (
            "power('-Infinity'::float8, 2.5)",
            "2201F a negative number raised to a non-integer power yields a complex result",
        ),
        ("power('-Infinity'::float8, 3), power('-Infinity'::float8, -3)", "-Infinity\t-0"),
        ("'{\"a\" : 1}'::jsonb::json, pg_typeof('1'::jsonb::json)", "{\"a\": 1}\tjson"),
        ("5::oid = any(array[1,5]), 5::oid = any('{1,2}'::int[]), 5::oid in (1,5)", "t\tf\tt"),
        ("5::oid <> all(array[x, 1]) from generate_series(5, 5) x", "f"),
        ("4294967295::oid = any(array[-1])", "t"),
    ]);
}

#[test]
fn long_results_are_refused_before_they_are_made() {
    const TOO_LONG: &str = "54000 requested length too large";
    check(&[
        ("bpchar('x', 2147483647, true)", "XX000 invalid memory alloc request size 2147483647"),
        ("bpchar('x', 1073741827, true)", "XX000 invalid memory alloc request size 1073741827"),
        ("length(pg_catalog.\"bit\"(1, 2147483647))", "1"),
        ("octet_length(pg_catalog.\"bit\"(1, 2147483640))", "268435455"),
        ("octet_length(pg_catalog.\"bit\"(b'1', 2147483647, true))", "1"),
        ("pg_catalog.\"bit\"(-5, 40), pg_catalog.\"bit\"(5, 2)", &format!("{:1>40}\t01", "011")),
        ("lpad('x', 268435455)", TOO_LONG),
        ("rpad('x', 2147483647, 'y')", TOO_LONG),
        ("repeat('xx', 600000000)", TOO_LONG),
        ("length(rpad('x', 268435454, 'yz'))", "268435454"),
        (
            "lpad('x', 6, 'ab'), rpad('x', 5, '\u{e9}z'), lpad('x', 3, '')",
            "ababax\tx\\xc3\\xa9z\\xc3\\xa9z\tx",
        ),
    ]);
}

#[test]
fn a_row_is_null_if_all_its_fields_are() {
    check(&[
        ("row(1, null) is null, row(1, null) is not null", "f\tf"),
        ("row(null, null) is null, row(1, 2) is not null", "t\tt"),
        ("not row(null) is null, row(null) is not null", "f\tf"),
    ]);
}
