//! What analysis asks of the catalogs.

use crate::error::{Result, SqlError, state};
use forebay_engine::syscache::{
    AmopRow, CastRow, CollationRow, OpclassRow, OperatorRow, ProcRow, TypeRow,
};
use forebay_types::{Datum, Encoding, Oid};
use smallvec::SmallVec;
use std::sync::Arc;

/// OIDs of namespaces in which names without a schema are looked up, in this order.
pub type SearchPath = SmallVec<[Oid; 4]>;

/// The catalogs as analysis sees them.
pub trait Names {
    /// A step of planning; every 256th tests for a cancel.
    fn step(&self) -> Result<()>;

    /// The encoding of the database.
    fn encoding(&self) -> Encoding;

    /// The namespaces of names without a schema.
    fn search_path(&mut self) -> Result<SearchPath>;

    /// A namespace by its name.
    fn namespace(&mut self, name: &str) -> Result<Option<Oid>>;

    /// A namespace's name.
    fn namespace_name(&mut self, oid: Oid) -> Result<Option<String>>;

    /// A type by its OID.
    fn type_by_oid(&mut self, oid: Oid) -> Result<Option<Arc<TypeRow>>>;

    /// A type by its name in a namespace.
    fn type_named(&mut self, namespace: Oid, name: &str) -> Result<Option<Arc<TypeRow>>>;

    /// A function by its OID.
    fn proc_by_oid(&mut self, oid: Oid) -> Result<Option<Arc<ProcRow>>>;

    /// The functions of a name, in all namespaces.
    fn procs_named(&mut self, name: &str) -> Result<Arc<[Arc<ProcRow>]>>;

    /// An operator by its OID.
    fn operator_by_oid(&mut self, oid: Oid) -> Result<Option<Arc<OperatorRow>>>;

    /// The operators of a name, in all namespaces.
    fn operators_named(&mut self, name: &str) -> Result<Arc<[Arc<OperatorRow>]>>;

    /// The cast from one type to another.
    fn cast(&mut self, source: Oid, target: Oid) -> Result<Option<CastRow>>;

    /// The operator classes of an access method.
    fn operator_classes(&mut self, method: Oid) -> Result<Arc<[OpclassRow]>>;

    /// The places of an operator in operator families.
    fn family_members(&mut self, operator: Oid) -> Result<Arc<[AmopRow]>>;

    /// A collation by its OID.
    fn collation_by_oid(&mut self, oid: Oid) -> Result<Option<Arc<CollationRow>>>;

    /// The collations of a name, in all namespaces.
    fn collations_named(&mut self, name: &str) -> Result<Arc<[Arc<CollationRow>]>>;

    /// The value that a literal has as one of a type, by the type's input function.
    fn input(&mut self, text: &str, ty: &TypeRow, typmod: i32) -> Result<Datum<'static>>;
}

impl dyn Names + '_ {
    /// A type that is known to be there.
    pub fn ty(&mut self, oid: Oid) -> Result<Arc<TypeRow>> {
        self.type_by_oid(oid)?.ok_or_else(|| missing("type", oid))
    }

    /// A function that is known to be there.
    pub fn proc(&mut self, oid: Oid) -> Result<Arc<ProcRow>> {
        self.proc_by_oid(oid)?.ok_or_else(|| missing("function", oid))
    }

    /// An operator that is known to be there.
    pub fn operator(&mut self, oid: Oid) -> Result<Arc<OperatorRow>> {
        self.operator_by_oid(oid)?.ok_or_else(|| missing("operator", oid))
    }

    /// A type's category, and whether it is the preferred one there.
    pub fn category(&mut self, oid: Oid) -> Result<(u8, bool)> {
        let ty = self.ty(oid)?;
        Ok((ty.category, ty.preferred))
    }

    /// The type that a domain is over; any other type itself.
    pub fn base_type(&mut self, oid: Oid) -> Result<Oid> {
        let mut ty = self.ty(oid)?;
        // A domain over a domain over ...; each was there when the next was made.
        for _ in 0..64 {
            if ty.kind != b'd' {
                return Ok(ty.oid);
            }
            ty = self.ty(ty.base_type)?;
        }
        Err(missing("base type", oid))
    }

    /// The type of an array's elements, of an array over a domain as well. None: it is no array.
    pub fn element_of(&mut self, oid: Oid) -> Result<Option<Oid>> {
        let base = self.base_type(oid)?;
        let ty = self.ty(base)?;
        Ok(ty.is_array().then_some(ty.elem))
    }

    /// The type of arrays of a type. None: there is none.
    pub fn array_of(&mut self, oid: Oid) -> Result<Option<Oid>> {
        let array = self.ty(oid)?.array;
        Ok((array != 0).then_some(array))
    }

    /// Whether a type's name alone leads to it.
    pub fn sees_type(&mut self, row: &TypeRow) -> Result<bool> {
        for namespace in self.search_path()? {
            if let Some(found) = self.type_named(namespace, &row.name)? {
                return Ok(found.oid == row.oid);
            }
        }
        Ok(false)
    }

    /// The namespaces in which a name is looked up: that of its schema, if it has one.
    pub fn namespaces(&mut self, schema: Option<&str>) -> Result<SearchPath> {
        let Some(schema) = schema else { return self.search_path() };
        match self.namespace(schema)? {
            Some(namespace) => Ok(SmallVec::from_slice(&[namespace])),
            None => {
                let message = format!("schema \"{schema}\" does not exist");
                Err(SqlError::new(state::INVALID_SCHEMA_NAME, message))
            }
        }
    }
}

/// The error of catalogs that refer to what they do not have.
fn missing(what: &str, oid: Oid) -> SqlError {
    SqlError::new(state::INTERNAL_ERROR, format!("cache lookup failed for {what} {oid}"))
}
