//! What was last counted of a table or an index: part of its row of pg_class.

/// What VACUUM and CREATE INDEX have last counted of a table or an index.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    /// pg_class.relpages
    pub pages: i32,
    /// pg_class.reltuples; negative: not known
    pub rows: f32,
    /// pg_class.relallvisible
    pub all_visible: i32,
}

impl Figures {
    /// Nothing has been counted.
    pub(crate) const UNKNOWN: Figures = Figures { pages: 0, rows: -1.0, all_visible: 0 };
}
