//! A function call as sqlparser gives it, reduced to what is supported.

use super::ident::ident_name;
use crate::error::{Result, SqlError, state};
use sqlparser::ast;

/// A call with plain arguments.
pub struct FunctionCall<'a> {
    /// The function's name without pg_catalog.
    pub name: String,
    /// Its arguments.
    pub args: Vec<&'a ast::Expr>,
    /// Those with a name, which follow the others: only of a function in FROM.
    pub named: Vec<(String, &'a ast::Expr)>,
    /// The only argument is `*`.
    pub star: bool,
    /// DISTINCT was written.
    pub distinct: bool,
    /// FILTER (WHERE ...).
    pub filter: Option<&'a ast::Expr>,
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
        let name = function_name(name, position)?;
        let mut call = FunctionCall {
            name,
            args: Vec::new(),
            named: Vec::new(),
            star: false,
            distinct: false,
            filter: filter.as_deref(),
        };
        let list = match args {
            ast::FunctionArguments::None => return Ok(call),
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

    fn add_args(&mut self, args: &'a [ast::FunctionArg], position: u32) -> Result<()> {
        for arg in args {
            match arg {
                ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(e)) => self.args.push(e),
                ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Wildcard) if args.len() == 1 => {
                    self.star = true
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

    /// A function in FROM.
    pub fn in_from(
        name: &ast::ObjectName,
        args: &'a [ast::FunctionArg],
        position: u32,
    ) -> Result<FunctionCall<'a>> {
        let name = function_name(name, position)?;
        let first = args.iter().position(|arg| named(arg).is_some());
        let (args, named) = args.split_at(first.unwrap_or(args.len()));
        let mut call = FunctionCall {
            name,
            args: Vec::new(),
            named: named.iter().map_while(self::named).collect(),
            star: false,
            distinct: false,
            filter: None,
        };
        if call.named.len() != named.len() {
            let message = "positional argument cannot follow named argument";
            return Err(SqlError::new(state::SYNTAX_ERROR, message).at(position));
        }
        call.add_args(args, position)?;
        Ok(call)
    }
}

/// The name and the value of a named argument.
fn named(arg: &ast::FunctionArg) -> Option<(String, &ast::Expr)> {
    use ast::{FunctionArg as Arg, FunctionArgExpr::Expr, FunctionArgOperator::RightArrow};
    match arg {
        Arg::ExprNamed {
            name: ast::Expr::Identifier(name),
            arg: Expr(value),
            operator: RightArrow,
        }
        | Arg::Named { name, arg: Expr(value), operator: RightArrow } => {
            Some((ident_name(name), value))
        }
        _ => None,
    }
}

fn function_name(name: &ast::ObjectName, position: u32) -> Result<String> {
    let mut parts = Vec::new();
    for part in &name.0 {
        match part {
            ast::ObjectNamePart::Identifier(ident) => parts.push(ident_name(ident)),
            ast::ObjectNamePart::Function(_) => {
                return Err(SqlError::unsupported("this name").at(position));
            }
        }
    }
    match parts.as_slice() {
        [name] => Ok(name.clone()),
        [schema, name] if schema == "pg_catalog" => Ok(name.clone()),
        _ => Ok(parts.join(".")),
    }
}
