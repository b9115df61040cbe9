//! Functions that have a syntax of their own.

use super::bind::Binder;
use super::function::FunctionCall;
use super::typed::{Typed, text};
use super::types::{interval_name, type_of_name};
use crate::error::{Result, SqlError, state};
use forebay_engine::nodes::{CoercionForm, Location, SqlValueFunction, SqlValueFunctionOp};
use forebay_types::oids;
use sqlparser::ast::{self, DateTimeField};

impl Binder<'_> {
    /// Binds functions that have a syntax of their own.
    #[inline(never)]
    pub(super) fn bind_syntax(&mut self, e: &ast::Expr, position: u32) -> Result<Typed> {
        match e {
            ast::Expr::Ceil {
                expr,
                field: ast::CeilFloorKind::DateTimeField(DateTimeField::NoDateTime),
            } => self.plain_call("ceil", &[expr], position),
            ast::Expr::Floor {
                expr,
                field: ast::CeilFloorKind::DateTimeField(DateTimeField::NoDateTime),
            } => self.plain_call("floor", &[expr], position),
            ast::Expr::Substring { expr, substring_from, substring_for, shorthand, special } => {
                self.substring(
                    (expr, substring_from.as_deref(), substring_for.as_deref()),
                    (*shorthand, *special),
                    position,
                )
            }
            ast::Expr::Trim { trim_where, trim_what, expr, trim_characters } => {
                let name = match trim_where {
                    None | Some(ast::TrimWhereField::Both) => "btrim",
                    Some(ast::TrimWhereField::Leading) => "ltrim",
                    Some(ast::TrimWhereField::Trailing) => "rtrim",
                };
                let mut args: Vec<&ast::Expr> = vec![expr];
                args.extend(trim_what.as_deref());
                args.extend(trim_characters.iter().flatten());
                self.syntax_call(name, &args, position)
            }
            ast::Expr::Position { expr, r#in } => {
                self.syntax_call("position", &[r#in, expr], position)
            }
            ast::Expr::Overlay { expr, overlay_what, overlay_from, overlay_for } => {
                let mut args: Vec<&ast::Expr> = vec![expr, overlay_what, overlay_from];
                args.extend(overlay_for.as_deref());
                self.syntax_call("overlay", &args, position)
            }
            ast::Expr::Extract { field, syntax: _, expr } => {
                let field = match field {
                    DateTimeField::Custom(ident) => ident.value.to_lowercase(),
                    other => other.to_string().to_lowercase(),
                };
                let args = vec![Typed::new(text(&field), position), self.bind(expr)?];
                self.call_form(Some("pg_catalog"), "extract", args, SYNTAX, position)
            }
            ast::Expr::AtTimeZone { timestamp, time_zone } => {
                self.syntax_call("timezone", &[time_zone, timestamp], position)
            }
            ast::Expr::Interval(interval) => self.interval(interval, position),
            ast::Expr::Tuple(_) => self.row(e, position),
            other => Err(SqlError::unsupported(expression_name(other)).at(position)),
        }
    }

    /// A call of a function of pg_catalog, as SQL's syntax means it.
    #[inline(never)]
    fn syntax_call(&mut self, name: &str, args: &[&ast::Expr], position: u32) -> Result<Typed> {
        let mut bound = Vec::with_capacity(args.len());
        for arg in args {
            bound.push(self.bind(arg)?);
        }
        self.call_form(Some("pg_catalog"), name, bound, SYNTAX, position)
    }

    #[inline(never)]
    fn plain_call(&mut self, name: &str, args: &[&ast::Expr], position: u32) -> Result<Typed> {
        let mut bound = Vec::with_capacity(args.len());
        for arg in args {
            bound.push(self.bind(arg)?);
        }
        self.call_form(None, name, bound, CoercionForm::ExplicitCall, position)
    }

    #[inline(never)]
    fn substring(
        &mut self,
        (expr, from, count): (&ast::Expr, Option<&ast::Expr>, Option<&ast::Expr>),
        (shorthand, special): (bool, bool),
        position: u32,
    ) -> Result<Typed> {
        let name = if shorthand { "substr" } else { "substring" };
        let mut args = vec![self.bind(expr)?];
        match (from, count) {
            (Some(from), _) => args.push(self.bind(from)?),
            (None, Some(_)) => args.push(Typed::new(super::typed::int4(1), position)),
            (None, None) => {}
        }
        if let Some(count) = count {
            args.push(self.bind(count)?);
        }
        match special {
            true => self.call_form(None, name, args, CoercionForm::ExplicitCall, position),
            false => self.call_form(Some("pg_catalog"), name, args, SYNTAX, position),
        }
    }

    /// INTERVAL '...' with or without its fields.
    #[inline(never)]
    fn interval(&mut self, interval: &ast::Interval, position: u32) -> Result<Typed> {
        let ast::Interval {
            value,
            leading_field,
            leading_precision: None,
            last_field,
            fractional_seconds_precision,
        } = interval
        else {
            return Err(SqlError::unsupported("this form of INTERVAL").at(position));
        };
        let digits = *fractional_seconds_precision;
        let name = interval_name(leading_field.as_ref(), last_field.as_ref(), digits);
        let Some(name) = name else {
            return Err(SqlError::unsupported("these fields of INTERVAL").at(position));
        };
        let ty = type_of_name(self.names, &name)?;
        let value = self.bind(value)?;
        if !value.is_unknown() {
            let message = "syntax error in an interval";
            return Err(SqlError::new(state::SYNTAX_ERROR, message).at(position));
        }
        self.explicit(value, ty, position)
    }

    /// The value that SQL names without parentheses. None: it is no such name.
    #[inline(never)]
    pub(super) fn value_function(
        &mut self,
        name: &str,
        precision: Option<i32>,
        position: u32,
    ) -> Result<Option<Typed>> {
        use SqlValueFunctionOp as O;
        let (op, with, ty) = match name {
            "current_date" => (O::CurrentDate, None, oids::DATE),
            "current_time" => (O::CurrentTime, Some(O::CurrentTimeN), oids::TIMETZ),
            "current_timestamp" => {
                (O::CurrentTimestamp, Some(O::CurrentTimestampN), oids::TIMESTAMPTZ)
            }
            "localtime" => (O::Localtime, Some(O::LocaltimeN), oids::TIME),
            "localtimestamp" => (O::Localtimestamp, Some(O::LocaltimestampN), oids::TIMESTAMP),
            "current_role" => (O::CurrentRole, None, oids::NAME),
            "current_user" => (O::CurrentUser, None, oids::NAME),
            "user" => (O::User, None, oids::NAME),
            "session_user" => (O::SessionUser, None, oids::NAME),
            "current_catalog" => (O::CurrentCatalog, None, oids::NAME),
            "current_schema" => (O::CurrentSchema, None, oids::NAME),
            _ => return Ok(None),
        };
        /// Digits of seconds.
        const MOST: i32 = 6;
        let (op, typmod) = match (precision, with) {
            (None, _) => (op, -1),
            // PostgreSQL warns that it takes the most there is.
            (Some(precision), Some(with)) => (with, precision.min(MOST)),
            (Some(_), None) => return Ok(None),
        };
        let value = SqlValueFunction { op, type_oid: ty, typmod, location: Location::UNKNOWN };
        Ok(Some(Typed::new(value, position)))
    }

    /// A call's arguments, bound.
    pub(super) fn bind_all(&mut self, call: &FunctionCall<'_>) -> Result<Vec<Typed>> {
        let mut bound = Vec::with_capacity(call.args.len() + call.named.len());
        for arg in &call.args {
            bound.push(self.bind(arg)?);
        }
        for (_, arg) in &call.named {
            bound.push(self.bind(arg)?);
        }
        Ok(bound)
    }
}

/// How a call in SQL's syntax is shown.
const SYNTAX: CoercionForm = CoercionForm::SqlSyntax;

/// What an unsupported expression is called.
fn expression_name(e: &ast::Expr) -> &'static str {
    match e {
        ast::Expr::Subquery(_) | ast::Expr::Exists { .. } | ast::Expr::InSubquery { .. } => {
            "a subquery in an expression"
        }
        ast::Expr::SimilarTo { .. } => "SIMILAR TO",
        ast::Expr::JsonAccess { .. } | ast::Expr::CompoundFieldAccess { .. } => {
            "a subscript or field selection"
        }
        ast::Expr::GroupingSets(_) | ast::Expr::Cube(_) | ast::Expr::Rollup(_) => "grouping sets",
        _ => "this expression",
    }
}
