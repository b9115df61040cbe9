//! Constants and casts.

use forebay_types::{Datum, Oid, oids};

use super::super::constant::Const;
use super::super::error::Result;
use super::super::expr::Expr;
use super::printer::Printer;

/// Whether a constant's type is written after it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Label {
    /// Only if the constant alone would have another type.
    IfNeeded,
    /// The caller does.
    Never,
}

impl Printer<'_> {
    /// A constant.
    pub(super) fn constant(&mut self, constant: &Const, label: Label) -> Result<()> {
        let mut labelled = !matches!(constant.consttype, oids::BOOL | oids::UNKNOWN);
        match constant.constvalue {
            Datum::Null => {
                self.push("NULL");
                labelled = true;
            }
            Datum::Bool(value) => self.push(if value { "true" } else { "false" }),
            _ => {
                let text = self.names.output(constant)?;
                let plain = text.starts_with(|c: char| c.is_ascii_digit());
                match constant.consttype {
                    oids::INT4 if plain => {
                        self.push(&text);
                        labelled = false;
                    }
                    // A number with a point or an exponent is numeric anyway.
                    oids::NUMERIC if plain && text.contains(['e', 'E', '.']) => {
                        self.push(&text);
                        labelled = constant.consttypmod >= 0;
                    }
                    _ => self.literal(&text),
                }
            }
        }
        if label == Label::Never {
            return Ok(());
        }
        if labelled {
            self.cast(constant.consttype, constant.consttypmod)?;
        }
        let collation = constant.constcollid;
        if collation != 0 && collation != self.names.type_collation(constant.consttype)? {
            self.collate(collation)?;
        }
        Ok(())
    }

    /// `::` and a type.
    pub(super) fn cast(&mut self, ty: Oid, typmod: i32) -> Result<()> {
        let name = self.names.type_name(ty, typmod)?;
        self.push("::");
        self.push(&name);
        Ok(())
    }

    /// COLLATE and a collation.
    pub(super) fn collate(&mut self, collation: Oid) -> Result<()> {
        let name = self.names.collation(collation)?.to_string();
        self.push(" COLLATE ");
        self.push(&name);
        Ok(())
    }

    /// A conversion to a type. `parent` is the node that converts.
    pub(super) fn coercion(
        &mut self,
        arg: &Expr,
        ty: Oid,
        typmod: i32,
        parent: &Expr,
    ) -> Result<()> {
        match arg {
            // A length coercion stands above a constant of the same type: one cast says both.
            Expr::Const(constant) if constant.consttype == ty && constant.consttypmod == -1 => {
                self.constant(constant, Label::Never)?;
            }
            _ => {
                self.parenthesis('(');
                self.argument(arg, false, parent)?;
                self.parenthesis(')');
            }
        }
        self.cast(ty, typmod)
    }
}
