//! What the statements that drop relations share.

use super::cursor::QualifiedName;

/// DROP TABLE, DROP INDEX or DROP SEQUENCE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropStatement {
    /// The relations.
    pub names: Vec<QualifiedName>,
    /// IF EXISTS.
    pub if_exists: bool,
    /// CONCURRENTLY, of an index.
    pub concurrently: bool,
    /// CASCADE.
    pub cascade: bool,
}
