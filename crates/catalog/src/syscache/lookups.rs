//! The keys by which rows are looked up, how each is read through an index, and the rows by one
//! kind of key.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::Arc;

use forebay_format::syscache::{self as syscache, hash_int2, hash_key, hash_name, hash_oid};
use forebay_format::wal::invalidation::Invalidation;
use forebay_types::{Datum, Encoding, Oid};
use smallvec::SmallVec;

use super::rows::{
    AmopRow, CastRow, CollationRow, NamespaceRow, OpclassRow, OperatorRow, ProcRow, TypeRow,
};
use crate::error::CatalogError;
use crate::row_source::RowSource;
use crate::schema::{
    CatalogIndex, PG_AMOP, PG_AMOP_FAM_STRAT_INDEX, PG_AMOP_OPR_FAM_INDEX, PG_CAST,
    PG_CAST_SOURCE_TARGET_INDEX, PG_COLLATION, PG_COLLATION_NAME_ENC_NSP_INDEX,
    PG_COLLATION_OID_INDEX, PG_NAMESPACE, PG_NAMESPACE_NSPNAME_INDEX, PG_NAMESPACE_OID_INDEX,
    PG_OPCLASS, PG_OPCLASS_AM_NAME_NSP_INDEX, PG_OPERATOR, PG_OPERATOR_OID_INDEX,
    PG_OPERATOR_OPRNAME_L_R_N_INDEX, PG_PROC, PG_PROC_OID_INDEX, PG_PROC_PRONAME_ARGS_NSP_INDEX,
    PG_TYPE, PG_TYPE_OID_INDEX, PG_TYPE_TYPNAME_NSP_INDEX,
};

/// A key of a catalog's rows.
#[allow(private_interfaces, reason = "only this module looks into the caches")]
pub trait Lookup: Clone + Debug + Eq + Sized {
    /// What is found: a row that may be missing, or all rows.
    type Row: Clone + Debug;
    /// The number of PostgreSQL's cache with the same keys. None: a list, which has none.
    const CACHE: Option<i8>;
    /// The catalog.
    const CATALOG: Oid;

    /// The hash value that PostgreSQL's cache has for the key, in a database with an encoding.
    fn hash(&self, encoding: Encoding) -> u32;

    /// Reads it from the catalog.
    fn read(&self, source: &mut dyn RowSource) -> Result<Self::Row, CatalogError>;

    #[doc(hidden)]
    fn entries(maps: &Maps) -> &Entries<Self>;

    #[doc(hidden)]
    fn entries_mut(maps: &mut Maps) -> &mut Entries<Self>;

    /// Whether a message says that what is found by a key with this hash value is out of date.
    fn is_hit(message: &Invalidation, hash: u32) -> bool {
        match *message {
            Invalidation::Catalog { catalog, .. } => catalog == Self::CATALOG,
            Invalidation::Entry { cache, hash: of, .. } => match Self::CACHE {
                Some(own) => cache == own && of == hash,
                // A change of any row of the catalog.
                None => syscache::catalog_of(cache) == Some(Self::CATALOG),
            },
            _ => false,
        }
    }
}

/// Most hash values with entries in one map. A client can ask for any number of names.
pub(super) const MOST: usize = 4096;

/// Keys of the same hash value, with their rows.
type OneOrMore<K> = SmallVec<[(K, <K as Lookup>::Row); 1]>;

/// Rows by one kind of key.
#[derive(Debug)]
pub(super) struct Entries<K: Lookup> {
    map: HashMap<u32, OneOrMore<K>>,
}

impl<K: Lookup> Default for Entries<K> {
    fn default() -> Entries<K> {
        Entries { map: HashMap::new() }
    }
}

impl<K: Lookup> Entries<K> {
    pub(super) fn get(&self, hash: u32, key: &K) -> Option<K::Row> {
        let found = self.map.get(&hash)?.iter().find(|(known, _)| known == key)?;
        Some(found.1.clone())
    }

    pub(super) fn put(&mut self, hash: u32, key: K, row: K::Row) {
        if self.map.len() >= MOST {
            self.map.clear();
        }
        let entries = self.map.entry(hash).or_default();
        match entries.iter_mut().find(|(known, _)| *known == key) {
            Some(known) => known.1 = row,
            None => entries.push((key, row)),
        }
    }

    pub(super) fn forget(&mut self, message: &Invalidation) {
        match *message {
            Invalidation::Entry { cache, hash, .. } if K::CACHE == Some(cache) => {
                self.map.remove(&hash);
            }
            _ if K::is_hit(message, 0) => self.map.clear(),
            _ => {}
        }
    }
}

macro_rules! lookups {
    ($($(#[$doc:meta])* $field:ident $key:ident [$($fields:tt)*] -> $row:ty, of $catalog:ident,
       $cache:expr, |$this:ident, $encoding:ident| $hash:expr,
       |$me:ident, $reader:ident| $read:expr;)*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Debug, PartialEq, Eq)]
            #[allow(missing_docs, reason = "the fields are columns")]
            pub struct $key $($fields)*

            #[allow(private_interfaces, reason = "only this module looks into the caches")]
            impl Lookup for $key {
                type Row = $row;
                const CACHE: Option<i8> = $cache;
                const CATALOG: Oid = $catalog.oid;

                fn hash(&self, encoding: Encoding) -> u32 {
                    let ($this, $encoding) = (self, encoding);
                    $hash
                }

                fn read(&self, $reader: &mut dyn RowSource) -> Result<$row, CatalogError> {
                    let $me = self;
                    $read
                }

                fn entries(maps: &Maps) -> &Entries<Self> {
                    &maps.$field
                }

                fn entries_mut(maps: &mut Maps) -> &mut Entries<Self> {
                    &mut maps.$field
                }
            }
        )*

        /// Rows by all kinds of keys.
        #[derive(Debug, Default)]
        pub struct Maps {
            $($field: Entries<$key>,)*
        }

        impl Maps {
            /// Whether there are entries that a message can hit.
            pub(super) fn knows(message: &Invalidation) -> bool {
                match *message {
                    Invalidation::Catalog { catalog, .. } => {
                        [$($catalog.oid,)*].contains(&catalog)
                    }
                    Invalidation::Entry { cache, .. } => syscache::catalog_of(cache)
                        .is_some_and(|catalog| [$($catalog.oid,)*].contains(&catalog)),
                    _ => false,
                }
            }

            /// Removes the entries that are out of date.
            pub(super) fn forget(&mut self, message: &Invalidation) {
                $(self.$field.forget(message);)*
            }
        }
    };
}

lookups! {
    /// A type by its OID.
    type_by_oid TypeByOid [(pub Oid);] -> Option<Arc<TypeRow>>, of PG_TYPE,
        Some(syscache::TYPE_BY_OID), |key, _encoding| hash_oid(key.0),
        |key, reader| type_row(reader, &PG_TYPE_OID_INDEX, &[Datum::Oid(key.0)]);
    /// A type by its name in a namespace.
    type_named TypeNamed [{ pub namespace: Oid, pub name: Box<str> }] -> Option<Arc<TypeRow>>,
        of PG_TYPE, Some(syscache::TYPE_BY_NAME),
        |key, encoding| hash_key(&[
            hash_name(encoding.sent(&key.name)), hash_oid(key.namespace),
        ]),
        |key, reader| {
            let columns = [Datum::text(&key.name), Datum::Oid(key.namespace)];
            type_row(reader, &PG_TYPE_TYPNAME_NSP_INDEX, &columns)
        };
    /// A function by its OID.
    proc_by_oid ProcByOid [(pub Oid);] -> Option<Arc<ProcRow>>, of PG_PROC,
        Some(syscache::PROC_BY_OID), |key, _encoding| hash_oid(key.0),
        |key, reader| {
            let key = [Datum::Oid(key.0)];
            Ok(all(reader, &PG_PROC_OID_INDEX, &key, ProcRow::COLUMNS, ProcRow::read)?
                .pop().map(Arc::new))
        };
    /// All functions of a name, in all namespaces.
    procs_named ProcsNamed [(pub Box<str>);] -> Arc<[Arc<ProcRow>]>, of PG_PROC, None,
        |key, encoding| hash_name(encoding.sent(&key.0)),
        |key, reader| {
            let (index, key) = (&PG_PROC_PRONAME_ARGS_NSP_INDEX, [Datum::text(&key.0)]);
            Ok(shared(all(reader, index, &key, ProcRow::COLUMNS, ProcRow::read)?))
        };
    /// An operator by its OID.
    operator_by_oid OperatorByOid [(pub Oid);] -> Option<Arc<OperatorRow>>, of PG_OPERATOR,
        Some(syscache::OPERATOR_BY_OID), |key, _encoding| hash_oid(key.0),
        |key, reader| {
            let (index, key) = (&PG_OPERATOR_OID_INDEX, [Datum::Oid(key.0)]);
            Ok(all(reader, index, &key, OperatorRow::COLUMNS, OperatorRow::read)?
                .pop().map(Arc::new))
        };
    /// All operators of a name, in all namespaces.
    operators_named OperatorsNamed [(pub Box<str>);] -> Arc<[Arc<OperatorRow>]>, of PG_OPERATOR,
        None, |key, encoding| hash_name(encoding.sent(&key.0)),
        |key, reader| {
            let (index, key) = (&PG_OPERATOR_OPRNAME_L_R_N_INDEX, [Datum::text(&key.0)]);
            Ok(shared(all(reader, index, &key, OperatorRow::COLUMNS, OperatorRow::read)?))
        };
    /// The cast from a type to another.
    cast_between CastBetween [{ pub source: Oid, pub target: Oid }] -> Option<CastRow>, of PG_CAST,
        Some(syscache::CAST),
        |key, _encoding| hash_key(&[hash_oid(key.source), hash_oid(key.target)]),
        |key, reader| {
            let columns = [Datum::Oid(key.source), Datum::Oid(key.target)];
            let index = &PG_CAST_SOURCE_TARGET_INDEX;
            Ok(all(reader, index, &columns, CastRow::COLUMNS, CastRow::read)?.pop())
        };
    /// The operator classes of an access method.
    operator_classes OperatorClasses [(pub Oid);] -> Arc<[OpclassRow]>, of PG_OPCLASS, None,
        |key, _encoding| hash_oid(key.0),
        |key, reader| {
            let (index, key) = (&PG_OPCLASS_AM_NAME_NSP_INDEX, [Datum::Oid(key.0)]);
            Ok(all(reader, index, &key, OpclassRow::COLUMNS, OpclassRow::read)?.into())
        };
    /// The operator of an operator family for two types and a strategy.
    family_member FamilyMember [{
        pub family: Oid,
        pub left: Oid,
        pub right: Oid,
        pub strategy: i16,
    }] -> Option<AmopRow>, of PG_AMOP, Some(syscache::AMOP_BY_STRATEGY),
        |key, _encoding| hash_key(&[
            hash_oid(key.family), hash_oid(key.left), hash_oid(key.right), hash_int2(key.strategy),
        ]),
        |key, reader| {
            let columns = [key.family, key.left, key.right].map(Datum::Oid);
            let columns = columns.into_iter().chain([Datum::Int2(key.strategy)]);
            let columns: Vec<Datum<'_>> = columns.collect();
            let index = &PG_AMOP_FAM_STRAT_INDEX;
            Ok(all(reader, index, &columns, AmopRow::COLUMNS, AmopRow::read)?.pop())
        };
    /// The operator families that an operator belongs to.
    family_members FamilyMembers [(pub Oid);] -> Arc<[AmopRow]>, of PG_AMOP, None,
        |key, _encoding| hash_oid(key.0),
        |key, reader| {
            let (index, key) = (&PG_AMOP_OPR_FAM_INDEX, [Datum::Oid(key.0)]);
            Ok(all(reader, index, &key, AmopRow::COLUMNS, AmopRow::read)?.into())
        };
    /// A collation by its OID.
    collation_by_oid CollationByOid [(pub Oid);] -> Option<Arc<CollationRow>>, of PG_COLLATION,
        Some(syscache::COLLATION_BY_OID), |key, _encoding| hash_oid(key.0),
        |key, reader| {
            let (index, key) = (&PG_COLLATION_OID_INDEX, [Datum::Oid(key.0)]);
            Ok(all(reader, index, &key, CollationRow::COLUMNS, CollationRow::read)?
                .pop().map(Arc::new))
        };
    /// All collations of a name, in all namespaces and for all encodings.
    collations_named CollationsNamed [(pub Box<str>);] -> Arc<[Arc<CollationRow>]>, of PG_COLLATION,
        None, |key, encoding| hash_name(encoding.sent(&key.0)),
        |key, reader| {
            let (index, key) = (&PG_COLLATION_NAME_ENC_NSP_INDEX, [Datum::text(&key.0)]);
            Ok(shared(all(reader, index, &key, CollationRow::COLUMNS, CollationRow::read)?))
        };
    /// A namespace by its OID.
    namespace_by_oid NamespaceByOid [(pub Oid);] -> Option<Arc<NamespaceRow>>, of PG_NAMESPACE,
        Some(syscache::NAMESPACE_BY_OID), |key, _encoding| hash_oid(key.0),
        |key, reader| namespace(reader, &PG_NAMESPACE_OID_INDEX, &[Datum::Oid(key.0)]);
    /// A namespace by its name.
    namespace_named NamespaceNamed [(pub Box<str>);] -> Option<Arc<NamespaceRow>>, of PG_NAMESPACE,
        Some(syscache::NAMESPACE_BY_NAME), |key, encoding| hash_name(encoding.sent(&key.0)),
        |key, reader| namespace(reader, &PG_NAMESPACE_NSPNAME_INDEX, &[Datum::text(&key.0)]);
}

/// The rows with these values in the first columns of an index.
fn all<T>(
    reader: &mut dyn RowSource,
    index: &'static CatalogIndex,
    key: &[Datum<'_>],
    columns: usize,
    read: fn(&[Datum<'_>]) -> Result<T, CatalogError>,
) -> Result<Vec<T>, CatalogError> {
    let mut found = Vec::new();
    reader.rows_of(index, key, columns, &mut |row| {
        found.push(read(row)?);
        Ok(())
    })?;
    Ok(found)
}

fn shared<T>(rows: Vec<T>) -> Arc<[Arc<T>]> {
    rows.into_iter().map(Arc::new).collect()
}

fn type_row(
    reader: &mut dyn RowSource,
    index: &'static CatalogIndex,
    key: &[Datum<'_>],
) -> Result<Option<Arc<TypeRow>>, CatalogError> {
    Ok(all(reader, index, key, TypeRow::COLUMNS, TypeRow::read)?.pop().map(Arc::new))
}

fn namespace(
    reader: &mut dyn RowSource,
    index: &'static CatalogIndex,
    key: &[Datum<'_>],
) -> Result<Option<Arc<NamespaceRow>>, CatalogError> {
    Ok(all(reader, index, key, NamespaceRow::COLUMNS, NamespaceRow::read)?.pop().map(Arc::new))
}
