//! The values that SQL names without parentheses.

use crate::error::{Result, SqlError};
use crate::exec::host::Host;
use forebay_engine::nodes::SqlValueFunctionOp;
use forebay_types::Datum;

/// Such a value, with digits of seconds or -1.
pub(in crate::exec) fn value<'a>(
    op: SqlValueFunctionOp,
    _digits: i32,
    host: &mut Host,
) -> Result<Datum<'a>> {
    use SqlValueFunctionOp as O;
    Ok(match op {
        O::CurrentRole | O::CurrentUser | O::User | O::SessionUser => {
            Datum::string(host.identity.user.clone())
        }
        O::CurrentCatalog => Datum::string(host.identity.database.clone()),
        O::CurrentSchema => Datum::text("public"),
        _ => return Err(SqlError::unsupported("the current date and time")),
    })
}
