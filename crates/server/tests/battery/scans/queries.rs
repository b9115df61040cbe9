//! The table, and random queries of it.

use forebay_testkit::Dice;

/// Rows that were updated, deleted and vacuumed, with NULLs, and indexes of several kinds. Some
/// pages are all-visible, others are not.
pub const TABLE: [&str; 12] = [
    "CREATE TABLE t (id int, a int, b int8, c int2, d text, f float8, e bool, filler text)",
    "INSERT INTO t SELECT x, x * 7919 % 3000, nullif(x % 97, 13), x % 7,
        CASE WHEN x % 31 > 0 THEN 'text ' || x * 31 % 500 END, x * 17 % 1000 / 4.0, x % 3 = 0,
        repeat('.', x % 80) FROM generate_series(1, 40000) x",
    "ALTER TABLE t ADD PRIMARY KEY (id)",
    "CREATE INDEX ON t (a)",
    "CREATE INDEX ON t (b, a)",
    "CREATE INDEX ON t (c DESC NULLS LAST, d, id)",
    "CREATE INDEX ON t (d)",
    "CREATE INDEX ON t (f) INCLUDE (id)",
    "UPDATE t SET a = a + 1, b = NULL WHERE id % 11 = 0",
    "DELETE FROM t WHERE id % 13 = 0 OR id BETWEEN 5000 AND 6000",
    "VACUUM ANALYZE t",
    "UPDATE t SET filler = '', f = f + 1 WHERE id % 17 = 0",
];

fn number(dice: &mut Dice, below: u64) -> String {
    dice.below(below).to_string()
}

/// A column, and a value of its type that may be in it.
fn value(dice: &mut Dice, column: &str) -> String {
    match column {
        "id" => number(dice, 40_500),
        "a" => number(dice, 3010),
        "b" => number(dice, 100),
        "c" => number(dice, 8),
        "d" => format!("'text {}'", dice.below(510)),
        _ => format!("{}.25", dice.below(255)),
    }
}

const COLUMNS: [&str; 6] = ["id", "a", "b", "c", "d", "f"];

fn column(dice: &mut Dice) -> &'static str {
    dice.pick(&COLUMNS)
}

fn values(dice: &mut Dice, column: &str) -> String {
    let count = 1 + dice.below(12);
    (0..count).map(|_| value(dice, column)).collect::<Vec<_>>().join(", ")
}

/// A condition on one column.
fn on_column(dice: &mut Dice) -> String {
    let column = column(dice);
    let value = value(dice, column);
    match dice.below(12) {
        0..4 => format!("{column} {} {value}", dice.pick(&["<", "<=", "=", ">=", ">"])),
        4 => format!("{value} {} {column}", dice.pick(&["<", "<=", "=", ">=", ">"])),
        5 => {
            let other = self::value(dice, column);
            format!("{column} BETWEEN least({value}, {other}) AND greatest({value}, {other})")
        }
        6 => format!("{column} IN ({})", values(dice, column)),
        7 => format!("{column} = ANY (ARRAY[{}])", values(dice, column)),
        8 => {
            let null = dice.pick(&["", ", NULL"]);
            let list = format!("{}{null}", values(dice, column)).replace('\'', "\"");
            format!("{column} = ANY ('{{{list}}}')")
        }
        9 => format!("{column} <> ALL (ARRAY[{}])", values(dice, column)),
        10 => format!("{column} IS {}NULL", dice.pick(&["", "NOT "])),
        _ => dice.pick(&["e", "NOT e", "e IS NOT TRUE"]).to_owned(),
    }
}

/// A comparison of rows, some of them as an index has its columns.
fn of_rows(dice: &mut Dice) -> String {
    let columns: &[&str] =
        [&["b", "a"][..], &["c", "d"], &["d", "id"], &["a", "id"], &["c", "d", "id"], &["f", "a"]]
            [dice.index(6)];
    let values = columns.iter().map(|column| value(dice, column)).collect::<Vec<_>>().join(", ");
    let operator = dice.pick(&["<", "<=", ">=", ">", "=", "<>"]);
    format!("({}) {operator} ({values})", columns.join(", "))
}

fn condition(dice: &mut Dice, depth: u64) -> String {
    match dice.below(10) {
        0..6 => on_column(dice),
        6 => of_rows(dice),
        _ if depth == 0 => on_column(dice),
        n => {
            let word = if n == 7 { " AND " } else { " OR " };
            let parts = (0..2 + dice.below(2)).map(|_| condition(dice, depth - 1));
            format!("({})", parts.collect::<Vec<_>>().join(word))
        }
    }
}

/// A query whose rows come in an order that does not depend on the plan.
pub fn one(dice: &mut Dice) -> String {
    let parts = (0..1 + dice.below(3)).map(|_| condition(dice, 2)).collect::<Vec<_>>();
    let filter = parts.join(" AND ");
    let by = column(dice);
    let descending = dice.pick(&["", " DESC", " NULLS FIRST", " DESC NULLS LAST"]);
    let end = dice.pick(&["LIMIT 20", "LIMIT 5 OFFSET 50", "LIMIT 100"]);
    match dice.below(6) {
        0 => format!("SELECT count(*), sum(id), min(a), max(b) FROM t WHERE {filter}"),
        1 => format!("SELECT max({by}), min({by}) FROM t WHERE {filter}"),
        2 => format!("SELECT {by} FROM t WHERE {filter} ORDER BY {by}{descending} {end}"),
        _ => {
            format!(
                "SELECT id, a, b, c, d, f FROM t WHERE {filter} ORDER BY {by}{descending}, id {end}"
            )
        }
    }
}
