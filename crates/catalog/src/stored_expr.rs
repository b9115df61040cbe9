//! Expressions of tables as the catalogs hold them: texts of node trees.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::borrow::Cow;
use std::sync::Arc;

use forebay_format::varlena::{Varlena, decompress};
use forebay_types::{Datum, Encoding, Oid, oids};

use crate::catalog_oids::{CLASSES, COLLATIONS, OPERATORS, PROCEDURES, TYPES};
use crate::error::CatalogError;
use crate::nodes::{self, Expr};
use crate::schema::DEFAULT_COLLATION;

/// An expression with what it refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredExpr {
    /// Its tree, as PostgreSQL writes it.
    pub tree: Arc<str>,
    /// The numbers of the columns that it reads, in the order in which it names them. 0: the whole
    /// row.
    pub columns: Vec<i16>,
    /// Objects that it refers to: their catalogs, and their OIDs there.
    pub(crate) references: Vec<(Oid, Oid)>,
}

impl StoredExpr {
    /// How an analyzed expression is stored.
    pub fn new(expr: &Expr) -> StoredExpr {
        let (mut columns, mut references) = (Vec::new(), Vec::new());
        collect(expr, &mut columns, &mut references);
        let mut distinct: Vec<(Oid, Oid)> = Vec::with_capacity(references.len());
        for object in references {
            if !distinct.contains(&object) {
                distinct.push(object);
            }
        }
        StoredExpr { tree: nodes::write(expr).into(), columns, references: distinct }
    }

    /// The collations that it refers to.
    pub fn collations(&self) -> impl Iterator<Item = Oid> {
        self.references.iter().filter(|(class, _)| *class == COLLATIONS).map(|(_, oid)| *oid)
    }

    /// The relations that it refers to: sequences.
    pub fn relations(&self) -> impl Iterator<Item = Oid> {
        self.references.iter().filter(|(class, _)| *class == CLASSES).map(|(_, oid)| *oid)
    }
}

/// A check of a table's rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// pg_constraint.oid
    pub oid: Oid,
    /// Its name.
    pub name: String,
    /// Its condition's tree. None: it is stored out of line.
    pub tree: Option<Arc<str>>,
    /// Whether rows are checked at all.
    pub enforced: bool,
    /// Whether all rows hold it.
    pub validated: bool,
    /// NO INHERIT
    pub no_inherit: bool,
}

/// A check that is added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckDef {
    /// Its name. None: one is chosen.
    pub name: Option<String>,
    /// Its condition.
    pub condition: StoredExpr,
    /// NO INHERIT
    pub no_inherit: bool,
    /// Not NOT ENFORCED.
    pub enforced: bool,
    /// Whether all rows are known to hold it: not NOT VALID.
    pub validated: bool,
}

/// What an expression refers to, without what is below `MAX_DEPTH`: reading and making a tree
/// refuse that.
fn collect(expr: &Expr, columns: &mut Vec<i16>, references: &mut Vec<(Oid, Oid)>) {
    let mut refer = |class: Oid, oid: Oid| references.push((class, oid));
    match expr {
        Expr::Var(var) => {
            let number = i16::try_from(var.varattno);
            columns.extend(number.ok().filter(|number| !columns.contains(number)));
        }
        Expr::Const(constant) => {
            refer(TYPES, constant.consttype);
            if constant.constcollid != DEFAULT_COLLATION {
                refer(COLLATIONS, constant.constcollid);
            }
            if let (oids::REGCLASS, Datum::Oid(relation)) =
                (constant.consttype, &constant.constvalue)
            {
                refer(CLASSES, *relation);
            }
        }
        Expr::Func(call) => refer(PROCEDURES, call.funcid),
        Expr::Op(call) => refer(OPERATORS, call.opno),
        Expr::Distinct(call) => refer(OPERATORS, call.opno),
        Expr::NullIf(call) => refer(OPERATORS, call.opno),
        Expr::ScalarArrayOp(call) => refer(OPERATORS, call.opno),
        Expr::RelabelType(cast) => refer(TYPES, cast.resulttype),
        Expr::CoerceViaIo(cast) => refer(TYPES, cast.resulttype),
        Expr::ArrayCoerce(cast) => refer(TYPES, cast.resulttype),
        Expr::Collate(collate) => refer(COLLATIONS, collate.coll_oid),
        Expr::NextValue(next) => refer(CLASSES, next.seqid),
        _ => {}
    }
    expr.visit_children(&mut |child| collect(child, columns, references));
}

/// The text of a tree that is stored in a database of an encoding. None: it is stored out of line.
pub(crate) fn tree_text(
    value: Varlena<'_>,
    encoding: Encoding,
) -> Result<Option<Arc<str>>, CatalogError> {
    let damaged = || CatalogError::corrupt("a node tree in the catalogs is damaged");
    let text = |bytes: &[u8]| {
        let text = encoding.decode(bytes).map_err(|_| damaged())?;
        Ok::<_, CatalogError>(Arc::from(tree_in_memory(&text, encoding)))
    };
    match value {
        Varlena::Plain(bytes) => text(bytes).map(Some),
        Varlena::Compressed { raw_size, method, data } => {
            text(&decompress(raw_size, method, data).map_err(|_| damaged())?).map(Some)
        }
        Varlena::External(_) => Ok(None),
    }
}

/// The text of a stored tree with the bytes that constants have in memory. A tree that is not
/// understood stays as it is: reading it is refused where it is used.
pub fn tree_in_memory(tree: &str, encoding: Encoding) -> Cow<'_, str> {
    match encoding {
        Encoding::Utf8 => Cow::Borrowed(tree),
        _ => match nodes::recoded(tree, encoding, Encoding::Utf8) {
            Ok(recoded) => Cow::Owned(recoded),
            Err(_) => Cow::Borrowed(tree),
        },
    }
}

/// The text of a tree, or a list of some, as a database of an encoding stores it.
pub(crate) fn stored_tree(tree: &str, encoding: Encoding) -> Result<Datum<'static>, CatalogError> {
    let text = match encoding {
        Encoding::Utf8 => tree.to_owned(),
        _ => nodes::recoded(tree, Encoding::Utf8, encoding)
            .map_err(|error| CatalogError::refused("0A000", error.to_string()))?,
    };
    Ok(Datum::string(text))
}
