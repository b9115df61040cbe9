//! What a changed catalog row makes out of date: PostgreSQL's messages, for the log. Its standbys
//! and logical decoding obey them.

use forebay_format::Oid;
use forebay_format::syscache::{self as cache, hash_int2, hash_key, hash_name, hash_oid};
use forebay_format::wal::invalidation::Invalidation;
use forebay_types::Datum;
use smallvec::SmallVec;

use crate::catalog_oids::{
    ATTRIBUTES, CLASSES, CONSTRAINTS, DEPENDENCIES, DESCRIPTIONS, INDEXES, NAMESPACES, SEQUENCES,
    SHARED_DEPENDENCIES, STATISTICS, TYPES,
};
use crate::row::Row;
use crate::schema::POSTGRES_DB;

type Messages = SmallVec<[Invalidation; 3]>;

/// A row of a catalog, of which at least the first columns are given, was inserted, changed or
/// deleted.
pub(crate) fn row(
    catalog: Oid,
    values: &[Datum<'_>],
) -> impl Iterator<Item = Invalidation> + use<> {
    let all = Invalidation::Catalog { db: POSTGRES_DB, catalog };
    // Of a row that lacks a key, too much is out of date rather than too little.
    of_row(catalog, &Row(values, "a catalog"))
        .unwrap_or_else(|| [all].into_iter().collect())
        .into_iter()
}

fn of_row(catalog: Oid, row: &Row<'_, '_>) -> Option<Messages> {
    let (oid, name) = (|n| row.oid(n).ok(), |n| row.name(n).ok());
    let first = oid(0);
    Some(match catalog {
        CLASSES => class(first?, name(1)?, oid(2)?, row.bool(15).ok()?).into_iter().collect(),
        ATTRIBUTES => attribute(first?, name(1)?, row.int2(4).ok()?).into_iter().collect(),
        NAMESPACES => namespace(first?, name(1)?).into_iter().collect(),
        TYPES => {
            let by_name = hash_key(&[hash_name(name(1)?), hash_oid(oid(2)?)]);
            let by_oid = entry(cache::TYPE_BY_OID, hash_oid(first?));
            [by_oid, entry(cache::TYPE_BY_NAME, by_name)].into_iter().collect()
        }
        INDEXES => {
            let index = entry(cache::INDEX_BY_OID, hash_oid(first?));
            [index, relation(first?, false)].into_iter().collect()
        }
        CONSTRAINTS => [entry(cache::CONSTRAINT_BY_OID, hash_oid(first?))].into_iter().collect(),
        SEQUENCES => [entry(cache::SEQUENCE_BY_OID, hash_oid(first?))].into_iter().collect(),
        STATISTICS => {
            let inherits = i16::from(row.bool(2).ok()?);
            let key = [hash_oid(first?), hash_int2(row.int2(1).ok()?), hash_int2(inherits)];
            [entry(cache::STATISTIC, hash_key(&key))].into_iter().collect()
        }
        DEPENDENCIES | DESCRIPTIONS => {
            [Invalidation::Snapshot { db: POSTGRES_DB, rel: catalog }].into_iter().collect()
        }
        SHARED_DEPENDENCIES => {
            [Invalidation::Snapshot { db: 0, rel: catalog }].into_iter().collect()
        }
        _ => return None,
    })
}

/// What is known of a relation.
pub(crate) fn relation(oid: Oid, shared: bool) -> Invalidation {
    Invalidation::Relation { db: if shared { 0 } else { POSTGRES_DB }, rel: oid }
}

/// A row of pg_class was inserted, changed or deleted.
pub(crate) fn class(oid: Oid, name: &str, namespace: Oid, shared: bool) -> [Invalidation; 3] {
    let by_name = hash_key(&[hash_name(name), hash_oid(namespace)]);
    [
        entry(cache::CLASS_BY_OID, hash_oid(oid)),
        entry(cache::CLASS_BY_NAME, by_name),
        relation(oid, shared),
    ]
}

/// A row of pg_attribute was.
fn attribute(relation_oid: Oid, name: &str, number: i16) -> [Invalidation; 3] {
    let relation_hash = hash_oid(relation_oid);
    [
        entry(cache::ATTRIBUTE_BY_NUMBER, hash_key(&[relation_hash, hash_int2(number)])),
        entry(cache::ATTRIBUTE_BY_NAME, hash_key(&[relation_hash, hash_name(name)])),
        relation(relation_oid, false),
    ]
}

/// A row of pg_namespace was.
fn namespace(oid: Oid, name: &str) -> [Invalidation; 2] {
    [
        entry(cache::NAMESPACE_BY_OID, hash_oid(oid)),
        entry(cache::NAMESPACE_BY_NAME, hash_name(name)),
    ]
}

fn entry(cache: i8, hash: u32) -> Invalidation {
    Invalidation::Entry { cache, db: POSTGRES_DB, hash }
}
