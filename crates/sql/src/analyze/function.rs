//! A function call as sqlparser gives it, reduced to what is supported.

use super::ident::ident_name;
use crate::error::{Result, SqlError, state};
use sqlparser::ast;

/// A call with plain arguments.
pub struct FunctionCall<'a> {
    /// The schema, if one is written.
    pub schema: Option<String>,
    /// The function's name.
    pub name: String,
    /// Its arguments.
    pub args: Vec<&'a ast::Expr>,
    /// Those with a name, which follow the others.
    pub named: Vec<(String, &'a ast::Expr)>,
    /// The only argument is `*`.
    pub star: bool,
    /// DISTINCT was written.
    pub distinct: bool,
    /// FILTER (WHERE ...).
    pub filter: Option<&'a ast::Expr>,
    /// It has no parentheses: CURRENT_DATE and its like.
    pub bare: bool,
}

impl<'a> FunctionCall<'a> {
    /// Takes a call apart, refusing what is not known.
    pub fn new(f: &'a ast::Function, position: u32) -> Result<FunctionCall<'a>> {
        let ast::Function {
            name,
            uses_odbc_syntax,
            parameters,
            args,
            within_group,
            filter,
            null_treatment,
            over,
        } = f;
        let refuse = |what: &str| Err(SqlError::unsupported(what).at(position));
        if *uses_odbc_syntax || !matches!(parameters, ast::FunctionArguments::None) {
            return refuse("this form of function call");
        }
        if !within_group.is_empty() {
            return refuse("WITHIN GROUP");
        }
        if null_treatment.is_some() {
            return refuse("RESPECT NULLS and IGNORE NULLS");
        }
        if over.is_some() {
            return refuse("a window function");
        }
        let (schema, name) = function_name(name, position)?;
        let mut call = FunctionCall {
            schema,
            name,
            args: Vec::new(),
            named: Vec::new(),
            star: false,
            distinct: false,
            filter: filter.as_deref(),
            bare: false,
        };
        let list = match args {
            ast::FunctionArguments::None => return Ok(FunctionCall { bare: true, ..call }),
            ast::FunctionArguments::Subquery(_) => return refuse("a subquery in an expression"),
            ast::FunctionArguments::List(list) => list,
        };
        if !list.clauses.is_empty() {
            return refuse("a clause in a function's arguments");
        }
        call.distinct = matches!(list.duplicate_treatment, Some(ast::DuplicateTreatment::Distinct));
        call.add_args(&list.args, position)?;
        Ok(call)
    }

    /// A function in FROM.
    pub fn in_from(
        name: &ast::ObjectName,
        args: &'a [ast::FunctionArg],
        position: u32,
    ) -> Result<FunctionCall<'a>> {
        let (schema, name) = function_name(name, position)?;
        let mut call = FunctionCall {
            schema,
            name,
            args: Vec::new(),
            named: Vec::new(),
            star: false,
            distinct: false,
            filter: None,
            bare: false,
        };
        call.add_args(args, position)?;
        Ok(call)
    }

    fn add_args(&mut self, args: &'a [ast::FunctionArg], position: u32) -> Result<()> {
        for arg in args {
            match arg {
                _ if named(arg).is_some() => self.named.extend(named(arg)),
                ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(e))
                    if self.named.is_empty() =>
                {
                    self.args.push(e)
                }
                ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Wildcard) if args.len() == 1 => {
                    self.star = true
                }
                ast::FunctionArg::Unnamed(_) if !self.named.is_empty() => {
                    let message = "positional argument cannot follow named argument";
                    return Err(SqlError::new(state::SYNTAX_ERROR, message).at(position));
                }
                _ => {
                    return Err(
                        SqlError::unsupported("this kind of function argument").at(position)
                    );
                }
            }
        }
        Ok(())
    }

    /// Whether it is written without a schema, as words of SQL are.
    pub fn is_plain(&self) -> bool {
        self.schema.is_none()
    }
}

/// Whether a call is a row constructor.
pub fn is_row(f: &ast::Function) -> bool {
    matches!(f.name.0.as_slice(), [ast::ObjectNamePart::Identifier(i)]
        if i.quote_style.is_none() && i.value.eq_ignore_ascii_case("row"))
}

/// The name and the value of a named argument.
fn named(arg: &ast::FunctionArg) -> Option<(String, &ast::Expr)> {
    use ast::{FunctionArg as Arg, FunctionArgExpr::Expr, FunctionArgOperator as Operator};
    match arg {
        Arg::ExprNamed {
            name: ast::Expr::Identifier(name),
            arg: Expr(value),
            operator: Operator::RightArrow | Operator::Assignment,
        }
        | Arg::Named {
            name,
            arg: Expr(value),
            operator: Operator::RightArrow | Operator::Assignment,
        } => Some((ident_name(name), value)),
        _ => None,
    }
}

fn function_name(name: &ast::ObjectName, position: u32) -> Result<(Option<String>, String)> {
    let mut parts = Vec::new();
    for part in &name.0 {
        match part {
            ast::ObjectNamePart::Identifier(ident) => parts.push(ident_name(ident)),
            ast::ObjectNamePart::Function(_) => {
                return Err(SqlError::unsupported("this name").at(position));
            }
        }
    }
    match (parts.pop(), parts.pop(), parts.is_empty()) {
        (Some(name), schema, true) => Ok((schema, name)),
        _ => Err(SqlError::unsupported("a name of so many parts").at(position)),
    }
}
