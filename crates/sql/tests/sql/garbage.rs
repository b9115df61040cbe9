//! Whatever the text, the answer is a result or an error, and the next statement works.

use crate::support;
use proptest::prelude::*;

const WORDS: &[&str] = &[
    "select",
    "from",
    "where",
    "group by",
    "order by",
    "limit",
    "offset",
    "having",
    "values",
    "insert into",
    "copy",
    "create table",
    "drop table",
    "begin",
    "commit",
    "rollback",
    "set",
    "show",
    "reset",
    "to",
    "stdin",
    "stdout",
    "with",
    "csv",
    "t",
    "a",
    "x",
    "*",
    "(",
    ")",
    ",",
    ";",
    "+",
    "-",
    "/",
    "%",
    "=",
    "<>",
    "<",
    "||",
    "::",
    "int",
    "text",
    "float8",
    "numeric",
    "bool",
    "'a'",
    "'1'",
    "1",
    "0",
    "2.5",
    "1e400",
    "9223372036854775807",
    "null",
    "true",
    "and",
    "or",
    "not",
    "is",
    "in",
    "like",
    "between",
    "case",
    "when",
    "then",
    "else",
    "end",
    "cast",
    "as",
    "generate_series(1,3)",
    "count(*)",
    "sum",
    "avg",
    "max",
    "coalesce",
    "abs",
    "length",
    "$1",
    "\"",
    "'",
    "--",
    "/*",
    "e'\\",
    "$$",
    ".",
    "[",
    "]",
    "{",
    "\\",
    "@",
    "!",
    "~",
    "pg_settings",
    "pg_stat_io",
    "current_user",
    "distinct",
    "union",
    "asc",
    "desc",
    "nulls first",
    "interval '1'",
    "date",
    "'x'::regclass",
    "exists",
    "any",
    "update",
    "delete",
    "only",
    "returning",
    "with (old as o)",
    "old",
    "new.*",
    "ctid",
    "for update",
    "for no key update",
    "for share of",
    "for key share",
    "nowait",
    "skip locked",
    "where current of",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn word_soup(
        words in prop::collection::vec(prop::sample::select(WORDS), 0..25),
        tight in any::<bool>(),
    ) {
        let mut conn = support::without_tables();
        let sql = words.join(if tight { "" } else { " " });
        support::run(&mut conn, &sql);
        support::run(&mut conn, "rollback");
        let answer = support::run(&mut conn, "select 1");
        prop_assert_eq!(answer, vec!["# ?column?:23", "| 1", "= SELECT 1", "Z I"]);
    }

    #[test]
    fn selected_expressions(words in prop::collection::vec(prop::sample::select(WORDS), 0..12)) {
        let mut conn = support::without_tables();
        support::run(&mut conn, &format!("select {} from generate_series(1,3) x", words.join(" ")));
    }

    #[test]
    fn any_text(sql in any::<String>()) {
        support::run(&mut support::without_tables(), &sql);
    }
}
