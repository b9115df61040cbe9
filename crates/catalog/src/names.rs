//! Names that PostgreSQL chooses for indexes, constraints and types.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use forebay_types::{Datum, Encoding, Oid};

use crate::error::CatalogError;
use crate::schema::{
    CatalogIndex, PG_CLASS_RELNAME_NSP_INDEX, PG_CONSTRAINT_CONNAME_NSP_INDEX,
    PG_TYPE_TYPNAME_NSP_INDEX,
};
use crate::writer::Writer;

/// Most bytes of a name.
pub(crate) const MAX_NAME: usize = 63;

/// A name made of a table's, the columns' and a label, in an encoding. The longer of the first two
/// is cut until all fit.
pub(crate) fn make(
    (first, second): (&str, Option<&str>),
    label: Option<&str>,
    encoding: Encoding,
) -> String {
    let fixed = label.map_or(0, |label| label.len() + 1) + usize::from(second.is_some());
    let room = MAX_NAME.saturating_sub(fixed);
    let bytes = |text: &str| encoding.stored_len(text);
    let (mut a, mut b) = (bytes(first), second.map_or(0, bytes));
    while a + b > room {
        if a > b {
            a -= 1;
        } else {
            b -= 1;
        }
    }
    let mut name = cut(first, a, encoding).to_owned();
    for part in [second.map(|second| cut(second, b, encoding)), label].into_iter().flatten() {
        name.push('_');
        name.push_str(part);
    }
    name
}

/// At most so many bytes of a text, in whole characters.
fn cut(text: &str, bytes: usize, encoding: Encoding) -> &str {
    let end = match encoding {
        Encoding::Utf8 => text.floor_char_boundary(bytes),
        Encoding::SqlAscii => text.char_indices().nth(bytes).map_or(text.len(), |(at, _)| at),
    };
    text.get(..end).unwrap_or(text)
}

/// Names of columns joined, as far as they can matter for a name.
pub(crate) fn joined(columns: &[String]) -> String {
    let mut name = String::new();
    for column in columns {
        if !name.is_empty() {
            name.push('_');
        }
        name.push_str(column);
        // In memory a byte may take two.
        if name.len() > 2 * MAX_NAME {
            break;
        }
    }
    name
}

/// The names of an index's columns: those of the table's, with a number if one is there twice.
pub(crate) fn index_columns<'a>(
    names: impl Iterator<Item = &'a str>,
    encoding: Encoding,
) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for name in names {
        let mut unique = name.to_owned();
        for n in 1.. {
            if !found.contains(&unique) {
                break;
            }
            let number = n.to_string();
            unique = format!("{}{number}", cut(name, MAX_NAME - number.len(), encoding));
        }
        found.push(unique);
    }
    found
}

impl Writer<'_> {
    fn has_name(
        &mut self,
        index: &'static CatalogIndex,
        namespace: Oid,
        name: &str,
    ) -> Result<bool, CatalogError> {
        self.has((index, &[Datum::text(name), Datum::Oid(namespace)]))
    }

    /// Whether a namespace has a relation of this name.
    pub(crate) fn has_relation(
        &mut self,
        namespace: Oid,
        name: &str,
    ) -> Result<bool, CatalogError> {
        self.has_name(&PG_CLASS_RELNAME_NSP_INDEX, namespace, name)
    }

    fn has_constraint(&mut self, namespace: Oid, name: &str) -> Result<bool, CatalogError> {
        self.has_name(&PG_CONSTRAINT_CONNAME_NSP_INDEX, namespace, name)
    }

    /// A free name for an index. A constraint's must be free among those of constraints too.
    pub(crate) fn choose_index_name(
        &mut self,
        namespace: Oid,
        (table, columns, label): (&str, Option<&str>, &str),
        constraint: bool,
    ) -> Result<String, CatalogError> {
        let encoding = self.database.encoding;
        let taken = |name: &str| {
            Ok(self.has_relation(namespace, name)?
                || constraint && self.has_constraint(namespace, name)?)
        };
        let label = |number: &str| format!("{label}{number}");
        free(taken, |number| make((table, columns), Some(&label(number)), encoding))
    }

    /// A free name for a constraint of a table, or of a column of it.
    pub(crate) fn choose_constraint_name(
        &mut self,
        namespace: Oid,
        (table, column): (&str, Option<&str>),
        label: &str,
    ) -> Result<String, CatalogError> {
        let encoding = self.database.encoding;
        let taken = |name: &str| self.has_constraint(namespace, name);
        let label = |number: &str| format!("{label}{number}");
        free(taken, |number| make((table, column), Some(&label(number)), encoding))
    }

    /// A free name for the array type of a type.
    pub(crate) fn choose_array_name(
        &mut self,
        namespace: Oid,
        name: &str,
    ) -> Result<String, CatalogError> {
        let encoding = self.database.encoding;
        let taken = |name: &str| self.has_name(&PG_TYPE_TYPNAME_NSP_INDEX, namespace, name);
        free(taken, |number| {
            let label = Some(number).filter(|number| !number.is_empty());
            make(("", Some(name)), label, encoding)
        })
    }
}

/// The first name that is not taken: without a number, then with 1, 2, …
fn free(
    mut taken: impl FnMut(&str) -> Result<bool, CatalogError>,
    name: impl Fn(&str) -> String,
) -> Result<String, CatalogError> {
    let mut chosen = name("");
    for n in 1_u64.. {
        if !taken(&chosen)? {
            break;
        }
        chosen = name(&n.to_string());
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_made_as_postgresql_makes_them() {
        let make = |first, second, label| super::make((first, second), label, Encoding::Utf8);
        assert_eq!(make("t", Some("a_b"), Some("idx")), "t_a_b_idx");
        assert_eq!(make("t", None, Some("pkey")), "t_pkey");
        assert_eq!(make("", Some("t"), None), "_t");
        let (long, wide) = ("x".repeat(63), "ä".repeat(31));
        assert_eq!(make(&long, Some("a"), Some("idx")), format!("{}_a_idx", "x".repeat(57)));
        assert_eq!(make(&long, Some(&long), Some("key")).len(), 63);
        assert_eq!(make(&wide, None, Some("pkey")), format!("{}_pkey", "ä".repeat(29)));
        assert_eq!(make("", Some(&long), None).len(), 63);
        // Each byte is a character.
        let wide = "ä".repeat(63);
        let name = super::make((&wide, None), Some("pkey"), Encoding::SqlAscii);
        assert_eq!(name, format!("{}_pkey", "ä".repeat(58)));
    }

    #[test]
    fn columns_that_are_there_twice_get_numbers() {
        let names = index_columns(["a", "b", "a", "a"].into_iter(), Encoding::Utf8);
        assert_eq!(names, ["a", "b", "a1", "a2"]);
        assert_eq!(joined(&names), "a_b_a1_a2");
        let taken = |name: &str| Ok(["t_idx", "t_idx1"].contains(&name));
        assert_eq!(free(taken, |n| format!("t_idx{n}")).expect("a name"), "t_idx2");
    }
}
