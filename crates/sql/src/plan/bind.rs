//! sqlparser's expressions to typed ones. Unsupported kinds are refused by name.

use super::aggregate::Aggregates;
use super::catalog::Catalog;
use super::coerce::{self, Context, ParamTypes};
use super::expr::{Arithmetic, Comparison, Expr, Typed};
use super::ident::{ident_name, reserved_word};
use super::literal::{number, signed_number};
use super::place;
use super::resolve::{self, Choice, OperatorKind, category};
use super::scope::Scope;
use super::types::type_of_ast;
use crate::error::{Result, SqlError, state};
use crate::parse::cursor::is_reserved;
use crate::parse::{Source, too_complex};
use forebay_types::{Datum, SqlType};
use sqlparser::ast::{self, BinaryOperator, UnaryOperator, Value};

/// What binding an expression needs.
pub struct Binder<'a> {
    /// The query string.
    pub source: &'a Source,
    /// Names in view.
    pub scope: &'a Scope,
    /// Parameters.
    pub params: &'a mut ParamTypes,
    /// Aggregates found so far; None where they are not allowed.
    pub aggregates: Option<&'a mut Aggregates>,
    /// The clause, for the message when an aggregate is not allowed.
    pub clause: &'static str,
    /// What names mean.
    pub catalog: &'a dyn Catalog,
    /// Expressions around the one that is bound.
    pub depth: usize,
}

/// Most levels of nested expressions: binding, evaluating and dropping them is recursive.
const MAX_DEPTH: usize = 1000;

const NO_OPERATOR: &str = "No operator matches the given name and argument types. You might need \
                           to add explicit type casts.";
const NO_UNARY: &str = "No operator matches the given name and argument type. You might need to \
                        add an explicit type cast.";
const NOT_UNIQUE: &str =
    "Could not choose a best candidate operator. You might need to add explicit type casts.";
/// Functions that are called without parentheses.
const VALUE_FUNCTIONS: &[&str] =
    &["current_catalog", "current_role", "current_schema", "current_user", "session_user", "user"];

impl Binder<'_> {
    /// The position where an expression starts.
    pub fn position(&self, e: &ast::Expr) -> u32 {
        self.source.position(place::start(e))
    }

    /// Binds an expression.
    pub fn bind(&mut self, e: &ast::Expr) -> Result<Typed> {
        self.catalog.step()?;
        if self.depth >= MAX_DEPTH {
            return Err(too_complex());
        }
        self.depth += 1;
        let bound = self.bind_one(e);
        self.depth -= 1;
        bound
    }

    /// Copies a bound expression that is needed twice.
    pub(super) fn copy(&mut self, bound: &Typed) -> Result<Typed> {
        Ok(Typed::new(self.params.copy(&bound.expr)?, bound.ty, bound.position))
    }

    fn bind_one(&mut self, e: &ast::Expr) -> Result<Typed> {
        let position = self.position(e);
        match e {
            ast::Expr::Identifier(ident) => {
                let name = ident_name(ident);
                if ident.quote_style.is_none() && VALUE_FUNCTIONS.contains(&name.as_str()) {
                    return self.call_bound(&name, Vec::new(), position);
                }
                let column = self.scope.column(&name, position).map_err(|error| {
                    // The parser tries a word that it could not go on with as a name.
                    let reserved = ident.quote_style.is_none() && is_reserved(&name);
                    if reserved { reserved_word(&ident.value, position) } else { error }
                })?;
                Ok(self.note(column))
            }
            ast::Expr::CompoundIdentifier(parts) => {
                let column = self.compound(parts, position)?;
                Ok(self.note(column))
            }
            ast::Expr::Value(v) => self.literal(&v.value, position),
            ast::Expr::Nested(inner) => self.bind(inner),
            ast::Expr::BinaryOp { op: op @ (BinaryOperator::And | BinaryOperator::Or), .. } => {
                self.logic(e, op, position)
            }
            ast::Expr::BinaryOp { left, op, right } => self.binary(left, op, right, position),
            ast::Expr::UnaryOp { op, expr } => self.unary(op, expr, position),
            ast::Expr::Cast { kind, expr, data_type, format: None }
                if matches!(kind, ast::CastKind::Cast | ast::CastKind::DoubleColon) =>
            {
                self.cast(expr, data_type, position, *kind == ast::CastKind::DoubleColon)
            }
            ast::Expr::TypedString(ast::TypedString {
                data_type,
                value,
                uses_odbc_syntax: false,
            }) => {
                let at = self.source.position(value.span.start);
                let text = self.literal(&value.value, at)?;
                let to = type_of_ast(self.catalog, data_type, position)?;
                self.explicit(text, to, position)
            }
            ast::Expr::Case { operand, conditions, else_result, .. } => {
                self.case(operand.as_deref(), conditions, else_result.as_deref(), position)
            }
            ast::Expr::Collate { expr, collation } => self.collate(expr, collation, position),
            ast::Expr::Function(f) => self.function(f, position),
            _ => self.bind_test(e, position),
        }
    }

    /// Binds what is true, false or unknown.
    fn bind_test(&mut self, e: &ast::Expr, position: u32) -> Result<Typed> {
        match e {
            ast::Expr::IsNull(x) => self.null_test(x, position, Expr::IsNull),
            ast::Expr::IsNotNull(x) => self.null_test(x, position, Expr::IsNotNull),
            ast::Expr::IsTrue(x) => self.bool_test(x, position, "IS TRUE", Some(true), false),
            ast::Expr::IsNotTrue(x) => self.bool_test(x, position, "IS NOT TRUE", Some(true), true),
            ast::Expr::IsFalse(x) => self.bool_test(x, position, "IS FALSE", Some(false), false),
            ast::Expr::IsNotFalse(x) => {
                self.bool_test(x, position, "IS NOT FALSE", Some(false), true)
            }
            ast::Expr::IsUnknown(x) => self.bool_test(x, position, "IS UNKNOWN", None, false),
            ast::Expr::IsNotUnknown(x) => self.bool_test(x, position, "IS NOT UNKNOWN", None, true),
            ast::Expr::IsDistinctFrom(a, b) => self.distinct(a, b, false, position),
            ast::Expr::IsNotDistinctFrom(a, b) => self.distinct(a, b, true, position),
            ast::Expr::InList { expr, list, negated } => {
                self.in_list(expr, list, *negated, position)
            }
            ast::Expr::AnyOp { left, compare_op, right, is_some: _ } => {
                self.array_test((left, right), compare_op, false, position)
            }
            ast::Expr::AllOp { left, compare_op, right } => {
                self.array_test((left, right), compare_op, true, position)
            }
            ast::Expr::Between { expr, negated, low, high } => {
                self.between(expr, *negated, low, high, position)
            }
            ast::Expr::Like { negated, any: false, expr, pattern, escape_char } => {
                self.like(expr, pattern, escape_char.as_deref(), *negated, false, position)
            }
            ast::Expr::ILike { negated, any: false, expr, pattern, escape_char } => {
                self.like(expr, pattern, escape_char.as_deref(), *negated, true, position)
            }
            _ => self.bind_call(e, position),
        }
    }

    /// Binds functions that have a syntax of their own.
    fn bind_call(&mut self, e: &ast::Expr, position: u32) -> Result<Typed> {
        match e {
            ast::Expr::Ceil {
                expr,
                field: ast::CeilFloorKind::DateTimeField(ast::DateTimeField::NoDateTime),
            } => self.call("ceil", &[expr], position),
            ast::Expr::Floor {
                expr,
                field: ast::CeilFloorKind::DateTimeField(ast::DateTimeField::NoDateTime),
            } => self.call("floor", &[expr], position),
            ast::Expr::Substring { expr, substring_from: Some(from), substring_for, .. } => {
                let mut args: Vec<&ast::Expr> = vec![expr, from];
                args.extend(substring_for.as_deref());
                self.call("substring", &args, position)
            }
            ast::Expr::Trim { trim_where: None, trim_what: None, expr, trim_characters: None } => {
                self.call("btrim", &[expr], position)
            }
            ast::Expr::Position { expr, r#in } => self.call("strpos", &[r#in, expr], position),
            other => Err(SqlError::unsupported(expression_name(other)).at(position)),
        }
    }

    /// Remembers where a column was named outside of an aggregate.
    fn note(&mut self, column: Typed) -> Typed {
        if let (Some(aggregates), Expr::Column(index)) = (&mut self.aggregates, &column.expr) {
            aggregates.bare_columns.push((*index, column.position));
        }
        column
    }

    /// Binds a condition: it must be boolean.
    pub fn condition(&mut self, e: &ast::Expr, what: &str) -> Result<Expr> {
        let typed = self.bind(e)?;
        self.boolean(typed, what)
    }

    fn boolean(&mut self, value: Typed, what: &str) -> Result<Expr> {
        let (ty, position) = (value.ty, value.position);
        match coerce::coerce(value, SqlType::Bool, Context::Implicit, self.params)? {
            Some(v) => Ok(v.expr),
            None => {
                let message =
                    format!("argument of {what} must be type boolean, not type {}", ty.sql_name());
                Err(SqlError::new(state::DATATYPE_MISMATCH, message).at(position))
            }
        }
    }

    /// COLLATE: strings compare by bytes here, which some collations of PostgreSQL do too.
    fn collate(
        &mut self,
        e: &ast::Expr,
        collation: &ast::ObjectName,
        position: u32,
    ) -> Result<Typed> {
        let value = self.bind(e)?;
        let value = self.settle(value)?;
        if category(value.ty).0 != b'S' {
            let message = format!("collations are not supported by type {}", value.ty.sql_name());
            let at = self.source.operator_after(place::end(e));
            return Err(SqlError::new(state::DATATYPE_MISMATCH, message).at(at));
        }
        let name =
            collation.0.last().and_then(|p| p.as_ident()).map(ident_name).unwrap_or_default();
        match name.as_str() {
            "C" | "POSIX" | "default" | "ucs_basic" => Ok(value),
            _ => Err(SqlError::unsupported(format!("collation \"{name}\"")).at(position)),
        }
    }

    fn compound(&self, parts: &[ast::Ident], position: u32) -> Result<Typed> {
        let names: Vec<String> = parts.iter().map(ident_name).collect();
        match names.as_slice() {
            [table, column] => self.scope.qualified(table, column, position),
            [_, table, column] => self.scope.qualified(table, column, position),
            _ => Err(SqlError::unsupported("a name of so many parts").at(position)),
        }
    }

    fn literal(&mut self, v: &Value, position: u32) -> Result<Typed> {
        let (value, ty) = match v {
            Value::Null => (Datum::Null, SqlType::Unknown),
            Value::Boolean(b) => (Datum::Bool(*b), SqlType::Bool),
            Value::Number(text, _) => return number(text, position),
            Value::SingleQuotedString(s)
            | Value::EscapedStringLiteral(s)
            | Value::UnicodeStringLiteral(s) => (Datum::string(s.clone()), SqlType::Unknown),
            Value::DollarQuotedString(s) => (Datum::string(s.value.clone()), SqlType::Unknown),
            Value::Placeholder(name) => return self.parameter(name, position),
            _ => return Err(SqlError::unsupported("this kind of literal").at(position)),
        };
        Ok(Typed::new(Expr::Const(value), ty, position))
    }

    fn parameter(&mut self, name: &str, position: u32) -> Result<Typed> {
        let number: Option<usize> = name.strip_prefix('$').and_then(|n| n.parse().ok());
        match number {
            Some(n @ 1..=65535) if self.params.allowed => {
                let ty = self.params.get(n - 1);
                Ok(Typed::new(Expr::Param(n - 1), ty, position))
            }
            Some(n) => {
                let message = format!("there is no parameter ${n}");
                Err(SqlError::new(state::UNDEFINED_PARAMETER, message).at(position))
            }
            None => {
                let message = format!("syntax error at or near \"{name}\"");
                Err(SqlError::new(state::SYNTAX_ERROR, message).at(position))
            }
        }
    }

    fn unary(&mut self, op: &UnaryOperator, e: &ast::Expr, position: u32) -> Result<Typed> {
        match op {
            UnaryOperator::Not => {
                let operand = self.condition(e, "NOT")?;
                Ok(Typed::new(Expr::Not(Box::new(operand)), SqlType::Bool, position))
            }
            UnaryOperator::Minus | UnaryOperator::Plus => {
                let minus = *op == UnaryOperator::Minus;
                // Signs before a number belong to it, as in PostgreSQL's grammar.
                if minus && let Some(text) = signed_number(e) {
                    let text =
                        text.strip_prefix('-').map_or_else(|| format!("-{text}"), str::to_owned);
                    return number(&text, position);
                }
                let operand = self.bind(e)?;
                let sign = if minus { '-' } else { '+' };
                let refuse = |sqlstate, message: String, hint: &str| {
                    let at = self.source.sign_before(place::start(e));
                    Err(SqlError::new(sqlstate, message).hint(hint).at(at))
                };
                match operand.ty {
                    SqlType::Unknown => {
                        let message = format!("operator is not unique: {sign} unknown");
                        return refuse(state::AMBIGUOUS_FUNCTION, message, NOT_UNIQUE);
                    }
                    ty if category(ty).0 == b'N'
                        && !matches!(ty, SqlType::Oid | SqlType::Regclass) => {}
                    ty => {
                        let message = format!("operator does not exist: {sign} {}", ty.sql_name());
                        return refuse(state::UNDEFINED_FUNCTION, message, NO_UNARY);
                    }
                }
                let expr = if minus { Expr::Negate(Box::new(operand.expr)) } else { operand.expr };
                Ok(Typed::new(expr, operand.ty, position))
            }
            other => Err(SqlError::unsupported(format!("operator {other}")).at(position)),
        }
    }

    fn binary(
        &mut self,
        left: &ast::Expr,
        op: &BinaryOperator,
        right: &ast::Expr,
        position: u32,
    ) -> Result<Typed> {
        let kind = match op {
            BinaryOperator::StringConcat => return self.concat(left, right, position),
            BinaryOperator::Plus => OperatorKind::Arith(Arithmetic::Add),
            BinaryOperator::Minus => OperatorKind::Arith(Arithmetic::Sub),
            BinaryOperator::Multiply => OperatorKind::Arith(Arithmetic::Mul),
            BinaryOperator::Divide => OperatorKind::Arith(Arithmetic::Div),
            BinaryOperator::Modulo => OperatorKind::Arith(Arithmetic::Rem),
            BinaryOperator::Eq => OperatorKind::Compare(Comparison::Eq),
            BinaryOperator::NotEq => OperatorKind::Compare(Comparison::Ne),
            BinaryOperator::Lt => OperatorKind::Compare(Comparison::Lt),
            BinaryOperator::LtEq => OperatorKind::Compare(Comparison::Le),
            BinaryOperator::Gt => OperatorKind::Compare(Comparison::Gt),
            BinaryOperator::GtEq => OperatorKind::Compare(Comparison::Ge),
            BinaryOperator::Custom(_) | BinaryOperator::PGCustomBinaryOperator(_) => {
                let (a, b) = (self.bind(left)?, self.bind(right)?);
                return Err(self.no_operator(&a, &op.to_string(), &b, left));
            }
            other => {
                let at = self.source.operator_after(place::end(left));
                return Err(SqlError::unsupported(format!("operator {other}")).at(at));
            }
        };
        if let Some(rows) = self.row_comparison((left, right), op, position)? {
            return Ok(rows);
        }
        let (a, b) = (self.bind(left)?, self.bind(right)?);
        let name = op.to_string();
        let shown = if name == "!=" { "<>" } else { &name };
        let (pair, ty) = self.operands(kind, shown, a, b, left).map_err(|mut e| {
            if matches!(e.sqlstate, state::UNDEFINED_FUNCTION | state::AMBIGUOUS_FUNCTION) {
                let between = (place::end(left), place::start(right));
                e.set_position(self.source.operator_between(&name, between.0, between.1));
            }
            e
        })?;
        let expr = match kind {
            OperatorKind::Arith(op) => Expr::Arith(op, pair),
            OperatorKind::Compare(op) => Expr::Compare(op, pair),
            OperatorKind::Like => unreachable!("LIKE is no binary operator"),
        };
        Ok(Typed::new(expr, ty, position))
    }

    /// A chain of AND or of OR: a list, however long, and not one level for each operator.
    fn logic(&mut self, e: &ast::Expr, chain: &BinaryOperator, position: u32) -> Result<Typed> {
        let and = *chain == BinaryOperator::And;
        let what = if and { "AND" } else { "OR" };
        let mut operands = Vec::new();
        let mut rest = e;
        while let ast::Expr::BinaryOp { left, op, right } = rest
            && op == chain
        {
            operands.push(&**right);
            rest = left;
        }
        let mut list = match self.condition(rest, what)? {
            Expr::And(list) if and => list,
            Expr::Or(list) if !and => list,
            other => vec![other],
        };
        for operand in operands.into_iter().rev() {
            list.push(self.condition(operand, what)?);
        }
        Ok(Typed::new(if and { Expr::And(list) } else { Expr::Or(list) }, SqlType::Bool, position))
    }

    /// Finds the operator and casts its operands: both, and the type of the result.
    pub(super) fn operands(
        &mut self,
        kind: OperatorKind,
        name: &str,
        a: Typed,
        b: Typed,
        left: &ast::Expr,
    ) -> Result<(Box<(Expr, Expr)>, SqlType)> {
        for ty in [a.ty, b.ty] {
            resolve::check_computed(format_args!("operator {name}"), ty, 0)
                .map_err(|e| e.at(self.source.operator_after(place::end(left))))?;
        }
        let found = match resolve::operator(kind, a.ty, b.ty) {
            Choice::One(found) => found,
            Choice::None => return Err(self.no_operator(&a, name, &b, left)),
            Choice::Ambiguous => {
                let at = self.source.operator_after(place::end(left));
                let (a, b) = (a.ty.sql_name(), b.ty.sql_name());
                let message = format!("operator is not unique: {a} {name} {b}");
                return Err(SqlError::new(state::AMBIGUOUS_FUNCTION, message)
                    .hint(NOT_UNIQUE)
                    .at(at));
            }
        };
        let pair = (self.operand(a, found.common)?, self.operand(b, found.common)?);
        Ok((Box::new(pair), found.result))
    }

    pub(super) fn no_operator(
        &self,
        a: &Typed,
        name: &str,
        b: &Typed,
        left: &ast::Expr,
    ) -> SqlError {
        let is_array = |value: &&Typed| value.ty.info().elem != 0 && value.ty.info().len == -1;
        if let Some(array) = [a, b].into_iter().find(is_array) {
            let what = format!("operator {name} of type {}", array.ty);
            return SqlError::unsupported(what).at(self.source.operator_after(place::end(left)));
        }
        let (a, b) = (a.ty.sql_name(), b.ty.sql_name());
        SqlError::new(state::UNDEFINED_FUNCTION, format!("operator does not exist: {a} {name} {b}"))
            .hint(NO_OPERATOR)
            .at(self.source.operator_after(place::end(left)))
    }

    /// A comparison of values that were bound before.
    pub(super) fn compared(
        &mut self,
        op: Comparison,
        a: Typed,
        b: Typed,
        left: &ast::Expr,
    ) -> Result<Expr> {
        let name = match op {
            Comparison::Ge => ">=",
            Comparison::Le => "<=",
            _ => "=",
        };
        let (pair, _) = self.operands(OperatorKind::Compare(op), name, a, b, left)?;
        Ok(Expr::Compare(op, pair))
    }

    /// An operand cast to the type its operator wants; candidates were chosen so that there is a
    /// cast.
    pub(super) fn operand(&mut self, value: Typed, to: SqlType) -> Result<Expr> {
        let from = value.ty;
        if (from, to) == (SqlType::Int4, SqlType::Xid) {
            // There is no such cast, only an operator for the two types.
            return Ok(Expr::Cast { expr: Box::new(value.expr), from, to });
        }
        let cast = coerce::coerce(value, to, Context::Explicit, self.params)?;
        cast.map(|v| v.expr).ok_or_else(|| {
            let message = format!("cannot cast type {} to {}", from.sql_name(), to.sql_name());
            SqlError::new(state::CANNOT_COERCE, message)
        })
    }

    fn concat(&mut self, left: &ast::Expr, right: &ast::Expr, position: u32) -> Result<Typed> {
        let (a, b) = (self.bind(left)?, self.bind(right)?);
        let string = |t: &Typed| t.ty == SqlType::Unknown || category(t.ty).0 == b'S';
        if !string(&a) && !string(&b) {
            return Err(self.no_operator(&a, "||", &b, left));
        }
        let pair = Box::new((self.operand(a, SqlType::Text)?, self.operand(b, SqlType::Text)?));
        Ok(Typed::new(Expr::Concat(pair), SqlType::Text, position))
    }

    fn null_test(
        &mut self,
        e: &ast::Expr,
        position: u32,
        make: fn(Box<Expr>) -> Expr,
    ) -> Result<Typed> {
        let operand = self.bind(e)?;
        Ok(Typed::new(make(Box::new(operand.expr)), SqlType::Bool, position))
    }

    /// Gives a value whose type is still unknown the type text.
    pub fn settle(&mut self, value: Typed) -> Result<Typed> {
        if value.ty != SqlType::Unknown {
            return Ok(value);
        }
        let position = value.position;
        let text = coerce::coerce(value, SqlType::Text, Context::Implicit, self.params)?;
        text.ok_or_else(|| SqlError::unsupported("this value").at(position))
    }

    fn bool_test(
        &mut self,
        e: &ast::Expr,
        position: u32,
        what: &str,
        value: Option<bool>,
        negated: bool,
    ) -> Result<Typed> {
        let operand = Box::new(self.condition(e, what)?);
        let expr = match value {
            Some(value) => Expr::IsBool { expr: operand, value, negated },
            None if negated => Expr::IsNotNull(operand),
            None => Expr::IsNull(operand),
        };
        Ok(Typed::new(expr, SqlType::Bool, position))
    }

    fn distinct(
        &mut self,
        a: &ast::Expr,
        b: &ast::Expr,
        negated: bool,
        position: u32,
    ) -> Result<Typed> {
        let (left, right) = (self.bind(a)?, self.bind(b)?);
        let equal = OperatorKind::Compare(Comparison::Eq);
        let (operands, _) = self.operands(equal, "=", left, right, a)?;
        Ok(Typed::new(Expr::IsDistinct { operands, negated }, SqlType::Bool, position))
    }

    fn between(
        &mut self,
        e: &ast::Expr,
        negated: bool,
        low: &ast::Expr,
        high: &ast::Expr,
        position: u32,
    ) -> Result<Typed> {
        let (value, low, high) = (self.bind(e)?, self.bind(low)?, self.bind(high)?);
        let again = self.copy(&value)?;
        let above = self.compared(Comparison::Ge, again, low, e)?;
        let below = self.compared(Comparison::Le, value, high, e)?;
        let both = Expr::And(vec![above, below]);
        let expr = if negated { Expr::Not(Box::new(both)) } else { both };
        Ok(Typed::new(expr, SqlType::Bool, position))
    }

    fn like(
        &mut self,
        e: &ast::Expr,
        pattern: &ast::Expr,
        escape: Option<&ast::Expr>,
        negated: bool,
        ignore_case: bool,
        position: u32,
    ) -> Result<Typed> {
        let (value, pattern) = (self.bind(e)?, self.bind(pattern)?);
        let name = match (negated, ignore_case) {
            (false, false) => "~~",
            (true, false) => "!~~",
            (false, true) => "~~*",
            (true, true) => "!~~*",
        };
        let escape = match escape {
            None => Some('\\'),
            Some(ast::Expr::Value(v)) => match &v.value {
                Value::SingleQuotedString(s) => {
                    let mut chars = s.chars();
                    let first = chars.next();
                    if chars.next().is_some() {
                        return Err(SqlError::new(
                            state::INVALID_ESCAPE_SEQUENCE,
                            "invalid escape string",
                        )
                        .hint("Escape string must be empty or one character."));
                    }
                    first
                }
                _ => return Err(SqlError::unsupported("this ESCAPE").at(position)),
            },
            Some(_) => return Err(SqlError::unsupported("ESCAPE of an expression").at(position)),
        };
        let (operands, _) = self.operands(OperatorKind::Like, name, value, pattern, e)?;
        let expr = Expr::Like { operands, escape, negated, ignore_case };
        Ok(Typed::new(expr, SqlType::Bool, position))
    }

    fn cast(
        &mut self,
        e: &ast::Expr,
        to: &ast::DataType,
        position: u32,
        infix: bool,
    ) -> Result<Typed> {
        let value = self.bind(e)?;
        let to_type = type_of_ast(self.catalog, to, position)?;
        // Finding the position of `::` is slow, so it is done for errors only.
        self.explicit(value, to_type, if infix { 0 } else { position }).map_err(|error| {
            if infix { error.at(self.source.operator_after(place::end(e))) } else { error }
        })
    }

    pub(super) fn explicit(&mut self, value: Typed, to: SqlType, at: u32) -> Result<Typed> {
        let from = value.ty;
        let cast = coerce::coerce(value, to, Context::Explicit, self.params)?;
        cast.ok_or_else(|| {
            let message = format!("cannot cast type {} to {}", from.sql_name(), to.sql_name());
            SqlError::new(state::CANNOT_COERCE, message).at(at)
        })
    }

    fn case(
        &mut self,
        operand: Option<&ast::Expr>,
        conditions: &[ast::CaseWhen],
        otherwise: Option<&ast::Expr>,
        position: u32,
    ) -> Result<Typed> {
        let tested = operand.map(|e| self.bind(e)).transpose()?;
        let mut whens = Vec::new();
        let mut results = Vec::new();
        // PostgreSQL looks at ELSE first when it chooses the type.
        if let Some(e) = otherwise {
            results.push(self.bind(e)?);
        }
        for ast::CaseWhen { condition, result } in conditions {
            let when = match (&tested, operand) {
                (Some(tested), Some(e)) => {
                    let value = self.bind(condition)?;
                    let tested = self.copy(tested)?;
                    let tested = self.settle(tested)?;
                    self.compared(Comparison::Eq, tested, value, e)?
                }
                _ => self.condition(condition, "CASE/WHEN")?,
            };
            whens.push(when);
            results.push(self.bind(result)?);
        }
        let (exprs, ty) = coerce::coerce_all(results, "CASE", self.params)?;
        let mut exprs = exprs.into_iter();
        let otherwise = if otherwise.is_some() { exprs.next().map(Box::new) } else { None };
        let whens = whens.into_iter().zip(exprs).collect();
        Ok(Typed::new(Expr::Case { whens, otherwise }, ty, position))
    }
}

/// What an unsupported expression is called.
fn expression_name(e: &ast::Expr) -> &'static str {
    match e {
        ast::Expr::Subquery(_) | ast::Expr::Exists { .. } | ast::Expr::InSubquery { .. } => {
            "a subquery in an expression"
        }
        ast::Expr::SimilarTo { .. } => "SIMILAR TO",
        ast::Expr::Array(_) => "an array",
        ast::Expr::Extract { .. } => "EXTRACT",
        ast::Expr::AtTimeZone { .. } => "AT TIME ZONE",
        ast::Expr::Interval(_) => "type interval",
        ast::Expr::Tuple(_) => "a row constructor",
        ast::Expr::JsonAccess { .. } | ast::Expr::CompoundFieldAccess { .. } => {
            "a subscript or field selection"
        }
        ast::Expr::Trim { .. } => "this form of TRIM",
        ast::Expr::Overlay { .. } => "OVERLAY",
        ast::Expr::GroupingSets(_) | ast::Expr::Cube(_) | ast::Expr::Rollup(_) => "grouping sets",
        _ => "this expression",
    }
}
