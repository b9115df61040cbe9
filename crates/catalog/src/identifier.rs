//! Names as SQL writes them.

use std::borrow::Cow;

/// PostgreSQL's keywords that are no name unless they are quoted, in order.
const KEYWORDS: &str = "\
    all analyse analyze and any array as asc asymmetric authorization between bigint binary bit \
    boolean both case cast char character check coalesce collate collation column concurrently \
    constraint create cross current_catalog current_date current_role current_schema \
    current_time current_timestamp current_user dec decimal default deferrable desc distinct do \
    else end except exists extract false fetch float for foreign freeze from full grant greatest \
    group grouping having ilike in initially inner inout int integer intersect interval into is \
    isnull join json json_array json_arrayagg json_exists json_object json_objectagg json_query \
    json_scalar json_serialize json_table json_value lateral leading least left like limit \
    localtime localtimestamp merge_action national natural nchar none normalize not notnull null \
    nullif numeric offset on only or order out outer overlaps overlay placing position precision \
    primary real references returning right row select session_user setof similar smallint some \
    substring symmetric system_user table tablesample then time timestamp to trailing treat trim \
    true union unique user using values varchar variadic verbose when where window with \
    xmlattributes xmlconcat xmlelement xmlexists xmlforest xmlnamespaces xmlparse xmlpi xmlroot \
    xmlserialize xmltable";

/// A name as SQL writes it: in quotes if it would otherwise mean something else.
pub fn quoted(name: &str) -> Cow<'_, str> {
    let begins = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    if begins && name.chars().all(plain) && !KEYWORDS.split(' ').any(|word| word == name) {
        return Cow::Borrowed(name);
    }
    Cow::Owned(format!("\"{}\"", name.replace('"', "\"\"")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_where_they_must_be() {
        for plain in ["a", "_1", "name", "users"] {
            assert_eq!(quoted(plain), plain);
        }
        for (name, written) in
            [("A", "\"A\""), ("1a", "\"1a\""), ("user", "\"user\""), ("a\"b", "\"a\"\"b\"")]
        {
            assert_eq!(quoted(name), written);
        }
        assert_eq!((quoted(""), quoted("ä")), ("\"\"".into(), "\"ä\"".into()));
        assert!(KEYWORDS.split(' ').is_sorted() && KEYWORDS.split(' ').count() == 164);
    }
}
