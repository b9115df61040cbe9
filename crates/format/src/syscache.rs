//! Catalog caches as invalidation messages name them: their numbers, and the hash values of their
//! keys.
//!
//! A key of several columns has one hash value: those of its columns, each rotated by 8 bits more
//! than the one before, combined by exclusive or. An OID is hashed by MurmurHash3's final mix, a
//! name by Bob Jenkins' lookup3.

use crate::ids::Oid;

/// The cache of pg_attribute by attrelid and attname.
pub const ATTRIBUTE_BY_NAME: i8 = 6;
/// The cache of pg_attribute by attrelid and attnum.
pub const ATTRIBUTE_BY_NUMBER: i8 = 7;
/// The cache of pg_class by relname and relnamespace.
pub const CLASS_BY_NAME: i8 = 56;
/// The cache of pg_class by oid.
pub const CLASS_BY_OID: i8 = 57;
/// The cache of pg_database by oid.
pub const DATABASE_BY_OID: i8 = 21;
/// The cache of pg_auth_members by member, roleid and grantor.
pub const ROLE_BY_MEMBER: i8 = 8;
/// The cache of pg_auth_members by roleid, member and grantor.
pub const MEMBER_BY_ROLE: i8 = 9;
/// The cache of pg_authid by rolname.
pub const ROLE_BY_NAME: i8 = 10;
/// The cache of pg_authid by oid.
pub const ROLE_BY_OID: i8 = 11;
/// The cache of pg_tablespace by oid.
pub const TABLESPACE_BY_OID: i8 = 69;
/// The cache of pg_namespace by nspname.
pub const NAMESPACE_BY_NAME: i8 = 37;
/// The cache of pg_namespace by oid.
pub const NAMESPACE_BY_OID: i8 = 38;

/// The cache of pg_constraint by oid.
pub const CONSTRAINT_BY_OID: i8 = 19;
/// The cache of pg_index by indexrelid.
pub const INDEX_BY_OID: i8 = 34;
/// The cache of pg_sequence by seqrelid.
pub const SEQUENCE_BY_OID: i8 = 61;
/// The cache of pg_statistic by starelid, staattnum and stainherit.
pub const STATISTIC: i8 = 65;
/// The cache of pg_type by typname and typnamespace.
pub const TYPE_BY_NAME: i8 = 81;
/// The cache of pg_type by oid.
pub const TYPE_BY_OID: i8 = 82;

/// The cache of pg_amop by amopopr, amoppurpose and amopfamily.
pub const AMOP_BY_OPERATOR: i8 = 3;
/// The cache of pg_amop by amopfamily, amoplefttype, amoprighttype and amopstrategy.
pub const AMOP_BY_STRATEGY: i8 = 4;
/// The cache of pg_cast by castsource and casttarget.
pub const CAST: i8 = 12;
/// The cache of pg_opclass by opcmethod, opcname and opcnamespace.
pub const OPCLASS_BY_NAME: i8 = 13;
/// The cache of pg_opclass by oid.
pub const OPCLASS_BY_OID: i8 = 14;
/// The cache of pg_collation by collname, collencoding and collnamespace.
pub const COLLATION_BY_NAME: i8 = 15;
/// The cache of pg_collation by oid.
pub const COLLATION_BY_OID: i8 = 16;
/// The cache of pg_operator by oprname, oprleft, oprright and oprnamespace.
pub const OPERATOR_BY_NAME: i8 = 39;
/// The cache of pg_operator by oid.
pub const OPERATOR_BY_OID: i8 = 40;
/// The cache of pg_proc by proname, proargtypes and pronamespace.
pub const PROC_BY_NAME: i8 = 46;
/// The cache of pg_proc by oid.
pub const PROC_BY_OID: i8 = 47;

/// The catalog whose rows a cache holds: those that statements are analyzed by.
pub const fn catalog_of(cache: i8) -> Option<Oid> {
    Some(match cache {
        AMOP_BY_OPERATOR | AMOP_BY_STRATEGY => 2602,
        CAST => 2605,
        OPCLASS_BY_NAME | OPCLASS_BY_OID => 2616,
        COLLATION_BY_NAME | COLLATION_BY_OID => 3456,
        NAMESPACE_BY_NAME | NAMESPACE_BY_OID => 2615,
        OPERATOR_BY_NAME | OPERATOR_BY_OID => 2617,
        PROC_BY_NAME | PROC_BY_OID => 1255,
        TYPE_BY_NAME | TYPE_BY_OID => 1247,
        _ => return None,
    })
}

/// The hash value of a key, from those of its columns.
pub fn hash_key(columns: &[u32]) -> u32 {
    (0..).zip(columns).fold(0, |all, (n, hash)| all ^ hash.rotate_left(8 * n))
}

/// The hash value of an OID.
pub const fn hash_oid(oid: Oid) -> u32 {
    let mut h = oid;
    h = (h ^ (h >> 16)).wrapping_mul(0x85eb_ca6b);
    h = (h ^ (h >> 13)).wrapping_mul(0xc2b2_ae35);
    h ^ (h >> 16)
}

/// The hash value of a number of two bytes.
pub const fn hash_int2(number: i16) -> u32 {
    hash_oid(number as i32 as u32)
}

/// The hash value of a name, by its bytes.
pub fn hash_name(name: impl AsRef<[u8]>) -> u32 {
    let name = name.as_ref();
    let seed = 0x9e37_79b9_u32.wrapping_add(name.len() as u32).wrapping_add(3_923_095);
    let mut state = [seed; 3];
    let (whole, rest) = name.as_chunks::<12>();
    for chunk in whole {
        add(&mut state, chunk);
        mix(&mut state);
    }
    // The length takes the place of the lowest byte of the third word.
    let mut last = [0; 12];
    for (n, byte) in rest.iter().enumerate() {
        let at = if n < 8 { n } else { n + 1 };
        last[at] = *byte;
    }
    add(&mut state, &last);
    last_mix(state)
}

fn add(state: &mut [u32; 3], bytes: &[u8; 12]) {
    for (word, bytes) in state.iter_mut().zip(bytes.as_chunks::<4>().0) {
        *word = word.wrapping_add(u32::from_le_bytes(*bytes));
    }
}

fn mix(state: &mut [u32; 3]) {
    let [mut a, mut b, mut c] = *state;
    for turns in [[4, 6, 8], [16, 19, 4]] {
        a = a.wrapping_sub(c) ^ c.rotate_left(turns[0]);
        c = c.wrapping_add(b);
        b = b.wrapping_sub(a) ^ a.rotate_left(turns[1]);
        a = a.wrapping_add(c);
        c = c.wrapping_sub(b) ^ b.rotate_left(turns[2]);
        b = b.wrapping_add(a);
    }
    *state = [a, b, c];
}

fn last_mix([mut a, mut b, mut c]: [u32; 3]) -> u32 {
    c = (c ^ b).wrapping_sub(b.rotate_left(14));
    a = (a ^ c).wrapping_sub(c.rotate_left(11));
    b = (b ^ a).wrapping_sub(a.rotate_left(25));
    c = (c ^ b).wrapping_sub(b.rotate_left(16));
    a = (a ^ c).wrapping_sub(c.rotate_left(4));
    b = (b ^ a).wrapping_sub(a.rotate_left(14));
    (c ^ b).wrapping_sub(b.rotate_left(24))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of a table's columns, as PostgreSQL logged them when it dropped the table.
    #[test]
    fn keys_of_columns_have_the_hash_values_of_postgresql() {
        let table = hash_oid(16_469);
        for (name, number, by_name, by_number) in [
            ("ctid", -1, 2_927_921_799, 2_155_686_835),
            ("cmax", -5, 1_842_114_087, 240_344_225),
            ("tableoid", -6, 107_418_742, 830_921_456),
        ] {
            assert_eq!(hash_key(&[table, hash_name(name)]), by_name, "{name}");
            assert_eq!(hash_key(&[table, hash_int2(number)]), by_number, "{name}");
        }
    }
}
