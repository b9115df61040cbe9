//! LIKE in CREATE TABLE.

use super::cursor::{Cursor, QualifiedName};
use crate::error::Result;

/// What is taken of the other table besides names, types and NOT NULL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LikeOptions {
    /// COMMENTS
    pub comments: bool,
    /// COMPRESSION
    pub compression: bool,
    /// CONSTRAINTS
    pub constraints: bool,
    /// DEFAULTS
    pub defaults: bool,
    /// GENERATED
    pub generated: bool,
    /// IDENTITY
    pub identity: bool,
    /// INDEXES
    pub indexes: bool,
    /// STATISTICS
    pub statistics: bool,
    /// STORAGE
    pub storage: bool,
}

/// LIKE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LikeClause {
    /// How many columns of the new table come before.
    pub at: usize,
    /// The other table.
    pub table: QualifiedName,
    /// What is taken of it.
    pub options: LikeOptions,
}

impl LikeOptions {
    fn each(&mut self) -> [(&'static str, &mut bool); 9] {
        [
            ("comments", &mut self.comments),
            ("compression", &mut self.compression),
            ("constraints", &mut self.constraints),
            ("defaults", &mut self.defaults),
            ("generated", &mut self.generated),
            ("identity", &mut self.identity),
            ("indexes", &mut self.indexes),
            ("statistics", &mut self.statistics),
            ("storage", &mut self.storage),
        ]
    }
}

/// LIKE, if it is next. `at`: how many columns come before.
pub(super) fn like(c: &mut Cursor<'_>, at: usize) -> Result<Option<LikeClause>> {
    if !c.accept("like") {
        return Ok(None);
    }
    let (table, mut options) = (c.qualified_name()?, LikeOptions::default());
    loop {
        let including = c.accept("including");
        if !including && !c.accept("excluding") {
            return Ok(Some(LikeClause { at, table, options }));
        }
        let all = c.accept("all");
        let mut known = all;
        for (word, option) in options.each() {
            if all || !known && c.accept(word) {
                (*option, known) = (including, true);
            }
        }
        if !known {
            return Err(c.error());
        }
    }
}
