//! CREATE TABLE (LIKE ...): the other table's columns become clauses of the statement, as if they
//! had been written, with its defaults and checks; indexes and comments follow when the table is
//! there.

use super::state::Connection;
use super::table_columns::TableParts;
use crate::analyze::type_name;
use crate::error::{Result, SqlError, state};
use crate::parse::{
    CreateTable, LikeClause, LikeOptions, NewColumn, QualifiedName, SequenceClauses, new_column_of,
};
use crate::plan::{Catalog, live_columns, stored_expr};
use forebay_engine::nodes::Expr;
use forebay_engine::syscache::NamespaceByOid;
use forebay_engine::{
    CheckDef, Column, ColumnDef, CommentedPart, EngineError, LockMode, Oid, SequenceOptions,
    StoredExpr, Table, ToastCompression, quoted, wrong_kind,
};
use forebay_types::{format_type, oids, type_info};
use std::sync::Arc;

/// An expression over the rows of a table as one over those of a new table, by the columns' names.
fn over_columns(mut tree: Expr, from: &Table, to: &[ColumnDef]) -> Result<Expr> {
    let mut lost = false;
    renumber(&mut tree, &mut |number| {
        let old = from.columns.iter().find(|column| i32::from(column.attnum) == number);
        let new = old.and_then(|old| to.iter().position(|column| column.name == old.name));
        let new = new.and_then(|place| i32::try_from(place + 1).ok());
        lost |= new.is_none();
        new.unwrap_or(number)
    });
    match lost {
        true => Err(SqlError::unsupported("LIKE of a table with a whole-row expression")),
        false => Ok(tree),
    }
}

fn renumber(expr: &mut Expr, number: &mut dyn FnMut(i32) -> i32) {
    if let Expr::Var(var) = expr {
        let new = number(var.varattno);
        (var.varattno, var.varattnosyn) = (new, new);
    }
    expr.visit_children_mut(&mut |child| renumber(child, number));
}

/// A table of which something is taken when the new one is there.
pub(super) struct Source {
    table: Arc<Table>,
    options: LikeOptions,
}

impl Connection {
    /// The statement with the columns of the tables that its LIKE clauses name, and these tables.
    pub(super) fn expand_like(
        &mut self,
        create: &CreateTable,
    ) -> Result<(CreateTable, Vec<Source>)> {
        let mut expanded = CreateTable { likes: Vec::new(), ..create.clone() };
        let mut sources = Vec::with_capacity(create.likes.len());
        // From the last one on, so that the places of the others stay.
        for like in create.likes.iter().rev() {
            let table = self.table_like(like)?;
            let mut columns = Vec::new();
            for (place, column) in table.columns.iter().enumerate().filter(|(_, c)| !c.dropped) {
                columns.push(self.column_like(&table, (place, column), like.options)?);
            }
            expanded.columns.splice(like.at..like.at, columns);
            sources.push(Source { table, options: like.options });
        }
        for (n, column) in expanded.columns.iter().enumerate() {
            let before = expanded.columns.get(..n).unwrap_or_default();
            if before.iter().any(|other| other.name == column.name) {
                let message = format!("column \"{}\" specified more than once", column.name);
                return Err(SqlError::new(state::DUPLICATE_COLUMN, message));
            }
        }
        sources.reverse();
        Ok((expanded, sources))
    }

    /// The table of a LIKE clause, locked.
    fn table_like(&mut self, like: &LikeClause) -> Result<Arc<Table>> {
        let name = &like.table;
        let found = self.host.open_table(name.schema.as_deref(), &name.name, LockMode::AccessShare);
        let at = |error: SqlError| error.at(name.position);
        let Some(table) = found.map_err(at)? else {
            return self.no_table(name).and_then(|error| Err(at(error)));
        };
        if !matches!(table.kind, b'r' | b'm') {
            let message = format!("relation \"{}\" is invalid in LIKE clause", table.name);
            return Err(at(EngineError::from(wrong_kind(table.kind, message)).into()));
        }
        table.check_readable().map_err(EngineError::from)?;
        if like.options.statistics
            && self.host.call(|session| session.has_extended_statistics(table.oid))?
        {
            return Err(SqlError::unsupported("LIKE of a table with extended statistics"));
        }
        Ok(table)
    }

    /// A column as it would be written.
    fn column_like(
        &mut self,
        table: &Table,
        (place, column): (usize, &Column),
        options: LikeOptions,
    ) -> Result<NewColumn> {
        if type_info(column.type_oid).is_none() {
            let ty = type_name(self.host.names(), column.type_oid)?;
            return Err(SqlError::unsupported(format!("a column of type {ty}")));
        }
        let (name, ty) = (quoted(&column.name), format_type(column.type_oid, Some(column.typmod)));
        let mut new = new_column_of(&format!("{name} {ty}"))?;
        new.collation = self.collation_like(column)?;
        if column.not_null {
            let found = self.host.call(|session| session.not_null_of(table, column.attnum))?;
            new.not_null = true;
            new.not_null_name = found.map(|constraint| constraint.name);
        }
        if let Some(toast) = table.toasting.columns.get(place) {
            if options.storage {
                let name = match toast.storage.code() {
                    b'p' => "plain",
                    b'e' => "external",
                    b'm' => "main",
                    _ => "extended",
                };
                new.storage = Some(name.to_owned());
            }
            if options.compression {
                new.compression = toast.method.map(|method| match method {
                    ToastCompression::Lz4 => "lz4".to_owned(),
                    ToastCompression::Pglz => "pglz".to_owned(),
                });
            }
        }
        if column.is_identity {
            if options.identity {
                new.values.identity = self.identity_like(table, column)?;
            }
            return Ok(new);
        }
        Ok(new)
    }

    /// The name of a column's collation, if it is not that of its type.
    fn collation_like(&mut self, column: &Column) -> Result<Option<QualifiedName>> {
        if column.collation == self.host.names().ty(column.type_oid)?.collation {
            return Ok(None);
        }
        let Some(row) = self.host.names().collation_by_oid(column.collation)? else {
            let message = format!("cache lookup failed for collation {}", column.collation);
            return Err(SqlError::new(state::INTERNAL_ERROR, message));
        };
        let schema = self.host.look_up(NamespaceByOid(row.namespace))?;
        let schema = schema.map(|schema| schema.name.to_string());
        Ok(Some(QualifiedName { schema, name: row.name.to_string(), position: 0 }))
    }

    /// Gives the parts of a new table the defaults, generated columns and checks of the tables that
    /// it is like: their trees, over its own columns.
    pub(super) fn take_expressions(
        &mut self,
        parts: &mut TableParts,
        sources: &[Source],
    ) -> Result<()> {
        for Source { table, options } in sources {
            for column in live_columns(table).filter(|c| c.has_default && !c.is_identity) {
                let generated = column.generated;
                if !(if generated == 0 { options.defaults } else { options.generated }) {
                    continue;
                }
                let (name, of) = (&column.name, &table.name);
                let what = format!("the default of column \"{name}\" of relation \"{of}\"");
                let tree = stored_expr(column.default.as_ref(), &what)?;
                let tree = over_columns(tree, table, &parts.columns)?;
                if let Some(new) = parts.columns.iter_mut().find(|new| new.name == *name) {
                    (new.default, new.generated) = (Some(StoredExpr::new(&tree)), generated);
                }
            }
            for check in table.checks.iter().filter(|_| options.constraints) {
                let what = format!("check \"{}\" of relation \"{}\"", check.name, table.name);
                let tree = stored_expr(check.tree.as_ref(), &what)?;
                let tree = over_columns(tree, table, &parts.columns)?;
                parts.checks.push(CheckDef {
                    name: Some(check.name.clone()),
                    condition: StoredExpr::new(&tree),
                    no_inherit: check.no_inherit,
                    enforced: check.enforced,
                    validated: check.enforced,
                });
            }
        }
        Ok(())
    }

    /// A column's identity: ALWAYS or not, and the options of its sequence.
    fn identity_like(
        &mut self,
        table: &Table,
        column: &Column,
    ) -> Result<Option<(bool, SequenceClauses)>> {
        let Some(sequence) = self.host.owned_sequence(table.oid, column.attnum)? else {
            return Ok(None);
        };
        let info = self.host.call(|session| session.sequence_info(sequence))?;
        let rules = info.def.rules;
        let options = SequenceOptions {
            type_oid: Some(oids::INT8),
            increment: Some(rules.increment),
            min: Some(Some(rules.min)),
            max: Some(Some(rules.max)),
            start: Some(info.def.start),
            restart: None,
            cache: Some(rules.cache),
            cycle: Some(rules.cycle),
        };
        let clauses = SequenceClauses { options, owned_by: None };
        Ok(Some((column.always_identity, clauses)))
    }

    /// Gives a new table the indexes and comments of the tables that it is like.
    pub(super) fn follow_like(&mut self, oid: Oid, sources: &[Source]) -> Result<()> {
        for Source { table, options } in sources {
            let mut parts = Vec::new();
            if options.indexes {
                self.indexes_like(oid, table, &mut parts)?;
            }
            if options.comments {
                let now = self.table_now(oid)?;
                for column in live_columns(table) {
                    let new = now.column(&column.name).map(|(_, new)| new.attnum);
                    parts.extend(new.map(|new| CommentedPart::Column(column.attnum, new)));
                    let of = column.attnum;
                    let found = self.host.call(|session| session.not_null_of(table, of))?;
                    parts.extend(found.map(|found| CommentedPart::Constraint(found.name)));
                }
                if options.constraints {
                    let checks = table.checks.iter();
                    parts.extend(checks.map(|c| CommentedPart::Constraint(c.name.clone())));
                }
                let of = (table.oid, oid);
                self.host.call(|session| session.copy_comments(of, &parts))?;
            }
        }
        Ok(())
    }

    fn indexes_like(
        &mut self,
        oid: Oid,
        source: &Arc<Table>,
        parts: &mut Vec<CommentedPart>,
    ) -> Result<()> {
        for (index, mut def) in self.host.call(|session| session.index_definitions(source))? {
            let now = self.table_now(oid)?;
            let moved = |number: i16| {
                let column = source.columns.iter().find(|column| column.attnum == number)?;
                now.column(&column.name).map(|(_, column)| column.attnum)
            };
            let lost = || SqlError::new(state::INTERNAL_ERROR, "an index has an unknown column");
            for key in &mut def.keys {
                key.attnum = moved(key.attnum).ok_or_else(lost)?;
            }
            for number in &mut def.included {
                *number = moved(*number).ok_or_else(lost)?;
            }
            let new = self.host.call(|session| session.create_index(&now, &def))?;
            parts.push(CommentedPart::Index(index, new));
        }
        Ok(())
    }
}
