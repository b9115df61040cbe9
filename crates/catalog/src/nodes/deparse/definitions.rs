//! Checks and indexes, as pg_get_constraintdef and pg_get_indexdef print them.

use forebay_types::Oid;

use super::super::error::Result;
use super::super::expr::Expr;
use super::super::facts::{collation_of, type_of};
use super::super::kinds::CoercionForm;
use super::super::names::Names;
use super::printer::{Printer, Style};
use crate::identifier::quoted;

/// A CHECK of a table or a domain.
#[derive(Clone, Copy, Debug)]
pub struct CheckText<'a> {
    /// conbin
    pub condition: &'a Expr,
    /// connoinherit
    pub no_inherit: bool,
    /// conenforced
    pub enforced: bool,
    /// convalidated
    pub validated: bool,
}

impl CheckText<'_> {
    /// What pg_get_constraintdef prints.
    pub fn definition(&self, style: Style, names: &mut dyn Names) -> Result<String> {
        let condition = super::deparse(self.condition, style, names)?;
        let no_inherit = if self.no_inherit { " NO INHERIT" } else { "" };
        let state = match (self.enforced, self.validated) {
            (false, _) => " NOT ENFORCED",
            (true, false) => " NOT VALID",
            (true, true) => "",
        };
        Ok(format!("CHECK ({condition}){no_inherit}{state}"))
    }
}

/// What an index's key is.
#[derive(Clone, Copy, Debug)]
pub enum KeySource<'a> {
    /// A column, with the type and the collation that the table gives it.
    Column {
        /// pg_attribute.attnum
        attno: i16,
        /// atttypid
        ty: Oid,
        /// attcollation
        collation: Oid,
    },
    /// The next one of indexprs.
    Expr(&'a Expr),
}

/// A key of an index.
#[derive(Clone, Debug)]
pub struct IndexKeyText<'a> {
    /// What is stored.
    pub source: KeySource<'a>,
    /// indcollation
    pub collation: Oid,
    /// indclass
    pub class: Oid,
    /// The operator class's options, as attoptions has them.
    pub class_options: Vec<String>,
    /// DESC
    pub descending: bool,
    /// NULLS FIRST
    pub nulls_first: bool,
}

/// An index.
#[derive(Clone, Debug)]
pub struct IndexText<'a> {
    /// The index's name.
    pub name: &'a str,
    /// The table's name as it is to be written: with its schema, unless the style is pretty and
    /// the search path leads to it.
    pub table: &'a str,
    /// The access method's name.
    pub method: &'a str,
    /// Whether the access method has an order (amcanorder).
    pub ordered: bool,
    /// indisunique
    pub unique: bool,
    /// The keys.
    pub keys: Vec<IndexKeyText<'a>>,
    /// The columns of INCLUDE.
    pub included: Vec<i16>,
    /// indnullsnotdistinct
    pub nulls_not_distinct: bool,
    /// reloptions
    pub options: Vec<String>,
    /// indpred
    pub predicate: Option<&'a Expr>,
}

impl IndexText<'_> {
    /// What pg_get_indexdef prints.
    pub fn definition(&self, style: Style, names: &mut dyn Names) -> Result<String> {
        let mut printer = Printer::new(style, names);
        let unique = if self.unique { "UNIQUE " } else { "" };
        let (name, method) = (quoted(self.name), quoted(self.method));
        let table = self.table;
        printer.push(&format!("CREATE {unique}INDEX {name} ON {table} USING {method} ("));
        for (n, key) in self.keys.iter().enumerate() {
            if n > 0 {
                printer.push(", ");
            }
            printer.index_key(key, self.ordered)?;
        }
        for (n, attno) in self.included.iter().enumerate() {
            let column = printer.names.column((*attno).into())?;
            printer.push(if n == 0 { ") INCLUDE (" } else { ", " });
            printer.push(&quoted(&column));
        }
        printer.push(")");
        if self.nulls_not_distinct {
            printer.push(" NULLS NOT DISTINCT");
        }
        if !self.options.is_empty() {
            printer.push(" WITH");
            printer.options(&self.options);
        }
        if let Some(predicate) = self.predicate {
            let condition = super::deparse(predicate, style, printer.names)?;
            printer.push(&format!(" WHERE {condition}"));
        }
        Ok(printer.text)
    }
}

impl Printer<'_> {
    fn index_key(&mut self, key: &IndexKeyText<'_>, ordered: bool) -> Result<()> {
        let (ty, collation) = match key.source {
            KeySource::Column { attno, ty, collation } => {
                let column = self.names.column(attno.into())?;
                self.push(&quoted(&column));
                (ty, collation)
            }
            KeySource::Expr(expr) => {
                let text = super::deparse(expr, self.style, self.names)?;
                let bare = looks_like_function(expr);
                self.push(&if bare { text } else { format!("({text})") });
                (type_of(expr), collation_of(expr))
            }
        };
        if key.collation != 0 && key.collation != collation {
            self.collate(key.collation)?;
        }
        // An operator class with options is always named.
        let shown = if key.class_options.is_empty() { ty } else { 0 };
        if let Some(class) = self.names.operator_class(key.class, shown)? {
            self.push(&format!(" {class}"));
        }
        if !key.class_options.is_empty() {
            self.options(&key.class_options);
        }
        if ordered {
            self.push(match (key.descending, key.nulls_first) {
                (false, false) => "",
                (false, true) => " NULLS FIRST",
                (true, true) => " DESC",
                (true, false) => " DESC NULLS LAST",
            });
        }
        Ok(())
    }

    /// (name=value, ...)
    fn options(&mut self, options: &[String]) {
        for (n, option) in options.iter().enumerate() {
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            self.push(if n == 0 { " (" } else { ", " });
            self.push(&format!("{}=", quoted(name)));
            if quoted(value) == value {
                self.push(value);
            } else {
                self.literal(value);
            }
        }
        self.push(")");
    }
}

/// Whether an index's expression needs no parentheses.
pub fn looks_like_function(expr: &Expr) -> bool {
    match expr {
        Expr::Func(call) => {
            matches!(call.funcformat, CoercionForm::ExplicitCall | CoercionForm::SqlSyntax)
        }
        Expr::NullIf(_) | Expr::Coalesce(_) | Expr::MinMax(_) | Expr::SqlValue(_) => true,
        _ => false,
    }
}
