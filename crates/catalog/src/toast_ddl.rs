//! Creates TOAST tables: their rows in the catalogs, and their files.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::sync::Arc;

use forebay_access::toast::THRESHOLD;
use forebay_format::tuple::HEADER_SIZE;
use forebay_storage::Backend;
use forebay_txn::Transaction;
use forebay_types::{Datum, Encoding, Oid, oids, type_info};

use crate::catalog_oids::{ATTRIBUTES, CLASSES};
use crate::database::Database;
use crate::ddl::{NewFiles, create_file};
use crate::error::CatalogError;
use crate::index::TableIndex;
use crate::index_ddl::create_index;
use crate::index_def::{IndexDef, IndexKey};
use crate::layout::layout_of;
use crate::objects::{Dependency, Object};
use crate::row_changes::set;
use crate::rows::{AttributeRow, ClassRow, OldestIds, user_attributes};
use crate::schema::PG_CLASS_OID_INDEX;
use crate::table::{ColumnDef, Table};
use crate::writer::Writer;

/// The columns of a TOAST table.
const COLUMNS: [(&str, Oid); 3] =
    [("chunk_id", oids::OID), ("chunk_seq", oids::INT4), ("chunk_data", oids::BYTEA)];
/// Bytes before the digits of a numeric, header included.
const NUMERIC_HEADER: usize = 8;
/// What type modifiers begin with.
const MODIFIER_OFFSET: i32 = 4;

/// Whether a table with these columns gets a TOAST table in a database with an encoding: if one of
/// them can be stored out of line, and a row may be longer than what is stored as it is.
pub fn needs_toast_table(columns: &[ColumnDef], encoding: Encoding) -> Result<bool, CatalogError> {
    let (mut length, mut bounded, mut toastable) = (0_usize, true, false);
    // Virtual columns are not stored.
    for column in columns.iter().filter(|column| column.generated != b'v') {
        let layout = column.layout.map_or_else(|| layout_of(column.type_oid), Ok)?;
        length = layout.align.up(length);
        match usize::try_from(layout.len) {
            Ok(len) => length += len,
            Err(_) => {
                let longest = longest_value(column.type_oid, column.typmod, encoding);
                bounded &= longest.is_some();
                length += longest.unwrap_or(0);
                let of_type = || type_info(column.type_oid).map(|info| info.storage);
                toastable |= column.storage.or_else(of_type).is_some_and(|code| code != b'p');
            }
        }
    }
    let header = (HEADER_SIZE + columns.len().div_ceil(8)).next_multiple_of(8);
    Ok(toastable && (!bounded || header + length.next_multiple_of(8) > THRESHOLD))
}

/// The length of the longest value of a type, with its header, as far as the type modifier says.
fn longest_value(type_oid: Oid, typmod: i32, encoding: Encoding) -> Option<usize> {
    let modifier = usize::try_from(typmod.checked_sub(MODIFIER_OFFSET)?).ok()?;
    match type_oid {
        oids::VARCHAR | oids::BPCHAR => {
            Some(modifier * encoding.longest() + MODIFIER_OFFSET as usize)
        }
        oids::NUMERIC => {
            // Four decimal digits to two bytes, wherever the decimal point is among them.
            let digits = ((modifier >> 16) + 6) / 4;
            Some(NUMERIC_HEADER + 2 * digits)
        }
        _ => None,
    }
}

/// Creates the TOAST table of a table, in a namespace, with storage parameters. The file of its
/// index is empty: the caller builds it.
pub fn create_toast_table(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    (table, namespace, options): (Oid, Oid, &[String]),
    files: NewFiles<'_>,
) -> Result<(Arc<Table>, Arc<TableIndex>), CatalogError> {
    let mut writer = Writer::begin(database, backend, tx)?;
    let locator = create_file(&mut writer, files)?;
    let (oid, name) = (locator.rel, format!("pg_toast_{table}"));
    let columns = COLUMNS.map(|(name, type_oid)| ColumnDef::new(name, type_oid));
    let owner = match writer.reader().class(table)? {
        Some(class) => class.owner,
        None => writer.owner(),
    };
    let class = ClassRow {
        oid,
        name: &name,
        namespace,
        owner,
        row_type: 0,
        filenode: oid,
        tablespace: files.class_tablespace(database),
        shared: false,
        persistence: files.persistence.code(),
        columns: columns.len() as i16,
        replica_identity: b'n',
        oldest: OldestIds {
            xid: database.xacts.oldest_running().xid(),
            multi: database.heaps.outcomes.oldest_multi(),
        },
        options,
    };
    let mut row = class.datums();
    set(&mut row, "relkind", Datum::Char(b't'));
    writer.insert(CLASSES, &row)?;
    writer.tx.note_relation(oid, true);
    for attribute in user_attributes(oid, &columns)? {
        writer.insert(ATTRIBUTES, &AttributeRow { storage: b'p', ..attribute }.datums())?;
    }
    writer.depend(Object::relation(oid), Object::relation(table), Dependency::Internal)?;
    let mut found = writer.row(&PG_CLASS_OID_INDEX, table)?;
    set(&mut found.values, "reltoastrelid", Datum::Oid(oid));
    writer.update(CLASSES, found.tid, &found.values)?;
    writer.next_command()?;
    let lost = || CatalogError::corrupt(format!("pg_class has no row of the new table {oid}"));
    let toast = Arc::new(writer.reader().table_by_oid(oid)?.ok_or_else(lost)?);
    let keys = vec![IndexKey::new(1), IndexKey::new(2)];
    let def = IndexDef { keys, unique: true, ..IndexDef::default() };
    let name = format!("{name}_index");
    let (index, _) = create_index(database, backend, tx, &toast, (&def, &name), files)?;
    Ok((toast, index))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A column of a type with a modifier, as PostgreSQL stores it.
    fn column(type_oid: Oid, typmod: i32) -> ColumnDef {
        ColumnDef { typmod, ..ColumnDef::new("c", type_oid) }
    }

    fn needs(columns: &[ColumnDef]) -> bool {
        needs_toast_table(columns, Encoding::Utf8).expect("known types")
    }

    #[test]
    fn only_rows_that_may_be_long_need_a_toast_table() {
        assert!(!needs(&[]));
        assert!(!needs(&[column(oids::INT4, -1), column(oids::NAME, -1)]));
        assert!(needs(&[column(oids::INT4, -1), column(oids::TEXT, -1)]));
        assert!(needs(&[column(oids::VARCHAR, -1)]));
        assert!(needs(&[column(oids::NUMERIC, -1)]));
        assert!(needs(&[column(oids::INT4_ARRAY, -1)]));
        assert!(!needs(&[column(oids::OIDVECTOR, -1)]), "stored plain");
        let plain = ColumnDef { storage: Some(b'p'), ..column(oids::TEXT, -1) };
        assert!(!needs(std::slice::from_ref(&plain)) && needs(&[plain, column(oids::TEXT, -1)]));
        // A header of 24 bytes, then 4 + 4 n: with 501 characters 2032 bytes.
        assert!(!needs(&[column(oids::VARCHAR, 4 + 501)]));
        assert!(needs(&[column(oids::VARCHAR, 4 + 502)]));
        let in_bytes = |characters| {
            let columns = [column(oids::VARCHAR, 4 + characters)];
            needs_toast_table(&columns, Encoding::SqlAscii).expect("known types")
        };
        assert!(!in_bytes(4 * 501) && in_bytes(4 * 502));
        assert!(!needs(&[column(oids::BPCHAR, 4 + 20), column(oids::NUMERIC, 4 + (10 << 16 | 2))]));
        let wide = |count| vec![column(oids::NUMERIC, 4 + (1000 << 16)); count];
        assert!(needs(&wide(4)) && !needs(&wide(3)));
        // The bitmap of more than eight columns takes another 8 bytes.
        let bytes = |count: i32| {
            let mut columns = vec![column(oids::VARCHAR, 4 + 501 - count / 4)];
            columns.resize(count as usize + 1, column(oids::CHAR, -1));
            needs(&columns)
        };
        assert!(!bytes(4) && bytes(8));
    }
}
