//! SELECT and VALUES: analysis of the parser's tree.

use super::aggregate::{Aggregates, over_groups};
use super::coerce::{self, Context};
use super::expr::{Expr, Function, Typed};
use super::from::{FromItem, bind_from};
use super::ident::ident_name;
use super::locks::Locking;
use super::names::column_name;
use super::place;
use super::planner::Planner;
use super::query::Query;
use super::resolve::check_computed;
use super::scope::Scope;
use super::tree::{Grouping, Node, SelectPlan, SortKey};
use crate::column::ColumnDesc;
use crate::error::{Result, SqlError, state};
use forebay_types::{Datum, SqlType};
use sqlparser::ast::{self, Spanned};

/// What becomes of columns of a query whose type is unknown: literals and parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unknowns {
    /// They become text.
    Text,
    /// They stay: the columns of an INSERT give them their types. Those by which rows are sorted or
    /// grouped become text all the same.
    Stay,
}

impl Planner<'_> {
    /// Plans a query whose columns of unknown type become text.
    pub fn query(&mut self, query: &ast::Query) -> Result<SelectPlan> {
        self.analyzed(query, Unknowns::Text)?.fold(self.catalog)?.plan(self.catalog)
    }

    /// Analyzes a query.
    pub(super) fn analyzed(&mut self, query: &ast::Query, unknowns: Unknowns) -> Result<Query> {
        let ast::Query {
            with,
            body,
            order_by,
            limit_clause,
            fetch,
            locks,
            for_clause,
            settings,
            format_clause,
            pipe_operators,
        } = query;
        if with.is_some() {
            return Err(SqlError::unsupported("WITH"));
        }
        if for_clause.is_some()
            || settings.is_some()
            || format_clause.is_some()
            || !pipe_operators.is_empty()
        {
            return Err(SqlError::unsupported("this clause of a query"));
        }
        let order = order_expressions(order_by.as_ref())?;
        let locks = Locking::all(locks, self.source)?;
        let mut analyzed = match &**body {
            ast::SetExpr::Select(select) => self.select(select, order, &locks, unknowns)?,
            ast::SetExpr::Values(values) => {
                let query = self.values(values, order)?;
                Locking::refuse_for(&locks, "VALUES")?;
                query
            }
            ast::SetExpr::Query(inner)
                if order.is_empty()
                    && limit_clause.is_none()
                    && fetch.is_none()
                    && locks.is_empty() =>
            {
                return self.analyzed(inner, unknowns);
            }
            ast::SetExpr::SetOperation { op, .. } => {
                Locking::refuse(&locks, "UNION/INTERSECT/EXCEPT")?;
                return Err(SqlError::unsupported(op));
            }
            ast::SetExpr::Table(_) => return Err(SqlError::unsupported("TABLE")),
            _ => return Err(SqlError::unsupported("this form of query")),
        };
        self.limits(&mut analyzed, limit_clause.as_ref(), fetch.as_ref())?;
        Ok(analyzed)
    }

    fn limits(
        &mut self,
        query: &mut Query,
        clause: Option<&ast::LimitClause>,
        fetch: Option<&ast::Fetch>,
    ) -> Result<()> {
        match clause {
            None => {}
            Some(ast::LimitClause::LimitOffset { limit, offset, limit_by })
                if limit_by.is_empty() =>
            {
                query.limit = limit.as_ref().map(|e| self.row_count(e, "LIMIT")).transpose()?;
                query.offset =
                    offset.as_ref().map(|o| self.row_count(&o.value, "OFFSET")).transpose()?;
            }
            Some(_) => return Err(SqlError::unsupported("this form of LIMIT")),
        }
        match fetch {
            None => {}
            Some(ast::Fetch { with_ties: false, percent: false, quantity })
                if query.limit.is_none() =>
            {
                query.limit = match quantity {
                    Some(e) => Some(self.row_count(e, "LIMIT")?),
                    None => Some(Expr::Const(Datum::Int8(1))),
                };
            }
            Some(_) => return Err(SqlError::unsupported("this form of FETCH")),
        }
        Ok(())
    }

    fn row_count(&mut self, e: &ast::Expr, clause: &'static str) -> Result<Expr> {
        let value = self.bind_constant(e, clause)?;
        let (ty, position) = (value.ty, value.position);
        let cast = coerce::coerce(value, SqlType::Int8, Context::Assignment, self.params)?;
        cast.map(|v| v.expr).ok_or_else(|| {
            let message =
                format!("argument of {clause} must be type bigint, not type {}", ty.sql_name());
            SqlError::new(state::DATATYPE_MISMATCH, message).at(position)
        })
    }

    fn select(
        &mut self,
        select: &ast::Select,
        order: &[ast::OrderByExpr],
        locks: &[Locking],
        unknowns: Unknowns,
    ) -> Result<Query> {
        if select.distinct.as_ref().is_some_and(|d| !matches!(d, ast::Distinct::All)) {
            Locking::refuse(locks, "DISTINCT clause")?;
        }
        check_select(select)?;
        let FromItem { source, scope } = bind_from(self, &select.from, locks)?;
        // In PostgreSQL's order: the first error is told, and the first place that needs a type
        // gives it to a parameter.
        let mut aggregates = Aggregates::default();
        let aggregated = Some(&mut aggregates);
        let mut items = self.select_list(&select.projection, &scope, "SELECT", aggregated)?;
        let filter = self.clause(select.selection.as_ref(), &scope, "WHERE", None)?;
        let aggregated = Some(&mut aggregates);
        let having = self.clause(select.having.as_ref(), &scope, "HAVING", aggregated)?;
        let sort = self.sort_keys(order, &scope, &mut aggregates, &mut items)?;
        let keys = self.group_keys(&select.group_by, &scope, &mut items)?;
        if let Unknowns::Text = unknowns {
            items.iter_mut().try_for_each(|item| self.settle_item(item))?;
        }
        // PostgreSQL also counts expressions that are only grouped by.
        let unseen = keys.iter().filter(|k| items.iter().all(|i| i.expr != **k)).count();
        check_entries(items.len() + unseen)?;
        let grouped = !keys.is_empty() || !aggregates.calls.is_empty() || having.is_some();
        if grouped {
            Locking::refuse(
                locks,
                match (keys.is_empty(), &having) {
                    (false, _) => "GROUP BY clause",
                    (true, Some(_)) => "HAVING clause",
                    (true, None) => "aggregate functions",
                },
            )?;
        }
        let lock = Locking::of_rows(locks, &source, scope.alias.as_ref())?;
        // As in PostgreSQL, what is grouped by stands nowhere.
        let position = |i: &OutputItem| if keys.contains(&i.expr) { 0 } else { i.position };
        let positions = items.iter().map(position).collect();
        let (visible, output): (Vec<_>, Vec<_>) =
            items.into_iter().map(|i| (i.column, i.expr)).unzip();
        let (grouping, having, output) = if grouped {
            let over = |e: Expr| over_groups(e, &keys, &scope, &aggregates);
            let output = output.into_iter().map(&over).collect::<Result<_>>()?;
            let having = having.map(over).transpose()?;
            (Some(Grouping { keys, calls: aggregates.calls }), having, output)
        } else {
            (None, None, output)
        };
        let columns = visible.into_iter().flatten().collect();
        let query = Query::of(source, output, columns, sort);
        Ok(Query { filter, grouping, having, lock, positions, ..query })
    }

    /// The condition of a clause, if there is one.
    fn clause(
        &mut self,
        condition: Option<&ast::Expr>,
        scope: &Scope,
        clause: &'static str,
        aggregates: Option<&mut Aggregates>,
    ) -> Result<Option<Expr>> {
        let Some(condition) = condition else { return Ok(None) };
        let mut binder = self.binder(scope, clause);
        binder.aggregates = aggregates;
        binder.condition(condition, clause).map(Some)
    }

    /// What RETURNING returns: expressions and their columns.
    pub(super) fn returning_list(
        &mut self,
        items: &[ast::SelectItem],
        scope: &Scope,
    ) -> Result<(Vec<Expr>, Vec<ColumnDesc>)> {
        let mut items = self.select_list(items, scope, "RETURNING", None)?;
        items.iter_mut().try_for_each(|item| self.settle_item(item))?;
        Ok(items.into_iter().filter_map(|item| Some((item.expr, item.column?))).unzip())
    }

    /// Output expressions with their columns.
    fn select_list(
        &mut self,
        items: &[ast::SelectItem],
        scope: &Scope,
        clause: &'static str,
        mut aggregates: Option<&mut Aggregates>,
    ) -> Result<Vec<OutputItem>> {
        let mut list = Vec::new();
        for item in items {
            let (expr, alias) = match item {
                ast::SelectItem::UnnamedExpr(e) => (e, None),
                ast::SelectItem::ExprWithAlias { expr, alias } => (expr, Some(ident_name(alias))),
                ast::SelectItem::Wildcard(options) => {
                    let position = self.source.position(options.wildcard_token.0.span.start);
                    if scope.columns.is_empty() && scope.alias.is_none() {
                        let message = "SELECT * with no tables specified is not valid";
                        return Err(SqlError::new(state::SYNTAX_ERROR, message).at(position));
                    }
                    wildcard(options, scope, 0, &mut list)?;
                    continue;
                }
                ast::SelectItem::QualifiedWildcard(kind, options) => {
                    let ast::SelectItemQualifiedWildcardKind::ObjectName(name) = kind else {
                        return Err(SqlError::unsupported("this form of *"));
                    };
                    let last = name.0.last().and_then(|p| p.as_ident());
                    let last = last.map(ident_name).unwrap_or_default();
                    let begin = scope.table(&last, self.source.position(name.span().start))?;
                    wildcard(options, scope, begin, &mut list)?;
                    continue;
                }
                ast::SelectItem::ExprWithAliases { .. } => {
                    return Err(SqlError::unsupported("several aliases of one expression"));
                }
            };
            let mut binder = self.binder(scope, clause);
            binder.aggregates = aggregates.as_deref_mut();
            let mut typed = binder.bind(expr)?;
            if typed.ty == SqlType::Regclass {
                typed.expr = Expr::Call(Function::RegclassName, vec![typed.expr]);
            }
            list.push(OutputItem::expression(
                typed,
                alias.unwrap_or_else(|| column_name(self.catalog, expr)),
                scope,
            ));
            check_entries(list.len())?;
        }
        Ok(list)
    }

    /// Gives an expression whose type is still unknown the type text.
    fn settle_item(&mut self, item: &mut OutputItem) -> Result<()> {
        if item.ty != SqlType::Unknown {
            return Ok(());
        }
        let unknown = Typed::new(item.expr.clone(), item.ty, item.position);
        let settled = self.binder(&Scope::default(), "SELECT").settle(unknown)?;
        (item.expr, item.ty) = (settled.expr, settled.ty);
        if let Some(column) = &mut item.column {
            column.ty = settled.ty;
        }
        Ok(())
    }

    fn group_keys(
        &mut self,
        group_by: &ast::GroupByExpr,
        scope: &Scope,
        items: &mut [OutputItem],
    ) -> Result<Vec<Expr>> {
        let ast::GroupByExpr::Expressions(exprs, modifiers) = group_by else {
            return Err(SqlError::unsupported("GROUP BY ALL"));
        };
        if !modifiers.is_empty() {
            return Err(SqlError::unsupported("this form of GROUP BY"));
        }
        let mut keys = Vec::new();
        for e in exprs {
            let position = self.source.position(place::start(e));
            let by_name = match e {
                ast::Expr::Identifier(i) if scope.find(&ident_name(i)).is_none() => {
                    items.iter().position(|item| item.name() == ident_name(i))
                }
                _ => None,
            };
            let index = match (by_name, integer_literal(e)) {
                (None, Some(n)) => Some(self.by_position(items, n, "GROUP BY", position)?),
                (by_name, _) => by_name,
            };
            let (key, ty) = match index.and_then(|index| items.get_mut(index)) {
                Some(item) => {
                    self.settle_item(item)?;
                    (self.params.copy(&item.expr)?, item.ty)
                }
                None => {
                    let typed = self.binder(scope, "GROUP BY").bind(e)?;
                    let typed = self.binder(scope, "GROUP BY").settle(typed)?;
                    (typed.expr, typed.ty)
                }
            };
            check_computed("GROUP BY", ty, position)?;
            if key.any(&|e| matches!(e, Expr::Aggregate(_))) {
                let message = "aggregate functions are not allowed in GROUP BY";
                return Err(SqlError::new(state::GROUPING_ERROR, message).at(position));
            }
            if !keys.contains(&key) {
                keys.push(key);
                check_entries(keys.len())?;
            }
        }
        Ok(keys)
    }

    /// The index of the output column of that number.
    fn by_position(
        &self,
        items: &[OutputItem],
        n: i64,
        clause: &str,
        position: u32,
    ) -> Result<usize> {
        let index = usize::try_from(n).ok().and_then(|n| n.checked_sub(1));
        let is_column = |i: &usize| items.get(*i).is_some_and(|item| item.column.is_some());
        index.filter(is_column).ok_or_else(|| {
            let message = format!("{clause} position {n} is not in select list");
            SqlError::new(state::INVALID_COLUMN_REFERENCE, message).at(position)
        })
    }

    /// Finds or adds the output each key of ORDER BY means.
    fn sort_keys(
        &mut self,
        order: &[ast::OrderByExpr],
        scope: &Scope,
        aggregates: &mut Aggregates,
        items: &mut Vec<OutputItem>,
    ) -> Result<Vec<SortKey>> {
        let mut keys = Vec::new();
        for ast::OrderByExpr { expr: e, options, with_fill } in order {
            if with_fill.is_some() {
                return Err(SqlError::unsupported("WITH FILL"));
            }
            let descending = match &options.sort {
                None | Some(ast::OrderBySort::Asc) => false,
                Some(ast::OrderBySort::Desc) => true,
                Some(ast::OrderBySort::Using(_)) => {
                    return Err(SqlError::unsupported("ORDER BY USING"));
                }
            };
            let position = self.source.position(place::start(e));
            let named = match e {
                ast::Expr::Identifier(i) => self.output_named(items, &ident_name(i), position)?,
                _ => None,
            };
            let column = match (named, integer_literal(e)) {
                (Some(index), _) => index,
                (None, Some(n)) => self.by_position(items, n, "ORDER BY", position)?,
                (None, None) => {
                    let mut binder = self.binder(scope, "ORDER BY");
                    binder.aggregates = Some(&mut *aggregates);
                    let typed = binder.bind(e)?;
                    let typed = binder.settle(typed)?;
                    match items.iter().position(|i| i.expr == typed.expr) {
                        Some(index) => index,
                        None => {
                            let (expr, ty) = (typed.expr, typed.ty);
                            items.push(OutputItem { expr, ty, position, column: None });
                            check_entries(items.len())?;
                            items.len() - 1
                        }
                    }
                }
            };
            if let Some(item) = items.get_mut(column) {
                self.settle_item(item)?;
                sortable(item.ty, position)?;
            }
            let nulls_first = options.nulls_first.unwrap_or(descending);
            keys.push(SortKey { column, descending, nulls_first });
        }
        Ok(keys)
    }

    /// The output column of that name; it must be one expression only.
    fn output_named(
        &self,
        items: &[OutputItem],
        name: &str,
        position: u32,
    ) -> Result<Option<usize>> {
        let mut found = None;
        for (i, item) in
            items.iter().enumerate().filter(|(_, i)| i.column.is_some() && i.name() == name)
        {
            match found {
                None => found = Some((i, item)),
                Some((_, first)) if first.expr == item.expr => {}
                Some(_) => {
                    let message = format!("ORDER BY \"{name}\" is ambiguous");
                    return Err(SqlError::new(state::AMBIGUOUS_COLUMN, message).at(position));
                }
            }
        }
        Ok(found.map(|(i, _)| i))
    }

    /// VALUES as a query: columns column1, column2, ...
    fn values(&mut self, values: &ast::Values, order: &[ast::OrderByExpr]) -> Result<Query> {
        let rows = self.value_rows(values)?;
        let width = rows.first().map_or(0, Vec::len);
        check_entries(width)?;
        let mut columns: Vec<Vec<Typed>> = (0..width).map(|_| Vec::new()).collect();
        for row in rows {
            for (column, value) in columns.iter_mut().zip(row) {
                column.push(value);
            }
        }
        let mut scope = Scope { alias: Some("*VALUES*".into()), ..Scope::default() };
        let mut rows: Vec<Vec<Expr>> = Vec::new();
        for (i, column) in columns.into_iter().enumerate() {
            let (exprs, ty) = coerce::coerce_all(column, "VALUES", self.params)?;
            scope.push(format!("column{}", i + 1), ty, -1);
            rows.resize_with(exprs.len(), Vec::new);
            for (row, e) in rows.iter_mut().zip(exprs) {
                row.push(e);
            }
        }
        let mut items: Vec<OutputItem> =
            scope.columns.iter().map(|c| OutputItem::column(c, &scope, 0)).collect();
        let order = self.sort_keys(order, &scope, &mut Aggregates::default(), &mut items)?;
        let (columns, output): (Vec<_>, Vec<_>) =
            items.into_iter().map(|i| (i.column, i.expr)).unzip();
        let columns = columns.into_iter().flatten().collect();
        Ok(Query::of(Node::Values(rows), output, columns, order))
    }

    /// The rows of VALUES, all of one length.
    pub fn value_rows(&mut self, values: &ast::Values) -> Result<Vec<Vec<Typed>>> {
        let mut rows: Vec<Vec<Typed>> = Vec::with_capacity(values.rows.len());
        for row in &values.rows {
            let mut bound = Vec::with_capacity(row.content.len());
            for e in &row.content {
                bound.push(self.bind_constant(e, "VALUES")?);
            }
            if rows.first().is_some_and(|first| first.len() != bound.len()) {
                let position = bound.first().map_or(0, |v| v.position);
                let message = "VALUES lists must all be the same length";
                return Err(SqlError::new(state::SYNTAX_ERROR, message).at(position));
            }
            rows.push(bound);
        }
        Ok(rows)
    }
}

/// An output expression. If it has no column, rows are only sorted by it.
struct OutputItem {
    expr: Expr,
    ty: SqlType,
    position: u32,
    column: Option<ColumnDesc>,
}

impl OutputItem {
    /// A column, in the version of the row that begins at an index.
    fn column(column: &super::scope::ScopeColumn, scope: &Scope, begin: usize) -> OutputItem {
        let desc = ColumnDesc {
            name: column.name.clone(),
            table_oid: if column.attnum == 0 { 0 } else { scope.table_oid },
            attnum: column.attnum,
            ty: column.ty,
            typmod: column.typmod,
        };
        OutputItem {
            expr: Expr::Column(begin + column.index),
            ty: column.ty,
            position: 0,
            column: Some(desc),
        }
    }

    fn expression(typed: Typed, name: String, scope: &Scope) -> OutputItem {
        let column = match typed.expr {
            Expr::Column(i) => scope.at(i).map(|c| (c, i - c.index)),
            _ => None,
        };
        match column {
            Some((c, begin)) => {
                let mut item = OutputItem::column(c, scope, begin);
                item.position = typed.position;
                if let Some(desc) = &mut item.column {
                    desc.name = name;
                }
                item
            }
            None => {
                let desc = ColumnDesc { name, table_oid: 0, attnum: 0, ty: typed.ty, typmod: -1 };
                OutputItem {
                    expr: typed.expr,
                    ty: typed.ty,
                    position: typed.position,
                    column: Some(desc),
                }
            }
        }
    }

    fn name(&self) -> &str {
        self.column.as_ref().map_or("", |c| &c.name)
    }
}

fn sortable(ty: SqlType, position: u32) -> Result<()> {
    if matches!(
        ty,
        SqlType::Xid
            | SqlType::Cid
            | SqlType::Void
            | SqlType::Record
            | SqlType::PgNodeTree
            | SqlType::AclItemArray
    ) {
        let message = format!("could not identify an ordering operator for type {}", ty.sql_name());
        let hint = "Use an explicit ordering operator or modify the query.";
        return Err(SqlError::new(state::UNDEFINED_FUNCTION, message).hint(hint).at(position));
    }
    check_computed("ORDER BY", ty, position)
}

/// Refuses a target list that is longer than PostgreSQL's may be; the protocol counts columns in
/// 16 bits.
fn check_entries(entries: usize) -> Result<()> {
    const MOST: usize = 1664;
    if entries <= MOST {
        return Ok(());
    }
    let message = format!("target lists can have at most {MOST} entries");
    Err(SqlError::new(state::TOO_MANY_COLUMNS, message))
}

fn integer_literal(e: &ast::Expr) -> Option<i64> {
    match e {
        ast::Expr::Value(v) => match &v.value {
            ast::Value::Number(text, _) => text.parse().ok(),
            _ => None,
        },
        _ => None,
    }
}

fn order_expressions(order_by: Option<&ast::OrderBy>) -> Result<&[ast::OrderByExpr]> {
    match order_by {
        None => Ok(&[]),
        Some(ast::OrderBy { kind: ast::OrderByKind::Expressions(list), interpolate: None }) => {
            Ok(list)
        }
        Some(_) => Err(SqlError::unsupported("this form of ORDER BY")),
    }
}

/// Adds all columns, in the version of the row that begins at an index; refuses what may follow
/// `*`.
fn wildcard(
    options: &ast::WildcardAdditionalOptions,
    scope: &Scope,
    begin: usize,
    list: &mut Vec<OutputItem>,
) -> Result<()> {
    let ast::WildcardAdditionalOptions {
        wildcard_token: _,
        opt_ilike,
        opt_exclude,
        opt_except,
        opt_replace,
        opt_rename,
        opt_alias,
    } = options;
    if opt_ilike.is_some()
        || opt_exclude.is_some()
        || opt_except.is_some()
        || opt_replace.is_some()
        || opt_rename.is_some()
        || opt_alias.is_some()
    {
        return Err(SqlError::unsupported("an option of *"));
    }
    list.extend(scope.columns.iter().map(|c| OutputItem::column(c, scope, begin)));
    check_entries(list.len())
}

/// Refuses each clause of SELECT that is not planned; exhaustive, so that a new parser cannot add
/// one unseen.
fn check_select(select: &ast::Select) -> Result<()> {
    let ast::Select {
        select_token: _,
        optimizer_hints: _,
        distinct,
        select_modifiers,
        top,
        top_before_distinct: _,
        projection: _,
        exclude,
        into,
        from: _,
        lateral_views,
        prewhere,
        selection: _,
        connect_by,
        group_by: _,
        cluster_by,
        distribute_by,
        sort_by,
        having: _,
        named_window,
        qualify,
        window_before_qualify: _,
        value_table_mode,
        flavor,
    } = select;
    match distinct {
        None | Some(ast::Distinct::All) => {}
        Some(ast::Distinct::Distinct) => return Err(SqlError::unsupported("SELECT DISTINCT")),
        Some(ast::Distinct::On(_)) => return Err(SqlError::unsupported("SELECT DISTINCT ON")),
    }
    if into.is_some() {
        return Err(SqlError::unsupported("SELECT INTO"));
    }
    if !named_window.is_empty() {
        return Err(SqlError::unsupported("WINDOW"));
    }
    let foreign = select_modifiers.is_some()
        || top.is_some()
        || exclude.is_some()
        || !lateral_views.is_empty()
        || prewhere.is_some()
        || !connect_by.is_empty()
        || !cluster_by.is_empty()
        || !distribute_by.is_empty()
        || !sort_by.is_empty()
        || qualify.is_some()
        || value_table_mode.is_some()
        || *flavor != ast::SelectFlavor::Standard;
    if foreign { Err(SqlError::unsupported("this clause of SELECT")) } else { Ok(()) }
}
