//! The analyzed expression: one enum with a struct for each of PostgreSQL 18's node types that an
//! expression over one row can have.
//!
//! A struct's fields have PostgreSQL's names and its order. The list of them is stated once, below:
//! the text form, the comparison of trees and the visits of children are made from it.

use forebay_types::Oid;

use super::constant::Const;
use super::error::{NodeError, Result};
use super::field::{Element, Field, Node};
use super::kinds::{
    BoolExprType, BoolTestType, CoercionForm, CompareType, MinMaxOp, NullTestType, ParamKind,
    SqlValueFunctionOp, VarReturningType,
};
use super::tokens::Tokens;
use super::value::{Bitmap, Location, StringNode};

/// What holds expressions, or none.
pub(super) trait Children {
    fn visit<'a>(&'a self, _visit: &mut dyn FnMut(&'a Expr)) {}
    fn visit_mut(&mut self, _visit: &mut dyn FnMut(&mut Expr)) {}
}

/// Types of fields without expressions in them.
macro_rules! leaves {
    ($($ty:ty),+ $(,)?) => { $(impl Children for $ty {})+ };
}

leaves!(bool, i32, u32, String, Vec<u32>, Vec<StringNode>, Bitmap, Location, Const);
leaves!(BoolExprType, BoolTestType, CoercionForm, CompareType, MinMaxOp, NullTestType, ParamKind);
leaves!(SqlValueFunctionOp, VarReturningType);

impl Children for Box<Expr> {
    fn visit<'a>(&'a self, visit: &mut dyn FnMut(&'a Expr)) {
        visit(self);
    }

    fn visit_mut(&mut self, visit: &mut dyn FnMut(&mut Expr)) {
        visit(self);
    }
}

impl Children for Option<Box<Expr>> {
    fn visit<'a>(&'a self, visit: &mut dyn FnMut(&'a Expr)) {
        self.iter().for_each(|child| visit(child));
    }

    fn visit_mut(&mut self, visit: &mut dyn FnMut(&mut Expr)) {
        self.iter_mut().for_each(|child| visit(child));
    }
}

impl Children for Vec<Expr> {
    fn visit<'a>(&'a self, visit: &mut dyn FnMut(&'a Expr)) {
        self.iter().for_each(visit);
    }

    fn visit_mut(&mut self, visit: &mut dyn FnMut(&mut Expr)) {
        self.iter_mut().for_each(visit);
    }
}

impl Children for Vec<CaseWhen> {
    fn visit<'a>(&'a self, visit: &mut dyn FnMut(&'a Expr)) {
        self.iter().for_each(|when| when.visit(visit));
    }

    fn visit_mut(&mut self, visit: &mut dyn FnMut(&mut Expr)) {
        self.iter_mut().for_each(|when| when.visit_mut(visit));
    }
}

/// Declares one node: its struct, and what follows from the list of its fields.
macro_rules! node {
    ($(#[$doc:meta])* $name:ident $label:literal {
        $($(#[$of:meta])* $field:ident: $ty:ty = $key:literal,)+
    }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        #[allow(missing_docs, reason = "the names are PostgreSQL's")]
        pub struct $name { $($(#[$of])* pub $field: $ty,)+ }

        impl Node for $name {
            const LABEL: &'static str = $label;

            fn read_fields(tokens: &mut Tokens<'_>) -> Result<$name> {
                Ok($name { $($field: tokens.field($key)?,)+ })
            }

            fn write_fields(&self, out: &mut String) {
                $(
                    out.push_str(concat!(" :", $key, " "));
                    self.$field.write(out);
                )+
            }

            fn same_fields(&self, other: &$name) -> bool {
                $(self.$field.same(&other.$field))&&+
            }
        }

        impl Children for $name {
            fn visit<'a>(&'a self, visit: &mut dyn FnMut(&'a Expr)) {
                $(Children::visit(&self.$field, visit);)+
            }

            fn visit_mut(&mut self, visit: &mut dyn FnMut(&mut Expr)) {
                $(Children::visit_mut(&mut self.$field, visit);)+
            }
        }
    };
}

/// Declares the nodes that are expressions: for each the variant, the struct, its label in a
/// tree's text, and its fields with their names there.
macro_rules! expressions {
    ($($(#[$doc:meta])* $variant:ident $name:ident $label:literal { $($fields:tt)+ })+) => {
        /// An analyzed expression over one row.
        #[derive(Clone, Debug, PartialEq)]
        #[allow(missing_docs, reason = "each struct has its own")]
        pub enum Expr { Const(Const), $($variant($name),)+ }

        $(
            node!($(#[$doc])* $name $label { $($fields)+ });

            impl From<$name> for Expr {
                fn from(node: $name) -> Expr {
                    Expr::$variant(node)
                }
            }
        )+

        impl Expr {
            /// The node with this label, if an expression over a row can have it.
            fn read_labelled(label: &str, tokens: &mut Tokens<'_>) -> Result<Option<Expr>> {
                Ok(Some(match label {
                    Const::LABEL => Expr::Const(Const::read_fields(tokens)?),
                    $($label => Expr::$variant($name::read_fields(tokens)?),)+
                    _ => return Ok(None),
                }))
            }

            fn write_labelled(&self, out: &mut String) {
                match self {
                    Expr::Const(node) => node.write_node(out),
                    $(Expr::$variant(node) => node.write_node(out),)+
                }
            }

            /// Whether both mean the same, as PostgreSQL's equal() decides it: positions and the
            /// way a call was written do not count.
            pub fn same(&self, other: &Expr) -> bool {
                match (self, other) {
                    (Expr::Const(a), Expr::Const(b)) => a.same_fields(b),
                    $((Expr::$variant(a), Expr::$variant(b)) => a.same_fields(b),)+
                    _ => false,
                }
            }

            /// Visits the expressions directly below this one, in the order of the fields.
            pub fn visit_children<'a>(&'a self, visit: &mut dyn FnMut(&'a Expr)) {
                match self {
                    Expr::Const(_) => {}
                    $(Expr::$variant(node) => Children::visit(node, visit),)+
                }
            }

            /// Visits the expressions directly below this one, to change or replace them.
            pub fn visit_children_mut(&mut self, visit: &mut dyn FnMut(&mut Expr)) {
                match self {
                    Expr::Const(_) => {}
                    $(Expr::$variant(node) => Children::visit_mut(node, visit),)+
                }
            }
        }
    };
}

expressions! {
    /// A column of the row. In a table's trees `varno` is 1; `varattno` 0 is the whole row.
    Var Var "VAR" {
        varno: i32 = "varno",
        varattno: i32 = "varattno",
        vartype: Oid = "vartype",
        vartypmod: i32 = "vartypmod",
        varcollid: Oid = "varcollid",
        varnullingrels: Bitmap = "varnullingrels",
        varlevelsup: u32 = "varlevelsup",
        varreturningtype: VarReturningType = "varreturningtype",
        varnosyn: u32 = "varnosyn",
        varattnosyn: i32 = "varattnosyn",
        location: Location = "location",
    }
    /// A parameter.
    Param Param "PARAM" {
        paramkind: ParamKind = "paramkind",
        paramid: i32 = "paramid",
        paramtype: Oid = "paramtype",
        paramtypmod: i32 = "paramtypmod",
        paramcollid: Oid = "paramcollid",
        location: Location = "location",
    }
    /// A function's call, or a cast by a function.
    Func FuncExpr "FUNCEXPR" {
        funcid: Oid = "funcid",
        funcresulttype: Oid = "funcresulttype",
        funcretset: bool = "funcretset",
        /// Whether the last argument is an array that was written after VARIADIC, or made of the
        /// arguments.
        funcvariadic: bool = "funcvariadic",
        funcformat: CoercionForm = "funcformat",
        funccollid: Oid = "funccollid",
        inputcollid: Oid = "inputcollid",
        args: Vec<Expr> = "args",
        location: Location = "location",
    }
    /// name => arg, among a function's arguments.
    NamedArg NamedArgExpr "NAMEDARGEXPR" {
        arg: Box<Expr> = "arg",
        name: String = "name",
        argnumber: i32 = "argnumber",
        location: Location = "location",
    }
    /// An operator with one or two arguments.
    Op OpExpr "OPEXPR" {
        opno: Oid = "opno",
        opfuncid: Oid = "opfuncid",
        opresulttype: Oid = "opresulttype",
        opretset: bool = "opretset",
        opcollid: Oid = "opcollid",
        inputcollid: Oid = "inputcollid",
        args: Vec<Expr> = "args",
        location: Location = "location",
    }
    /// IS DISTINCT FROM; `opno` is the type's operator "=".
    Distinct DistinctExpr "DISTINCTEXPR" {
        opno: Oid = "opno",
        opfuncid: Oid = "opfuncid",
        opresulttype: Oid = "opresulttype",
        opretset: bool = "opretset",
        opcollid: Oid = "opcollid",
        inputcollid: Oid = "inputcollid",
        args: Vec<Expr> = "args",
        location: Location = "location",
    }
    /// NULLIF; `opno` is the operator "=", `opresulttype` the type of the first argument.
    NullIf NullIfExpr "NULLIFEXPR" {
        opno: Oid = "opno",
        opfuncid: Oid = "opfuncid",
        opresulttype: Oid = "opresulttype",
        opretset: bool = "opretset",
        opcollid: Oid = "opcollid",
        inputcollid: Oid = "inputcollid",
        args: Vec<Expr> = "args",
        location: Location = "location",
    }
    /// value operator ANY (array), or ALL; so IN and NOT IN.
    ScalarArrayOp ScalarArrayOpExpr "SCALARARRAYOPEXPR" {
        opno: Oid = "opno",
        opfuncid: Oid = "opfuncid",
        hashfuncid: Oid = "hashfuncid",
        negfuncid: Oid = "negfuncid",
        /// ANY
        use_or: bool = "useOr",
        inputcollid: Oid = "inputcollid",
        args: Vec<Expr> = "args",
        location: Location = "location",
    }
    /// AND, OR, NOT.
    Bool BoolExpr "BOOLEXPR" {
        boolop: BoolExprType = "boolop",
        args: Vec<Expr> = "args",
        location: Location = "location",
    }
    /// An element or a slice of an array. A bound that a slice leaves out is None.
    SubscriptingRef SubscriptingRef "SUBSCRIPTINGREF" {
        refcontainertype: Oid = "refcontainertype",
        refelemtype: Oid = "refelemtype",
        refrestype: Oid = "refrestype",
        reftypmod: i32 = "reftypmod",
        refcollid: Oid = "refcollid",
        refupperindexpr: Vec<Option<Box<Expr>>> = "refupperindexpr",
        reflowerindexpr: Vec<Option<Box<Expr>>> = "reflowerindexpr",
        refexpr: Box<Expr> = "refexpr",
        refassgnexpr: Option<Box<Expr>> = "refassgnexpr",
    }
    /// A field of a composite value.
    FieldSelect FieldSelect "FIELDSELECT" {
        arg: Box<Expr> = "arg",
        fieldnum: i32 = "fieldnum",
        resulttype: Oid = "resulttype",
        resulttypmod: i32 = "resulttypmod",
        resultcollid: Oid = "resultcollid",
    }
    /// A conversion that leaves the value's bytes as they are.
    RelabelType RelabelType "RELABELTYPE" {
        arg: Box<Expr> = "arg",
        resulttype: Oid = "resulttype",
        resulttypmod: i32 = "resulttypmod",
        resultcollid: Oid = "resultcollid",
        relabelformat: CoercionForm = "relabelformat",
        location: Location = "location",
    }
    /// A conversion by the text form.
    CoerceViaIo CoerceViaIo "COERCEVIAIO" {
        arg: Box<Expr> = "arg",
        resulttype: Oid = "resulttype",
        resultcollid: Oid = "resultcollid",
        coerceformat: CoercionForm = "coerceformat",
        location: Location = "location",
    }
    /// A conversion of each element of an array: `elemexpr`, over a [`CaseTestExpr`].
    ArrayCoerce ArrayCoerceExpr "ARRAYCOERCEEXPR" {
        arg: Box<Expr> = "arg",
        elemexpr: Box<Expr> = "elemexpr",
        resulttype: Oid = "resulttype",
        resulttypmod: i32 = "resulttypmod",
        resultcollid: Oid = "resultcollid",
        coerceformat: CoercionForm = "coerceformat",
        location: Location = "location",
    }
    /// A conversion between composite types, as of a partition's row.
    ConvertRowtype ConvertRowtypeExpr "CONVERTROWTYPEEXPR" {
        arg: Box<Expr> = "arg",
        resulttype: Oid = "resulttype",
        convertformat: CoercionForm = "convertformat",
        location: Location = "location",
    }
    /// COLLATE.
    Collate CollateExpr "COLLATEEXPR" {
        arg: Box<Expr> = "arg",
        coll_oid: Oid = "collOid",
        location: Location = "location",
    }
    /// CASE. With `arg`, each condition compares a [`CaseTestExpr`] with a value.
    Case CaseExpr "CASEEXPR" {
        casetype: Oid = "casetype",
        casecollid: Oid = "casecollid",
        arg: Option<Box<Expr>> = "arg",
        args: Vec<CaseWhen> = "args",
        defresult: Option<Box<Expr>> = "defresult",
        location: Location = "location",
    }
    /// The value that a CASE tests, or an element that a conversion of an array converts.
    CaseTest CaseTestExpr "CASETESTEXPR" {
        type_id: Oid = "typeId",
        type_mod: i32 = "typeMod",
        collation: Oid = "collation",
    }
    /// ARRAY\[...\], and the list of IN.
    Array ArrayExpr "ARRAYEXPR" {
        array_typeid: Oid = "array_typeid",
        array_collid: Oid = "array_collid",
        element_typeid: Oid = "element_typeid",
        elements: Vec<Expr> = "elements",
        multidims: bool = "multidims",
        list_start: Location = "list_start",
        list_end: Location = "list_end",
        location: Location = "location",
    }
    /// ROW(...).
    Row RowExpr "ROWEXPR" {
        args: Vec<Expr> = "args",
        row_typeid: Oid = "row_typeid",
        row_format: CoercionForm = "row_format",
        colnames: Vec<StringNode> = "colnames",
        location: Location = "location",
    }
    /// A comparison of rows by `<`, `<=`, `>=` or `>`.
    RowCompare RowCompareExpr "ROWCOMPAREEXPR" {
        cmptype: CompareType = "cmptype",
        opnos: Vec<Oid> = "opnos",
        opfamilies: Vec<Oid> = "opfamilies",
        inputcollids: Vec<Oid> = "inputcollids",
        largs: Vec<Expr> = "largs",
        rargs: Vec<Expr> = "rargs",
    }
    /// COALESCE.
    Coalesce CoalesceExpr "COALESCEEXPR" {
        coalescetype: Oid = "coalescetype",
        coalescecollid: Oid = "coalescecollid",
        args: Vec<Expr> = "args",
        location: Location = "location",
    }
    /// GREATEST, LEAST.
    MinMax MinMaxExpr "MINMAXEXPR" {
        minmaxtype: Oid = "minmaxtype",
        minmaxcollid: Oid = "minmaxcollid",
        inputcollid: Oid = "inputcollid",
        op: MinMaxOp = "op",
        args: Vec<Expr> = "args",
        location: Location = "location",
    }
    /// CURRENT_DATE and its like.
    SqlValue SqlValueFunction "SQLVALUEFUNCTION" {
        op: SqlValueFunctionOp = "op",
        type_oid: Oid = "type",
        typmod: i32 = "typmod",
        location: Location = "location",
    }
    /// IS NULL, IS NOT NULL.
    NullTest NullTest "NULLTEST" {
        arg: Box<Expr> = "arg",
        nulltesttype: NullTestType = "nulltesttype",
        /// Whether the fields of a row are tested one by one.
        argisrow: bool = "argisrow",
        location: Location = "location",
    }
    /// IS TRUE and its like.
    BooleanTest BooleanTest "BOOLEANTEST" {
        arg: Box<Expr> = "arg",
        booltesttype: BoolTestType = "booltesttype",
        location: Location = "location",
    }
    /// A conversion to a domain, which checks its constraints.
    CoerceToDomain CoerceToDomain "COERCETODOMAIN" {
        arg: Box<Expr> = "arg",
        resulttype: Oid = "resulttype",
        resulttypmod: i32 = "resulttypmod",
        resultcollid: Oid = "resultcollid",
        coercionformat: CoercionForm = "coercionformat",
        location: Location = "location",
    }
    /// VALUE in a domain's CHECK.
    CoerceToDomainValue CoerceToDomainValue "COERCETODOMAINVALUE" {
        type_id: Oid = "typeId",
        type_mod: i32 = "typeMod",
        collation: Oid = "collation",
        location: Location = "location",
    }
    /// DEFAULT among the values of INSERT or UPDATE.
    SetToDefault SetToDefault "SETTODEFAULT" {
        type_id: Oid = "typeId",
        type_mod: i32 = "typeMod",
        collation: Oid = "collation",
        location: Location = "location",
    }
    /// The next value of an identity column's sequence.
    NextValue NextValueExpr "NEXTVALUEEXPR" {
        seqid: Oid = "seqid",
        type_id: Oid = "typeId",
    }
    /// An expression over the old or the new row of RETURNING.
    Returning ReturningExpr "RETURNINGEXPR" {
        retlevelsup: i32 = "retlevelsup",
        retold: bool = "retold",
        retexpr: Box<Expr> = "retexpr",
    }
}

node! {
    /// WHEN `expr` THEN `result`.
    CaseWhen "CASEWHEN" {
        expr: Box<Expr> = "expr",
        result: Box<Expr> = "result",
        location: Location = "location",
    }
}

impl From<Const> for Expr {
    fn from(node: Const) -> Expr {
        Expr::Const(node)
    }
}

impl Children for Vec<Option<Box<Expr>>> {
    fn visit<'a>(&'a self, visit: &mut dyn FnMut(&'a Expr)) {
        self.iter().for_each(|child| child.visit(visit));
    }

    fn visit_mut(&mut self, visit: &mut dyn FnMut(&mut Expr)) {
        self.iter_mut().for_each(|child| child.visit_mut(visit));
    }
}

impl Field for Expr {
    fn read(tokens: &mut Tokens<'_>) -> Result<Expr> {
        tokens.node(|tokens, label| {
            let expr = Expr::read_labelled(label, tokens)?;
            expr.ok_or_else(|| NodeError::unknown_node(label))
        })
    }

    fn write(&self, out: &mut String) {
        self.write_labelled(out);
    }

    fn same(&self, other: &Expr) -> bool {
        Expr::same(self, other)
    }
}

impl Element for Expr {}
impl Element for Option<Box<Expr>> {}

impl Field for CaseWhen {
    fn read(tokens: &mut Tokens<'_>) -> Result<CaseWhen> {
        tokens.node(|tokens, label| match label {
            CaseWhen::LABEL => CaseWhen::read_fields(tokens),
            _ => Err(NodeError::unknown_node(label)),
        })
    }

    fn write(&self, out: &mut String) {
        self.write_node(out);
    }

    fn same(&self, other: &CaseWhen) -> bool {
        self.same_fields(other)
    }
}

impl Element for CaseWhen {}

impl Var {
    /// A column of the only table.
    pub fn column(attno: i16, vartype: Oid, vartypmod: i32, varcollid: Oid) -> Var {
        Var {
            varno: 1,
            varattno: attno.into(),
            vartype,
            vartypmod,
            varcollid,
            varnullingrels: Bitmap::default(),
            varlevelsup: 0,
            varreturningtype: VarReturningType::Default,
            varnosyn: 1,
            varattnosyn: attno.into(),
            location: Location::UNKNOWN,
        }
    }
}
