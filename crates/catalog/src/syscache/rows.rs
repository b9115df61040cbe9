//! What is known of rows of the catalogs.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use forebay_types::Oid;

use crate::error::CatalogError;
use crate::row::{Row, elements};
use crate::schema::{
    CatalogTable, PG_AMOP, PG_CAST, PG_COLLATION, PG_NAMESPACE, PG_OPCLASS, PG_OPERATOR, PG_PROC,
    PG_TYPE,
};
use forebay_types::Datum;

/// A row of pg_type.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are the columns without their prefix")]
pub struct TypeRow {
    pub oid: Oid,
    pub name: Box<str>,
    pub namespace: Oid,
    pub len: i16,
    pub by_val: bool,
    /// typtype: b base, c composite, d domain, e enum, p pseudo, r range, m multirange
    pub kind: u8,
    pub category: u8,
    pub preferred: bool,
    pub defined: bool,
    pub delimiter: u8,
    pub relid: Oid,
    pub subscript: Oid,
    pub elem: Oid,
    pub array: Oid,
    pub input: Oid,
    pub output: Oid,
    pub receive: Oid,
    pub send: Oid,
    pub modin: Oid,
    pub modout: Oid,
    pub align: u8,
    pub storage: u8,
    pub not_null: bool,
    pub base_type: Oid,
    pub typmod: i32,
    pub collation: Oid,
}

/// A row of pg_proc.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are the columns without their prefix")]
pub struct ProcRow {
    pub oid: Oid,
    pub name: Box<str>,
    pub namespace: Oid,
    pub language: Oid,
    pub variadic: Oid,
    /// prokind: f function, a aggregate, w window function, p procedure
    pub kind: u8,
    pub strict: bool,
    pub returns_set: bool,
    /// provolatile: i, s, v
    pub volatility: u8,
    /// proparallel: s, r, u
    pub parallel: u8,
    /// pronargdefaults
    pub defaults: usize,
    pub result: Oid,
    /// proargtypes
    pub args: Box<[Oid]>,
    /// proallargtypes
    pub all_args: Option<Box<[Oid]>>,
    /// proargmodes
    pub modes: Option<Box<[u8]>>,
    /// proargnames, an empty one for an argument without a name
    pub names: Option<Box<[Box<str>]>>,
    /// proargdefaults: a list of node trees
    pub default_trees: Option<Box<str>>,
}

/// A row of pg_operator.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are the columns without their prefix")]
pub struct OperatorRow {
    pub oid: Oid,
    pub name: Box<str>,
    pub namespace: Oid,
    /// oprkind: b with two operands, l with one behind it
    pub kind: u8,
    pub left: Oid,
    pub right: Oid,
    pub result: Oid,
    pub commutator: Oid,
    pub negator: Oid,
    pub code: Oid,
    pub restriction: Oid,
}

/// A row of pg_cast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are the columns without their prefix")]
pub struct CastRow {
    pub source: Oid,
    pub target: Oid,
    /// 0 if the method is no function.
    pub function: Oid,
    /// castcontext: i implicit, a assignment, e explicit
    pub context: u8,
    /// castmethod: f function, b binary-coercible, i input and output
    pub method: u8,
}

/// A row of pg_opclass.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are the columns without their prefix")]
pub struct OpclassRow {
    pub oid: Oid,
    pub method: Oid,
    pub name: Box<str>,
    pub namespace: Oid,
    pub family: Oid,
    pub input: Oid,
    pub is_default: bool,
}

/// A row of pg_amop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are the columns without their prefix")]
pub struct AmopRow {
    pub family: Oid,
    pub left: Oid,
    pub right: Oid,
    pub strategy: i16,
    /// amoppurpose: s search, o order
    pub purpose: u8,
    pub operator: Oid,
    pub method: Oid,
}

/// A row of pg_collation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are the columns without their prefix")]
pub struct CollationRow {
    pub oid: Oid,
    pub name: Box<str>,
    pub namespace: Oid,
    /// collprovider: d the database's, b builtin, c libc, i ICU
    pub provider: u8,
    pub deterministic: bool,
    /// -1 for all encodings
    pub encoding: i32,
    pub collate: Option<Box<str>>,
    pub ctype: Option<Box<str>>,
    pub locale: Option<Box<str>>,
    /// collicurules
    pub rules: Option<Box<str>>,
    pub version: Option<Box<str>>,
}

/// A row of pg_namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are the columns without their prefix")]
pub struct NamespaceRow {
    pub oid: Oid,
    pub name: Box<str>,
    pub owner: Oid,
}

/// Reads columns of a row by their names.
struct Columns<'a, 'b> {
    row: Row<'a, 'b>,
    of: &'static CatalogTable,
}

macro_rules! column {
    ($($name:ident: $type:ty;)*) => {
        $(fn $name(&self, column: &str) -> Result<$type, CatalogError> {
            self.row.$name(self.of.place(column))
        })*
    };
}

impl<'a, 'b> Columns<'a, 'b> {
    fn new(of: &'static CatalogTable, row: &'a [Datum<'b>]) -> Columns<'a, 'b> {
        Columns { row: Row(row, of.name), of }
    }

    column! {
        oid: Oid;
        bool: bool;
        char: u8;
        int2: i16;
        int4: i32;
        name: &'a str;
        text: Option<&'a str>;
    }

    /// The elements of an array or a vector of `N` bytes each. None: it is NULL.
    fn array<const N: usize>(&self, column: &str) -> Result<Option<Vec<[u8; N]>>, CatalogError> {
        match self.stored(column)? {
            None => Ok(None),
            Some(bytes) => match elements(bytes) {
                Some(elements) => Ok(Some(elements.to_vec())),
                None => Err(self.damaged(column)),
            },
        }
    }

    fn oids(&self, column: &str) -> Result<Option<Box<[Oid]>>, CatalogError> {
        let elements = self.array::<4>(column)?;
        Ok(elements.map(|all| all.into_iter().map(u32::from_le_bytes).collect()))
    }

    /// The elements of an array of texts without NULLs.
    fn texts(&self, column: &str) -> Result<Option<Box<[Box<str>]>>, CatalogError> {
        match self.stored(column)? {
            None => Ok(None),
            Some(bytes) => match crate::options::stored_texts(bytes) {
                Some(texts) => Ok(Some(texts.into_iter().map(Box::from).collect())),
                None => Err(self.damaged(column)),
            },
        }
    }

    fn stored(&self, column: &str) -> Result<Option<&'a [u8]>, CatalogError> {
        match self.row.0.get(self.of.place(column)) {
            Some(Datum::Null) => Ok(None),
            Some(value) => match value.stored_bytes() {
                Some(bytes) => Ok(Some(bytes)),
                None => Err(self.damaged(column)),
            },
            None => Err(self.damaged(column)),
        }
    }

    fn damaged(&self, column: &str) -> CatalogError {
        CatalogError::corrupt(format!("a row of {} has no sound {column}", self.of.name))
    }
}

impl TypeRow {
    /// Columns that are read.
    pub(super) const COLUMNS: usize = PG_TYPE.place("typcollation") + 1;

    pub(super) fn read(row: &[Datum<'_>]) -> Result<TypeRow, CatalogError> {
        let row = Columns::new(&PG_TYPE, row);
        Ok(TypeRow {
            oid: row.oid("oid")?,
            name: row.name("typname")?.into(),
            namespace: row.oid("typnamespace")?,
            len: row.int2("typlen")?,
            by_val: row.bool("typbyval")?,
            kind: row.char("typtype")?,
            category: row.char("typcategory")?,
            preferred: row.bool("typispreferred")?,
            defined: row.bool("typisdefined")?,
            delimiter: row.char("typdelim")?,
            relid: row.oid("typrelid")?,
            subscript: row.oid("typsubscript")?,
            elem: row.oid("typelem")?,
            array: row.oid("typarray")?,
            input: row.oid("typinput")?,
            output: row.oid("typoutput")?,
            receive: row.oid("typreceive")?,
            send: row.oid("typsend")?,
            modin: row.oid("typmodin")?,
            modout: row.oid("typmodout")?,
            align: row.char("typalign")?,
            storage: row.char("typstorage")?,
            not_null: row.bool("typnotnull")?,
            base_type: row.oid("typbasetype")?,
            typmod: row.int4("typtypmod")?,
            collation: row.oid("typcollation")?,
        })
    }

    /// Whether its values are arrays as `array_in` makes them.
    pub fn is_array(&self) -> bool {
        /// array_subscript_handler
        const ARRAY_SUBSCRIPT_HANDLER: Oid = 6179;
        self.elem != 0 && self.len == -1 && self.subscript == ARRAY_SUBSCRIPT_HANDLER
    }
}

impl ProcRow {
    /// Columns that are read.
    pub(super) const COLUMNS: usize = PG_PROC.place("proargdefaults") + 1;

    pub(super) fn read(row: &[Datum<'_>]) -> Result<ProcRow, CatalogError> {
        let row = Columns::new(&PG_PROC, row);
        let defaults = row.int2("pronargdefaults")?;
        let modes = row.array::<1>("proargmodes")?;
        Ok(ProcRow {
            oid: row.oid("oid")?,
            name: row.name("proname")?.into(),
            namespace: row.oid("pronamespace")?,
            language: row.oid("prolang")?,
            variadic: row.oid("provariadic")?,
            kind: row.char("prokind")?,
            strict: row.bool("proisstrict")?,
            returns_set: row.bool("proretset")?,
            volatility: row.char("provolatile")?,
            parallel: row.char("proparallel")?,
            defaults: usize::try_from(defaults).map_err(|_| row.damaged("pronargdefaults"))?,
            result: row.oid("prorettype")?,
            args: row.oids("proargtypes")?.ok_or_else(|| row.damaged("proargtypes"))?,
            all_args: row.oids("proallargtypes")?,
            modes: modes.map(|all| all.into_iter().map(|[mode]| mode).collect()),
            names: row.texts("proargnames")?,
            default_trees: row.text("proargdefaults")?.map(Box::from),
        })
    }

    /// The name of an input argument, by its place among them.
    pub fn arg_name(&self, index: usize) -> Option<&str> {
        let names = self.names.as_ref()?;
        let place = match &self.modes {
            None => index,
            Some(modes) => {
                let inputs =
                    modes.iter().enumerate().filter(|(_, m)| matches!(m, b'i' | b'b' | b'v'));
                inputs.map(|(place, _)| place).nth(index)?
            }
        };
        names.get(place).map(|name| &**name).filter(|name| !name.is_empty())
    }
}

impl OperatorRow {
    /// Columns that are read.
    pub(super) const COLUMNS: usize = PG_OPERATOR.place("oprrest") + 1;

    pub(super) fn read(row: &[Datum<'_>]) -> Result<OperatorRow, CatalogError> {
        let row = Columns::new(&PG_OPERATOR, row);
        Ok(OperatorRow {
            oid: row.oid("oid")?,
            name: row.name("oprname")?.into(),
            namespace: row.oid("oprnamespace")?,
            kind: row.char("oprkind")?,
            left: row.oid("oprleft")?,
            right: row.oid("oprright")?,
            result: row.oid("oprresult")?,
            commutator: row.oid("oprcom")?,
            negator: row.oid("oprnegate")?,
            code: row.oid("oprcode")?,
            restriction: row.oid("oprrest")?,
        })
    }
}

impl CastRow {
    /// Columns that are read.
    pub(super) const COLUMNS: usize = PG_CAST.place("castmethod") + 1;

    pub(super) fn read(row: &[Datum<'_>]) -> Result<CastRow, CatalogError> {
        let row = Columns::new(&PG_CAST, row);
        Ok(CastRow {
            source: row.oid("castsource")?,
            target: row.oid("casttarget")?,
            function: row.oid("castfunc")?,
            context: row.char("castcontext")?,
            method: row.char("castmethod")?,
        })
    }
}

impl OpclassRow {
    /// Columns that are read.
    pub(super) const COLUMNS: usize = PG_OPCLASS.place("opcdefault") + 1;

    pub(super) fn read(row: &[Datum<'_>]) -> Result<OpclassRow, CatalogError> {
        let row = Columns::new(&PG_OPCLASS, row);
        Ok(OpclassRow {
            oid: row.oid("oid")?,
            method: row.oid("opcmethod")?,
            name: row.name("opcname")?.into(),
            namespace: row.oid("opcnamespace")?,
            family: row.oid("opcfamily")?,
            input: row.oid("opcintype")?,
            is_default: row.bool("opcdefault")?,
        })
    }
}

impl AmopRow {
    /// Columns that are read.
    pub(super) const COLUMNS: usize = PG_AMOP.place("amopmethod") + 1;

    pub(super) fn read(row: &[Datum<'_>]) -> Result<AmopRow, CatalogError> {
        let row = Columns::new(&PG_AMOP, row);
        Ok(AmopRow {
            family: row.oid("amopfamily")?,
            left: row.oid("amoplefttype")?,
            right: row.oid("amoprighttype")?,
            strategy: row.int2("amopstrategy")?,
            purpose: row.char("amoppurpose")?,
            operator: row.oid("amopopr")?,
            method: row.oid("amopmethod")?,
        })
    }
}

impl CollationRow {
    /// Columns that are read.
    pub(super) const COLUMNS: usize = PG_COLLATION.place("collversion") + 1;

    pub(super) fn read(row: &[Datum<'_>]) -> Result<CollationRow, CatalogError> {
        let row = Columns::new(&PG_COLLATION, row);
        Ok(CollationRow {
            oid: row.oid("oid")?,
            name: row.name("collname")?.into(),
            namespace: row.oid("collnamespace")?,
            provider: row.char("collprovider")?,
            deterministic: row.bool("collisdeterministic")?,
            encoding: row.int4("collencoding")?,
            collate: row.text("collcollate")?.map(Box::from),
            ctype: row.text("collctype")?.map(Box::from),
            locale: row.text("colllocale")?.map(Box::from),
            rules: row.text("collicurules")?.map(Box::from),
            version: row.text("collversion")?.map(Box::from),
        })
    }
}

impl NamespaceRow {
    /// Columns that are read.
    pub(super) const COLUMNS: usize = PG_NAMESPACE.place("nspowner") + 1;

    pub(super) fn read(row: &[Datum<'_>]) -> Result<NamespaceRow, CatalogError> {
        let row = Columns::new(&PG_NAMESPACE, row);
        Ok(NamespaceRow {
            oid: row.oid("oid")?,
            name: row.name("nspname")?.into(),
            owner: row.oid("nspowner")?,
        })
    }
}
