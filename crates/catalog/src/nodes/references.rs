//! What a tree refers to: the objects that pg_depend says its owner depends on.
//!
//! Types, functions and operators that the nodes imply by others are left out, as PostgreSQL
//! leaves them out: an operator stands for its function and its result.

use forebay_types::{Datum, Oid, oids};

use super::constant::Const;
use super::expr::Expr;
use super::facts::type_of;

/// The collation that types have by default. It cannot be dropped.
const DEFAULT_COLLATION: Oid = 100;

/// An object that a tree refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reference {
    /// A column of the table, by its number.
    Column(i32),
    /// A column of a composite type. A type that has no relation: the result's type instead.
    Field {
        /// The composite type.
        ty: Oid,
        /// The field's number.
        number: i32,
        /// The type of the field.
        result: Oid,
    },
    /// pg_type
    Type(Oid),
    /// pg_collation
    Collation(Oid),
    /// pg_proc
    Function(Oid),
    /// pg_operator
    Operator(Oid),
    /// pg_opfamily
    OperatorFamily(Oid),
    /// pg_class: a sequence, or a constant of type regclass
    Relation(Oid),
    /// pg_namespace
    Namespace(Oid),
    /// pg_ts_config
    TextSearchConfig(Oid),
    /// pg_ts_dict
    TextSearchDictionary(Oid),
    /// pg_authid; PostgreSQL refuses it in a stored expression (0A000).
    Role(Oid),
}

/// A type, and what its constants name.
type Naming = (Oid, fn(Oid) -> Reference);

/// What constants of these types name.
const NAMING: [Naming; 11] = [
    (oids::REGPROC, Reference::Function),
    (2202, Reference::Function),
    (2203, Reference::Operator),
    (2204, Reference::Operator),
    (oids::REGCLASS, Reference::Relation),
    (oids::REGTYPE, Reference::Type),
    (3734, Reference::TextSearchConfig),
    (3769, Reference::TextSearchDictionary),
    (4089, Reference::Namespace),
    (4096, Reference::Role),
    (4191, Reference::Collation),
];

impl Expr {
    /// Everything that the tree refers to, in order and once each. The object that a constant of
    /// a type such as regclass names is among it, even if it does not exist.
    pub fn references(&self) -> Vec<Reference> {
        let mut found = Vec::new();
        self.collect_references(&mut found);
        found.sort_unstable();
        found.dedup();
        found
    }

    fn collect_references(&self, found: &mut Vec<Reference>) {
        let mut add_type = |ty, collation| {
            found.push(Reference::Type(ty));
            if !matches!(collation, 0 | DEFAULT_COLLATION) {
                found.push(Reference::Collation(collation));
            }
        };
        match self {
            Expr::Const(node) => {
                add_type(node.consttype, node.constcollid);
                found.extend(named_by(node));
            }
            Expr::Param(node) => add_type(node.paramtype, node.paramcollid),
            Expr::RelabelType(node) => add_type(node.resulttype, node.resultcollid),
            Expr::CoerceViaIo(node) => add_type(node.resulttype, node.resultcollid),
            Expr::ArrayCoerce(node) => add_type(node.resulttype, node.resultcollid),
            Expr::ConvertRowtype(node) => add_type(node.resulttype, 0),
            Expr::CoerceToDomain(node) => add_type(node.resulttype, 0),
            Expr::Row(node) => add_type(node.row_typeid, 0),
            Expr::SubscriptingRef(node) => {
                let implied = [node.refcontainertype, node.refelemtype];
                if !implied.contains(&node.refrestype) {
                    add_type(node.refrestype, 0);
                }
            }
            Expr::FieldSelect(node) => {
                let (ty, number) = (type_of(&node.arg), node.fieldnum);
                found.push(Reference::Field { ty, number, result: node.resulttype });
                if !matches!(node.resultcollid, 0 | DEFAULT_COLLATION) {
                    found.push(Reference::Collation(node.resultcollid));
                }
            }
            // The whole row is of no column in particular.
            Expr::Var(node) if node.varattno != 0 => found.push(Reference::Column(node.varattno)),
            Expr::Func(node) => found.push(Reference::Function(node.funcid)),
            Expr::Op(node) => found.push(Reference::Operator(node.opno)),
            Expr::Distinct(node) => found.push(Reference::Operator(node.opno)),
            Expr::NullIf(node) => found.push(Reference::Operator(node.opno)),
            Expr::ScalarArrayOp(node) => found.push(Reference::Operator(node.opno)),
            Expr::RowCompare(node) => {
                found.extend(node.opnos.iter().map(|opno| Reference::Operator(*opno)));
                let families = node.opfamilies.iter();
                found.extend(families.map(|family| Reference::OperatorFamily(*family)));
            }
            Expr::Collate(node) => found.push(Reference::Collation(node.coll_oid)),
            Expr::NextValue(node) => found.push(Reference::Relation(node.seqid)),
            _ => {}
        }
        self.visit_children(&mut |child| child.collect_references(found));
    }
}

/// The object that a constant names.
fn named_by(node: &Const) -> Option<Reference> {
    let (_, reference) = NAMING.iter().find(|(ty, _)| *ty == node.consttype)?;
    let oid = match &node.constvalue {
        Datum::Oid(oid) => *oid,
        Datum::Carried(_, bytes) => u32::from_le_bytes(*bytes.first_chunk()?),
        _ => return None,
    };
    Some(reference(oid))
}
