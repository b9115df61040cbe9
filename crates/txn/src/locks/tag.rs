//! What can be locked, and who locks it.

use std::fmt;

use forebay_format::{BlockNumber, OffsetNumber, Oid, Xid};

/// A backend as the lock table knows it. Deadlock reports show the number as the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OwnerId(pub u32);

/// What is locked. `database` is 0 for objects that all databases share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LockTag {
    /// A relation.
    Relation {
        /// pg_database.oid
        database: Oid,
        /// pg_class.oid
        relation: Oid,
    },
    /// A page of a relation.
    Page {
        /// pg_database.oid
        database: Oid,
        /// pg_class.oid
        relation: Oid,
        /// The page's block.
        block: BlockNumber,
    },
    /// A tuple of a relation.
    Tuple {
        /// pg_database.oid
        database: Oid,
        /// pg_class.oid
        relation: Oid,
        /// The tuple's block.
        block: BlockNumber,
        /// The tuple's line pointer.
        offset: OffsetNumber,
    },
    /// A transaction, which holds its own lock exclusively until it ends.
    Transaction(Xid),
    /// A tentative insertion of a transaction, which holds the lock exclusively until it has
    /// confirmed the row or taken it back.
    Insertion {
        /// The transaction.
        xid: Xid,
        /// The insertion's number in its backend.
        token: u32,
    },
    /// A transaction that may have no id: its backend's own lock until it ends.
    VirtualTransaction {
        /// The backend.
        backend: u32,
        /// The transaction's number in that backend.
        local: u32,
    },
    /// Any other object of a database.
    Object {
        /// pg_database.oid
        database: Oid,
        /// OID of the catalog that describes objects of this class.
        class: Oid,
        /// The object within its class.
        object: u32,
    },
    /// An advisory lock of an application.
    Advisory {
        /// pg_database.oid
        database: Oid,
        /// The application's key: one number, or the first of two in the high half.
        key: u64,
        /// Whether the key is two numbers.
        two: bool,
    },
}

impl LockTag {
    /// Whether weak locks on it may be noted outside of the table: they are frequent only on
    /// relations.
    pub(super) const fn has_fast_path(self) -> bool {
        matches!(self, LockTag::Relation { .. })
    }

    /// Its kind, as in `pg_locks.locktype`.
    pub const fn kind(self) -> &'static str {
        match self {
            LockTag::Relation { .. } => "relation",
            LockTag::Page { .. } => "page",
            LockTag::Tuple { .. } => "tuple",
            LockTag::Transaction(_) => "transactionid",
            LockTag::Insertion { .. } => "spectoken",
            LockTag::VirtualTransaction { .. } => "virtualxid",
            LockTag::Object { .. } => "object",
            LockTag::Advisory { .. } => "advisory",
        }
    }

    /// A number that spreads tags evenly. Neighbouring OIDs get different numbers.
    pub(super) fn spread(self) -> usize {
        let number = match self {
            LockTag::Relation { relation, .. } => relation,
            LockTag::Page { relation, block, .. } => relation.wrapping_add(block),
            LockTag::Tuple { relation, block, offset, .. } => {
                relation.wrapping_add(block).wrapping_add(u32::from(offset))
            }
            LockTag::Transaction(xid) => xid,
            LockTag::Insertion { xid, token } => xid.wrapping_add(token),
            LockTag::VirtualTransaction { backend, local } => backend.wrapping_add(local),
            LockTag::Object { object, .. } => object,
            LockTag::Advisory { key, .. } => (key ^ (key >> 32)) as u32,
        };
        number as usize
    }
}

/// PostgreSQL's words in a deadlock report.
impl fmt::Display for LockTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            LockTag::Relation { database, relation } => {
                write!(f, "relation {relation} of database {database}")
            }
            LockTag::Page { database, relation, block } => {
                write!(f, "page {block} of relation {relation} of database {database}")
            }
            LockTag::Tuple { database, relation, block, offset } => {
                write!(f, "tuple ({block},{offset}) of relation {relation} of database {database}")
            }
            LockTag::Transaction(xid) => write!(f, "transaction {xid}"),
            LockTag::Insertion { xid, token } => {
                write!(f, "speculative token {token} of transaction {xid}")
            }
            LockTag::VirtualTransaction { backend, local } => {
                write!(f, "virtual transaction {backend}/{local}")
            }
            LockTag::Object { database, class, object } => {
                write!(f, "object {object} of class {class} of database {database}")
            }
            LockTag::Advisory { database, key, two } => {
                let (high, low, class) = (key >> 32, key & 0xffff_ffff, u8::from(two) + 1);
                write!(f, "advisory lock [{database},{high},{low},{class}]")
            }
        }
    }
}
