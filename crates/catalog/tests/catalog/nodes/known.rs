//! `Names` over PostgreSQL's answers and the rows that every cluster begins with.

use std::collections::{BTreeSet, HashMap};

use forebay_catalog::nodes::{Call, Const, Names, NodeError, QualifiedName};
use forebay_types::{Datum, SqlType, to_text};

use super::answers::Answers;

type Result<T> = std::result::Result<T, NodeError>;

/// What the answers and `data/` know. A function or operator is found without its schema if the
/// search path leads to that: no two of the script's make a difference by their types.
pub struct Known<'a> {
    answers: &'a Answers,
    /// By file and OID: the rows of `data/`, by column.
    initial: HashMap<(&'static str, u32), HashMap<&'static str, &'static str>>,
    /// The table whose columns are named.
    pub relation: u32,
    /// The types with modifiers that were asked for.
    pub types: BTreeSet<(u32, i32)>,
}

const FILES: [(&str, &str); 4] = [
    ("proc", include_str!("../../../data/pg_proc.tsv")),
    ("operator", include_str!("../../../data/pg_operator.tsv")),
    ("type", include_str!("../../../data/pg_type.tsv")),
    ("opclass", include_str!("../../../data/pg_opclass.tsv")),
];

fn rows(text: &'static str) -> impl Iterator<Item = HashMap<&'static str, &'static str>> {
    let (header, rows) = text.split_once('\n').expect("a header");
    let columns: Vec<_> =
        header.split('\t').map(|name| name.split_once('=').unwrap_or((name, ""))).collect();
    rows.lines().map(move |line| {
        let cells = line.split('\t').chain(std::iter::repeat(""));
        let value = |(cell, (name, empty)): (&'static str, &(&'static str, &'static str))| {
            (*name, if cell.is_empty() { *empty } else { cell })
        };
        cells.zip(&columns).map(value).collect()
    })
}

impl<'a> Known<'a> {
    pub fn new(answers: &'a Answers) -> Known<'a> {
        let mut initial = HashMap::new();
        for (file, text) in FILES {
            for row in rows(text) {
                initial.insert((file, row["oid"].parse().expect("an OID")), row);
            }
        }
        Known { answers, initial, relation: 0, types: BTreeSet::new() }
    }

    /// The type, the modifier and the collation of a column.
    pub fn column_type(&self, relation: u32, attno: i32) -> (u32, i32, u32) {
        let column = &self.answers.columns[&(relation, attno)];
        let [ty, collation] = [1, 2].map(|n| column[n].parse().expect("an OID"));
        (ty, column[3].parse().expect("a modifier"), collation)
    }

    fn object(&self, kind: &'static str, oid: u32) -> Result<&'a [String]> {
        let found = self.answers.objects.get(&(kind.to_owned(), oid));
        found.map(Vec::as_slice).ok_or(NodeError::Missing { what: kind, oid })
    }

    /// The name of an object of the script's, or of a row of `data/`.
    fn named(&self, kind: &'static str, oid: u32, column: &str) -> Result<QualifiedName> {
        if let Some(row) = self.initial.get(&(kind, oid)) {
            return Ok(QualifiedName { schema: None, name: row[column].to_owned() });
        }
        let object = self.object(kind, oid)?;
        let schema = (object[2] != "t").then(|| object[0].clone());
        Ok(QualifiedName { schema, name: object[1].clone() })
    }

    /// A cell of a type's row.
    fn of_type(&self, ty: u32, cell: usize) -> Result<u32> {
        let row = self.object("type", ty)?;
        row[cell].parse().map_err(|_| NodeError::Missing { what: "type", oid: ty })
    }
}

/// OIDs of types whose values are names of objects.
const REGPROC: u32 = 24;
const REGPROCEDURE: u32 = 2202;
const REGOPER: u32 = 2203;
const REGCLASS: u32 = 2205;
const REGTYPE: u32 = 2206;
const REGNAMESPACE: u32 = 4089;
const REGCONFIG: u32 = 3734;
const REGCOLLATION: u32 = 4191;

impl Names for Known<'_> {
    fn function(&mut self, call: Call<'_>) -> Result<QualifiedName> {
        self.named("proc", call.funcid, "proname")
    }

    fn operator(&mut self, opno: u32, _: u32, _: u32) -> Result<QualifiedName> {
        self.named("operator", opno, "oprname")
    }

    fn type_name(&mut self, ty: u32, typmod: i32) -> Result<String> {
        self.types.insert((ty, typmod));
        let found = self.answers.types.get(&(ty, typmod));
        Ok(found.cloned().unwrap_or_else(|| format!("(type {ty}, {typmod})")))
    }

    fn type_collation(&mut self, ty: u32) -> Result<u32> {
        self.of_type(ty, 0)
    }

    fn element_type(&mut self, ty: u32) -> Result<u32> {
        const ARRAY_SUBSCRIPT: u32 = 6179;
        match (self.of_type(ty, 5)?, self.of_type(ty, 3)?) {
            (ARRAY_SUBSCRIPT, _) => self.of_type(ty, 1),
            (_, 0) => Ok(ty),
            (_, base) => self.element_type(base),
        }
    }

    fn fields(&mut self, ty: u32) -> Result<Option<Vec<Option<String>>>> {
        let relation = match self.of_type(ty, 2) {
            Ok(0) | Err(_) => return Ok(None),
            Ok(relation) => relation,
        };
        let names = (1..).map_while(|n| self.answers.columns.get(&(relation, n)));
        Ok(Some(names.map(|column| Some(column[0].clone())).collect()))
    }

    fn collation(&mut self, collation: u32) -> Result<QualifiedName> {
        self.named("collation", collation, "")
    }

    fn relation(&mut self, relation: u32) -> Result<QualifiedName> {
        self.named("relation", relation, "")
    }

    fn operator_class(&mut self, class: u32, ty: u32) -> Result<Option<QualifiedName>> {
        const BPCHAR_OPS: [&str; 2] = ["1042", "1043"];
        let ty = match self.of_type(ty, 3) {
            Ok(base) if base != 0 => base,
            _ => ty,
        };
        let row = &self.initial[&("opclass", class)];
        let takes = row["opcintype"];
        // Text's classes are the default ones of varchar too, and a kind of types has one.
        let fits = takes == ty.to_string()
            || (takes == "25" && BPCHAR_OPS.contains(&ty.to_string().as_str()))
            || matches!(takes, "2277" | "3500" | "3831");
        let default = row["opcdefault"] == "t" && fits;
        let name = || QualifiedName { schema: None, name: row["opcname"].to_owned() };
        Ok((!default).then(name))
    }

    fn table(&mut self) -> Result<String> {
        Ok(self.object("relation", self.relation)?[1].clone())
    }

    fn column(&mut self, attno: i32) -> Result<String> {
        let column = self.answers.columns.get(&(self.relation, attno));
        let missing = NodeError::Missing { what: "column", oid: attno.unsigned_abs() };
        column.map(|column| column[0].clone()).ok_or(missing)
    }

    fn output(&mut self, value: &Const) -> Result<String> {
        let oid = match &value.constvalue {
            Datum::Oid(oid) => Some(*oid),
            Datum::Carried(_, bytes) => bytes.first_chunk().map(|four| u32::from_le_bytes(*four)),
            Datum::Text(text) => return Ok(text.clone().into_owned()),
            _ => None,
        };
        if let Some(oid) = oid {
            match value.consttype {
                REGCLASS => return Ok(self.relation(oid)?.to_string()),
                REGPROC => return Ok(self.named("proc", oid, "proname")?.to_string()),
                REGTYPE => return self.type_name(oid, -1),
                REGPROCEDURE => {
                    let name = self.named("proc", oid, "proname")?.to_string();
                    return Ok(format!("{name}(integer)"));
                }
                REGOPER => return Ok(self.named("operator", oid, "oprname")?.name),
                REGNAMESPACE => return Ok(self.object("namespace", oid)?[1].clone()),
                REGCOLLATION => return Ok(self.collation(oid)?.to_string()),
                REGCONFIG => return Ok(value_of_config(oid).to_owned()),
                _ => {}
            }
        }
        Ok(to_text(&value.constvalue, SqlType::of(value.consttype))?)
    }
}

/// The text search configurations that the script names.
fn value_of_config(oid: u32) -> &'static str {
    if oid == 3748 { "simple" } else { "english" }
}
