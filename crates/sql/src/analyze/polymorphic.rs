//! Types that stand for others: anyelement, anyarray and their like.

use forebay_types::Oid;

/// anyelement
pub(super) const ANYELEMENT: Oid = 2283;
/// anyarray
pub(super) const ANYARRAY: Oid = 2277;
/// anynonarray
pub(super) const ANYNONARRAY: Oid = 2776;
/// anyenum
pub(super) const ANYENUM: Oid = 3500;
/// anyrange
pub(super) const ANYRANGE: Oid = 3831;
/// anymultirange
pub(super) const ANYMULTIRANGE: Oid = 4537;
/// anycompatible
pub(super) const ANYCOMPATIBLE: Oid = 5077;
/// anycompatiblearray
pub(super) const ANYCOMPATIBLEARRAY: Oid = 5078;
/// anycompatiblenonarray
pub(super) const ANYCOMPATIBLENONARRAY: Oid = 5079;

/// Whether a declared type stands for others.
pub(super) fn is_polymorphic(ty: Oid) -> bool {
    matches!(ty, ANYELEMENT | ANYARRAY | ANYNONARRAY | ANYENUM | ANYRANGE | ANYMULTIRANGE)
        || matches!(ty, 5077..=5080 | 4538)
}
