//! System columns of a table's rows.

use forebay_types::SqlType;

/// A system column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the columns")]
pub enum SystemColumn {
    Ctid,
    Xmin,
    Cmin,
    Xmax,
    Cmax,
    TableOid,
}

use SystemColumn as S;

impl SystemColumn {
    /// All of them. In a row they stand in this order behind the table's columns.
    pub const ALL: [SystemColumn; 6] = [S::Ctid, S::Xmin, S::Cmin, S::Xmax, S::Cmax, S::TableOid];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            S::Ctid => "ctid",
            S::Xmin => "xmin",
            S::Cmin => "cmin",
            S::Xmax => "xmax",
            S::Cmax => "cmax",
            S::TableOid => "tableoid",
        }
    }

    /// Its type.
    pub fn sql_type(self) -> SqlType {
        match self {
            S::Ctid => SqlType::Tid,
            S::Xmin | S::Xmax => SqlType::Xid,
            S::Cmin | S::Cmax => SqlType::Cid,
            S::TableOid => SqlType::Oid,
        }
    }

    /// Its attribute number.
    pub fn attnum(self) -> i16 {
        match self {
            S::Ctid => -1,
            S::Xmin => -2,
            S::Cmin => -3,
            S::Xmax => -4,
            S::Cmax => -5,
            S::TableOid => -6,
        }
    }

    /// The column of that name.
    pub fn named(name: &str) -> Option<SystemColumn> {
        SystemColumn::ALL.into_iter().find(|column| column.name() == name)
    }
}
