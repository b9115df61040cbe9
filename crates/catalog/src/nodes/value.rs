//! The small values that fields of nodes hold.

/// A byte's position in the statement, or -1. Stored trees have -1 everywhere, as PostgreSQL
/// writes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Location(pub i32);

impl Location {
    /// Not known.
    pub const UNKNOWN: Location = Location(-1);
}

/// A set of small numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bitmap(pub Vec<u32>);

/// A text that is a node of its own, in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StringNode(pub String);
