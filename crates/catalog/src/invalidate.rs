//! What a changed catalog row makes out of date: PostgreSQL's messages, for the log. Its standbys
//! and logical decoding obey them.

use forebay_format::Oid;
use forebay_format::syscache::{self as cache, hash_int2, hash_key, hash_name, hash_oid};
use forebay_format::wal::invalidation::Invalidation;

use crate::schema::POSTGRES_DB;

/// A row of pg_class was inserted, changed or deleted.
pub(crate) fn class(oid: Oid, name: &str, namespace: Oid, shared: bool) -> [Invalidation; 3] {
    let by_name = hash_key(&[hash_name(name), hash_oid(namespace)]);
    [
        entry(cache::CLASS_BY_OID, hash_oid(oid)),
        entry(cache::CLASS_BY_NAME, by_name),
        Invalidation::Relation { db: if shared { 0 } else { POSTGRES_DB }, rel: oid },
    ]
}

/// A row of pg_attribute was.
pub(crate) fn attribute(relation: Oid, name: &str, number: i16) -> [Invalidation; 3] {
    let relation_hash = hash_oid(relation);
    [
        entry(cache::ATTRIBUTE_BY_NUMBER, hash_key(&[relation_hash, hash_int2(number)])),
        entry(cache::ATTRIBUTE_BY_NAME, hash_key(&[relation_hash, hash_name(name)])),
        Invalidation::Relation { db: POSTGRES_DB, rel: relation },
    ]
}

/// A row of pg_namespace was.
pub(crate) fn namespace(oid: Oid, name: &str) -> [Invalidation; 2] {
    [
        entry(cache::NAMESPACE_BY_OID, hash_oid(oid)),
        entry(cache::NAMESPACE_BY_NAME, hash_name(name)),
    ]
}

fn entry(cache: i8, hash: u32) -> Invalidation {
    Invalidation::Entry { cache, db: POSTGRES_DB, hash }
}
