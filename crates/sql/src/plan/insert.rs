//! INSERT.

use super::assign::{self, Verb, live_columns, target_columns, writable};
use super::expr::Expr;
use super::fold::fold_all;
use super::lower::Flat;
use super::planner::Planner;
use super::returning::Version;
use super::select::Unknowns;
use super::tree::{Change, ChangePlan, Modify, Node};
use crate::analyze::{self, Scope, Typed, ident_name, qualified_name};
use crate::error::{Result, SqlError, state};
use crate::parse::{Extras, Overriding};
use forebay_engine::{Column, LockMode, Table};
use forebay_types::out_of_memory;
use sqlparser::ast::{self, Spanned};
use std::sync::Arc;

/// Memory that the rows of one INSERT may take.
const MAX_ROWS_BYTES: usize = 4 << 30;

impl Planner<'_> {
    /// Plans an INSERT.
    pub fn insert(&mut self, insert: &ast::Insert, extras: &Extras) -> Result<ChangePlan> {
        check_insert(insert)?;
        let ast::TableObject::TableName(name) = &insert.table else {
            return Err(SqlError::unsupported("INSERT INTO a function"));
        };
        let name = qualified_name(name, self.source)?;
        let table = self.relation(&name, LockMode::RowExclusive)?;
        let table = writable(table, &name, Verb::Insert)?;
        let names = self.named_columns(insert)?;
        let given = !names.is_empty();
        let columns: Vec<Column> = live_columns(&table).cloned().collect();
        let targets =
            if given { target_columns(&table, &names)? } else { (0..columns.len()).collect() };
        let target = Target {
            table: &table,
            columns: &columns,
            targets: &targets,
            names: &names,
            given,
            overriding: extras.overriding,
        };
        let input = match &insert.source {
            None => {
                let row = columns.iter().map(|column| self.default_of(&table, column));
                Node::Values(vec![row.collect::<Result<_>>()?])
            }
            Some(query) => match plain_values(query) {
                Some(values) => self.insert_values(values, &target)?,
                None => {
                    let query = self.analyzed(query, Unknowns::Stay)?;
                    let row = query.row().into_iter().map(Given::Value).collect();
                    let mut output = target.assign(self, row)?;
                    fold_all(&mut output, self.catalog)?;
                    let plan = query.fold(self.catalog)?.plan(self.catalog)?;
                    Node::Project { input: Box::new(Arc::unwrap_or_clone(plan.root)), output }
                }
            },
        };
        let mut scope = Scope::of_table(&table);
        if let Some(alias) = &insert.table_alias {
            scope.rename(ident_name(&alias.alias));
        }
        let conflict = match &insert.on {
            Some(ast::OnInsert::OnConflict(clause)) => {
                let scope = scope.clone();
                Some(self.on_conflict((clause, extras), &table, scope)?)
            }
            _ => None,
        };
        scope.excluded_elsewhere = conflict.as_ref().is_some_and(|c| c.has_update());
        let returning = insert.returning.as_deref();
        let returning = self.returning(returning, &table, scope, Version::New, &extras.versions)?;
        let (returning, columns) = returning.unzip();
        let conflict = conflict.map(|c| c.infer(&table)).transpose()?.map(Box::new);
        let update = conflict.as_ref().and_then(|c| c.update.as_ref());
        let unread = update.map(|update| update.unread(table.columns.len()));
        let read_whole = unread.into_iter().flatten().map(|unread| !unread).collect();
        let (schema, change) = (name.schema, Change::Insert(conflict));
        let rules = self.row_rules(&table)?;
        let modify = Modify { input, table, schema, change, read_whole, returning, rules };
        Ok(ChangePlan::new(modify, columns))
    }

    /// The target columns that an INSERT names, and where.
    fn named_columns(&self, insert: &ast::Insert) -> Result<Vec<(String, u32)>> {
        let mut names = Vec::new();
        for column in &insert.columns {
            let position = self.source.position(column.span().start);
            match column.0.as_slice() {
                [ast::ObjectNamePart::Identifier(ident)] => {
                    names.push((ident_name(ident), position))
                }
                _ => return Err(SqlError::unsupported("this kind of target column").at(position)),
            }
        }
        Ok(names)
    }

    fn insert_values(&mut self, values: &ast::Values, target: &Target<'_>) -> Result<Node> {
        let mut rows = Vec::with_capacity(values.rows.len());
        let mut width = None;
        for row in &values.rows {
            let mut bound = Vec::with_capacity(row.content.len());
            for e in &row.content {
                bound.push(if assign::is_default(e) {
                    Given::Default(self.source.position(analyze::start(e)))
                } else {
                    Given::Value(self.bind_constant(e, "VALUES")?)
                });
            }
            if *width.get_or_insert(bound.len()) != bound.len() {
                let position = bound.first().map_or(0, Given::position);
                let message = "VALUES lists must all be the same length";
                return Err(SqlError::new(state::SYNTAX_ERROR, message).at(position));
            }
            rows.push(target.assign(self, bound)?);
            // A row has an expression for each column of the table, however few were given.
            let bytes = rows.len() * target.columns.len() * size_of::<Expr>();
            if bytes > MAX_ROWS_BYTES {
                return Err(out_of_memory(bytes).into());
            }
        }
        fold_all(rows.iter_mut().flatten(), self.catalog)?;
        Ok(Node::Values(rows))
    }
}

/// VALUES with no other clause.
fn plain_values(query: &ast::Query) -> Option<&ast::Values> {
    let ast::Query {
        with: None,
        body,
        order_by: None,
        limit_clause: None,
        fetch: None,
        locks,
        for_clause: None,
        settings: None,
        format_clause: None,
        pipe_operators,
    } = query
    else {
        return None;
    };
    match &**body {
        ast::SetExpr::Values(values) if locks.is_empty() && pipe_operators.is_empty() => {
            Some(values)
        }
        _ => None,
    }
}

/// A value of a row of INSERT.
enum Given {
    /// An expression.
    Value(Typed),
    /// DEFAULT, here.
    Default(u32),
}

impl Given {
    fn position(&self) -> u32 {
        match self {
            Given::Value(value) => value.position,
            Given::Default(position) => *position,
        }
    }
}

/// The columns an INSERT fills.
struct Target<'a> {
    table: &'a Table,
    columns: &'a [Column],
    targets: &'a [usize],
    names: &'a [(String, u32)],
    given: bool,
    overriding: Option<Overriding>,
}

impl Target<'_> {
    /// Casts a row's values to their columns, and puts defaults into the others.
    fn assign(&self, planner: &mut Planner<'_>, row: Vec<Given>) -> Result<Vec<Expr>> {
        if let Some(extra) = row.get(self.targets.len()) {
            let message = "INSERT has more expressions than target columns";
            return Err(SqlError::new(state::SYNTAX_ERROR, message).at(extra.position()));
        }
        if self.given && row.len() < self.targets.len() {
            let position = self.names.get(row.len()).map_or(0, |(_, p)| *p);
            let message = "INSERT has more target columns than expressions";
            return Err(SqlError::new(state::SYNTAX_ERROR, message).at(position));
        }
        let mut exprs: Vec<Option<Expr>> = vec![None; self.columns.len()];
        for (value, target) in row.into_iter().zip(self.targets) {
            let (Some(column), Some(slot)) = (self.columns.get(*target), exprs.get_mut(*target))
            else {
                continue;
            };
            let Given::Value(value) = value else { continue };
            if column.is_identity && self.overriding == Some(Overriding::UserValue) {
                continue;
            }
            self.check_given(column)?;
            *slot = Some(assign::assigned(planner, column, value, &Flat)?);
        }
        let mut row = Vec::with_capacity(exprs.len());
        for (expr, column) in exprs.into_iter().zip(self.columns) {
            row.push(match expr {
                Some(expr) => expr,
                None => planner.default_of(self.table, column)?,
            });
        }
        Ok(row)
    }

    /// Refuses a value for a column that takes none.
    fn check_given(&self, column: &Column) -> Result<()> {
        let message =
            || format!("cannot insert a non-DEFAULT value into column \"{}\"", column.name);
        if column.generated != 0 {
            return Err(assign::generated(column, message()));
        }
        if column.always_identity && self.overriding != Some(Overriding::SystemValue) {
            let hint = "Use OVERRIDING SYSTEM VALUE to override.";
            let error = assign::always_identity(column, message());
            return Err(error.hint(hint));
        }
        Ok(())
    }
}

/// Refuses each clause of INSERT that is not planned; exhaustive, so that a new parser cannot add
/// one unseen.
fn check_insert(insert: &ast::Insert) -> Result<()> {
    let ast::Insert {
        insert_token: _,
        optimizer_hints: _,
        or,
        ignore,
        into,
        table: _,
        table_alias: _,
        columns: _,
        overwrite,
        source: _,
        assignments,
        partitioned,
        after_columns,
        has_table_keyword,
        on,
        returning: _,
        output,
        replace_into,
        priority,
        insert_alias,
        settings,
        format_clause,
        multi_table_insert_type,
        multi_table_into_clauses,
        multi_table_when_clauses,
        multi_table_else_clause,
    } = insert;
    let foreign = matches!(on, Some(on) if !matches!(on, ast::OnInsert::OnConflict(_)))
        || or.is_some()
        || *ignore
        || !*into
        || *overwrite
        || !assignments.is_empty()
        || partitioned.is_some()
        || !after_columns.is_empty()
        || *has_table_keyword
        || output.is_some()
        || *replace_into
        || priority.is_some()
        || insert_alias.is_some()
        || settings.is_some()
        || format_clause.is_some()
        || multi_table_insert_type.is_some()
        || !multi_table_into_clauses.is_empty()
        || !multi_table_when_clauses.is_empty()
        || multi_table_else_clause.is_some();
    if foreign { Err(SqlError::unsupported("this form of INSERT")) } else { Ok(()) }
}
