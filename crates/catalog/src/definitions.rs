//! What the catalogs say of an index or a constraint, for those who show it as SQL.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::sync::Arc;

use forebay_format::varlena::Varlena;
use forebay_types::{Datum, Oid};

use crate::error::CatalogError;
use crate::index_rows::{DESCENDING, EXPRESSIONS, INDEX_COLUMNS, IndexRow, NULLS_FIRST, PREDICATE};
use crate::index_trees::StoredTree;
use crate::options::stored_texts;
use crate::reader::{Reader, Rows};
use crate::row::{Row, value_at};
use crate::schema::{
    PG_CLASS, PG_CLASS_OID_INDEX, PG_CONSTRAINT, PG_CONSTRAINT_OID_INDEX, PG_INDEX,
    PG_INDEX_INDEXRELID_INDEX,
};
use crate::stored_expr::tree_text;

/// The definition of an index. Options and trees are as they are stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexDefinition {
    /// Its name.
    pub name: String,
    /// Its table.
    pub table: Oid,
    /// pg_class.relam
    pub method: Oid,
    /// indisunique
    pub unique: bool,
    /// indnullsnotdistinct
    pub nulls_not_distinct: bool,
    /// indkey
    pub columns: Vec<i16>,
    /// indcollation
    pub collations: Vec<Oid>,
    /// indclass
    pub classes: Vec<Oid>,
    /// indoption: whether each key is descending, and has its NULLs first.
    pub orders: Vec<(bool, bool)>,
    /// pg_class.reloptions
    pub options: Vec<String>,
    /// indexprs; None within: it is stored out of line.
    pub expressions: StoredTree,
    /// indpred, likewise.
    pub predicate: StoredTree,
}

/// The definition of a constraint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConstraintDefinition {
    /// contype
    pub kind: u8,
    /// Its table, or 0.
    pub table: Oid,
    /// Its index, or 0.
    pub index: Oid,
    /// condeferrable
    pub deferrable: bool,
    /// condeferred
    pub deferred: bool,
    /// conenforced
    pub enforced: bool,
    /// convalidated
    pub validated: bool,
    /// connoinherit
    pub no_inherit: bool,
    /// conkey
    pub columns: Vec<i16>,
    /// conbin; None within: it is stored out of line.
    pub tree: StoredTree,
}

impl Reader<'_> {
    /// The definition of an index. None: there is no such index.
    pub fn index_definition(
        &mut self,
        index: Oid,
    ) -> Result<Option<IndexDefinition>, CatalogError> {
        let (mut found, key) = (None, [Datum::Oid(index)]);
        let of_index = Rows::Of((&PG_INDEX_INDEXRELID_INDEX, &key));
        let encoding = self.database().encoding;
        self.read(of_index, INDEX_COLUMNS, &mut |_, row, tuple| {
            let text = |value| tree_text(value, encoding);
            let tree = |index| value_at(tuple, &PG_INDEX, index)?.map(text).transpose();
            let trees = (tree(EXPRESSIONS)?, tree(PREDICATE)?);
            found = Some(IndexRow::read(&Row(row, PG_INDEX.name), tuple.xmin(), trees)?);
            Ok(false)
        })?;
        let (Some(row), Some(class)) = (found, self.class(index)?) else { return Ok(None) };
        let options = self.options_of(index)?;
        let order = |option: &i16| (option & DESCENDING != 0, option & NULLS_FIRST != 0);
        Ok(Some(IndexDefinition {
            name: class.name,
            table: row.table,
            method: class.traits.access_method,
            unique: row.unique,
            nulls_not_distinct: row.nulls_not_distinct,
            columns: row.columns,
            collations: row.collations,
            classes: row.classes,
            orders: row.options.iter().map(order).collect(),
            options,
            expressions: row.expressions,
            predicate: row.predicate,
        }))
    }

    /// A relation's reloptions.
    fn options_of(&mut self, relation: Oid) -> Result<Vec<String>, CatalogError> {
        const OPTIONS: usize = PG_CLASS.place("reloptions");
        let (mut found, key) = (Vec::new(), [Datum::Oid(relation)]);
        self.read(Rows::Of((&PG_CLASS_OID_INDEX, &key)), 1, &mut |_, _, tuple| {
            if let Some(Varlena::Plain(array)) = value_at(tuple, &PG_CLASS, OPTIONS)? {
                let texts = stored_texts(array);
                let damaged = || CatalogError::corrupt("reloptions of an index are damaged");
                found = texts.ok_or_else(damaged)?.into_iter().map(str::to_owned).collect();
            }
            Ok(false)
        })?;
        Ok(found)
    }

    /// The definition of a constraint. None: there is no such constraint.
    pub fn constraint_definition(
        &mut self,
        constraint: Oid,
    ) -> Result<Option<ConstraintDefinition>, CatalogError> {
        const COLUMNS: usize = PG_CONSTRAINT.place("conkey");
        const TREE: usize = PG_CONSTRAINT.place("conbin");
        let place = |name| PG_CONSTRAINT.place(name);
        let (mut found, key) = (None, [Datum::Oid(constraint)]);
        let of_oid = Rows::Of((&PG_CONSTRAINT_OID_INDEX, &key));
        let encoding = self.database().encoding;
        self.read(of_oid, COLUMNS + 1, &mut |_, row, tuple| {
            let row = Row(row, PG_CONSTRAINT.name);
            let columns = row.vector::<2>(COLUMNS).ok();
            let tree: Option<Option<Arc<str>>> = value_at(tuple, &PG_CONSTRAINT, TREE)?
                .map(|value| tree_text(value, encoding))
                .transpose()?;
            found = Some(ConstraintDefinition {
                kind: row.char(place("contype"))?,
                table: row.oid(place("conrelid"))?,
                index: row.oid(place("conindid"))?,
                deferrable: row.bool(place("condeferrable"))?,
                deferred: row.bool(place("condeferred"))?,
                enforced: row.bool(place("conenforced"))?,
                validated: row.bool(place("convalidated"))?,
                no_inherit: row.bool(place("connoinherit"))?,
                columns: columns.into_iter().flatten().map(i16::from_le_bytes).collect(),
                tree,
            });
            Ok(false)
        })?;
        Ok(found)
    }
}
