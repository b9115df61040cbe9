//! Functions that SQL calls by a syntax of their own.

use super::super::error::{NodeError, Result};
use super::super::expr::{Expr, FuncExpr};
use super::printer::Printer;

/// How a function is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Syntax {
    /// x AT TIME ZONE zone; the zone is the first argument.
    AtTimeZone,
    /// x AT LOCAL
    AtLocal,
    /// (a, b) OVERLAPS (c, d)
    Overlaps,
    /// EXTRACT(field FROM x)
    Extract,
    /// x IS form NORMALIZED
    IsNormalized,
    /// COLLATION FOR (x)
    CollationFor,
    /// NORMALIZE(x, form)
    Normalize,
    /// OVERLAY(x PLACING y FROM n FOR m)
    Overlay,
    /// POSITION((part) IN (whole)); the whole is the first argument.
    Position,
    /// SUBSTRING(x FROM n FOR m)
    Substring,
    /// SUBSTRING(x SIMILAR pattern ESCAPE escape)
    SubstringSimilar,
    /// TRIM(BOTH characters FROM x)
    TrimBoth,
    TrimLeading,
    TrimTrailing,
    /// SYSTEM_USER
    SystemUser,
    /// XMLEXISTS((path) PASSING (document))
    XmlExists,
}

/// The functions that have such a syntax, by their OIDs. A function of one of these names that
/// is not here is printed as a call.
const FUNCTIONS: &[(Syntax, &[u32])] = &[
    (Syntax::AtTimeZone, &[1026, 1159, 2037, 2038, 2069, 2070]),
    (Syntax::AtLocal, &[6334, 6335, 6336]),
    (
        Syntax::Overlaps,
        &[1271, 1304, 1305, 1306, 1307, 1308, 1309, 1310, 1311, 2041, 2042, 2043, 2044],
    ),
    (Syntax::Extract, &[6199, 6200, 6201, 6202, 6203, 6204]),
    (Syntax::IsNormalized, &[4351]),
    (Syntax::CollationFor, &[3162]),
    (Syntax::Normalize, &[4350]),
    (Syntax::Overlay, &[749, 752, 1404, 1405, 3030, 3031]),
    (Syntax::Position, &[849, 1698, 2014]),
    (Syntax::Substring, &[936, 937, 1680, 1699, 2012, 2013]),
    (Syntax::SubstringSimilar, &[2074]),
    (Syntax::TrimBoth, &[884, 885, 2015]),
    (Syntax::TrimLeading, &[875, 881, 6195]),
    (Syntax::TrimTrailing, &[876, 882, 6196]),
    (Syntax::SystemUser, &[6311]),
    (Syntax::XmlExists, &[2614]),
];

impl Printer<'_> {
    /// Prints a call in the function's own syntax, if it has one.
    pub(super) fn sql_syntax(&mut self, call: &FuncExpr, node: &Expr) -> Result<bool> {
        let known = FUNCTIONS.iter().find(|(_, functions)| functions.contains(&call.funcid));
        let Some((syntax, _)) = known else { return Ok(false) };
        let printed = self.in_syntax(*syntax, &call.args, node);
        printed.map(|()| true)
    }

    fn in_syntax(&mut self, syntax: Syntax, args: &[Expr], node: &Expr) -> Result<()> {
        match (syntax, args) {
            (Syntax::AtTimeZone, [zone, time]) => {
                self.push("(");
                self.argument(time, false, node)?;
                self.push(" AT TIME ZONE ");
                self.argument(zone, false, node)?;
                self.push(")");
            }
            (Syntax::AtLocal, [time]) => {
                self.push("(");
                self.argument(time, false, node)?;
                self.push(" AT LOCAL)");
            }
            (Syntax::Overlaps, [a, b, c, d]) => {
                let parts = [("((", a), (", ", b), (") OVERLAPS (", c), (", ", d)];
                self.parts(&parts, "))")?;
            }
            (Syntax::Extract, [field, source]) => {
                self.push("EXTRACT(");
                self.word(field)?;
                self.parts(&[(" FROM ", source)], ")")?;
            }
            (Syntax::IsNormalized, [text, form @ ..]) if form.len() <= 1 => {
                self.push("(");
                self.argument(text, false, node)?;
                self.push(" IS");
                for form in form {
                    self.push(" ");
                    self.word(form)?;
                }
                self.push(" NORMALIZED)");
            }
            (Syntax::Normalize, [text, form @ ..]) if form.len() <= 1 => {
                self.parts(&[("NORMALIZE(", text)], "")?;
                for form in form {
                    self.push(", ");
                    self.word(form)?;
                }
                self.push(")");
            }
            _ => self.plain_syntax(syntax, args)?,
        }
        Ok(())
    }

    /// The syntaxes whose arguments stand between keywords.
    fn plain_syntax(&mut self, syntax: Syntax, args: &[Expr]) -> Result<()> {
        match (syntax, args) {
            (Syntax::CollationFor, [value]) => self.parts(&[("COLLATION FOR (", value)], ")"),
            (Syntax::Overlay, [text, new, from]) => {
                self.parts(&[("OVERLAY(", text), (" PLACING ", new), (" FROM ", from)], ")")
            }
            (Syntax::Overlay, [text, new, from, len]) => {
                let parts = [("OVERLAY(", text), (" PLACING ", new), (" FROM ", from)];
                self.parts(&parts, "")?;
                self.parts(&[(" FOR ", len)], ")")
            }
            (Syntax::Position, [whole, part]) => {
                self.parts(&[("POSITION((", part), (") IN (", whole)], "))")
            }
            (Syntax::Substring, [text, from]) => {
                self.parts(&[("SUBSTRING(", text), (" FROM ", from)], ")")
            }
            (Syntax::Substring, [text, from, len]) => {
                self.parts(&[("SUBSTRING(", text), (" FROM ", from), (" FOR ", len)], ")")
            }
            (Syntax::SubstringSimilar, [text, pattern, escape]) => {
                let parts = [("SUBSTRING(", text), (" SIMILAR ", pattern), (" ESCAPE ", escape)];
                self.parts(&parts, ")")
            }
            (Syntax::TrimBoth, args) => self.trim("TRIM(BOTH", args),
            (Syntax::TrimLeading, args) => self.trim("TRIM(LEADING", args),
            (Syntax::TrimTrailing, args) => self.trim("TRIM(TRAILING", args),
            (Syntax::SystemUser, []) => {
                self.push("SYSTEM_USER");
                Ok(())
            }
            (Syntax::XmlExists, [path, document]) => {
                self.parts(&[("XMLEXISTS((", path), (") PASSING (", document)], "))")
            }
            _ => Err(NodeError::Arguments),
        }
    }

    fn trim(&mut self, begin: &str, args: &[Expr]) -> Result<()> {
        self.push(begin);
        match args {
            [text] => self.parts(&[(" FROM ", text)], ")"),
            [text, characters] => self.parts(&[(" ", characters), (" FROM ", text)], ")"),
            _ => Err(NodeError::Arguments),
        }
    }

    /// Expressions, each after a text.
    fn parts(&mut self, parts: &[(&str, &Expr)], end: &str) -> Result<()> {
        for (text, expr) in parts {
            self.push(text);
            self.expr(expr, false)?;
        }
        self.push(end);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tsv::TsvFile;

    #[test]
    fn the_functions_have_the_names_of_their_syntax() {
        let file = TsvFile::new(include_str!("../../../data/pg_proc.tsv"));
        let (oid, name) = (file.column("oid"), file.column("proname"));
        let names = [
            (Syntax::AtTimeZone, "timezone"),
            (Syntax::AtLocal, "timezone"),
            (Syntax::Overlaps, "overlaps"),
            (Syntax::Extract, "extract"),
            (Syntax::IsNormalized, "is_normalized"),
            (Syntax::CollationFor, "pg_collation_for"),
            (Syntax::Normalize, "normalize"),
            (Syntax::Overlay, "overlay"),
            (Syntax::Position, "position"),
            (Syntax::Substring, "substring"),
            (Syntax::SubstringSimilar, "substring"),
            (Syntax::TrimBoth, "btrim"),
            (Syntax::TrimLeading, "ltrim"),
            (Syntax::TrimTrailing, "rtrim"),
            (Syntax::SystemUser, "system_user"),
            (Syntax::XmlExists, "xmlexists"),
        ];
        let rows: Vec<_> = file.rows().collect();
        for ((syntax, functions), (of, expected)) in FUNCTIONS.iter().zip(names) {
            assert_eq!(*syntax, of);
            for function in *functions {
                let row = rows.iter().find(|row| row[oid] == Some(function.to_string().as_str()));
                assert_eq!(row.expect("a function")[name], Some(expected));
            }
        }
    }
}
