//! What the catalogs say of a table.

use std::sync::{Arc, OnceLock};

use forebay_access::toast::Toasting;
use forebay_format::ids::FIRST_UNPINNED_OID;
use forebay_format::varlena::Method;
use forebay_format::{AttrLayout, RelFileLocator};
use forebay_types::{Encoding, Oid, Repr, type_info};

use crate::error::CatalogError;
use crate::figures::Figures;
use crate::index::TableIndex;
use crate::keys::KeyTrigger;
use crate::layout::layout_of;
use crate::options::{FULL, VacuumParameters};
use crate::schema::{C_COLLATION, PG_CATALOG};
use crate::schema::{CatalogColumn, CatalogTable, POSTGRES_ROLE};
use crate::statistics::TableStatistics;
use crate::stored_expr::{Check, StoredExpr};

/// A column of an existing table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its type's OID.
    pub type_oid: Oid,
    /// The type modifier, or -1. For varchar(n) it is n + 4.
    pub typmod: i32,
    /// Its collation, 0 if its type has none.
    pub collation: Oid,
    /// Whether it refuses NULL.
    pub not_null: bool,
    /// Its number, from 1.
    pub attnum: i16,
    /// Whether it was dropped: its values stay in the rows but are not visible.
    pub dropped: bool,
    /// Whether rows without a value for it get one that is not NULL: a default or an identity.
    pub has_default: bool,
    /// Whether it is an identity column GENERATED ALWAYS.
    pub always_identity: bool,
    /// Whether it is an identity column.
    pub is_identity: bool,
    /// 0, or s: generated and stored, v: generated when read.
    pub generated: u8,
    /// The tree of its default, or of what it is generated of. None: it has none, or one that is
    /// stored out of line.
    pub default: Option<Arc<str>>,
    /// Its stored value in rows that are older than the column. None: NULL.
    pub missing: Option<Arc<[u8]>>,
    /// How its values lie in a row.
    pub layout: AttrLayout,
    /// The representation of its values.
    pub repr: Repr,
    /// How indexes compress its long values. None: they do not.
    pub compression: Option<Method>,
}

/// A column of a new table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnDef {
    /// Its name, at most 63 bytes.
    pub name: String,
    /// Its type's OID.
    pub type_oid: Oid,
    /// The type modifier, or -1.
    pub typmod: i32,
    /// Whether it refuses NULL.
    pub not_null: bool,
    /// COLLATE. None: that of its type.
    pub collation: Option<Oid>,
    /// pg_attribute.attstorage. None: that of its type.
    pub storage: Option<u8>,
    /// pg_attribute.attcompression; 0: as the session's default says.
    pub compression: u8,
    /// Its default, or what it is generated of.
    pub default: Option<StoredExpr>,
    /// pg_attribute.attgenerated
    pub generated: u8,
    /// pg_attribute.attidentity
    pub identity: u8,
    /// The name of its NOT NULL constraint. None: one is chosen.
    pub not_null_name: Option<String>,
    /// How its values lie in a row, of a column that is there: its type may be carried only. None:
    /// as its type says.
    pub layout: Option<AttrLayout>,
}

impl ColumnDef {
    /// A nullable column without a type modifier.
    pub fn new(name: &str, type_oid: Oid) -> ColumnDef {
        ColumnDef {
            name: name.to_owned(),
            type_oid,
            typmod: -1,
            not_null: false,
            collation: None,
            storage: None,
            compression: 0,
            default: None,
            generated: 0,
            identity: 0,
            not_null_name: None,
            layout: None,
        }
    }
}

/// A table as a transaction sees it.
#[derive(Clone, Debug)]
pub struct Table {
    /// pg_class.oid
    pub oid: Oid,
    /// Its name.
    pub name: String,
    /// Its namespace's OID.
    pub namespace: Oid,
    /// Its namespace's name.
    pub schema: String,
    /// Its owner's OID.
    pub owner: Oid,
    /// pg_class.relkind
    pub kind: u8,
    /// Its columns in attnum order, dropped ones included.
    pub columns: Vec<Column>,
    /// Its checks, in the order in which they are applied.
    pub checks: Vec<Check>,
    /// What enforces foreign keys and deferrable keys when its rows change, in this order.
    pub triggers: Vec<Arc<KeyTrigger>>,
    /// Its indexes that are not being dropped, by OID.
    pub indexes: Vec<Arc<TableIndex>>,
    /// The columns that a foreign key may refer to, as indexes in `columns`, ascending.
    pub key_columns: Vec<usize>,
    /// The columns that an index has, likewise.
    pub indexed_columns: Vec<usize>,
    /// The session slot to which a temporary table belongs.
    pub temp: Option<u32>,
    /// How its long values are stored.
    pub toasting: Toasting,
    /// How full insertions make its pages, in percent (fillfactor).
    pub fill_factor: u8,
    /// What its own parameters tell VACUUM.
    pub vacuum: VacuumParameters,
    /// Its own number of parallel workers (parallel_workers).
    pub parallel_workers: Option<u16>,
    /// What was last counted of it.
    pub figures: Figures,
    /// What cannot be done with it.
    pub(crate) limits: Limits,
    /// Its file.
    pub locator: RelFileLocator,
    /// The encoding of its texts: its database's.
    pub encoding: Encoding,
    /// The layouts of its columns.
    pub layouts: Vec<AttrLayout>,
    /// The statistics of its columns, read when they are first needed.
    pub statistics: OnceLock<Arc<TableStatistics>>,
}

/// Where a relation's files are, or go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilePlace {
    /// pg_class.relpersistence
    pub persistence: u8,
    /// The tablespace. 0: the database's.
    pub tablespace: Oid,
}

impl FilePlace {
    /// A place of a permanent relation in the database's tablespace.
    pub const PERMANENT: FilePlace = FilePlace { persistence: b'p', tablespace: 0 };
}

/// Why a table cannot be used, if so.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Why its rows, or their values, would be read wrongly.
    pub read: Option<String>,
    /// Why new rows would lack something, or break a rule.
    pub insert: Option<&'static str>,
    /// Why it cannot be vacuumed.
    pub vacuum: Option<&'static str>,
    /// Why its columns and its constraints are not to be changed.
    pub alter: Option<&'static str>,
    /// Whether something else than a heap keeps its rows.
    pub other_method: bool,
    /// Whether its changes must not be logged.
    pub unlogged: bool,
}

impl Table {
    /// A catalog as its fixed layout says, without its indexes: see `Reader::indexes_of`.
    pub(crate) fn of_catalog(
        catalog: &CatalogTable,
        locator: RelFileLocator,
        encoding: Encoding,
    ) -> Result<Table, CatalogError> {
        let column = |(attnum, column): (i16, &CatalogColumn)| {
            Ok(Column {
                name: column.name.to_owned(),
                type_oid: column.type_oid,
                typmod: -1,
                collation: collation_of(column.type_oid),
                not_null: column.not_null,
                attnum,
                dropped: false,
                has_default: false,
                always_identity: false,
                is_identity: false,
                generated: 0,
                default: None,
                missing: None,
                layout: layout_of(column.type_oid)?,
                repr: Repr::of(column.type_oid),
                compression: None,
            })
        };
        let columns: Result<Vec<Column>, CatalogError> =
            (1..).zip(catalog.columns).map(column).collect();
        let columns = columns?;
        Ok(Table {
            oid: catalog.oid,
            name: catalog.name.to_owned(),
            namespace: PG_CATALOG,
            schema: "pg_catalog".to_owned(),
            owner: POSTGRES_ROLE,
            kind: b'r',
            temp: None,
            layouts: columns.iter().map(|c| c.layout).collect(),
            columns,
            checks: Vec::new(),
            triggers: Vec::new(),
            indexes: Vec::new(),
            key_columns: Vec::new(),
            indexed_columns: Vec::new(),
            toasting: Toasting::default(),
            fill_factor: FULL,
            vacuum: VacuumParameters::default(),
            parallel_workers: None,
            figures: Figures::UNKNOWN,
            limits: Limits::default(),
            locator,
            encoding,
            statistics: OnceLock::new(),
        })
    }

    /// Fails (0A000) if its rows cannot be read as PostgreSQL reads them.
    pub fn check_readable(&self) -> Result<(), CatalogError> {
        match &self.limits.read {
            None => Ok(()),
            Some(why) => Err(self.refusal("read", why)),
        }
    }

    /// Fails (0A000) if rows cannot be inserted as PostgreSQL inserts them. The caller checks
    /// columns with defaults.
    pub fn check_insertable(&self) -> Result<(), CatalogError> {
        self.check_no_sequence()?;
        self.check_writable("insert into")
    }

    /// Fails if its rows cannot be updated, or deleted, as PostgreSQL does that: 42501 for a
    /// catalog, else 0A000. The verb is the statement's.
    pub fn check_changeable(&self, verb: &str) -> Result<(), CatalogError> {
        self.check_no_sequence()?;
        match self.is_catalog() {
            true => Err(permission_denied(&self.name)),
            false => self.check_writable(verb),
        }
    }

    /// Fails (42501) if it is a catalog or a TOAST table, which DDL leaves alone. `name` is its own
    /// or that of an index of it.
    pub fn check_alterable(&self, name: &str) -> Result<(), CatalogError> {
        match self.is_catalog() || self.kind == b't' {
            true => Err(permission_denied(name)),
            false => Ok(()),
        }
    }

    /// Fails (0A000) if its columns and constraints are not its own to change: of a materialized
    /// view, a table of a composite type, and a partition.
    pub fn check_own_columns(&self) -> Result<(), CatalogError> {
        self.limits.alter.map_or(Ok(()), |why| Err(self.refusal("alter", why)))
    }

    /// Fails (0A000) if its rows are not in a heap.
    pub fn check_heap(&self, verb: &str) -> Result<(), CatalogError> {
        match self.limits.other_method {
            true => Err(self.refusal(verb, "its access method is not supported")),
            false => Ok(()),
        }
    }

    /// Fails (42809) if it is a sequence: only its functions change it.
    fn check_no_sequence(&self) -> Result<(), CatalogError> {
        match self.kind {
            b'S' => {
                let message = format!("cannot change sequence \"{}\"", self.name);
                Err(CatalogError::refused("42809", message))
            }
            _ => Ok(()),
        }
    }

    fn check_writable(&self, verb: &str) -> Result<(), CatalogError> {
        if let Some(why) = self.limits.insert {
            return Err(self.refusal(verb, why));
        }
        for index in &self.indexes {
            let why = match &index.unknown {
                Some(why) => why,
                None if self.has_recheck(index) => continue,
                None => "its constraint is deferrable, and has no trigger",
            };
            return Err(self.refusal(verb, &format!("index \"{}\": {why}", index.name)));
        }
        Ok(())
    }

    /// Whether a unique index is checked at once, or by a trigger.
    fn has_recheck(&self, index: &TableIndex) -> bool {
        let is_own =
            |trigger: &Arc<KeyTrigger>| trigger.key.is_none() && trigger.index == index.oid;
        !index.unique || index.immediate || self.triggers.iter().any(is_own)
    }

    /// Fails (0A000) if its rows cannot be locked as PostgreSQL locks them.
    pub fn check_lockable(&self) -> Result<(), CatalogError> {
        let what = match self.kind {
            b'S' => Some("sequence"),
            b'm' => Some("materialized view"),
            _ => None,
        };
        if let Some(what) = what {
            let message = format!("cannot lock rows in {what} \"{}\"", self.name);
            return Err(CatalogError::refused("42809", message));
        }
        match self.is_catalog() {
            true => Err(self.refusal("lock rows of", "it is a system catalog")),
            false => Ok(()),
        }
    }

    /// Fails (0A000) if it cannot be vacuumed.
    pub fn check_vacuumable(&self) -> Result<(), CatalogError> {
        if let Some(why) = self.limits.vacuum {
            return Err(self.refusal("vacuum", why));
        }
        let unknown = |index: &Arc<TableIndex>| {
            let why = index.unknown.as_ref().filter(|_| index.ready)?;
            Some(format!("its index \"{}\" is not supported: {why}", index.name))
        };
        match self.indexes.iter().find_map(unknown) {
            None => Ok(()),
            Some(why) => Err(self.refusal("vacuum", &why)),
        }
    }

    /// Refuses a relation that VACUUM FULL cannot give a new file (0A000).
    pub fn check_rewritable(&self) -> Result<(), CatalogError> {
        if self.is_catalog() || self.oid < FIRST_UNPINNED_OID {
            return Err(self.refusal("rewrite", "system catalogs stay where they are"));
        }
        self.check_vacuumable()?;
        self.check_readable()?;
        if self.kind == b'm' && !self.indexes.is_empty() {
            return Err(self.refusal("rewrite", "it is a materialized view with indexes"));
        }
        match self.indexes.iter().find_map(|index| Some((index, index.unknown.as_ref()?))) {
            None => Ok(()),
            Some((index, why)) => {
                let why = format!("its index \"{}\" is not supported: {why}", index.name);
                Err(self.refusal("rewrite", &why))
            }
        }
    }

    /// Whether a reader may remove versions of its rows that nobody sees any more.
    pub fn is_prunable(&self) -> bool {
        self.kind != b'S'
    }

    fn refusal(&self, verb: &str, why: &str) -> CatalogError {
        CatalogError::refused("0A000", format!("cannot {verb} relation \"{}\": {why}", self.name))
    }

    /// The column with this name, with its index in `columns`.
    pub fn column(&self, name: &str) -> Option<(usize, &Column)> {
        self.columns.iter().enumerate().find(|(_, c)| !c.dropped && c.name == name)
    }

    /// Whether it is temporary.
    pub fn is_temporary(&self) -> bool {
        self.temp.is_some()
    }

    /// Whether recovery empties it, since its changes are not logged.
    pub fn is_unlogged(&self) -> bool {
        self.limits.unlogged
    }

    /// Whether its changes are logged.
    pub fn is_logged(&self) -> bool {
        !self.is_temporary() && !self.is_unlogged()
    }

    /// Where its file is.
    pub fn place(&self) -> FilePlace {
        self.place_in(self.locator.spc)
    }

    /// A place in a tablespace for what belongs to it.
    pub fn place_in(&self, tablespace: Oid) -> FilePlace {
        let persistence = match (self.is_temporary(), self.is_unlogged()) {
            (true, _) => b't',
            (_, true) => b'u',
            _ => b'p',
        };
        FilePlace { persistence, tablespace }
    }

    /// Whether it belongs to pg_catalog, and so is read-only.
    pub fn is_catalog(&self) -> bool {
        self.namespace == PG_CATALOG
    }
}

/// The collation of a catalog's column: its texts are ordered by their bytes.
fn collation_of(type_oid: Oid) -> Oid {
    let collated = type_info(type_oid).is_some_and(|ty| ty.collation != 0);
    if collated { C_COLLATION } else { 0 }
}

fn permission_denied(name: &str) -> CatalogError {
    let message = format!("permission denied: \"{name}\" is a system catalog");
    CatalogError::refused("42501", message)
}

#[cfg(test)]
impl Table {
    /// A table of public without columns.
    pub(crate) fn for_tests(oid: Oid, name: &str) -> Table {
        Table {
            oid,
            name: name.to_owned(),
            namespace: 2200,
            schema: "public".to_owned(),
            owner: POSTGRES_ROLE,
            kind: b'r',
            temp: None,
            columns: Vec::new(),
            checks: Vec::new(),
            triggers: Vec::new(),
            indexes: Vec::new(),
            key_columns: Vec::new(),
            indexed_columns: Vec::new(),
            toasting: Toasting::default(),
            fill_factor: FULL,
            vacuum: VacuumParameters::default(),
            parallel_workers: None,
            figures: Figures::UNKNOWN,
            limits: Limits::default(),
            locator: RelFileLocator::in_default(5, oid),
            encoding: Encoding::Utf8,
            layouts: Vec::new(),
            statistics: OnceLock::new(),
        }
    }
}
