//! Functions of which a part of a value is enough that is stored out of line or compressed.

use super::functions::arguments::{int, text};
use super::functions::{self, substr_range};
use super::host::Host;
use crate::error::{Result, SqlError, state};
use crate::plan::{Function, PartOf};
use forebay_engine::{Part, toasted_size};
use forebay_types::{Datum, Repr};

/// A function's value, whose first argument is stored out of line or compressed. Of that no more is
/// read than the function needs.
pub(super) fn call<'a>(
    function: &Function,
    args: &mut [Datum<'a>],
    host: &mut Host,
) -> Result<Datum<'a>> {
    // Whether the part is the function's value.
    let (part, is_result) = match function.part() {
        Some(PartOf::OctetLength) => return octet_length(args),
        Some(PartOf::CharLength) => (Part::Count, true),
        Some(PartOf::Substr) => (Part::Characters(substr_range(args)?), true),
        Some(PartOf::Left) => match usize::try_from(int(args, 1)?) {
            Ok(characters) => (Part::Characters(0..characters), true),
            Err(_) => (Part::Whole, false),
        },
        Some(PartOf::StartsWith) => (Part::Characters(0..text(args, 1)?.chars().count()), false),
        None => (Part::Whole, false),
    };
    let Some(value) = args.first_mut() else { return functions::call(function, args, host) };
    let of = function.args.first().map_or(Repr::Text, |ty| Repr::of(*ty));
    let found = host.fetch_value(value, of, part)?;
    if is_result {
        return Ok(found);
    }
    *value = found;
    functions::call(function, args, host)
}

fn octet_length<'a>(args: &[Datum<'_>]) -> Result<Datum<'a>> {
    let size = args.first().and_then(toasted_size).and_then(|size| i32::try_from(size).ok());
    let damaged = || SqlError::new(state::INTERNAL_ERROR, "a TOAST pointer is damaged");
    size.map(Datum::Int4).ok_or_else(damaged)
}
