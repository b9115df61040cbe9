//! The table of functions.

use super::{Call, own};
use crate::error::Result;
use crate::exec::host::Host;
use crate::plan::{Builtin, Function, RowFunction};
use forebay_aio::sync::LazyLock;
use forebay_types::{Datum, Oid};
use std::collections::HashMap;

/// A function.
struct Entry {
    oid: Oid,
    call: Call,
    /// Whether it needs the session.
    session: bool,
    /// Whether roles that are no superusers may call it.
    for_all: bool,
    rows: Option<RowFunction>,
}

/// Functions of the session that need no privilege: of types, names, settings, and `random`.
const FOR_ALL: [Oid; 13] =
    [1081, 1598, 89, 861, 745, 746, 1402, 2026, 2077, 3294, 2078, 2288, 2626];

/// All functions.
static TABLE: LazyLock<Vec<Entry>> = LazyLock::new(|| {
    let plain = [
        super::math::TABLE,
        super::strings::TABLE,
        super::lengths::TABLE,
        super::datetime::TABLE,
        super::moments::TABLE,
        super::arrays::TABLE,
        super::bytes::TABLE,
        super::json::TABLE,
    ];
    let of_superusers =
        [super::system::TABLE, super::locks::TABLE, super::log::TABLE, super::relations::TABLE];
    // Sequences are looked at where they are used.
    let of_session = [
        super::reg::TABLE,
        super::definitions::TABLE,
        super::descriptions::TABLE,
        super::encodings::TABLE,
        super::sequences::TABLE,
    ];
    let entry = |session, for_all| {
        move |&(oid, call): &(Oid, Call)| {
            let for_all = for_all || FOR_ALL.contains(&oid);
            Entry { oid, call, session, for_all, rows: None }
        }
    };
    let mut all: Vec<Entry> = Vec::new();
    all.extend(plain.into_iter().flatten().map(entry(false, true)));
    all.extend(of_superusers.into_iter().flatten().map(entry(true, false)));
    all.extend(of_session.into_iter().flatten().map(entry(true, true)));
    let of_rows = |(oid, function)| Entry {
        oid,
        call: |function, args, host| {
            let rows = function.builtin.rows.expect("a function of rows");
            crate::exec::rowsets::row_value(rows, args, host)
        },
        session: true,
        for_all: false,
        rows: Some(function),
    };
    all.extend(own::row_functions().map(of_rows));
    all.extend(own::functions().map(|(oid, call)| Entry {
        oid,
        call,
        session: true,
        for_all: false,
        rows: None,
    }));
    all
});

/// Places in the table.
static PLACES: LazyLock<HashMap<Oid, u16>> = LazyLock::new(|| {
    let number = |n: usize| u16::try_from(n).expect("fewer functions than pg_proc may have");
    let places: HashMap<Oid, u16> =
        TABLE.iter().enumerate().map(|(n, entry)| (entry.oid, number(n))).collect();
    assert_eq!(places.len(), TABLE.len(), "each function is there once");
    places
});

/// The code of a function.
pub fn find(function: Oid) -> Option<Builtin> {
    let entry = *PLACES.get(&function)?;
    let Entry { session, rows, .. } = TABLE.get(usize::from(entry))?;
    Some(Builtin { entry, session: *session, rows: *rows })
}

/// Calls a function.
pub fn call<'a>(function: &Function, args: &[Datum<'a>], host: &mut Host) -> Result<Datum<'a>> {
    let entry = TABLE.get(usize::from(function.builtin.entry)).expect("a place in the table");
    if !entry.for_all {
        host.check_superuser(|| format!("the function with OID {}", entry.oid))?;
    }
    (entry.call)(function, args, host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_function_is_there_once() {
        assert_eq!(find(1397).map(|found| found.session), Some(false), "abs");
        assert!(find(3).is_none(), "heap_tableam_handler");
        assert!(PLACES.len() > 100);
    }
}
