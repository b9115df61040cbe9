//! Node trees against PostgreSQL 18: its trees are read and written byte for byte, and printed as
//! it prints them.
//!
//! `golden/nodes.sql` makes tables, checks and indexes; PostgreSQL's answers about them are asked
//! from it if there is one (FOREBAY_PG18_RUN), and from `golden/nodes.tsv` in any case.
//! FOREBAY_RECORD=1 writes that file anew.
//!
//! | Module | Holds |
//! |---|---|
//! | `answers` | what PostgreSQL says of its trees, and how it is asked |
//! | `known` | `Names` over these answers and the rows in `data/` |
//! | `damage` | changed and cut texts |

mod answers;
mod damage;
mod known;

use std::collections::BTreeSet;
use std::path::PathBuf;

use answers::{Answers, ask};
use forebay_catalog::nodes::{
    CheckText, Expr, IndexKeyText, IndexText, KeySource, NodeError, Style, collation_of, deparse,
    deparse_list, read, read_list, type_of, typmod_of, write, write_list,
};
use forebay_testkit::peer::Peer;
use forebay_testkit::process::must;
use known::Known;

const SQL: &str = include_str!("../../golden/nodes.sql");
const GOLDEN: &str = include_str!("../../golden/nodes.tsv");

#[test]
fn trees_that_postgresql_wrote_before() {
    Report::of(&Answers::parse(GOLDEN)).check(400);
}

#[test]
fn trees_that_postgresql_writes() {
    let Some(peer) = Peer::find("node-trees") else { return };
    peer.init("data");
    let server = peer.start("data", "");
    std::fs::write(peer.outside("nodes.sql"), SQL).expect("the script is written");
    must(peer.psql(server.port).args(["-f", &peer.inside("nodes.sql")]));
    // The first answers tell which types have to be written.
    let types = Report::of(&Answers::parse(&ask(&server, &BTreeSet::new()))).types;
    let asked = ask(&server, &types);
    if std::env::var_os("FOREBAY_RECORD").is_some() {
        let golden = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/nodes.tsv");
        std::fs::write(golden, small_part(&asked)).expect("the answers are recorded");
    }
    Report::of(&Answers::parse(&asked)).check(600);
}

/// The answers without long trees, but for those that have a kind of node that no other one has.
fn small_part(asked: &str) -> String {
    const SHORT: usize = 600;
    let mut seen = BTreeSet::new();
    let mut lines: Vec<(usize, &str)> = asked.lines().enumerate().collect();
    lines.sort_by_key(|(_, line)| line.len());
    lines.retain(|(_, line)| {
        let labels = line.split('{').skip(1).filter_map(|node| node.split_once(" :"));
        let new = labels.filter(|(label, _)| seen.insert(*label)).count();
        new > 0 || line.len() <= SHORT
    });
    lines.sort_unstable();
    lines.into_iter().map(|(_, line)| format!("{line}\n")).collect()
}

const NAME: u32 = 19;
const CSTRING: u32 = 2275;

/// What of the answers agrees.
#[derive(Default)]
struct Report {
    compared: usize,
    /// Constants whose type `types` cannot print.
    not_printed: Vec<String>,
    differences: Vec<String>,
    /// The types that were written.
    types: BTreeSet<(u32, i32)>,
}

impl Report {
    fn of(answers: &Answers) -> Report {
        let mut report = Report::default();
        let mut known = Known::new(answers);
        for tree in &answers.trees {
            let parsed = if tree.kind == "list" {
                read_list(&tree.text).map(|list| (write_list(&list), list))
            } else {
                read(&tree.text).map(|expr| (write(&expr), vec![expr]))
            };
            let (written, exprs) = match parsed {
                Ok(parsed) => parsed,
                Err(error) => {
                    report.differences.push(format!("{}: {error}", tree.name));
                    continue;
                }
            };
            report.same(&tree.name, &tree.text, Ok(written));
            known.relation = tree.relation;
            for (style, expected) in [(Style::NORMAL, &tree.normal), (Style::PRETTY, &tree.pretty)]
            {
                report.same(&tree.name, expected, deparse_list(&exprs, style, &mut known));
            }
            report.check_definition(tree, &exprs, &mut known);
        }
        for index in &answers.indexes {
            report.index(index, &mut known);
        }
        report.types = known.types;
        report
    }

    fn check_definition(&mut self, tree: &answers::Tree, exprs: &[Expr], known: &mut Known<'_>) {
        let ("check", [condition]) = (tree.kind.as_str(), exprs) else { return };
        let check = CheckText {
            condition,
            no_inherit: tree.no_inherit,
            enforced: tree.enforced,
            validated: tree.validated,
        };
        let (normal, pretty) = &tree.definitions;
        self.same(&tree.name, normal, check.definition(Style::NORMAL, known));
        self.same(&tree.name, pretty, check.definition(Style::PRETTY, known));
    }

    fn index(&mut self, index: &answers::Index, known: &mut Known<'_>) {
        let parse = |text: &str| read_list(text).expect("the list was read before");
        let exprs = index.exprs.as_deref().map(parse).unwrap_or_default();
        let predicate = index.predicate.as_deref().map(|text| read(text).expect("a predicate"));
        let mut next = exprs.iter();
        let mut keys = Vec::new();
        for (n, attno) in index.columns.iter().enumerate().take(index.classes.len()) {
            let source = match *attno {
                0 => {
                    let expr = next.next().expect("an expression for each such key");
                    self.same_type(index, n, expr, known);
                    KeySource::Expr(expr)
                }
                attno => {
                    let (ty, _, collation) = known.column_type(index.relation, attno.into());
                    KeySource::Column { attno, ty, collation }
                }
            };
            keys.push(IndexKeyText {
                source,
                collation: index.collations[n],
                class: index.classes[n],
                class_options: Vec::new(),
                descending: index.options[n] & 1 != 0,
                nulls_first: index.options[n] & 2 != 0,
            });
        }
        known.relation = index.relation;
        let styles = [(Style::NORMAL, &index.normal), (Style::PRETTY, &index.pretty)];
        for (style, (table, expected)) in styles {
            let text = IndexText {
                name: &index.name,
                table,
                method: &index.method,
                ordered: index.method == "btree",
                unique: index.unique,
                keys: keys.clone(),
                included: index.columns[index.classes.len()..].to_vec(),
                nulls_not_distinct: index.nulls_not_distinct,
                options: index.storage.clone(),
                predicate: predicate.as_ref(),
            };
            self.same(&index.name, expected, text.definition(style, known));
        }
    }

    /// The index's own column has the expression's type, modifier and collation.
    fn same_type(&mut self, index: &answers::Index, n: usize, expr: &Expr, known: &Known<'_>) {
        let number = i32::try_from(n).expect("few keys") + 1;
        let (ty, typmod, collation) = known.column_type(index.oid, number);
        // A B-tree stores names as C strings.
        let ty = if ty == CSTRING { NAME } else { ty };
        // The key has a collation of its own if COLLATE stands after the expression.
        let expected = match index.method.as_str() {
            "btree" if !index.normal.1.contains(") COLLATE") => (ty, typmod, collation),
            "btree" => (ty, typmod, collation_of(expr)),
            _ => return,
        };
        let got = (type_of(expr), typmod_of(expr), collation_of(expr));
        let name = format!("{} key {number}", index.name);
        self.same(&name, &format!("{expected:?}"), Ok(format!("{got:?}")));
    }

    fn same(&mut self, name: &str, expected: &str, got: Result<String, NodeError>) {
        match got {
            Ok(got) if got == expected => self.compared += 1,
            Ok(got) => self.differences.push(format!("{name}:\n  {expected}\n  {got}")),
            Err(error @ NodeError::Value(_)) if error.sqlstate() == "0A000" => {
                self.not_printed.push(format!("{name}: {error}: {expected}"));
            }
            Err(error) => self.differences.push(format!("{name}:\n  {expected}\n  {error}")),
        }
    }

    /// At least so many texts were compared, and all agree.
    fn check(&self, least: usize) {
        println!("{} texts agree, {} not printed", self.compared, self.not_printed.len());
        let shown = self.differences.iter().take(60).cloned().collect::<Vec<_>>().join("\n");
        let count = self.differences.len();
        assert!(self.differences.is_empty(), "{count} of {} differ:\n{shown}", self.compared);
        assert!(self.compared >= least, "only {} texts were compared", self.compared);
        let texts = self.not_printed.join("\n");
        assert!(self.not_printed.len() <= self.compared / 5, "not printed:\n{texts}");
    }
}

/// Printing refuses what has no text instead of guessing.
#[test]
fn a_type_that_cannot_be_printed_is_refused() {
    let answers = Answers::parse("");
    let mut known = Known::new(&answers);
    let tree = "{PARAM :paramkind 1 :paramid 3 :paramtype 23 :paramtypmod -1 :paramcollid 0 \
                :location -1}";
    let expr = read(tree).expect("a tree");
    let error = deparse(&expr, Style::NORMAL, &mut known).expect_err("no SQL names it");
    assert_eq!(error.sqlstate(), "0A000");
}
