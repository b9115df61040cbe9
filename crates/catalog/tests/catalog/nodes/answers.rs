//! What PostgreSQL says of its trees: a line for each, in the text format of COPY.

use std::collections::{BTreeSet, HashMap};

use forebay_testkit::peer::Postgres;

/// A tree, with what PostgreSQL prints of it.
pub struct Tree {
    /// "expr", "check" or "list".
    pub kind: String,
    /// The table whose columns it names.
    pub relation: u32,
    pub name: String,
    pub text: String,
    /// pg_get_expr
    pub normal: String,
    pub pretty: String,
    /// pg_get_constraintdef, of a check.
    pub definitions: (String, String),
    pub no_inherit: bool,
    pub enforced: bool,
    pub validated: bool,
}

/// An index.
pub struct Index {
    pub oid: u32,
    pub relation: u32,
    pub name: String,
    pub method: String,
    pub unique: bool,
    pub nulls_not_distinct: bool,
    pub columns: Vec<i16>,
    pub collations: Vec<u32>,
    pub classes: Vec<u32>,
    pub options: Vec<u16>,
    pub storage: Vec<String>,
    pub exprs: Option<String>,
    pub predicate: Option<String>,
    /// The table's name and pg_get_indexdef.
    pub normal: (String, String),
    pub pretty: (String, String),
}

/// All answers.
#[derive(Default)]
pub struct Answers {
    pub trees: Vec<Tree>,
    pub indexes: Vec<Index>,
    /// By what they are ("relation", "proc" ...) and OID: the other cells.
    pub objects: HashMap<(String, u32), Vec<String>>,
    /// By relation and number: name, type, collation, modifier.
    pub columns: HashMap<(u32, i32), Vec<String>>,
    /// By type and modifier.
    pub types: HashMap<(u32, i32), String>,
}

/// Which trees there are: what they are, where, and what PostgreSQL prints of them.
const TREES: &str = "
    SELECT 'tree', 'expr', adrelid, adrelid::regclass || '.' || attname, adbin::text,
           pg_get_expr(adbin, adrelid), pg_get_expr(adbin, adrelid, true), '', '', 'f', 't', 't'
      FROM pg_attrdef JOIN pg_attribute ON attrelid = adrelid AND attnum = adnum
    UNION ALL
    SELECT 'tree', 'check', conrelid, conname, conbin::text, pg_get_expr(conbin, conrelid),
           pg_get_expr(conbin, conrelid, true), pg_get_constraintdef(oid),
           pg_get_constraintdef(oid, true), connoinherit::text, conenforced::text,
           convalidated::text
      FROM pg_constraint WHERE contype = 'c' AND oid >= 16384
    UNION ALL
    SELECT 'tree', 'list', indrelid, indexrelid::regclass::text, indexprs::text,
           pg_get_expr(indexprs, indrelid), pg_get_expr(indexprs, indrelid, true), '', '',
           'f', 't', 't'
      FROM pg_index WHERE indexprs IS NOT NULL AND indexrelid >= 16384
    UNION ALL
    SELECT 'tree', 'expr', indrelid, indexrelid::regclass || ' where', indpred::text,
           pg_get_expr(indpred, indrelid), pg_get_expr(indpred, indrelid, true), '', '',
           'f', 't', 't'
      FROM pg_index WHERE indpred IS NOT NULL AND indexrelid >= 16384";

const INDEXES: &str = "
    SELECT 'index', indrelid, i.relname, amname, indisunique, indnullsnotdistinct, indkey,
           indcollation, indclass, indoption, array_to_string(i.reloptions, ' '), indexprs,
           indpred, quote_ident(nspname) || '.' || quote_ident(t.relname),
           pg_get_indexdef(indexrelid), indrelid::regclass, pg_get_indexdef(indexrelid, 0, true),
           indexrelid
      FROM pg_index JOIN pg_class i ON i.oid = indexrelid JOIN pg_am am ON am.oid = i.relam
      JOIN pg_class t ON t.oid = indrelid JOIN pg_namespace n ON n.oid = t.relnamespace
     WHERE indexrelid >= 16384 AND nspname !~ 'toast'";

/// The objects that the trees name, but for those in `data/`.
const OBJECTS: [&str; 7] = [
    "SELECT 'object', 'relation', c.oid, nspname, relname, pg_table_is_visible(c.oid)
       FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
      WHERE (c.oid >= 16384 AND relkind <> 'i' OR relname = 'pg_class') AND nspname !~ 'toast'",
    "SELECT 'object', 'proc', p.oid, nspname, proname, pg_function_is_visible(p.oid)
       FROM pg_proc p JOIN pg_namespace n ON n.oid = pronamespace WHERE p.oid >= 16384",
    "SELECT 'object', 'operator', o.oid, nspname, oprname, pg_operator_is_visible(o.oid)
       FROM pg_operator o JOIN pg_namespace n ON n.oid = oprnamespace WHERE o.oid >= 16384",
    "SELECT 'object', 'collation', c.oid, nspname, collname, pg_collation_is_visible(c.oid)
       FROM pg_collation c JOIN pg_namespace n ON n.oid = collnamespace
      WHERE c.oid >= 16384 OR collname IN ('C', 'POSIX', 'default')",
    "SELECT 'object', 'namespace', oid, '', nspname, true FROM pg_namespace
      WHERE nspname IN ('public', 'pg_catalog', 'other')",
    "SELECT 'object', 'type', oid, typcollation, typelem, typrelid, typbasetype, typtype,
            typsubscript::oid
       FROM pg_type WHERE oid >= 16384 OR typtype IN ('b', 'p')",
    "SELECT 'column', attrelid, attnum, attname, atttypid, attcollation, atttypmod
       FROM pg_attribute WHERE attrelid >= 16384 AND NOT attisdropped",
];

/// Asks PostgreSQL about everything that the script has made, and how it writes these types.
pub fn ask(server: &Postgres<'_>, types: &BTreeSet<(u32, i32)>) -> String {
    let mut lines = Vec::new();
    let values = types.iter().map(|(ty, typmod)| format!("({ty}::oid, {typmod})"));
    let values = ["(25::oid, -1)".to_owned()].into_iter().chain(values).collect::<Vec<_>>();
    let types = format!(
        "SELECT DISTINCT 'type', ty, typmod, format_type(ty, typmod)
           FROM (VALUES {}) v(ty, typmod)",
        values.join(", ")
    );
    for query in [TREES, INDEXES, &types].into_iter().chain(OBJECTS) {
        let answer = server.query(&format!("COPY ({query}) TO STDOUT"));
        let mut answer: Vec<&str> = answer.lines().collect();
        answer.sort_unstable();
        lines.extend(answer.into_iter().map(str::to_owned));
    }
    lines.join("\n") + "\n"
}

/// A cell of COPY's text format.
fn cell(text: &str) -> Option<String> {
    if text == "\\N" {
        return None;
    }
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        let escaped = if c == '\\' { chars.next().unwrap_or(c) } else { c };
        out.push(match (c, escaped) {
            ('\\', 'n') => '\n',
            ('\\', 't') => '\t',
            (_, other) => other,
        });
    }
    Some(out)
}

fn numbers<N: std::str::FromStr>(text: &str) -> Vec<N> {
    text.split(' ').filter_map(|number| number.parse().ok()).collect()
}

impl Answers {
    pub fn parse(text: &str) -> Answers {
        let mut answers = Answers::default();
        for line in text.lines() {
            let cells: Vec<Option<String>> = line.split('\t').map(cell).collect();
            let text = |n: usize| cells[n].clone().unwrap_or_default();
            let oid = |n: usize| text(n).parse::<u32>().expect("an OID");
            let bool = |n: usize| matches!(text(n).as_str(), "t" | "true");
            match text(0).as_str() {
                "tree" => answers.trees.push(Tree {
                    kind: text(1),
                    relation: oid(2),
                    name: text(3),
                    text: text(4),
                    normal: text(5),
                    pretty: text(6),
                    definitions: (text(7), text(8)),
                    no_inherit: bool(9),
                    enforced: bool(10),
                    validated: bool(11),
                }),
                "index" => answers.indexes.push(Index {
                    oid: oid(17),
                    relation: oid(1),
                    name: text(2),
                    method: text(3),
                    unique: bool(4),
                    nulls_not_distinct: bool(5),
                    columns: numbers(&text(6)),
                    collations: numbers(&text(7)),
                    classes: numbers(&text(8)),
                    options: numbers(&text(9)),
                    storage: text(10).split_whitespace().map(str::to_owned).collect(),
                    exprs: cells[11].clone(),
                    predicate: cells[12].clone(),
                    normal: (text(13), text(14)),
                    pretty: (text(15), text(16)),
                }),
                "type" => {
                    let typmod = text(2).parse().expect("a modifier");
                    answers.types.insert((oid(1), typmod), text(3));
                }
                "column" => {
                    let attno = text(2).parse().expect("a column's number");
                    answers.columns.insert((oid(1), attno), (3..7).map(text).collect());
                }
                "object" => {
                    let cells = (3..cells.len()).map(text).collect();
                    answers.objects.insert((text(1), oid(2)), cells);
                }
                other => panic!("no answer is called {other}"),
            }
        }
        answers
    }
}
