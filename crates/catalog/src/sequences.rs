//! Sequences in the catalogs: pg_class, pg_attribute, pg_sequence and pg_depend.
//!
//! A changed sequence gets a new file, as in PostgreSQL: others go on with the old one until the
//! transaction has committed, and values that sessions have taken from it count no more.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use forebay_access::sequence::{Sequence, SequenceRules};
use forebay_format::sequence::SequenceTuple;
use forebay_format::{Fork, RelFileLocator};
use forebay_storage::Backend;
use forebay_txn::Transaction;
use forebay_types::{Datum, Oid, oids};

use crate::catalog_oids::{ATTRIBUTES, CLASSES, NAMESPACES, SEQUENCES};
use crate::class::Class;
use crate::database::Database;
use crate::ddl::{NewFiles, Persistence, create_file, rename_types};
use crate::error::CatalogError;
use crate::inplace::ClassFigures;
use crate::limits::wrong_kind;
use crate::objects::{Dependency, Depends, Object};
use crate::reader::{Reader, Rows};
use crate::row::Row;
use crate::row_changes::set;
use crate::rows::{ClassRow, OldestIds, user_attributes};
use crate::schema::{
    PG_CLASS, PG_CLASS_OID_INDEX, PG_DEPEND, PG_DEPEND_DEPENDER_INDEX, PG_DEPEND_REFERENCE_INDEX,
    PG_SEQUENCE, PG_SEQUENCE_SEQRELID_INDEX,
};
use crate::sequence_def::{SequenceDef, SequenceInfo, SequenceOptions};
use crate::table::ColumnDef;
use crate::truncate::use_file;
use crate::writer::{Found, Writer};

/// The columns that a sequence shows.
const COLUMNS: [(&str, Oid); 3] =
    [("last_value", oids::INT8), ("log_cnt", oids::INT8), ("is_called", oids::BOOL)];

/// What pg_class says of a sequence's file: one page with one row, which no transaction made.
const FIGURES: ClassFigures = ClassFigures {
    pages: 1,
    tuples: 1.0,
    all_visible: 0,
    all_frozen: 0,
    frozen_xid: 0,
    min_multi: 0,
    toast: 0,
    indexed: false,
};

/// A new sequence.
#[derive(Clone, Copy, Debug)]
pub struct NewSequence<'a> {
    /// Its namespace.
    pub namespace: Oid,
    /// Its name.
    pub name: &'a str,
    /// What it is.
    pub def: SequenceDef,
    /// How it begins.
    pub tuple: SequenceTuple,
}

/// A column that a sequence belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequenceOwner {
    /// The table.
    pub table: Oid,
    /// The column's number.
    pub column: i16,
    /// Whether it is an identity column, and the sequence a part of it.
    pub identity: bool,
}

impl Reader<'_> {
    /// A sequence by its OID. 42809 if that is another relation's, XX000 if there is none.
    pub fn sequence(&mut self, oid: Oid) -> Result<SequenceInfo, CatalogError> {
        let gone =
            || CatalogError::refused("XX000", format!("could not open relation with OID {oid}"));
        let class = self.class(oid)?.ok_or_else(gone)?;
        if class.kind != b'S' {
            return Err(wrong_kind(class.kind, format!("cannot open relation \"{}\"", class.name)));
        }
        self.sequence_of(&class)
    }

    /// All sequences.
    pub fn sequences(&mut self) -> Result<Vec<SequenceInfo>, CatalogError> {
        let mut oids = Vec::new();
        self.read(Rows::All(&PG_SEQUENCE), 1, &mut |_, row, _| {
            oids.push(Row(row, PG_SEQUENCE.name).oid(0)?);
            Ok(true)
        })?;
        oids.into_iter().map(|oid| self.sequence(oid)).collect()
    }

    fn sequence_of(&mut self, class: &Class) -> Result<SequenceInfo, CatalogError> {
        let mut def = None;
        let key = [Datum::Oid(class.oid)];
        let of_oid = Rows::Of((&PG_SEQUENCE_SEQRELID_INDEX, &key));
        self.read(of_oid, usize::MAX, &mut |_, row, _| {
            def = Some(definition(&Row(row, PG_SEQUENCE.name))?);
            Ok(false)
        })?;
        let missing = || CatalogError::corrupt(format!("pg_sequence has no row {}", class.oid));
        Ok(SequenceInfo {
            oid: class.oid,
            name: class.name.clone(),
            namespace: class.namespace,
            schema: self.namespace_name(class)?,
            owner: class.owner,
            persistence: class.persistence,
            locator: self.locator(class)?,
            def: def.ok_or_else(missing)?,
        })
    }

    /// The column that a sequence belongs to.
    pub fn sequence_owner(&mut self, oid: Oid) -> Result<Option<SequenceOwner>, CatalogError> {
        let (mut owner, key) = (None, [Datum::Oid(CLASSES), Datum::Oid(oid)]);
        self.read(Rows::Of((&PG_DEPEND_DEPENDER_INDEX, &key)), 7, &mut |_, row, _| {
            let depends = Depends::read(&Row(row, PG_DEPEND.name))?;
            owner = owner.or(owner_in(&depends));
            Ok(true)
        })?;
        Ok(owner)
    }

    /// The sequences that belong to columns of a table, with the columns.
    pub fn owned_sequences(
        &mut self,
        table: Oid,
    ) -> Result<Vec<(Oid, SequenceOwner)>, CatalogError> {
        let (mut found, key) = (Vec::new(), [Datum::Oid(CLASSES), Datum::Oid(table)]);
        self.read(Rows::Of((&PG_DEPEND_REFERENCE_INDEX, &key)), 7, &mut |_, row, _| {
            let depends = Depends::read(&Row(row, PG_DEPEND.name))?;
            found.extend(owner_in(&depends).map(|owner| (depends.object.oid, owner)));
            Ok(true)
        })?;
        let mut owned = Vec::new();
        for (oid, owner) in found {
            if self.class(oid)?.is_some_and(|class| class.kind == b'S') {
                owned.push((oid, owner));
            }
        }
        Ok(owned)
    }
}

/// The owner that a dependency tells of.
fn owner_in(depends: &Depends) -> Option<SequenceOwner> {
    let Depends { object, on, code } = *depends;
    let owns = object.class == CLASSES && on.class == CLASSES && on.column > 0;
    let identity = match code {
        b'a' => false,
        b'i' => true,
        _ => return None,
    };
    owns.then_some(SequenceOwner { table: on.oid, column: on.column, identity })
}

fn definition(row: &Row<'_, '_>) -> Result<SequenceDef, CatalogError> {
    let rules = SequenceRules {
        increment: row.int8(3)?,
        max: row.int8(4)?,
        min: row.int8(5)?,
        cache: row.int8(6)?,
        cycle: row.bool(7)?,
    };
    Ok(SequenceDef { type_oid: row.oid(1)?, start: row.int8(2)?, rules })
}

/// A sequence's row of pg_sequence.
fn datums(oid: Oid, def: &SequenceDef) -> [Datum<'static>; 8] {
    let SequenceDef { type_oid, start, rules } = def;
    [
        Datum::Oid(oid),
        Datum::Oid(*type_oid),
        Datum::Int8(*start),
        Datum::Int8(rules.increment),
        Datum::Int8(rules.max),
        Datum::Int8(rules.min),
        Datum::Int8(rules.cache),
        Datum::Bool(rules.cycle),
    ]
}

/// Creates a sequence. The caller holds the lock of its name and knows that the name is free.
/// Returns its file.
pub fn create_sequence(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    new: NewSequence<'_>,
    files: NewFiles<'_>,
) -> Result<RelFileLocator, CatalogError> {
    let NewSequence { namespace, name, def, tuple } = new;
    let mut writer = Writer::begin(database, backend, tx)?;
    let owner = writer.owner();
    database.check_default_privileges((owner, namespace, b'S'))?;
    let locator = create_file(&mut writer, files)?;
    let oid = locator.rel;
    let class = ClassRow {
        oid,
        name,
        namespace,
        owner,
        row_type: 0,
        filenode: oid,
        tablespace: files.class_tablespace(database),
        shared: false,
        persistence: files.persistence.code(),
        columns: COLUMNS.len() as i16,
        replica_identity: b'n',
        oldest: OldestIds { xid: 0, multi: 0 },
        options: &[],
    };
    let mut row = class.datums();
    for (name, value) in [
        ("relam", Datum::Oid(0)),
        ("relkind", Datum::Char(b'S')),
        ("relpages", Datum::Int4(FIGURES.pages as i32)),
        ("reltuples", Datum::Float4(FIGURES.tuples)),
    ] {
        set(&mut row, name, value);
    }
    writer.insert(CLASSES, &row)?;
    writer.tx.note_relation(oid, true);
    let column = |(name, type_oid)| ColumnDef { not_null: true, ..ColumnDef::new(name, type_oid) };
    for attribute in user_attributes(oid, &COLUMNS.map(column))? {
        writer.insert(ATTRIBUTES, &attribute.datums())?;
    }
    let namespace = Object::new(NAMESPACES, namespace);
    writer.depend(Object::relation(oid), namespace, Dependency::Normal)?;
    writer.note_owner(Object::relation(oid), owner)?;
    write_page(&mut writer, (name, locator), files, tuple)?;
    writer.insert(SEQUENCES, &datums(oid, &def))?;
    writer.next_command()?;
    Ok(locator)
}

/// The name of a sequence for a column of a new table.
pub fn sequence_name(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    namespace: Oid,
    (table, column): (&str, &str),
) -> Result<String, CatalogError> {
    let mut writer = Writer::begin(database, backend, tx)?;
    writer.choose_index_name(namespace, (table, Some(column), "seq"), false)
}

/// Makes the page of a new file of a sequence.
fn write_page(
    writer: &mut Writer<'_>,
    (name, locator): (&str, RelFileLocator),
    files: NewFiles<'_>,
    tuple: SequenceTuple,
) -> Result<(), CatalogError> {
    let xid = writer.xid();
    let logged = matches!(files.persistence, Persistence::Permanent);
    let mut sequence = Sequence::new(&writer.database.heaps, name, locator, logged);
    if let Persistence::Temporary(relations) = files.persistence {
        sequence.pool = relations.pool().clone();
    }
    sequence.create(writer.backend, Fork::Main, xid, tuple)?;
    if let Persistence::Unlogged = files.persistence {
        sequence.create(writer.backend, Fork::Init, xid, tuple)?;
    }
    Ok(())
}

/// Changes a sequence, which the caller has locked so that nobody takes values. `now` is its tuple.
/// Returns its new file.
pub fn alter_sequence(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    (sequence, now): (&SequenceInfo, SequenceTuple),
    options: &SequenceOptions,
    files: NewFiles<'_>,
) -> Result<RelFileLocator, CatalogError> {
    let (def, tuple) = options.alter(sequence.def, now)?;
    let mut writer = Writer::begin(database, backend, tx)?;
    let locator = replace(&mut writer, sequence, tuple, files)?;
    let key = [Datum::Oid(sequence.oid)];
    let missing = || CatalogError::corrupt(format!("pg_sequence has no row {}", sequence.oid));
    let found = writer.rows((&PG_SEQUENCE_SEQRELID_INDEX, &key), 1)?.pop().ok_or_else(missing)?;
    writer.update(SEQUENCES, found.tid, &datums(sequence.oid, &def))?;
    writer.next_command()?;
    Ok(locator)
}

/// Gives a sequence, which the caller has locked, a new file with a tuple. Its persistence becomes
/// that of the file.
pub fn replace_sequence(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    (sequence, tuple): (&SequenceInfo, SequenceTuple),
    files: NewFiles<'_>,
) -> Result<RelFileLocator, CatalogError> {
    replace(&mut Writer::begin(database, backend, tx)?, sequence, tuple, files)
}

fn replace(
    writer: &mut Writer<'_>,
    sequence: &SequenceInfo,
    tuple: SequenceTuple,
    files: NewFiles<'_>,
) -> Result<RelFileLocator, CatalogError> {
    let locator = create_file(writer, files)?;
    write_page(writer, (&sequence.name, locator), files, tuple)?;
    use_file(writer, (sequence.oid, sequence.locator), (files, locator), &FIGURES)?;
    Ok(locator)
}

/// Makes a sequence belong to a column, or to none.
pub fn set_sequence_owner(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    sequence: Oid,
    owner: Option<SequenceOwner>,
) -> Result<(), CatalogError> {
    let mut writer = Writer::begin(database, backend, tx)?;
    let object = Object::relation(sequence);
    let key = [Datum::Oid(object.class), Datum::Oid(object.oid)];
    for found in writer.rows((&PG_DEPEND_DEPENDER_INDEX, &key), 7)? {
        let depends = Depends::read(&Row(&found.values, PG_DEPEND.name))?;
        if owner_in(&depends).is_some() {
            writer.delete(PG_DEPEND.oid, &found)?;
        }
    }
    if let Some(SequenceOwner { table, column, identity }) = owner {
        let how = if identity { Dependency::Internal } else { Dependency::Auto };
        writer.depend(object, Object::column(table, column), how)?;
    }
    writer.next_command()
}

/// Renames a relation: a sequence, or a table with its types. The caller holds its lock and that of
/// its new name, and knows that the name is free.
pub fn rename_relation(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    (oid, name): (Oid, &str),
) -> Result<(), CatalogError> {
    let mut writer = Writer::begin(database, backend, tx)?;
    let Found { tid, mut values } = writer.row(&PG_CLASS_OID_INDEX, oid)?;
    writer.announce(CLASSES, &values);
    let row = Row(&values, PG_CLASS.name);
    let (namespace, row_type) = (row.oid(2)?, row.oid(PG_CLASS.place("reltype"))?);
    if row_type != 0 {
        rename_types(&mut writer, namespace, row_type, name)?;
    }
    if let Some(value) = values.get_mut(PG_CLASS.place("relname")) {
        *value = Datum::string(name.to_owned());
    }
    writer.update(CLASSES, tid, &values)?;
    writer.next_command()
}
