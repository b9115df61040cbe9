//! The values that SQL names without parentheses.

use crate::error::Result;
use crate::exec::host::Host;
use forebay_engine::Session;
use forebay_engine::nodes::SqlValueFunctionOp;
use forebay_types::datetime::ops;
use forebay_types::{Datum, SqlType, coerce};

/// Such a value, with digits of seconds or -1.
pub(in crate::exec) fn value<'a>(
    op: SqlValueFunctionOp,
    digits: i32,
    host: &mut Host,
) -> Result<Datum<'a>> {
    use SqlValueFunctionOp as O;
    let now = host.style.now;
    let local = || ops::timestamptz_to_timestamp(now, &host.style.zone);
    let time = |local| ops::timestamp_to_time(local).unwrap_or(0);
    let (value, ty) = match op {
        O::CurrentRole | O::CurrentUser | O::User => {
            return Ok(Datum::string(host.current_user().to_owned()));
        }
        O::SessionUser => return Ok(Datum::string(host.session_user().to_owned())),
        O::CurrentCatalog => return Ok(Datum::string(host.identity.database.clone())),
        O::CurrentSchema => return current_schema(host),
        O::CurrentDate => return Ok(Datum::Date(ops::timestamp_to_date(local()?))),
        O::CurrentTime | O::CurrentTimeN => {
            let west = -host.style.zone.at(now).offset;
            (Datum::Timetz(time(local()?), west), SqlType::Timetz)
        }
        O::CurrentTimestamp | O::CurrentTimestampN => {
            (Datum::Timestamptz(now), SqlType::Timestamptz)
        }
        O::Localtime | O::LocaltimeN => (Datum::Time(time(local()?)), SqlType::Time),
        O::Localtimestamp | O::LocaltimestampN => (Datum::Timestamp(local()?), SqlType::Timestamp),
    };
    Ok(coerce(value, ty, digits, true)?)
}

/// The schema into which new objects go.
pub(super) fn current_schema<'a>(host: &mut Host) -> Result<Datum<'a>> {
    let first = host.call_if_any(Session::creation_schema)?.flatten();
    Ok(first.map_or(Datum::Null, |entry| Datum::string(entry.name.to_string())))
}
