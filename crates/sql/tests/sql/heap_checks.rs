//! verify_heapam in FROM: its columns, its arguments by place and by name, its refusals. What it
//! finds is in the engine's tests.

use crate::fixture::open;
use crate::support;

#[test]
fn arguments_and_refusals() {
    let mut fixture = open("");
    fixture.rows("create table t (a int8, b text)");
    fixture.rows("insert into t select g, repeat('x', g) from generate_series(1, 100) g");
    for call in [
        "verify_heapam('t')",
        "verify_heapam('public.t'::regclass, true, true)",
        "verify_heapam('t', on_error_stop => false, check_toast => true)",
        "verify_heapam('t', false, skip => 'ALL-frozen', endblock => 0, startblock => null)",
        "verify_heapam(relation => 't', endblock => null)",
        "verify_heapam('pg_class') as found (a, b, c, d)",
    ] {
        assert_eq!(fixture.rows(&format!("select * from {call}")), [""; 0], "{call}");
    }
    let typed = "select count(blkno), sum(offnum), max(attnum), min(msg) from verify_heapam('t')";
    assert_eq!(fixture.rows(typed), ["0\t\\N\t\\N\t\\N"]);
    for (call, expected) in [
        ("verify_heapam(null)", "22023 relation cannot be null"),
        ("verify_heapam('t', null)", "22023 on_error_stop cannot be null"),
        ("verify_heapam('t', check_toast => null)", "22023 check_toast cannot be null"),
        ("verify_heapam('t', skip => null)", "22023 skip cannot be null"),
        ("verify_heapam('t', skip => 'some')", "22023 invalid skip option"),
        (
            "verify_heapam('t', startblock => 9)",
            "22023 starting block number must be between 0 and 1",
        ),
        ("verify_heapam('t', endblock => -1)", "22023 ending block number must be between 0 and 1"),
        ("verify_heapam('nothere')", "42P01 relation \"nothere\" does not exist"),
        ("verify_heapam(4711)", "42P01 could not open relation with OID 4711"),
        (
            "verify_heapam('pg_class_oid_index'::regclass)",
            "42809 cannot check relation \"pg_class_oid_index\"",
        ),
        (
            "verify_heapam('t', nothing => true)",
            "42883 function verify_heapam(unknown, nothing => boolean) does not exist",
        ),
        (
            "verify_heapam('t', true, on_error_stop => true)",
            "42883 function verify_heapam(unknown, boolean, on_error_stop => boolean) does not",
        ),
        ("verify_heapam()", "42883 function verify_heapam() does not exist"),
        (
            "verify_heapam(check_toast => true, 't')",
            "42601 positional argument cannot follow named argument",
        ),
        (
            "generate_series(1, stop => 3)",
            "42883 function generate_series(integer, stop => integer) does not exist",
        ),
    ] {
        let refused = support::run(&mut fixture.conn, &format!("select * from {call}"));
        let message = refused.iter().find(|line| line.starts_with('!')).expect("an error");
        assert!(message.starts_with(&format!("! ERROR {expected}")), "{call}: {refused:?}");
    }
    let outside = support::run(&mut fixture.conn, "select verify_heapam('t')");
    let expected = "! ERROR 0A000 a set-returning function outside of FROM is not supported";
    assert!(outside.iter().any(|line| line.starts_with(expected)), "{outside:?}");
    fixture.close();
}
