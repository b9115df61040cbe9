//! Which collation texts are compared by, and letters change their case by.

use super::super::catalog::Catalog;
use super::super::order::ValueOrder;
use super::Lowering;
use crate::error::{Result, SqlError};
use forebay_collation::Collation;
use forebay_types::{Oid, SqlType, oids};
use std::sync::Arc;

/// The database's collation, by which texts in jsonb are ordered.
const DEFAULT: Oid = 100;
/// The collations "C" and "POSIX", which order by bytes.
const C: Oid = 950;
const POSIX: Oid = 951;

/// Functions that need a collation, as errors call them.
const NAMED: [(Oid, &str); 3] =
    [(870, "lower() function"), (871, "upper() function"), (872, "initcap() function")];

/// The error of what cannot choose between collations.
fn indeterminate(what: &str) -> SqlError {
    let message = format!("could not determine which collation to use for {what}");
    SqlError::new("42P22", message).hint("Use the COLLATE clause to set the collation explicitly.")
}

/// The collation of a comparison whose operands have this type. None: they have none, or are
/// ordered by their bytes.
pub(super) fn order_of(
    catalog: &mut dyn Catalog,
    ty: Oid,
    collation: Oid,
) -> Result<Option<Arc<Collation>>> {
    let collation = match ty {
        oids::JSONB => DEFAULT,
        oids::TEXT | oids::VARCHAR | oids::BPCHAR | oids::NAME if collation == 0 => {
            return Err(indeterminate("string comparison"));
        }
        _ => collation,
    };
    if matches!(collation, 0 | C | POSIX) {
        return Ok(None);
    }
    Ok(Some(catalog.collation(collation)?).filter(|collation| !collation.is_c()))
}

impl Lowering<'_> {
    /// The collation of a comparison.
    pub(super) fn order_of(&mut self, ty: Oid, collation: Oid) -> Result<Option<Arc<Collation>>> {
        order_of(self.catalog, ty, collation)
    }

    /// The order of values of a type.
    pub(super) fn value_order(&mut self, ty: Oid, collation: Oid) -> Result<ValueOrder> {
        value_order(self.catalog, ty, collation)
    }

    /// The collation by which ILIKE makes lower case.
    pub(super) fn folding(&mut self, collation: Oid) -> Result<Arc<Collation>> {
        match collation {
            0 => Err(indeterminate("ILIKE")),
            collation => self.catalog.collation(collation),
        }
    }

    /// The collation of LIKE, which has to be one in which texts are equal by their bytes.
    pub(super) fn check_like(&mut self, collation: Oid) -> Result<()> {
        if collation == 0 { Err(indeterminate("LIKE")) } else { self.check_collation(collation) }
    }

    /// Refuses a collation that cannot be used here.
    fn check_collation(&mut self, collation: Oid) -> Result<()> {
        match collation {
            0 | DEFAULT => Ok(()),
            collation => self.catalog.collation(collation).map(drop),
        }
    }

    /// The collation of a function that goes by one.
    pub(super) fn collation_of_call(
        &mut self,
        function: Oid,
        collation: Oid,
    ) -> Result<Option<Arc<Collation>>> {
        let Some((_, what)) = NAMED.iter().find(|(oid, _)| *oid == function) else {
            return self.check_collation(collation).map(|()| None);
        };
        match collation {
            0 => Err(indeterminate(what)),
            collation => self.catalog.collation(collation).map(Some),
        }
    }
}

/// The order of values of a type, with texts by a collation.
pub fn value_order(catalog: &mut dyn Catalog, ty: Oid, collation: Oid) -> Result<ValueOrder> {
    let by = order_of(catalog, ty, collation)?;
    Ok(ValueOrder::new(SqlType::of(ty), by))
}
