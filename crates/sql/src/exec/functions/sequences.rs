//! Functions of sequences.

use super::Area;
use super::arguments::{oid, text, wrong_argument};
use crate::error::{Result, SqlError, state};
use crate::exec::host::{Host, relation_name};
use crate::plan::Catalog;
use forebay_engine::{SequenceAccess, Session, quoted};
use forebay_types::Datum;

pub(super) const TABLE: Area = &[
    (1574, |_, args, host| nextval(args, host)),
    (1575, |_, args, host| {
        let sequence = oid(args, 0)?;
        Ok(Datum::Int8(host.call(|session| session.currval(sequence))?))
    }),
    (2559, |_, _, host| Ok(Datum::Int8(host.call(Session::lastval)?))),
    (1576, |_, args, host| setval(args, host)),
    (1765, |_, args, host| setval(args, host)),
    (4032, |_, args, host| {
        let sequence = oid(args, 0)?;
        let data = host.call(|session| session.sequence_data(sequence))?;
        Ok(if data.is_called { Datum::Int8(data.last_value) } else { Datum::Null })
    }),
    (1665, |_, args, host| serial_sequence(args, host)),
];

fn nextval<'a>(args: &[Datum<'_>], host: &mut Host) -> Result<Datum<'a>> {
    let (sequence, access) = (oid(args, 0)?, access(host));
    Ok(Datum::Int8(host.call(|session| session.nextval(sequence, access))?))
}

fn setval<'a>(args: &[Datum<'_>], host: &mut Host) -> Result<Datum<'a>> {
    let (sequence, access) = (oid(args, 0)?, access(host));
    let Some(Datum::Int8(value)) = args.get(1) else { return Err(wrong_argument(args, 1)) };
    let is_called = !matches!(args.get(2), Some(Datum::Bool(false)));
    host.call(|session| session.setval(sequence, (*value, is_called), access))?;
    Ok(Datum::Int8(*value))
}

fn access(host: &Host) -> SequenceAccess {
    match host.modes.now().read_only {
        true => SequenceAccess::ReadOnly,
        false => SequenceAccess::ReadWrite,
    }
}

/// pg_get_serial_sequence(table, column): the name of the sequence that a column owns.
fn serial_sequence<'a>(args: &[Datum<'_>], host: &mut Host) -> Result<Datum<'a>> {
    let (name, column) = (text(args, 0)?, text(args, 1)?);
    let (schema, name) = relation_name(name, host.encoding())?;
    let Some(table) = host.table(schema.as_deref(), &name)? else {
        let shown = schema.map_or_else(|| name.clone(), |schema| format!("{schema}.{name}"));
        let message = format!("relation \"{shown}\" does not exist");
        return Err(SqlError::new(state::UNDEFINED_TABLE, message));
    };
    let Some((_, column)) = table.column(column) else {
        let message = format!("column \"{column}\" of relation \"{}\" does not exist", table.name);
        return Err(SqlError::new(state::UNDEFINED_COLUMN, message));
    };
    let number = column.attnum;
    let found = host.call(|session| {
        let owned = session.owned_sequences(table.oid)?;
        let of_column = owned.into_iter().find(|(_, column)| *column == number);
        of_column.map(|(sequence, _)| session.sequence_info(sequence)).transpose()
    })?;
    Ok(found.map_or(Datum::Null, |sequence| {
        let [schema, name] = [&sequence.schema, &sequence.name].map(|name| quoted(name));
        Datum::string(format!("{schema}.{name}"))
    }))
}
