//! Random expressions over the columns of table `k` of `golden/nodes.sql`.
//!
//! Not all of them have a type that fits: PostgreSQL refuses those.

use forebay_testkit::Dice;

/// What an expression is, roughly.
#[derive(Clone, Copy)]
enum Kind {
    Number,
    Text,
    Bool,
    Time,
    Array,
}

const COLUMNS: [&[&str]; 5] = [
    &["a", "b", "c", "d", "e", "f", "g", "ac", "ak", "\"Mixed Case\""],
    &["h", "i", "j", "n", "ah", "ai", "\"select\""],
    &["o"],
    &["p", "q", "r", "s", "t"],
    &["z", "aa"],
];

const CONSTANTS: [&[&str]; 5] = [
    &["0", "1", "-1", "42", "1.5", "-2.50", "5000000000", "1e3", "'7'", "NULL", "-32768::smallint"],
    &["'x'", "''", "'it''s'", "'a b'::varchar", "'abc'::char(2)", "'é\\n'", "NULL", "'n'::name"],
    &["true", "false", "NULL", "'t'::bool"],
    &["now()", "CURRENT_DATE", "LOCALTIMESTAMP(2)", "CURRENT_TIMESTAMP", "NULL"],
    &["ARRAY[1, 2]", "ARRAY[]::text[]", "ARRAY['x', h]", "ARRAY[a, b, 3]"],
];

const TYPES: [&str; 14] = [
    "int",
    "bigint",
    "smallint",
    "numeric",
    "numeric(8,2)",
    "real",
    "double precision",
    "text",
    "varchar",
    "varchar(7)",
    "char(3)",
    "name",
    "date",
    "timestamp(1)",
];

fn kind(dice: &mut Dice) -> Kind {
    [Kind::Number, Kind::Text, Kind::Bool, Kind::Time, Kind::Array][dice.index(5)]
}

/// The pieces of an expression's text: `#` stands for a number, `$` for a text, `?` for a
/// condition, `@` for a time, `&` for an array, `*` for anything, `^` for a type.
const FORMS: [&[&str]; 5] = [
    &[
        "# + #",
        "# - #",
        "# * #",
        "# / #",
        "(# - #)",
        "(# + #)",
        "- #",
        "@ #",
        "# % #",
        "# ^ #",
        "abs(#)",
        "round(#, 2)",
        "coalesce(#, #)",
        "nullif(#, #)",
        "greatest(#, #, #)",
        "least(#, #)",
        "CASE WHEN ? THEN # ELSE # END",
        "CASE # WHEN # THEN # WHEN # THEN # END",
        "length($)",
        "(#)::^",
        "($)::int",
        "plus_one(#)",
        "# <+> #",
        "# OPERATOR(other.@@@) #",
        "!!! #",
        "&[1]",
        "EXTRACT(year FROM @)",
        "strpos($, $)",
        "position($ IN $)",
        "(?)::int",
        "cardinality(&)",
        "many(#, #)",
        "named(#, c => #)",
        "date_part('day', @)",
        "# & #",
        "# | #",
        "~ #",
        "CAST(# AS ^)",
    ],
    &[
        "$ || $",
        "$ || #",
        "upper($)",
        "lower($)",
        "substring($ FROM # FOR #)",
        "substring($, #)",
        "trim($)",
        "TRIM(LEADING $ FROM $)",
        "coalesce($, $)",
        "nullif($, $)",
        "($)::^",
        "(#)::text",
        "CASE WHEN ? THEN $ ELSE $ END",
        "CASE $ WHEN $ THEN $ ELSE $ END",
        "$ COLLATE \"C\"",
        "($ || $) COLLATE \"POSIX\"",
        "\"Odd Name\"($)",
        "concat($, #, *)",
        "format('%s', $)",
        "overlay($ PLACING $ FROM #)",
        "greatest($, $)",
        "to_char(@, 'YYYY')",
        "(?)::text",
        "array_to_string(&, $)",
        "left($, #)",
        "replace($, $, $)",
        "(@)::text",
        "normalize($, NFD)",
    ],
    &[
        "# > #",
        "# = #",
        "# <> #",
        "# <= #",
        "$ = $",
        "$ < $",
        "$ LIKE $",
        "$ NOT ILIKE $",
        "$ ~ $",
        "? AND ?",
        "? OR ?",
        "? AND ? AND ?",
        "? OR ? OR ?",
        "NOT ?",
        "(? AND ?)",
        "(? OR ?)",
        "NOT (? OR ?)",
        "# IS NULL",
        "$ IS NOT NULL",
        "? IS TRUE",
        "? IS NOT UNKNOWN",
        "# IS DISTINCT FROM #",
        "$ IS NOT DISTINCT FROM $",
        "# BETWEEN # AND #",
        "# NOT BETWEEN # AND #",
        "# IN (#, #, #)",
        "$ IN ($, 'x')",
        "$ NOT IN ('a', $)",
        "# = ANY (&)",
        "$ <> ALL (&)",
        "@ > @",
        "(@, @) OVERLAPS (@, @)",
        "(#, #) < (#, #)",
        "ROW(#, $) = ROW(#, $)",
        "coalesce(?, ?)",
        "CASE WHEN ? THEN ? END",
        "(# > #) = (# > #)",
        "(? = ?) IS FALSE",
        "& && &",
        "& @> &",
        "$ IS NFC NORMALIZED",
        "$ SIMILAR TO $",
        "(* IS NULL) = (* IS NOT NULL)",
        "num_nulls(*, *) = 1",
    ],
    &[
        "@ + '1 day'",
        "@ - interval '2 hours'",
        "date_trunc('day', @)",
        "@ AT TIME ZONE 'UTC'",
        "@ AT TIME ZONE $",
        "coalesce(@, @)",
        "(@)::date",
        "(@)::timestamp",
        "(@)::timestamptz(3)",
        "greatest(@, @)",
        "CASE WHEN ? THEN @ ELSE @ END",
        "@ AT LOCAL",
        "(@)::time",
        "age(@, @)",
        "@ + t",
        "p + 3",
        "q - q",
        "to_timestamp(#)",
    ],
    &[
        "ARRAY[#, #]",
        "ARRAY[$, $]",
        "& || #",
        "& || &",
        "(&)[1:2]",
        "(&)[#:]",
        "array_append(&, #)",
        "(&)::text[]",
        "(&)::bigint[]",
        "string_to_array($, ',')",
        "array_remove(&, $)",
        "CASE WHEN ? THEN & ELSE & END",
    ],
];

fn expression(dice: &mut Dice, kind: Kind, depth: u32) -> String {
    let n = kind as usize;
    if depth == 0 || dice.chance(150) {
        let of = if dice.chance(700) { COLUMNS[n] } else { CONSTANTS[n] };
        return dice.pick(of).to_owned();
    }
    let form = dice.pick(FORMS[n]);
    let mut text = String::new();
    let mut quoted = false;
    for c in form.chars() {
        quoted ^= c == '\'';
        let part = match c {
            _ if quoted => None,
            // Operators that look like a place have spaces or others of their kind around them.
            '#' => Some(Kind::Number),
            '$' => Some(Kind::Text),
            '?' => Some(Kind::Bool),
            '@' if form != "@ #" && !form.contains("@@@") && !form.contains("@>") => {
                Some(Kind::Time)
            }
            '&' if !form.contains("&&") && form != "# & #" => Some(Kind::Array),
            '*' if form.contains("(*") || form.contains(", *") => Some(self::kind(dice)),
            _ => None,
        };
        match (part, c) {
            (Some(kind), _) => {
                let inner = expression(dice, kind, depth - 1);
                // Without parentheses, precedence makes other trees of the text.
                let wrapped = dice.chance(400);
                text.push_str(&if wrapped { format!("({inner})") } else { inner });
            }
            (None, '^') if !quoted && form.contains("^)") || form.ends_with("::^") => {
                text.push_str(dice.pick(&TYPES));
            }
            (None, c) => text.push(c),
        }
    }
    text
}

/// A script that adds so many checks to table `k`, and a third as many indexes. PostgreSQL refuses
/// some of them, such as indexes of expressions that depend on settings.
pub fn script(seed: u64, count: usize) -> String {
    let mut dice = Dice::new(seed);
    let mut text = String::new();
    for n in 0..count {
        let depth = 1 + u32::try_from(dice.below(4)).expect("small");
        let condition = expression(&mut dice, Kind::Bool, depth);
        text.push_str(&format!(
            "ALTER TABLE k ADD CONSTRAINT random_{n} CHECK ({condition}) NOT VALID;\n"
        ));
        if n % 3 == 0 {
            let kind = kind(&mut dice);
            let key = expression(&mut dice, kind, depth.min(3));
            text.push_str(&format!("CREATE INDEX random_index_{n} ON k (({key}));\n"));
        }
    }
    text
}
