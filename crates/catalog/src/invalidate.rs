//! What a changed catalog row makes out of date: PostgreSQL's messages, for the log. Its standbys
//! and logical decoding obey them.

use forebay_format::Oid;
use forebay_format::syscache::{self as cache, hash_int2, hash_key, hash_name, hash_oid};
use forebay_format::wal::invalidation::Invalidation;
use forebay_types::{Datum, Encoding};
use smallvec::SmallVec;

use crate::catalog_oids::{
    ATTRIBUTES, CLASSES, COLLATIONS, CONSTRAINTS, DATABASES, DEFAULTS, DEPENDENCIES, DESCRIPTIONS,
    INDEXES, MEMBERSHIPS, NAMESPACES, ROLES, SEQUENCES, SETTINGS, SHARED_DEPENDENCIES,
    SHARED_DESCRIPTIONS, STATISTICS, TABLESPACES, TRIGGERS, TYPES,
};
use crate::row::Row;
use crate::schema::PG_CONSTRAINT;

type Messages = SmallVec<[Invalidation; 3]>;

/// Index of the table in pg_constraint.
const CONSTRAINED: usize = PG_CONSTRAINT.place("conrelid");
/// Index of the table that a foreign key refers to in pg_constraint.
const REFERRED_TO: usize = PG_CONSTRAINT.place("confrelid");

/// A row of a catalog of a database with an encoding, of which at least the first columns are
/// given, was inserted, changed or deleted.
pub(crate) fn row(
    (db, encoding): (Oid, Encoding),
    catalog: Oid,
    values: &[Datum<'_>],
) -> impl Iterator<Item = Invalidation> + use<> {
    let all = Invalidation::Catalog { db, catalog };
    // Of a row that lacks a key, too much is out of date rather than too little.
    of_row((db, encoding), catalog, &Row(values, "a catalog"))
        .unwrap_or_else(|| [all].into_iter().collect())
        .into_iter()
}

fn of_row((db, encoding): (Oid, Encoding), catalog: Oid, row: &Row<'_, '_>) -> Option<Messages> {
    let (oid, name) = (|n| row.oid(n).ok(), |n| row.name(n).ok());
    let named = |n| Some(hash_name(encoding.sent(name(n)?)));
    let first = oid(0);
    Some(match catalog {
        CLASSES => {
            let of = if row.bool(15).ok()? { 0 } else { db };
            class((db, encoding), of, first?, (name(1)?, oid(2)?)).into_iter().collect()
        }
        ATTRIBUTES => attribute(db, first?, named(1)?, row.int2(4).ok()?).into_iter().collect(),
        NAMESPACES => namespace(db, first?, named(1)?).into_iter().collect(),
        TYPES => {
            let by_name = hash_key(&[named(1)?, hash_oid(oid(2)?)]);
            let by_oid = entry(db, cache::TYPE_BY_OID, hash_oid(first?));
            [by_oid, entry(db, cache::TYPE_BY_NAME, by_name)].into_iter().collect()
        }
        COLLATIONS => {
            let of_encoding = hash_oid(row.int4(6).ok()?.cast_unsigned());
            let by_name = hash_key(&[named(1)?, of_encoding, hash_oid(oid(2)?)]);
            let by_oid = entry(db, cache::COLLATION_BY_OID, hash_oid(first?));
            [by_oid, entry(db, cache::COLLATION_BY_NAME, by_name)].into_iter().collect()
        }
        // From here on with what is known of the relations that a row is about.
        INDEXES => {
            let index = entry(db, cache::INDEX_BY_OID, hash_oid(first?));
            [index, relation(db, first?), relation(db, oid(1)?)].into_iter().collect()
        }
        CONSTRAINTS => {
            let constraint = entry(db, cache::CONSTRAINT_BY_OID, hash_oid(first?));
            let tables = [oid(CONSTRAINED)?, oid(REFERRED_TO)?].into_iter().filter(|&oid| oid != 0);
            [constraint].into_iter().chain(tables.map(|table| relation(db, table))).collect()
        }
        TRIGGERS | DEFAULTS => [relation(db, oid(1)?)].into_iter().collect(),
        SEQUENCES => {
            let sequence = entry(db, cache::SEQUENCE_BY_OID, hash_oid(first?));
            [sequence, relation(db, first?)].into_iter().collect()
        }
        STATISTICS => {
            let inherits = i16::from(row.bool(2).ok()?);
            let key = [hash_oid(first?), hash_int2(row.int2(1).ok()?), hash_int2(inherits)];
            let statistic = entry(db, cache::STATISTIC, hash_key(&key));
            [statistic, relation(db, first?)].into_iter().collect()
        }
        DEPENDENCIES | DESCRIPTIONS => {
            [Invalidation::Snapshot { db, rel: catalog }].into_iter().collect()
        }
        DATABASES => [entry(0, cache::DATABASE_BY_OID, hash_oid(first?))].into_iter().collect(),
        ROLES => {
            let by_name = entry(0, cache::ROLE_BY_NAME, named(1)?);
            [entry(0, cache::ROLE_BY_OID, hash_oid(first?)), by_name].into_iter().collect()
        }
        MEMBERSHIPS => {
            let (role, member) = (hash_oid(oid(1)?), hash_oid(oid(2)?));
            let grantor = hash_oid(oid(3)?);
            let by_member = hash_key(&[member, role, grantor]);
            [
                entry(0, cache::MEMBER_BY_ROLE, hash_key(&[role, member, grantor])),
                entry(0, cache::ROLE_BY_MEMBER, by_member),
            ]
            .into_iter()
            .collect()
        }
        TABLESPACES => [entry(0, cache::TABLESPACE_BY_OID, hash_oid(first?))].into_iter().collect(),
        SETTINGS | SHARED_DESCRIPTIONS | SHARED_DEPENDENCIES => {
            [Invalidation::Snapshot { db: 0, rel: catalog }].into_iter().collect()
        }
        _ => return None,
    })
}

/// What is known of a relation of a database; 0 if all databases share it.
pub(crate) fn relation(db: Oid, oid: Oid) -> Invalidation {
    Invalidation::Relation { db, rel: oid }
}

/// A row of pg_class of a database was inserted, changed or deleted. It is that of a relation of
/// the database `of`; 0 if all databases share it.
pub(crate) fn class(
    (db, encoding): (Oid, Encoding),
    of: Oid,
    oid: Oid,
    (name, namespace): (&str, Oid),
) -> [Invalidation; 3] {
    let by_name = hash_key(&[hash_name(encoding.sent(name)), hash_oid(namespace)]);
    [
        entry(db, cache::CLASS_BY_OID, hash_oid(oid)),
        entry(db, cache::CLASS_BY_NAME, by_name),
        relation(of, oid),
    ]
}

/// A row of pg_attribute was. Its name is given as a hash value.
fn attribute(db: Oid, relation_oid: Oid, name: u32, number: i16) -> [Invalidation; 3] {
    let relation_hash = hash_oid(relation_oid);
    [
        entry(db, cache::ATTRIBUTE_BY_NUMBER, hash_key(&[relation_hash, hash_int2(number)])),
        entry(db, cache::ATTRIBUTE_BY_NAME, hash_key(&[relation_hash, name])),
        relation(db, relation_oid),
    ]
}

/// A row of pg_namespace was. Its name is given as a hash value.
pub(crate) fn namespace(db: Oid, oid: Oid, name: u32) -> [Invalidation; 2] {
    [entry(db, cache::NAMESPACE_BY_OID, hash_oid(oid)), entry(db, cache::NAMESPACE_BY_NAME, name)]
}

fn entry(db: Oid, cache: i8, hash: u32) -> Invalidation {
    Invalidation::Entry { cache, db, hash }
}
