//! Cut and changed texts of trees: an error or a tree, never a panic.

use forebay_catalog::nodes::{MAX_DEPTH, Style, deparse, read, read_list, write};
use proptest::prelude::*;

use super::GOLDEN;
use super::answers::Answers;
use super::known::Known;

/// What reading does of a text; a tree that is read is written and read again.
fn try_read(text: &str) {
    if let Ok(expr) = read(text) {
        let again = read(&write(&expr)).expect("what is written can be read");
        assert!(expr.same(&again));
        // Whether there is a text for it depends on what it names.
        if let Err(error) = deparse(&expr, Style::PRETTY, &mut Known::new(&Answers::default())) {
            assert!(!error.to_string().is_empty());
        }
    }
    if let Err(error) = read_list(text) {
        assert!(!error.to_string().is_empty());
    }
}

/// Pieces that trees are made of.
fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("{".to_owned()),
        Just("}".to_owned()),
        Just("(".to_owned()),
        Just(")".to_owned()),
        Just("<>".to_owned()),
        Just("[ 1 2 ]".to_owned()),
        Just(" ".to_owned()),
        Just("\\".to_owned()),
        Just("\"".to_owned()),
        Just(":args".to_owned()),
        Just("-1".to_owned()),
        Just("4294967295".to_owned()),
        Just("99999999999999999999".to_owned()),
        Just("{SUBLINK :location -1}".to_owned()),
        "[a-zA-Z0-9:äé]{0,12}".prop_map(|text| text),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn cut_and_changed_trees_are_read_or_refused(
        which in any::<prop::sample::Index>(),
        from in any::<prop::sample::Index>(),
        len in 0usize..40,
        new in prop::collection::vec(piece(), 0..4),
    ) {
        let answers = TREES.with(Clone::clone);
        let tree = which.get(&answers);
        let from = from.index(tree.len() + 1);
        let begin = tree.floor_char_boundary(from);
        let end = tree.floor_char_boundary((begin + len).min(tree.len()));
        try_read(&tree[..begin]);
        try_read(&format!("{}{}{}", &tree[..begin], new.concat(), &tree[end..]));
    }
}

thread_local! {
    static TREES: std::rc::Rc<Vec<String>> = std::rc::Rc::new(
        Answers::parse(GOLDEN).trees.into_iter().map(|tree| tree.text).collect(),
    );
}

/// A tree of this many nodes, one in the other.
fn nested(depth: usize) -> String {
    let begin = "{BOOLEXPR :boolop not :args (".repeat(depth);
    let inner = "{CASETESTEXPR :typeId 16 :typeMod -1 :collation 0}";
    format!("{begin}{inner}{}", ") :location -1}".repeat(depth))
}

#[test]
fn depth_is_bounded() {
    let deepest = read(&nested(MAX_DEPTH - 1)).expect("not too deep");
    assert_eq!(write(&deepest), nested(MAX_DEPTH - 1));
    assert!(deepest.same(&deepest.clone()));
    for style in [Style::NORMAL, Style::PRETTY] {
        let text = deparse(&deepest, style, &mut Known::new(&Answers::default()));
        assert_eq!(text.expect("a text").matches("NOT ").count(), MAX_DEPTH - 1);
    }
    for depth in [MAX_DEPTH, 100_000] {
        assert_eq!(read(&nested(depth)).expect_err("too deep").sqlstate(), "54001");
    }
}

#[test]
fn unknown_nodes_and_fields_are_named() {
    for (text, message) in [
        ("{SUBLINK :subLinkType 4}", "a subquery in a stored expression is not supported"),
        ("{AGGREF :aggfnoid 1}", "an aggregate function in a stored expression is not supported"),
        ("{NONE :a 1}", "node NONE in a stored expression is not supported"),
        (
            "{CASETESTEXPR :typeId 16 :typeMod -1 :collation 0 :extra 1}",
            "field \"extra\" of node CASETESTEXPR in a stored expression is not supported",
        ),
        (
            "{CASETESTEXPR :typeId 16 :typemod -1 :collation 0}",
            "field \"typemod\" of node CASETESTEXPR in a stored expression is not supported",
        ),
        (
            "{CASETESTEXPR :typeId 16 :collation 0}",
            "field \"collation\" of node CASETESTEXPR in a stored expression is not supported",
        ),
    ] {
        let error = read(text).expect_err("refused");
        assert_eq!((error.sqlstate(), error.to_string().as_str()), ("0A000", message));
    }
}
