//! Which functions a call can mean, by the number and names of its arguments; and the arguments
//! that it leaves out.

use super::candidates::Types;
use super::lookups::Names;
use super::typed::{boolean, int4, unknown};
use crate::error::Result;
use forebay_engine::nodes::{Const, Expr, Location, read_list};
use forebay_engine::syscache::ProcRow;
use forebay_types::{Datum, Oid, oids};
use std::sync::Arc;

/// A function with the arguments of a call.
#[derive(Clone, Debug)]
pub(super) struct Given {
    pub row: Arc<ProcRow>,
    /// The types that it declares for the arguments, in the order in which they are given.
    pub args: Types,
    /// The place of each given argument. None: they are given in order.
    order: Option<Vec<usize>>,
    /// How many of the last ones are elements of a variadic argument.
    pub variadic: usize,
    /// How early in the search path it was found.
    place: usize,
}

impl Given {
    /// The types of its arguments by their places, to see that two functions take the same.
    fn in_order(&self) -> Types {
        match &self.order {
            None => self.args.clone(),
            Some(order) => {
                let mut pairs: Vec<_> = order.iter().zip(&self.args).collect();
                pairs.sort_unstable();
                pairs.into_iter().map(|(_, ty)| *ty).collect()
            }
        }
    }
}

/// The functions of a name that take so many arguments, the last of them with these names.
pub(super) fn candidates(
    names: &mut dyn Names,
    schema: Option<&str>,
    name: &str,
    count: usize,
    named: &[&str],
) -> Result<Vec<Given>> {
    let path = names.namespaces(schema)?;
    let rows = names.procs_named(name)?;
    let mut found: Vec<Given> = Vec::new();
    for row in rows.iter() {
        let Some(place) = path.iter().position(|of| *of == row.namespace) else { continue };
        let Some(given) = fits(row, place, count, named) else { continue };
        let types = given.in_order();
        let same = |other: &Given| other.in_order() == types;
        match found.iter_mut().find(|other| same(other)) {
            None => found.push(given),
            Some(other) => {
                // An earlier namespace hides a later one; no variadic and no left out arguments
                // are better.
                let rank = |g: &Given| (g.place, g.variadic, g.row.args.len());
                if rank(&given) < rank(other) {
                    *other = given;
                }
            }
        }
    }
    Ok(found)
}

/// A function with the arguments of a call, if it takes so many.
fn fits(row: &Arc<ProcRow>, place: usize, count: usize, named: &[&str]) -> Option<Given> {
    let declared = row.args.len();
    let defaults = default_count(row);
    let new = |args: Types, order, variadic| {
        Some(Given { row: Arc::clone(row), args, order, variadic, place })
    };
    if !named.is_empty() {
        let positional = count - named.len();
        if count > declared || count + defaults < declared {
            return None;
        }
        let mut order: Vec<usize> = (0..positional).collect();
        for name in named {
            let at = (0..declared).find(|n| row.arg_name(*n) == Some(name))?;
            if order.contains(&at) {
                return None;
            }
            order.push(at);
        }
        // All that are left out have defaults.
        let required = declared - defaults;
        if (0..required).any(|n| !order.contains(&n)) {
            return None;
        }
        let args = order.iter().map(|n| row.args.get(*n).copied()).collect::<Option<Types>>()?;
        return new(args, Some(order), 0);
    }
    if row.variadic != 0 && count >= declared {
        let fixed = declared - 1;
        let mut args = Types::from_slice(row.args.get(..fixed)?);
        let variadic = count - fixed;
        args.extend(std::iter::repeat_n(row.variadic, variadic));
        return new(args, None, variadic);
    }
    if count > declared || count + defaults < declared {
        return None;
    }
    new(Types::from_slice(row.args.get(..count)?), None, 0)
}

/// A default of a function that PostgreSQL's system_functions.sql defines: a cluster of
/// `forebay init` has no such rows.
#[derive(Clone, Copy)]
enum Default {
    Bool(bool),
    Int4(i32),
    Float8(f64),
    Text(&'static str),
    /// NULL of a type.
    Null(Oid),
}

/// Functions with defaults, by their OIDs.
const DEFAULTS: &[(Oid, &[Default])] = &[
    (2172, &[Default::Bool(false)]),                   // pg_backup_start
    (2739, &[Default::Bool(true)]),                    // pg_backup_stop
    (3436, &[Default::Bool(true), Default::Int4(60)]), // pg_promote
    (3464, &MAKE_INTERVAL),
    (5054, &[Default::Null(oids::TEXT)]), // pg_stat_reset_slru
    (3775, &[Default::Null(oids::TEXT)]), // pg_stat_reset_shared
    (6212, &[Default::Float8(0.0), Default::Float8(1.0)]), // random_normal
    (1268, &[Default::Bool(true)]),       // parse_ident
    (3305, &[Default::Bool(true)]),       // jsonb_set
    (3579, &[Default::Bool(false)]),      // jsonb_insert
    (3260, &[Default::Bool(false)]),      // json_strip_nulls
    (3262, &[Default::Bool(false)]),      // jsonb_strip_nulls
    (4351, &[Default::Text("NFC")]),      // is_normalized
    (4350, &[Default::Text("NFC")]),      // normalize
];

const MAKE_INTERVAL: [Default; 7] = [
    Default::Int4(0),
    Default::Int4(0),
    Default::Int4(0),
    Default::Int4(0),
    Default::Int4(0),
    Default::Int4(0),
    Default::Float8(0.0),
];

fn built_in(row: &ProcRow) -> &'static [Default] {
    DEFAULTS.iter().find(|(oid, _)| *oid == row.oid).map_or(&[], |(_, defaults)| defaults)
}

/// How many of a function's last arguments have defaults.
fn default_count(row: &ProcRow) -> usize {
    if row.default_trees.is_some() { row.defaults } else { built_in(row).len() }
}

impl Default {
    fn expr(self) -> Expr {
        let constant = |ty, len, by_val, value| {
            Expr::Const(Const {
                consttype: ty,
                consttypmod: -1,
                constcollid: if ty == oids::TEXT { 100 } else { 0 },
                constlen: len,
                constbyval: by_val,
                constvalue: value,
                location: Location::UNKNOWN,
            })
        };
        match self {
            Default::Bool(value) => boolean(Some(value)),
            Default::Int4(value) => int4(value),
            Default::Float8(value) => constant(oids::FLOAT8, 8, true, Datum::Float8(value)),
            Default::Text(value) => constant(oids::TEXT, -1, false, Datum::text(value)),
            Default::Null(ty) => constant(ty, -1, false, Datum::Null),
        }
    }
}

/// The given arguments in the order of the function's, with defaults for those left out.
pub(super) fn fill(names: &mut dyn Names, given: Given, args: Vec<Expr>) -> Result<Vec<Expr>> {
    let declared = given.row.args.len();
    if given.variadic > 0 || given.order.is_none() && args.len() == declared {
        return Ok(args);
    }
    let mut slots: Vec<Option<Expr>> = (0..declared).map(|_| None).collect();
    for (n, arg) in args.into_iter().enumerate() {
        let place = given.order.as_ref().map_or(Some(n), |order| order.get(n).copied());
        if let Some(slot) = place.and_then(|n| slots.get_mut(n)) {
            *slot = Some(arg);
        }
    }
    let defaults: Vec<Expr> = match &given.row.default_trees {
        Some(trees) => read_list(trees)?,
        None => built_in(&given.row).iter().map(|default| default.expr()).collect(),
    };
    let first = declared - defaults.len().min(declared);
    for (slot, default) in slots.iter_mut().skip(first).zip(defaults) {
        slot.get_or_insert(default);
    }
    names.step()?;
    Ok(slots.into_iter().map(|slot| slot.unwrap_or_else(|| unknown(Datum::Null))).collect())
}
