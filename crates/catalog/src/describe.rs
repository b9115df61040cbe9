//! Objects in words, as messages name them.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use forebay_types::{Datum, Oid};

use crate::catalog_oids::{CLASSES, COLLATIONS, CONSTRAINTS, DEFAULTS, NAMESPACES, TYPES};
use crate::error::CatalogError;
use crate::identifier::quoted;
use crate::objects::Object;
use crate::row::Row;
use crate::schema::{
    self, PG_ATTRDEF, PG_ATTRDEF_OID_INDEX, PG_ATTRIBUTE_RELID_ATTNUM_INDEX,
    PG_CONSTRAINT_OID_INDEX, PG_TYPE_OID_INDEX,
};
use crate::writer::{Found, Writer};

/// Catalogs whose rows have a name in their second column, and how messages call what they hold.
const NAMED: [(Oid, &str); 12] = [
    (schema::PG_PROC.oid, "function"),
    (schema::PG_OPERATOR.oid, "operator"),
    (schema::PG_CONVERSION.oid, "conversion"),
    (schema::PG_LANGUAGE.oid, "language"),
    (schema::PG_EXTENSION.oid, "extension"),
    (schema::PG_EVENT_TRIGGER.oid, "event trigger"),
    (schema::PG_PUBLICATION.oid, "publication"),
    (schema::PG_FOREIGN_SERVER.oid, "server"),
    (schema::PG_FOREIGN_DATA_WRAPPER.oid, "foreign-data wrapper"),
    (schema::PG_STATISTIC_EXT.oid, "statistics object"),
    (schema::PG_TS_CONFIG.oid, "text search configuration"),
    (schema::PG_TS_DICT.oid, "text search dictionary"),
];

fn name_of(found: &Found, at: usize) -> String {
    match found.values.get(at) {
        Some(Datum::Text(name)) => name.clone().into_owned(),
        _ => String::new(),
    }
}

/// An object in messages.
pub(crate) fn describe(writer: &mut Writer<'_>, object: Object) -> Result<String, CatalogError> {
    Ok(match object.class {
        CLASSES if object.column != 0 => {
            let key = [Datum::Oid(object.oid), Datum::Int2(object.column)];
            let found = writer.rows((&PG_ATTRIBUTE_RELID_ATTNUM_INDEX, &key), 2)?.pop();
            let column = found.map(|found| name_of(&found, 1)).unwrap_or_default();
            format!("column {column} of {}", describe(writer, Object::relation(object.oid))?)
        }
        DEFAULTS => {
            let found = writer.row(&PG_ATTRDEF_OID_INDEX, object.oid)?;
            let row = Row(&found.values, PG_ATTRDEF.name);
            let column = Object::column(row.oid(1)?, row.int2(2)?);
            format!("default value for {}", describe(writer, column)?)
        }
        CLASSES => {
            let class = writer.reader().class(object.oid)?;
            let Some(class) = class else {
                return Ok(format!("relation {}", object.oid));
            };
            let what = match class.kind {
                b'i' | b'I' => "index",
                b'v' => "view",
                b'm' => "materialized view",
                b'S' => "sequence",
                b't' => "toast table",
                b'c' => "composite type",
                b'f' => "foreign table",
                _ => "table",
            };
            format!("{what} {}", qualified(writer, class.namespace, &class.name)?)
        }
        NAMESPACES => {
            let found = writer.row(&schema::PG_NAMESPACE_OID_INDEX, object.oid)?;
            format!("schema {}", quoted(&name_of(&found, 1)))
        }
        CONSTRAINTS => {
            let found = writer.row(&PG_CONSTRAINT_OID_INDEX, object.oid)?;
            let name = name_of(&found, 1);
            match found.values.get(schema::PG_CONSTRAINT.place("conrelid")) {
                Some(Datum::Oid(table)) if *table != 0 => {
                    let of = describe(writer, Object::relation(*table))?;
                    format!("constraint {name} on {of}")
                }
                _ => format!("constraint {name}"),
            }
        }
        COLLATIONS => {
            let found = writer.row(&schema::PG_COLLATION_OID_INDEX, object.oid)?;
            let namespace = Row(&found.values, schema::PG_COLLATION.name).oid(2)?;
            format!("collation {}", qualified(writer, namespace, &name_of(&found, 1))?)
        }
        TYPES => {
            let found = writer.row(&PG_TYPE_OID_INDEX, object.oid)?;
            let name = name_of(&found, 1);
            match found.values.get(2) {
                Some(Datum::Oid(namespace)) => {
                    format!("type {}", qualified(writer, *namespace, &name)?)
                }
                _ => format!("type {name}"),
            }
        }
        class => describe_other(writer, class, object.oid)?,
    })
}

/// An object of a class that has no words of its own in messages.
fn describe_other(writer: &mut Writer<'_>, class: Oid, oid: Oid) -> Result<String, CatalogError> {
    let Some((_, what)) = NAMED.iter().find(|(known, _)| *known == class) else {
        let of = schema::CATALOGS.iter().find(|catalog| catalog.oid == class);
        return Ok(format!("object {oid} of {}", of.map_or("no catalog", |of| of.name)));
    };
    let mut indexes = schema::CATALOG_INDEXES.iter();
    Ok(match indexes.find(|index| index.of.oid == class && index.columns == [0]) {
        Some(index) => format!("{what} {}", quoted(&name_of(&writer.row(index, oid)?, 1))),
        None => format!("{what} {oid}"),
    })
}

/// The name of an object in a namespace, as messages have it.
fn qualified(writer: &mut Writer<'_>, namespace: Oid, name: &str) -> Result<String, CatalogError> {
    if writer.path.contains(&namespace) {
        return Ok(quoted(name).into_owned());
    }
    let found = writer.row(&schema::PG_NAMESPACE_OID_INDEX, namespace)?;
    Ok(format!("{}.{}", quoted(&name_of(&found, 1)), quoted(name)))
}
