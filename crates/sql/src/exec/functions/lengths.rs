//! Casts of a type to itself, which bring a value to a type modifier.

use super::Area;
use super::arguments::int;
use crate::error::Result;
use forebay_types::{Datum, SqlType, coerce};

pub(super) const TABLE: Area = &[
    (668, |_, args, _| sized(args, SqlType::Bpchar)),
    (669, |_, args, _| sized(args, SqlType::Varchar)),
    (1685, |_, args, _| sized(args, SqlType::Bit)),
    (1687, |_, args, _| sized(args, SqlType::Varbit)),
    (1703, |_, args, _| sized(args, SqlType::Numeric)),
    (1961, |_, args, _| sized(args, SqlType::Timestamp)),
    (1967, |_, args, _| sized(args, SqlType::Timestamptz)),
    (1968, |_, args, _| sized(args, SqlType::Time)),
    (1969, |_, args, _| sized(args, SqlType::Timetz)),
    (1200, |_, args, _| sized(args, SqlType::Interval)),
];

/// value, modifier, and whether the cast was written.
fn sized<'a>(args: &[Datum<'a>], ty: SqlType) -> Result<Datum<'a>> {
    let explicit = matches!(args.get(2), Some(Datum::Bool(true)));
    let value = args.first().cloned().unwrap_or(Datum::Null);
    Ok(coerce(value, ty, int(args, 1)?, explicit)?)
}
