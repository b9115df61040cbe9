//! A function in FROM whose arguments have names and defaults: verify_heapam.

use super::bind::Binder;
use super::calls::NO_FUNCTION;
use super::coerce::{Context, coerce};
use super::expr::{Expr, Typed};
use super::function::FunctionCall;
use crate::error::{Result, SqlError, state};
use forebay_types::Datum;
use forebay_types::SqlType::{self, Bool, Int8, Regclass, Text};
use std::borrow::Cow;

/// A parameter: its name, its type, and its default if it has one.
type Parameter = (&'static str, SqlType, Option<Datum<'static>>);

/// Those of verify_heapam.
pub(super) const VERIFY_HEAPAM: [Parameter; 6] = [
    ("relation", Regclass, None),
    ("on_error_stop", Bool, Some(Datum::Bool(false))),
    ("check_toast", Bool, Some(Datum::Bool(false))),
    ("skip", Text, Some(Datum::Text(Cow::Borrowed("none")))),
    ("startblock", Int8, Some(Datum::Null)),
    ("endblock", Int8, Some(Datum::Null)),
];

impl Binder<'_> {
    /// The arguments of a call in the order of the parameters.
    pub(super) fn named_arguments(
        &mut self,
        call: &FunctionCall<'_>,
        parameters: &[Parameter],
        position: u32,
    ) -> Result<Vec<Expr>> {
        let mut given = Vec::with_capacity(parameters.len());
        for arg in &call.args {
            given.push((None, self.bind(arg)?));
        }
        for &(ref name, arg) in &call.named {
            given.push((Some(name.as_str()), self.bind(arg)?));
        }
        let missing = undefined(&call.name, &given, position);
        if call.star {
            return Err(missing);
        }
        let mut bound: Vec<Option<Expr>> = parameters.iter().map(|_| None).collect();
        for (n, (name, value)) in given.into_iter().enumerate() {
            let of = match name {
                None => Some(n),
                Some(name) => parameters.iter().position(|parameter| parameter.0 == name),
            };
            let at = of.and_then(|n| parameters.get(n).zip(bound.get_mut(n)));
            let Some(((_, ty, _), slot @ None)) = at else { return Err(missing) };
            match coerce(value, *ty, Context::Implicit, self.params)? {
                Some(value) => *slot = Some(value.expr),
                None => return Err(missing),
            }
        }
        let filled = bound.into_iter().zip(parameters).map(|(value, (_, _, default))| {
            value.or_else(|| default.as_ref().map(|value| Expr::Const(value.clone())))
        });
        filled.collect::<Option<Vec<Expr>>>().ok_or(missing)
    }
}

/// The error of a call that does not fit.
fn undefined(name: &str, given: &[(Option<&str>, Typed)], position: u32) -> SqlError {
    let shown: Vec<String> = given
        .iter()
        .map(|(name, value)| match name {
            Some(name) => format!("{name} => {}", value.ty.sql_name()),
            None => value.ty.sql_name().to_owned(),
        })
        .collect();
    let message = format!("function {name}({}) does not exist", shown.join(", "));
    SqlError::new(state::UNDEFINED_FUNCTION, message).hint(NO_FUNCTION).at(position)
}
