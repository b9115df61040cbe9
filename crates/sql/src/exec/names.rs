//! What analysis asks of the catalogs, for whoever looks up their rows.

use super::functions;
use crate::analyze::{Names, SearchPath};
use crate::error::Result;
use forebay_engine::syscache::{
    AmopRow, CastBetween, CastRow, CollationByOid, CollationRow, CollationsNamed, FamilyMembers,
    Lookup, NamespaceByOid, NamespaceNamed, OpclassRow, OperatorByOid, OperatorClasses,
    OperatorRow, OperatorsNamed, ProcByOid, ProcRow, ProcsNamed, TypeByOid, TypeNamed, TypeRow,
};
use forebay_types::{Datum, Encoding, Oid};
use std::sync::Arc;

/// Whoever looks up rows of the catalogs: a session, or what makes indexes evaluable without one.
pub(super) trait LooksUp {
    /// Looks up rows of a catalog.
    fn row_of<K: Lookup>(&mut self, key: K) -> Result<K::Row>;

    /// A step of planning.
    fn planning_step(&self) -> Result<()>;

    /// The encoding of the database.
    fn encoding_of_texts(&self) -> Encoding;

    /// The namespaces of names without a schema.
    fn path_of_names(&mut self) -> Result<SearchPath>;

    /// The value that a literal has as one of a type.
    fn value_of(&mut self, text: &str, ty: &TypeRow, typmod: i32) -> Result<Datum<'static>>;
}

impl<L: LooksUp> Names for L {
    fn step(&self) -> Result<()> {
        self.planning_step()
    }

    fn encoding(&self) -> Encoding {
        self.encoding_of_texts()
    }

    fn search_path(&mut self) -> Result<SearchPath> {
        self.path_of_names()
    }

    fn namespace(&mut self, name: &str) -> Result<Option<Oid>> {
        Ok(self.row_of(NamespaceNamed(name.into()))?.map(|row| row.oid))
    }

    fn namespace_name(&mut self, oid: Oid) -> Result<Option<String>> {
        Ok(self.row_of(NamespaceByOid(oid))?.map(|row| row.name.to_string()))
    }

    fn type_by_oid(&mut self, oid: Oid) -> Result<Option<Arc<TypeRow>>> {
        self.row_of(TypeByOid(oid))
    }

    fn type_named(&mut self, namespace: Oid, name: &str) -> Result<Option<Arc<TypeRow>>> {
        self.row_of(TypeNamed { namespace, name: name.into() })
    }

    fn proc_by_oid(&mut self, oid: Oid) -> Result<Option<Arc<ProcRow>>> {
        match functions::own::by_oid(oid) {
            Some(own) => Ok(Some(Arc::clone(own))),
            None => self.row_of(ProcByOid(oid)),
        }
    }

    fn procs_named(&mut self, name: &str) -> Result<Arc<[Arc<ProcRow>]>> {
        let rows = self.row_of(ProcsNamed(name.into()))?;
        let own: Vec<_> = functions::own::named(name).cloned().collect();
        match own.is_empty() {
            true => Ok(rows),
            false => Ok(rows.iter().cloned().chain(own).collect()),
        }
    }

    fn operator_by_oid(&mut self, oid: Oid) -> Result<Option<Arc<OperatorRow>>> {
        self.row_of(OperatorByOid(oid))
    }

    fn operators_named(&mut self, name: &str) -> Result<Arc<[Arc<OperatorRow>]>> {
        self.row_of(OperatorsNamed(name.into()))
    }

    fn cast(&mut self, source: Oid, target: Oid) -> Result<Option<CastRow>> {
        self.row_of(CastBetween { source, target })
    }

    fn operator_classes(&mut self, method: Oid) -> Result<Arc<[OpclassRow]>> {
        self.row_of(OperatorClasses(method))
    }

    fn family_members(&mut self, operator: Oid) -> Result<Arc<[AmopRow]>> {
        self.row_of(FamilyMembers(operator))
    }

    fn collation_by_oid(&mut self, oid: Oid) -> Result<Option<Arc<CollationRow>>> {
        self.row_of(CollationByOid(oid))
    }

    fn collations_named(&mut self, name: &str) -> Result<Arc<[Arc<CollationRow>]>> {
        self.row_of(CollationsNamed(name.into()))
    }

    fn input(&mut self, text: &str, ty: &TypeRow, typmod: i32) -> Result<Datum<'static>> {
        self.value_of(text, ty, typmod)
    }
}
