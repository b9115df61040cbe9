//! SELECT and VALUES: analysis of the parser's tree.

use super::aggregate::{AggregateCall, over_groups};
use super::expr::Expr;
use super::from::{FromItem, bind_from};
use super::locks::Locking;
use super::lower::{is_reg, lower, shown, value_order};
use super::order::ValueOrder;
use super::planner::Planner;
use super::query::Query;
use super::tree::{Grouping, Node, SelectPlan, SortKey};
use crate::analyze::{
    self, AggregateArgs, Context, Scope, ScopeColumn, Typed, assign_key_collations, coerce,
    coerce_all, column_name, common_collation, ident_name, type_name,
};
use crate::column::ColumnDesc;
use crate::error::{Result, SqlError, state};
use forebay_engine::nodes::{self, collation_of, type_of, typmod_of};
use forebay_types::{Datum, SqlType, oids};
use sqlparser::ast::{self, Spanned};
use std::sync::Arc;

/// What becomes of columns of a query whose type is unknown: literals and parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unknowns {
    /// They become text.
    Text,
    /// They stay: the columns of an INSERT give them their types. Those by which rows are sorted or
    /// grouped become text all the same.
    Stay,
}

impl SelectPlan {
    /// The plan for a client that wants some columns in binary form, which of a type like regclass
    /// is the OID: the name is not looked up.
    pub fn with_oids(&self, binary: impl Fn(usize) -> bool) -> Arc<Node> {
        let is_oid = |n: usize| {
            self.columns.get(n).is_some_and(|column| is_reg(column.type_oid())) && binary(n)
        };
        match &*self.root {
            Node::Project { input, output } if (0..output.len()).any(is_oid) => {
                let one = |(n, e): (usize, &Expr)| match is_oid(n) {
                    true => Expr::Column(n),
                    false => e.clone(),
                };
                let output = output.iter().enumerate().map(one).collect();
                Arc::new(Node::Project { input: input.clone(), output })
            }
            _ => Arc::clone(&self.root),
        }
    }
}

impl Planner<'_> {
    /// Plans a query whose columns of unknown type become text.
    pub fn query(&mut self, query: &ast::Query) -> Result<SelectPlan> {
        let plan = self.subquery(query)?;
        self.shown(plan)
    }

    /// Plans a query whose rows go on to another one.
    pub fn subquery(&mut self, query: &ast::Query) -> Result<SelectPlan> {
        self.analyzed(query, Unknowns::Text)?.fold(self.catalog)?.plan(self.catalog)
    }

    /// The plan of what a client sees: of columns whose values are OIDs of rows, the text.
    pub fn shown(&mut self, plan: SelectPlan) -> Result<SelectPlan> {
        let SelectPlan { root, columns } = plan;
        if !columns.iter().any(|column| is_reg(column.type_oid())) {
            return Ok(SelectPlan { root, columns });
        }
        let mut output = Vec::with_capacity(columns.len());
        for (n, column) in columns.iter().enumerate() {
            output.push(shown(Expr::Column(n), column.type_oid(), self.catalog)?);
        }
        let input = Box::new(Arc::unwrap_or_clone(root));
        Ok(SelectPlan { root: Arc::new(Node::Project { input, output }), columns })
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
        let (ty, position) = (value.ty(), value.position);
        let names = self.catalog.names();
        match coerce(names, self.params, value, oids::INT8, Context::Assignment)? {
            Some(value) => self.lower(&value, &Scope::default()),
            None => {
                let ty = type_name(names, ty)?;
                let message = format!("argument of {clause} must be type bigint, not type {ty}");
                Err(SqlError::new(state::DATATYPE_MISMATCH, message).at(position))
            }
        }
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
        let mut aggregates = AggregateArgs::default();
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
        let unseen = keys.iter().filter(|k| items.iter().all(|i| !i.expr.same(k))).count();
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
        let is_key = |i: &OutputItem| keys.iter().any(|key| key.same(&i.expr));
        let position = |i: &OutputItem| if is_key(i) { 0 } else { i.position };
        let positions = items.iter().map(position).collect();
        let unknown = |i: &OutputItem| (type_of(&i.expr) == oids::UNKNOWN).then(|| i.expr.clone());
        let unknowns = items.iter().map(unknown).collect();
        let (output, visible) = self.lowered(items, &scope)?;
        let (grouping, having, output) = if grouped {
            let (mut lowered, mut calls) = (Vec::new(), Vec::new());
            let types = keys.iter().map(|key| SqlType::of(type_of(key))).collect();
            for key in keys {
                lowered.push(self.lower(&Typed::new(key, 0), &scope)?);
            }
            for call in &aggregates.calls {
                calls.push(AggregateCall::lower(call, &scope, self.catalog)?);
            }
            let over = |e: Expr| over_groups(e, &lowered, &scope, &aggregates.bare_columns);
            let output = output.into_iter().map(&over).collect::<Result<_>>()?;
            let having = having.map(over).transpose()?;
            (Some(Grouping { keys: lowered, types, calls }), having, output)
        } else {
            (None, None, output)
        };
        let columns = visible.into_iter().flatten().collect();
        let query = Query::of(source, output, columns, sort);
        Ok(Query { filter, grouping, having, lock, positions, unknowns, ..query })
    }

    /// Output expressions as they are evaluated, and their columns.
    fn lowered(
        &mut self,
        items: Vec<OutputItem>,
        scope: &Scope,
    ) -> Result<(Vec<Expr>, Vec<Option<ColumnDesc>>)> {
        let (mut output, mut columns) = (Vec::new(), Vec::new());
        for OutputItem { expr, position, mut column } in items {
            let expr = self.collated(expr)?;
            output.push(lower(&expr, scope, self.catalog).map_err(|e| e.at(position))?);
            if let Some(column) = &mut column {
                column.collation = collation_of(&expr);
            }
            columns.push(column);
        }
        Ok((output, columns))
    }

    /// The condition of a clause, if there is one.
    fn clause(
        &mut self,
        condition: Option<&ast::Expr>,
        scope: &Scope,
        clause: &'static str,
        aggregates: Option<&mut AggregateArgs>,
    ) -> Result<Option<Expr>> {
        let Some(condition) = condition else { return Ok(None) };
        let mut binder = self.binder(scope, clause);
        binder.aggregates = aggregates;
        let position = binder.position(condition);
        let condition = binder.condition(condition, clause)?;
        self.lower(&Typed::new(condition, position), scope).map(Some)
    }

    /// What RETURNING returns: expressions and their columns.
    pub(super) fn returning_list(
        &mut self,
        items: &[ast::SelectItem],
        scope: &Scope,
    ) -> Result<(Vec<Expr>, Vec<ColumnDesc>)> {
        let mut items = self.select_list(items, scope, "RETURNING", None)?;
        items.iter_mut().try_for_each(|item| self.settle_item(item))?;
        let (lowered, columns) = self.lowered(items, scope)?;
        let columns: Vec<ColumnDesc> = columns.into_iter().flatten().collect();
        let mut output = Vec::with_capacity(lowered.len());
        for (value, column) in lowered.into_iter().zip(&columns) {
            output.push(shown(value, column.type_oid(), self.catalog)?);
        }
        Ok((output, columns))
    }

    /// Output expressions with their columns.
    fn select_list(
        &mut self,
        items: &[ast::SelectItem],
        scope: &Scope,
        clause: &'static str,
        mut aggregates: Option<&mut AggregateArgs>,
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
            let typed = binder.bind(expr)?;
            let name = alias.unwrap_or_else(|| column_name(self.catalog.names(), expr));
            list.push(OutputItem::expression(typed, name, scope));
            check_entries(list.len())?;
        }
        Ok(list)
    }

    /// Gives an expression whose type is still unknown the type text.
    fn settle_item(&mut self, item: &mut OutputItem) -> Result<()> {
        if type_of(&item.expr) != oids::UNKNOWN {
            return Ok(());
        }
        let unknown = Typed::new(item.expr.clone(), item.position);
        let settled = self.binder(&Scope::default(), "SELECT").settle(unknown)?;
        if let Some(column) = &mut item.column {
            column.ty = SqlType::of(settled.ty());
        }
        item.expr = settled.expr;
        Ok(())
    }

    fn group_keys(
        &mut self,
        group_by: &ast::GroupByExpr,
        scope: &Scope,
        items: &mut [OutputItem],
    ) -> Result<Vec<nodes::Expr>> {
        let ast::GroupByExpr::Expressions(exprs, modifiers) = group_by else {
            return Err(SqlError::unsupported("GROUP BY ALL"));
        };
        if !modifiers.is_empty() {
            return Err(SqlError::unsupported("this form of GROUP BY"));
        }
        let mut keys: Vec<nodes::Expr> = Vec::new();
        for e in exprs {
            let position = self.source.position(analyze::start(e));
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
            let key = match index.and_then(|index| items.get_mut(index)) {
                Some(item) => {
                    self.settle_item(item)?;
                    self.params.copy(&item.expr)?
                }
                None => {
                    let typed = self.binder(scope, "GROUP BY").bind(e)?;
                    self.binder(scope, "GROUP BY").settle(typed)?.expr
                }
            };
            self.check_compared("GROUP BY", type_of(&key), position)?;
            self.order_of(&key, position)?;
            if has_aggregate(&key) {
                let message = "aggregate functions are not allowed in GROUP BY";
                return Err(SqlError::new(state::GROUPING_ERROR, message).at(position));
            }
            if !keys.iter().any(|known| known.same(&key)) {
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
        aggregates: &mut AggregateArgs,
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
            let position = self.source.position(analyze::start(e));
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
                    match items.iter().position(|i| i.expr.same(&typed.expr)) {
                        Some(index) => index,
                        None => {
                            items.push(OutputItem { expr: typed.expr, position, column: None });
                            check_entries(items.len())?;
                            items.len() - 1
                        }
                    }
                }
            };
            let item = items
                .get_mut(column)
                .ok_or_else(|| SqlError::new(state::INTERNAL_ERROR, "ORDER BY of no column"))?;
            self.settle_item(item)?;
            self.check_sortable(type_of(&item.expr), position)?;
            let order = self.order_of(&item.expr, position)?;
            let nulls_first = options.nulls_first.unwrap_or(descending);
            keys.push(SortKey { column, descending, nulls_first, order });
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
                Some((_, first)) if first.expr.same(&item.expr) => {}
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
            let places: Vec<u32> = column.iter().map(|value| value.position).collect();
            let names = self.catalog.names();
            let (mut exprs, ty) = coerce_all(names, self.params, column, "VALUES")?;
            let collation = common_collation(names, &mut exprs, ty)?;
            let typmod = exprs.first().map_or(-1, typmod_of);
            let agrees = exprs.iter().all(|e| typmod_of(e) == typmod);
            let typmod = if agrees { typmod } else { -1 };
            scope.push_collated(format!("column{}", i + 1), SqlType::of(ty), typmod, collation);
            rows.resize_with(exprs.len(), Vec::new);
            for ((row, e), at) in rows.iter_mut().zip(exprs).zip(places) {
                row.push(self.lower(&Typed::new(e, at), &Scope::default())?);
            }
        }
        let mut items: Vec<OutputItem> =
            scope.columns.iter().map(|c| OutputItem::column(c, &scope, 0)).collect();
        let order = self.sort_keys(order, &scope, &mut AggregateArgs::default(), &mut items)?;
        let (output, columns) = self.lowered(items, &scope)?;
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
    expr: nodes::Expr,
    position: u32,
    column: Option<ColumnDesc>,
}

impl OutputItem {
    /// A column, in the version of the row that begins at an index.
    fn column(column: &ScopeColumn, scope: &Scope, begin: usize) -> OutputItem {
        let desc = ColumnDesc {
            name: column.name.clone(),
            table_oid: if column.attnum == 0 { 0 } else { scope.table_oid },
            attnum: column.attnum,
            ty: column.ty,
            typmod: column.typmod,
            collation: column.collation,
        };
        let expr = column.var(usize::from(begin > 0)).into();
        OutputItem { expr, position: 0, column: Some(desc) }
    }

    fn expression(typed: Typed, name: String, scope: &Scope) -> OutputItem {
        let column = match &typed.expr {
            nodes::Expr::Var(var) => {
                scope.index_of(var).and_then(|index| scope.at(index).map(|c| (c, index - c.index)))
            }
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
                let (ty, typmod) = (SqlType::of(typed.ty()), typmod_of(&typed.expr));
                let desc = ColumnDesc { name, table_oid: 0, attnum: 0, ty, typmod, collation: 0 };
                let Typed { expr, position } = typed;
                OutputItem { expr, position, column: Some(desc) }
            }
        }
    }

    fn name(&self) -> &str {
        self.column.as_ref().map_or("", |c| &c.name)
    }
}

/// Whether an expression has an aggregate in it.
fn has_aggregate(expr: &nodes::Expr) -> bool {
    let mut found = matches!(expr, nodes::Expr::Var(var) if var.varno == analyze::AGGREGATES);
    expr.visit_children(&mut |child| found = found || has_aggregate(child));
    found
}

impl Planner<'_> {
    /// The order of an expression's values.
    fn order_of(&mut self, expr: &nodes::Expr, position: u32) -> Result<ValueOrder> {
        let mut expr = self.collated(expr.clone())?;
        assign_key_collations(self.catalog.names(), &mut expr).map_err(|e| e.at(position))?;
        value_order(self.catalog, type_of(&expr), collation_of(&expr))
    }

    /// Refuses a type whose values have no order.
    fn check_sortable(&mut self, ty: u32, position: u32) -> Result<()> {
        if analyze::is_ordered(self.catalog.names(), ty)? {
            return self.check_compared("ORDER BY", ty, position);
        }
        let name = type_name(self.catalog.names(), ty)?;
        let message = format!("could not identify an ordering operator for type {name}");
        let hint = "Use an explicit ordering operator or modify the query.";
        Err(SqlError::new(state::UNDEFINED_FUNCTION, message).hint(hint).at(position))
    }

    /// Refuses values that are only carried: they come out of tables, and nothing compares them.
    pub(super) fn check_compared(&mut self, what: &str, ty: u32, position: u32) -> Result<()> {
        if let SqlType::Other(_) = SqlType::of(ty) {
            let name = type_name(self.catalog.names(), ty)?;
            return Err(SqlError::unsupported(format!("{what} of type {name}")).at(position));
        }
        Ok(())
    }
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
