//! INSERT.

use super::coerce::{self, Context, ParamTypes};
use super::expr::{Expr, Typed};
use super::fold::fold_all;
use super::ident::{ident_name, qualified_name};
use super::planner::{Planner, Relation};
use super::tree::{InsertPlan, Node};
use crate::error::{Result, SqlError, state};
use crate::parse::QualifiedName;
use forebay_engine::{Column, LockMode, Table};
use forebay_types::{Datum, SqlType, out_of_memory};
use sqlparser::ast::{self, Spanned};
use std::sync::Arc;

/// Memory that the rows of one INSERT may take.
const MAX_ROWS_BYTES: usize = 4 << 30;

/// Checks that rows may be put into a relation.
pub fn writable(relation: Relation, name: &QualifiedName, verb: &str) -> Result<Arc<Table>> {
    match relation {
        Relation::View(_) => {
            let message = format!("cannot {verb} view \"{}\"", name.name);
            let detail = "Views that do not select from a single table or view are not \
                          automatically updatable.";
            let hint = "To enable inserting into the view, provide an INSTEAD OF INSERT trigger or \
                        an unconditional ON INSERT DO INSTEAD rule.";
            Err(SqlError::new(state::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
                .detail(detail)
                .hint(hint))
        }
        Relation::Table(table) if table.is_catalog() => {
            let message = format!("permission denied: \"{}\" is a system catalog", table.name);
            Err(SqlError::new("42501", message))
        }
        Relation::Table(table) if table.kind != b'r' => Err(SqlError::new(
            state::WRONG_OBJECT_TYPE,
            format!("cannot {verb} relation \"{}\"", table.name),
        )),
        Relation::Table(table) => {
            table.check_insertable().map_err(forebay_engine::EngineError::from)?;
            Ok(table)
        }
    }
}

/// Refuses to leave out a column that would get its default.
pub fn check_left_out(table: &Table, column: &Column) -> Result<()> {
    if !column.has_default {
        return Ok(());
    }
    let what = format!("the default of column \"{}\" of relation \"{}\"", column.name, table.name);
    Err(SqlError::unsupported(what))
}

/// A table's columns that are not dropped.
pub fn live_columns(table: &Table) -> impl Iterator<Item = &Column> {
    table.columns.iter().filter(|c| !c.dropped)
}

/// For each name its place among the live columns.
pub fn target_columns(table: &Table, names: &[(String, u32)]) -> Result<Vec<usize>> {
    let mut targets = Vec::with_capacity(names.len());
    for (name, position) in names {
        let Some(index) = live_columns(table).position(|c| c.name == *name) else {
            let message =
                format!("column \"{name}\" of relation \"{}\" does not exist", table.name);
            return Err(SqlError::new(state::UNDEFINED_COLUMN, message).at(*position));
        };
        if targets.contains(&index) {
            let message = format!("column \"{name}\" specified more than once");
            return Err(SqlError::new(state::DUPLICATE_COLUMN, message).at(*position));
        }
        targets.push(index);
    }
    Ok(targets)
}

/// A live column's type, which must be one that can be stored from here.
pub fn stored_type(column: &Column) -> Result<SqlType> {
    use SqlType as T;
    match SqlType::from_oid(column.type_oid) {
        Some(
            ty @ (T::Bool
            | T::Int2
            | T::Int4
            | T::Int8
            | T::Float4
            | T::Float8
            | T::Text
            | T::Oid
            | T::Xid
            | T::Bytea),
        ) => Ok(ty),
        Some(ty @ T::Varchar) if column.typmod < 0 => Ok(ty),
        Some(ty) => {
            Err(SqlError::unsupported(format!("writing columns of type {}", ty.sql_name())))
        }
        None => Err(SqlError::unsupported(format!("the type with OID {}", column.type_oid))),
    }
}

impl Planner<'_> {
    /// Plans an INSERT.
    pub fn insert(&mut self, insert: &ast::Insert) -> Result<InsertPlan> {
        check_insert(insert)?;
        let ast::TableObject::TableName(name) = &insert.table else {
            return Err(SqlError::unsupported("INSERT INTO a function"));
        };
        let name = qualified_name(name, self.source)?;
        let table = self.relation(&name, LockMode::RowExclusive)?;
        let table = writable(table, &name, "insert into")?;
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
        let given = !names.is_empty();
        let columns: Vec<Column> = live_columns(&table).cloned().collect();
        let targets =
            if given { target_columns(&table, &names)? } else { (0..columns.len()).collect() };
        let target =
            Target { table: &table, columns: &columns, targets: &targets, names: &names, given };
        let rows = match &insert.source {
            None => {
                columns.iter().try_for_each(|column| check_left_out(&table, column))?;
                Node::Values(vec![vec![Expr::Const(Datum::Null); columns.len()]])
            }
            Some(query) => match &*query.body {
                ast::SetExpr::Values(values)
                    if query.order_by.is_none() && query.limit_clause.is_none() =>
                {
                    self.insert_values(values, &target)?
                }
                _ => {
                    let plan = self.query(query)?;
                    let of = |(i, c): (usize, &crate::column::ColumnDesc)| {
                        Typed::new(Expr::Column(i), c.ty, 0)
                    };
                    let row = plan.columns.iter().enumerate().map(of).collect();
                    let mut output = target.assign(row, self.params)?;
                    fold_all(&mut output, self.catalog)?;
                    Node::Project { input: Box::new(Arc::unwrap_or_clone(plan.root)), output }
                }
            },
        };
        Ok(InsertPlan { name, table, rows: Arc::new(rows) })
    }

    fn insert_values(&mut self, values: &ast::Values, target: &Target<'_>) -> Result<Node> {
        let mut rows = Vec::with_capacity(values.rows.len());
        let mut width = None;
        for row in &values.rows {
            let mut bound = Vec::with_capacity(row.content.len());
            for e in &row.content {
                let default = matches!(e, ast::Expr::Identifier(i)
                    if i.quote_style.is_none() && i.value.eq_ignore_ascii_case("default"));
                bound.push(if default {
                    if let Some(column) = target.column(bound.len()) {
                        check_left_out(target.table, column)?;
                    }
                    let position = self.source.position(super::place::start(e));
                    Typed::new(Expr::Const(Datum::Null), SqlType::Unknown, position)
                } else {
                    self.bind_constant(e, "VALUES")?
                });
            }
            if *width.get_or_insert(bound.len()) != bound.len() {
                let position = bound.first().map_or(0, |v| v.position);
                let message = "VALUES lists must all be the same length";
                return Err(SqlError::new(state::SYNTAX_ERROR, message).at(position));
            }
            rows.push(target.assign(bound, self.params)?);
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

/// The columns an INSERT fills.
struct Target<'a> {
    table: &'a Table,
    columns: &'a [Column],
    targets: &'a [usize],
    names: &'a [(String, u32)],
    given: bool,
}

impl Target<'_> {
    /// The column that a row's value of this number is for.
    fn column(&self, value: usize) -> Option<&Column> {
        self.columns.get(*self.targets.get(value)?)
    }

    /// Casts a row's values to their columns, and puts NULL into the others.
    fn assign(&self, row: Vec<Typed>, params: &mut ParamTypes) -> Result<Vec<Expr>> {
        if let Some(extra) = row.get(self.targets.len()) {
            let message = "INSERT has more expressions than target columns";
            return Err(SqlError::new(state::SYNTAX_ERROR, message).at(extra.position));
        }
        if self.given && row.len() < self.targets.len() {
            let position = self.names.get(row.len()).map_or(0, |(_, p)| *p);
            let message = "INSERT has more target columns than expressions";
            return Err(SqlError::new(state::SYNTAX_ERROR, message).at(position));
        }
        let filled = self.targets.get(..row.len()).unwrap_or(self.targets);
        let mut left_out =
            self.columns.iter().enumerate().filter(|(index, _)| !filled.contains(index));
        left_out.try_for_each(|(_, column)| check_left_out(self.table, column))?;
        let mut exprs = vec![Expr::Const(Datum::Null); self.columns.len()];
        for (value, target) in row.into_iter().zip(self.targets) {
            let (Some(column), Some(slot)) = (self.columns.get(*target), exprs.get_mut(*target))
            else {
                continue;
            };
            if column.always_identity {
                let message =
                    format!("cannot insert a non-DEFAULT value into column \"{}\"", column.name);
                let detail = format!(
                    "Column \"{}\" is an identity column defined as GENERATED ALWAYS.",
                    column.name
                );
                let hint = "Use OVERRIDING SYSTEM VALUE to override.";
                return Err(SqlError::new("428C9", message)
                    .detail(detail)
                    .hint(hint)
                    .at(value.position));
            }
            let to = stored_type(column)?;
            let (from, position) = (value.ty, value.position);
            let cast =
                coerce::coerce(value, to, Context::Assignment, params)?.ok_or_else(|| {
                    let message = format!(
                        "column \"{}\" is of type {} but expression is of type {}",
                        column.name,
                        to.sql_name(),
                        from.sql_name()
                    );
                    let hint = "You will need to rewrite or cast the expression.";
                    SqlError::new(state::DATATYPE_MISMATCH, message).hint(hint).at(position)
                })?;
            *slot = cast.expr;
        }
        Ok(exprs)
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
        table_alias,
        columns: _,
        overwrite,
        source: _,
        assignments,
        partitioned,
        after_columns,
        has_table_keyword,
        on,
        returning,
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
    if returning.is_some() {
        return Err(SqlError::unsupported("RETURNING"));
    }
    if on.is_some() {
        return Err(SqlError::unsupported("ON CONFLICT"));
    }
    let foreign = or.is_some()
        || *ignore
        || !*into
        || table_alias.is_some()
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
