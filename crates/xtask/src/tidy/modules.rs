//! Arrows between the files of a crate: no circle.
//!
//! File A uses file B if product code in A names something that B defines: in an import, or by a
//! path in an expression, a type, a pattern or a macro's arguments. A name that other files hand on
//! counts for the file that defines it. So a file that only declares modules and hands names on
//! uses nothing, and nobody uses it.
//!
//! Not seen: calls of methods, and what macros make.
//!
//! - [`tree`]:  the modules of a crate, the names in them, and what a name stands for
//! - [`uses`]:  the paths that a file names
//! - [`graph`]: files, the arrows between them, and the circles

use super::finding::Finding;
use super::sources::Sources;
use graph::Graph;
use tree::Tree;

mod graph;
mod tree;
mod uses;

/// One finding for each file of a circle, with its arrows to others of the circle.
pub fn check(sources: &Sources) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in sources.packages() {
        for root in ["lib.rs", "main.rs"] {
            let root = format!("crates/{package}/src/{root}");
            if sources.has(&root) {
                add_circles(sources, &root, &mut findings);
            }
        }
    }
    findings
}

fn add_circles(sources: &Sources, root: &str, findings: &mut Vec<Finding>) {
    let tree = Tree::read(sources, root);
    let graph = Graph::new(&tree);
    for circle in graph.circles() {
        for &file in &circle {
            let arrows: Vec<String> = graph
                .arrows(file)
                .filter(|(to, _)| circle.contains(to))
                .map(|(to, names)| format!("\n    -> {} ({})", tree.files[to], names.join(", ")))
                .collect();
            let text = format!("in a circle of {} files{}", circle.len(), arrows.concat());
            let line = graph.first_line(file, &circle);
            findings.push(Finding::new("circles", &tree.files[file], line, text));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Sources, check};

    /// The findings of a crate with these two modules beside what its root file holds.
    fn circles(root: &str, a: &str, b: &str) -> Vec<String> {
        let sources = Sources::from([
            ("crates/wal/Cargo.toml", ""),
            ("crates/wal/src/lib.rs", &format!("mod a;\nmod b;\n{root}")),
            ("crates/wal/src/a.rs", a),
            ("crates/wal/src/b.rs", b),
        ]);
        check(&sources).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn two_files_that_use_each_other_are_a_circle() {
        let found = circles("", "use crate::b::B;\npub struct A;", "\nuse super::a::A;\nstruct B;");
        let told = |path: &str, line, to: &str, name: &str| {
            let begin = format!("crates/wal/src/{path}:{line}: circles: in a circle of 2 files");
            format!("{begin}\n    -> crates/wal/src/{to} ({name})")
        };
        assert_eq!(found, [told("a.rs", 1, "b.rs", "B"), told("b.rs", 2, "a.rs", "A")]);
    }

    #[test]
    fn every_way_to_use_a_file_counts() {
        let b = "use crate::a::A;\npub struct B;\npub enum E { X }\npub fn f() {}";
        for a in [
            "use crate::b::B; pub struct A;",
            "use crate::{b::{B as C}}; pub struct A;",
            "use super::b; pub struct A; fn f() { b::f() }",
            "use crate::b::*; pub struct A;",
            "use super::b::E::X; pub struct A;",
            "pub struct A(crate::b::B);",
            "pub struct A; fn f() { match e { super::b::E::X => {} } }",
            "pub struct A; fn f() { vec![g(crate::b::f())]; }",
            "pub struct A; pub(crate) use super::b::f; fn g() { vec![1, f()]; }",
            "pub struct A; fn f() { use super::b as c; c::f(); }",
            "pub struct A; mod inner { fn f() { super::super::b::f() } }",
            "pub struct A; mod inner { use crate::b::B; }",
            "pub use super::b::B; pub struct A(B);",
        ] {
            assert_eq!(circles("", a, b).len(), 2, "{a}");
        }
    }

    #[test]
    fn what_is_no_use_does_not_count() {
        let b = "use crate::a::A;\npub struct B;\npub fn f() {}";
        for a in [
            "pub struct A;",
            "pub struct A; // crate::b::B",
            "pub struct A; #[cfg(test)] mod tests { use crate::b::B; }",
            "pub struct A; #[cfg(test)] use crate::b::B;",
            "pub struct A; impl A { #[cfg(test)] fn f(&self) { crate::b::f() } }",
            "pub struct A; fn f(b: other::B) { other::b::f() }",
            "pub struct A; fn f() { let text = \"crate::b::f()\"; }",
            "pub struct A; pub(crate) use super::b::f; fn g(a: A) { vec![a.f()]; }",
            "pub use super::b::B; pub struct A;",
        ] {
            assert_eq!(circles("", a, b).len(), 0, "{a}");
        }
    }

    #[test]
    fn a_file_that_only_hands_names_on_is_transparent() {
        let (a, b) = ("use crate::B; pub struct A;", "pub struct B;");
        assert_eq!(circles("pub use a::A;\npub use b::B;", a, b).len(), 0);
        // The name leads to its file all the same.
        let b = "use super::A; pub struct B;";
        assert_eq!(circles("pub use a::A;\npub use b::B;", a, b).len(), 2);
    }

    #[test]
    fn imports_of_each_other_come_to_an_end() {
        let both = "use super::a::*;\nuse super::b::*;\npub use super::a::x;\nfn f() { x() }";
        assert_eq!(circles("pub use a::*;\npub use b::*;", both, both).len(), 2);
        let found = circles("", "pub use super::b::x;", "pub use super::a::x;\nfn f() { x() }");
        assert_eq!(found.len(), 0, "{found:?}");
    }

    #[test]
    fn a_root_that_defines_something_is_a_file_as_any_other() {
        let found = circles("pub struct R(a::A);", "pub struct A(crate::R);", "");
        assert_eq!(found.len(), 2, "{found:?}");
        let found = circles("pub use a::A;\npub struct R;", "pub struct A(crate::R);", "");
        assert_eq!(found.len(), 0, "handing a name on is no use: {found:?}");
    }
}
