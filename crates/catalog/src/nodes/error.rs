//! Why a tree cannot be read, written or printed.

use forebay_types::{Oid, ValueError};

/// Result of what can fail with a [`NodeError`].
pub(super) type Result<T, E = NodeError> = std::result::Result<T, E>;

/// The error of node trees.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NodeError {
    /// The text is no tree.
    #[error("a node tree is damaged at byte {position}: {expected} expected")]
    Damaged {
        /// Where in the text.
        position: usize,
        /// What should have been there.
        expected: String,
    },
    /// A node that no expression over one row has, or that is not supported.
    #[error("{what} in a stored expression is not supported")]
    Unsupported {
        /// The node, named as a user knows it.
        what: String,
    },
    /// A field that PostgreSQL 18 does not write.
    #[error("field \"{field}\" of node {node} in a stored expression is not supported")]
    UnknownField {
        /// The node's label.
        node: String,
        /// The field's name.
        field: String,
    },
    /// The tree is deeper than [`super::MAX_DEPTH`].
    #[error("a stored expression is nested too deeply")]
    TooDeep,
    /// The text is longer than [`super::MAX_TEXT`].
    #[error("a stored expression is too long: {len} bytes")]
    TooLong {
        /// Its length.
        len: usize,
    },
    /// The bytes of a constant are no value of its type.
    #[error("a constant of a stored expression: {0}")]
    Value(#[from] ValueError),
    /// A node has not the arguments that its kind has.
    #[error("a node of a stored expression has arguments that its kind does not have")]
    Arguments,
    /// The catalogs do not have what the tree refers to.
    #[error("a stored expression refers to {what} {oid}, which does not exist")]
    Missing {
        /// Its kind.
        what: &'static str,
        /// Its OID, or the number of a column.
        oid: Oid,
    },
}

/// Nodes that PostgreSQL's expressions can have and that are refused, with their names in SQL.
const REFUSED: &[(&str, &str)] = &[
    ("AGGREF", "an aggregate function"),
    ("GROUPINGFUNC", "GROUPING"),
    ("WINDOWFUNC", "a window function"),
    ("SUBLINK", "a subquery"),
    ("SUBPLAN", "a subquery"),
    ("QUERY", "a query"),
    ("XMLEXPR", "an XML expression"),
    ("JSONVALUEEXPR", "a JSON expression"),
    ("JSONCONSTRUCTOREXPR", "a JSON constructor"),
    ("JSONISPREDICATE", "IS JSON"),
    ("JSONEXPR", "a JSON query function"),
    ("FIELDSTORE", "an assignment to a field"),
    ("MERGESUPPORTFUNC", "MERGE_ACTION()"),
    ("CURRENTOFEXPR", "CURRENT OF"),
];

impl NodeError {
    /// The refusal of a node by its label.
    pub(super) fn unknown_node(label: &str) -> NodeError {
        let known = REFUSED.iter().find(|(refused, _)| *refused == label);
        let what = known.map_or_else(|| format!("node {label}"), |(_, what)| (*what).to_owned());
        NodeError::Unsupported { what }
    }

    /// The five characters of PostgreSQL's error code.
    pub fn sqlstate(&self) -> &'static str {
        match self {
            NodeError::Damaged { .. } | NodeError::Arguments => "XX001",
            NodeError::Unsupported { .. } | NodeError::UnknownField { .. } => "0A000",
            NodeError::TooDeep => "54001",
            NodeError::TooLong { .. } => "54000",
            NodeError::Value(error) => error.sqlstate(),
            NodeError::Missing { .. } => "XX000",
        }
    }
}
