//! UPDATE and DELETE of one table.

use super::assign::{self, Verb, always_identity, assigned, generated, live_columns, writable};
use super::catalog::Catalog;
use super::expr::Expr;
use super::fold::{fold, fold_all};
use super::from::{apply_alias, named};
use super::index_read::filtered;
use super::planner::Planner;
use super::query::cheapest_source;
use super::returning::{Version, version_width};
use super::tree::RowRules;
use super::tree::{Change, ChangePlan, Modify, Node, TableRead};
use crate::analyze::{
    self, FunctionCall, Scope, SystemColumn, Typed, ident_name, is_row, qualified_name,
};
use crate::column::ColumnDesc;
use crate::error::{Result, SqlError, state};
use crate::parse::Extras;
use forebay_engine::{Column, LockMode, Table};
use sqlparser::ast::{self, Spanned};
use std::sync::Arc;

/// The table whose rows are changed.
pub(super) struct Target {
    pub(super) table: Arc<Table>,
    pub(super) schema: Option<String>,
    pub(super) scope: Scope,
}

/// A column that is assigned to: the parts of its name, and where it stands.
type Assigned = (Vec<String>, u32);

impl Planner<'_> {
    /// Plans an UPDATE.
    pub fn update(&mut self, update: &ast::Update, extras: &Extras) -> Result<ChangePlan> {
        check_update(update)?;
        let target = self.target(&update.table, Verb::Update)?;
        let filter = self.filter(update.selection.as_ref(), &target.scope)?;
        let (returning, columns) = self
            .returning(
                update.returning.as_deref(),
                &target.table,
                target.scope.clone(),
                Version::New,
                &extras.versions,
            )?
            .unzip();
        let values = self.assignments(&update.assignments, &target)?;
        let change = (Change::Update(values), self.row_rules(&target.table)?);
        target.plan(filter, extras.cursor(), change, returning, columns, self.catalog)
    }

    /// Plans a DELETE.
    pub fn delete(&mut self, delete: &ast::Delete, extras: &Extras) -> Result<ChangePlan> {
        let from = check_delete(delete)?;
        let target = self.target(from, Verb::Delete)?;
        let filter = self.filter(delete.selection.as_ref(), &target.scope)?;
        let (returning, columns) = self
            .returning(
                delete.returning.as_deref(),
                &target.table,
                target.scope.clone(),
                Version::Old,
                &extras.versions,
            )?
            .unzip();
        let change = (Change::Delete, None);
        target.plan(filter, extras.cursor(), change, returning, columns, self.catalog)
    }

    fn target(&mut self, item: &ast::TableWithJoins, verb: Verb) -> Result<Target> {
        if !item.joins.is_empty() {
            return Err(SqlError::unsupported("a join"));
        }
        let Some((name, None, alias)) = named(&item.relation)? else {
            return Err(SqlError::unsupported("changing this kind of relation"));
        };
        if alias.is_some_and(|alias| !alias.columns.is_empty()) {
            return Err(SqlError::unsupported("this form of alias"));
        }
        let name = qualified_name(name, self.source)?;
        let relation = self.relation(&name, LockMode::RowExclusive)?;
        let table = writable(relation, &name, verb)?;
        let mut scope = Scope::of_table(&table);
        apply_alias(&mut scope, name.name, alias)?;
        Ok(Target { table, schema: name.schema, scope })
    }

    /// The condition of WHERE.
    pub(super) fn filter(
        &mut self,
        condition: Option<&ast::Expr>,
        scope: &Scope,
    ) -> Result<Option<Expr>> {
        let Some(condition) = condition else { return Ok(None) };
        let mut binder = self.binder(scope, "WHERE");
        let position = binder.position(condition);
        let filter = binder.condition(condition, "WHERE")?;
        let mut filter = self.lower(&Typed::new(filter, position), scope)?;
        fold(&mut filter, self.catalog)?;
        Ok(Some(filter))
    }

    /// The new value of each live column, over the old row.
    pub(super) fn assignments(
        &mut self,
        list: &[ast::Assignment],
        target: &Target,
    ) -> Result<Vec<Expr>> {
        // As in PostgreSQL, all values are bound before the first column is looked up.
        let mut given: Vec<(Assigned, Option<Typed>)> = Vec::new();
        for assignment in list {
            match &assignment.target {
                ast::AssignmentTarget::ColumnName(name) => {
                    let value = self.source_value(&assignment.value, &target.scope)?;
                    given.push((self.assigned_name(name)?, value));
                }
                ast::AssignmentTarget::Tuple(names) => {
                    let row = self.source_row(&assignment.value, names.len())?;
                    for (name, value) in names.iter().zip(row) {
                        let value = self.source_value(value, &target.scope)?;
                        given.push((self.assigned_name(name)?, value));
                    }
                }
            }
        }
        let live = target.table.columns.iter().enumerate().filter(|(_, c)| !c.dropped);
        let mut values: Vec<Expr> = live.map(|(index, _)| Expr::Column(index)).collect();
        let mut seen = vec![false; values.len()];
        for (name, value) in given {
            let (slot, column) = target.column(&name)?;
            let value = match value {
                Some(_) if column.always_identity => {
                    let message =
                        format!("column \"{}\" can only be updated to DEFAULT", column.name);
                    return Err(always_identity(column, message));
                }
                Some(_) if column.generated != 0 => {
                    let message =
                        format!("column \"{}\" can only be updated to DEFAULT", column.name);
                    return Err(generated(column, message));
                }
                Some(value) => assigned(self, column, value, &target.scope)?,
                None => self.default_of(&target.table, column)?,
            };
            if std::mem::replace(&mut seen[slot], true) {
                let message = format!("multiple assignments to same column \"{}\"", column.name);
                return Err(SqlError::new(state::SYNTAX_ERROR, message));
            }
            values[slot] = value;
        }
        fold_all(&mut values, self.catalog)?;
        Ok(values)
    }

    /// A value; None: the column's default.
    fn source_value(&mut self, e: &ast::Expr, scope: &Scope) -> Result<Option<Typed>> {
        if assign::is_default(e) {
            return Ok(None);
        }
        self.binder(scope, "UPDATE").bind(e).map(Some)
    }

    /// The values for several columns.
    fn source_row<'e>(&self, e: &'e ast::Expr, columns: usize) -> Result<Vec<&'e ast::Expr>> {
        let position = self.source.position(analyze::start(e));
        let row: Vec<&ast::Expr> = match e {
            ast::Expr::Tuple(list) => list.iter().collect(),
            ast::Expr::Function(f) if is_row(f) => {
                let call = FunctionCall::new(f, position)?;
                if call.star || call.distinct || call.filter.is_some() {
                    return Err(SqlError::unsupported("this form of ROW").at(position));
                }
                call.args
            }
            ast::Expr::Subquery(_) => {
                return Err(SqlError::unsupported("a subquery in an expression").at(position));
            }
            _ => {
                let message = "source for a multiple-column UPDATE item must be a sub-SELECT or \
                               ROW() expression";
                return Err(SqlError::new(state::FEATURE_NOT_SUPPORTED, message).at(position));
            }
        };
        if row.len() != columns {
            let message = "number of columns does not match number of values";
            let position = self.source.after_equals(analyze::start(e));
            return Err(SqlError::new(state::SYNTAX_ERROR, message).at(position));
        }
        Ok(row)
    }

    fn assigned_name(&self, name: &ast::ObjectName) -> Result<Assigned> {
        let position = self.source.position(name.span().start);
        let parts: Option<Vec<String>> =
            name.0.iter().map(|part| part.as_ident().map(ident_name)).collect();
        let parts = parts.filter(|parts| !parts.is_empty());
        let unknown = || SqlError::unsupported("this kind of target column").at(position);
        Ok((parts.ok_or_else(unknown)?, position))
    }
}

impl Target {
    /// The column of a name: its place among the live columns, and the column.
    fn column(&self, (parts, position): &Assigned) -> Result<(usize, &Column)> {
        let (name, fields) = parts.split_first().expect("a name has a part");
        if let Some(found) = live_columns(&self.table).enumerate().find(|(_, c)| c.name == *name) {
            if !fields.is_empty() {
                return Err(SqlError::unsupported("assignment to a field").at(*position));
            }
            return Ok(found);
        }
        if SystemColumn::named(name).is_some() {
            let message = format!("cannot assign to system column \"{name}\"");
            return Err(SqlError::new(state::FEATURE_NOT_SUPPORTED, message).at(*position));
        }
        let message =
            format!("column \"{name}\" of relation \"{}\" does not exist", self.table.name);
        let qualified = !fields.is_empty() && self.scope.alias.as_ref() == Some(name);
        let hint =
            qualified.then_some("SET target columns cannot be qualified with the relation name.");
        Err(SqlError::new(state::UNDEFINED_COLUMN, message)
            .explained(None::<String>, hint)
            .at(*position))
    }

    fn plan(
        self,
        filter: Option<Expr>,
        cursor: Option<&str>,
        (change, rules): (Change, Option<Arc<RowRules>>),
        returning: Option<Vec<Expr>>,
        columns: Option<Vec<ColumnDesc>>,
        catalog: &mut dyn Catalog,
    ) -> Result<ChangePlan> {
        let Target { table, schema, scope } = self;
        let mut decode = Vec::new();
        filter.iter().for_each(|e| e.mark_columns(&mut decode));
        let mut used = Vec::new();
        filter.iter().for_each(|e| e.mark_whole(&mut used));
        let mut returned = Vec::new();
        returning.iter().flatten().for_each(|e| e.mark_columns(&mut returned));
        let old = match &change {
            Change::Update(values) => {
                values.iter().for_each(|e| e.mark_columns(&mut decode));
                let computed = values.iter().filter(|e| !matches!(e, Expr::Column(_)));
                computed.for_each(|e| e.mark_whole(&mut used));
                version_width(&table)
            }
            Change::Insert(_) | Change::Delete => 0,
        };
        let read = returned.into_iter().skip(old).take(version_width(&table));
        for (column, _) in read.enumerate().filter(|(_, read)| *read) {
            Expr::Column(column).mark_columns(&mut decode);
        }
        // What RETURNING returns is fetched when it does.
        let handed_on = (0..decode.len()).map(|column| used.get(column) != Some(&true)).collect();
        let read = TableRead {
            table: Arc::clone(&table),
            schema: schema.clone(),
            alias: scope.alias,
            mode: LockMode::RowExclusive,
            decode: Vec::new(),
            handed_on,
        };
        let input = match cursor {
            Some(name) => {
                let source = Node::CurrentRow(TableRead { decode, ..read }, name.to_owned());
                filtered(source, filter)
            }
            None => cheapest_source(TableRead { decode, ..read }, filter, catalog)?,
        };
        let modify = Modify { input, table, schema, change, read_whole: used, returning, rules };
        Ok(ChangePlan::new(modify, columns))
    }
}

/// Refuses each clause of UPDATE that is not planned; exhaustive, so that a new parser cannot add
/// one unseen.
fn check_update(update: &ast::Update) -> Result<()> {
    let ast::Update {
        update_token: _,
        optimizer_hints: _,
        table: _,
        assignments: _,
        from,
        selection: _,
        returning: _,
        output,
        or,
        order_by,
        limit,
    } = update;
    if from.is_some() {
        return Err(SqlError::unsupported("UPDATE with FROM"));
    }
    let foreign = output.is_some() || or.is_some() || !order_by.is_empty() || limit.is_some();
    if foreign { Err(SqlError::unsupported("this form of UPDATE")) } else { Ok(()) }
}

/// The same for DELETE. Returns the table.
fn check_delete(delete: &ast::Delete) -> Result<&ast::TableWithJoins> {
    let ast::Delete {
        delete_token: _,
        optimizer_hints: _,
        tables,
        from,
        using,
        selection: _,
        returning: _,
        output,
        order_by,
        limit,
    } = delete;
    if using.is_some() {
        return Err(SqlError::unsupported("DELETE with USING"));
    }
    let foreign = !tables.is_empty() || output.is_some() || !order_by.is_empty() || limit.is_some();
    match from {
        ast::FromTable::WithFromKeyword(from) if !foreign => match from.as_slice() {
            [table] => Ok(table),
            _ => Err(SqlError::unsupported("this form of DELETE")),
        },
        _ => Err(SqlError::unsupported("this form of DELETE")),
    }
}
