//! `Names`: what printing a tree asks of the catalogs.

use std::fmt;

use forebay_types::Oid;

use super::constant::Const;
use super::error::Result;
use crate::identifier::quoted;

/// The name of an object, and its schema if the search path does not lead to it. Shown as SQL
/// writes it, with quotes where they are needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QualifiedName {
    /// The schema, if it must be written.
    pub schema: Option<String>,
    /// The name.
    pub name: String,
}

impl fmt::Display for QualifiedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(schema) = &self.schema {
            write!(f, "{}.", quoted(schema))?;
        }
        f.write_str(&quoted(&self.name))
    }
}

/// A function's call, as the choice among functions of one name sees it.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// The function.
    pub funcid: Oid,
    /// The types of the arguments.
    pub types: &'a [Oid],
    /// The names of the last arguments, where they are written.
    pub names: &'a [&'a str],
    /// Whether VARIADIC stands before the last argument.
    pub variadic: bool,
}

/// What printing a tree asks of the catalogs. An object that does not exist is
/// [`super::NodeError::Missing`].
pub trait Names {
    /// A function's name; with its schema unless this call without it finds this function.
    fn function(&mut self, call: Call<'_>) -> Result<QualifiedName>;

    /// An operator's name; with its schema unless these types without it find this operator. The
    /// left type of a prefix operator is 0.
    fn operator(&mut self, opno: Oid, left: Oid, right: Oid) -> Result<QualifiedName>;

    /// A type with its modifier, as `format_type` writes it.
    fn type_name(&mut self, ty: Oid, typmod: i32) -> Result<String>;

    /// The collation of a type, 0 if it has none.
    fn type_collation(&mut self, ty: Oid) -> Result<Oid>;

    /// The type of an array's elements; the type itself if it is no array. Domains are looked
    /// through.
    fn element_type(&mut self, ty: Oid) -> Result<Oid>;

    /// The fields of a composite type, None for those that were dropped. None if it is no
    /// composite type.
    fn fields(&mut self, ty: Oid) -> Result<Option<Vec<Option<String>>>>;

    /// A collation's name.
    fn collation(&mut self, collation: Oid) -> Result<QualifiedName>;

    /// A relation's name.
    fn relation(&mut self, relation: Oid) -> Result<QualifiedName>;

    /// An operator class's name, if it is not the type's default one. With type 0, always.
    fn operator_class(&mut self, class: Oid, ty: Oid) -> Result<Option<QualifiedName>>;

    /// The name of the table whose row the expression is over.
    fn table(&mut self) -> Result<String>;

    /// The name of a column of this table; negative numbers are system columns.
    fn column(&mut self, attno: i32) -> Result<String>;

    /// The text of a value that is not NULL, by its type's output function.
    fn output(&mut self, value: &Const) -> Result<String>;
}
