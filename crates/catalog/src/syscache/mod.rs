//! Rows of the catalogs that statements are analyzed by: types, functions, operators, casts,
//! operator classes, collations and namespaces.
//!
//! - `rows.rs`: what is known of a row
//! - `lookups.rs`: the keys by which rows are looked up, and how each is read through an index
//! - `cache.rs`: `SysCache` for all sessions, `KnownRows` for one
//!
//! A look-up goes three steps, and mostly ends with the first:
//!
//! ```text
//! session's KnownRows ─▶ SysCache ─▶ Reader: an index scan of the catalog
//!    (no lock)         (all sessions)
//! ```
//!
//! Entries lie under the hash values that PostgreSQL's caches have for the same keys. So the
//! messages of a commit record say which entries it makes out of date, and only these go. What a
//! transaction has changed itself it reads past the caches. Lists of all rows with a name have no
//! hash value of their own: a change of their catalog empties them.

mod cache;
mod lookups;
mod rows;

pub use cache::{KnownRows, SysCache, SysCacheChange};
pub use lookups::{
    CastBetween, CollationByOid, CollationsNamed, FamilyMember, FamilyMembers, Lookup,
    NamespaceByOid, NamespaceNamed, OperatorByOid, OperatorClasses, OperatorsNamed, ProcByOid,
    ProcsNamed, TypeByOid, TypeNamed,
};
pub use rows::{
    AmopRow, CastRow, CollationRow, NamespaceRow, OpclassRow, OperatorRow, ProcRow, TypeRow,
};
