//! Functions of which a part of a value is enough that is stored out of line.

use super::functions;
use super::host::Host;
use crate::error::{Result, SqlError, state};
use crate::plan::Function;
use forebay_engine::toasted_size;
use forebay_types::{Datum, Repr};

/// Most bytes of a character.
const CHARACTER: usize = 4;

/// A function's value, whose first argument is stored out of line. Of that no more is fetched than
/// the function needs.
pub(super) fn call<'a>(
    function: Function,
    args: &mut [Datum<'a>],
    host: &mut Host,
) -> Result<Datum<'a>> {
    let [value, others @ ..] = args else { return functions::call(function, args, host) };
    if function == Function::OctetLength {
        let size = toasted_size(value).and_then(|size| i32::try_from(size).ok());
        let damaged = || SqlError::new(state::INTERNAL_ERROR, "a TOAST pointer is damaged");
        return size.map(Datum::Int4).ok_or_else(damaged);
    }
    let most = match (function, others) {
        (Function::Substr, [Datum::Int4(start), Datum::Int4(length)]) => {
            let end = i64::from(*start).saturating_add(i64::from(*length)) - 1;
            Some(usize::try_from(end).unwrap_or(0).saturating_mul(CHARACTER))
        }
        _ => None,
    };
    *value = host.fetch_value(value, Repr::Text, most)?;
    functions::call(function, args, host)
}
