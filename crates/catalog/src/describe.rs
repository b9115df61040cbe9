//! Objects in words, as messages name them.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use forebay_types::{Datum, Oid};

use crate::catalog_oids::{
    CLASSES, COLLATIONS, CONSTRAINTS, DEFAULTS, MEMBERSHIPS, NAMESPACES, TYPES,
};
use crate::cluster_rows::Named;
use crate::error::CatalogError;
use crate::identifier::quoted;
use crate::membership::describe_grant;
use crate::objects::Object;
use crate::row::Row;
use crate::schema::{
    self, PG_ATTRDEF, PG_ATTRDEF_OID_INDEX, PG_ATTRIBUTE_RELID_ATTNUM_INDEX,
    PG_CONSTRAINT_OID_INDEX, PG_TYPE_OID_INDEX,
};
use crate::shared_objects::SharedDependency;
use crate::writer::{Found, Writer};

/// Catalogs whose rows have a name in their second column, and how messages call what they hold.
const NAMED: [(Oid, &str); 15] = [
    (schema::PG_DATABASE.oid, "database"),
    (schema::PG_AUTHID.oid, "role"),
    (schema::PG_TABLESPACE.oid, "tablespace"),
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

/// Those of them that are in no schema.
const BARE: [&str; 9] = [
    "database",
    "role",
    "tablespace",
    "language",
    "extension",
    "event trigger",
    "publication",
    "server",
    "foreign-data wrapper",
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
        MEMBERSHIPS => describe_grant(writer, object.oid)?,
        class => describe_other(writer, class, object.oid)?,
    })
}

/// An object of a class that has no words of its own in messages.
fn describe_other(writer: &mut Writer<'_>, class: Oid, oid: Oid) -> Result<String, CatalogError> {
    let Some(&(_, what)) = NAMED.iter().find(|(known, _)| *known == class) else {
        let of = schema::CATALOGS.iter().find(|catalog| catalog.oid == class);
        return Ok(format!("object {oid} of {}", of.map_or("no catalog", |of| of.name)));
    };
    let mut indexes = schema::CATALOG_INDEXES.iter();
    Ok(match indexes.find(|index| index.of.oid == class && index.columns == [0]) {
        Some(index) => {
            let name = name_of(&writer.row(index, oid)?, 1);
            // As in PostgreSQL, what is in no schema has its bare name.
            let name = if BARE.contains(&what) { name.into() } else { quoted(&name) };
            format!("{what} {name}")
        }
        None => format!("{what} {oid}"),
    })
}

/// The most objects that a message lists.
const MOST_LISTED: usize = 100;

/// What depends on something that all databases share, a line each, in PostgreSQL's order: what is
/// in other databases comes last, and is only counted.
pub(crate) fn describe_dependents(
    writer: &mut Writer<'_>,
    found: Vec<SharedDependency>,
) -> Result<String, CatalogError> {
    let own = writer.database.oid;
    let (mut here, there): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|depends| [0, own].contains(&depends.database));
    here.sort_by_key(|SharedDependency { object, kind, .. }| {
        (object.oid, object.class, object.column, *kind)
    });
    let mut elsewhere = Vec::<(Oid, usize)>::new();
    for SharedDependency { database, .. } in there {
        match elsewhere.iter_mut().find(|(oid, _)| *oid == database) {
            Some((_, count)) => *count += 1,
            None => elsewhere.push((database, 1)),
        }
    }
    let mut lines = Vec::new();
    let listed = here.len().min(MOST_LISTED);
    for SharedDependency { object, kind, .. } in here.iter().take(listed) {
        let what = describe(writer, *object)?;
        lines.push(match kind {
            b'o' => format!("owner of {what}"),
            b'a' => format!("privileges for {what}"),
            b'i' => format!("initial privileges for {what}"),
            b'r' => format!("target of {what}"),
            b't' => format!("tablespace for {what}"),
            _ => format!("dependency of {what}"),
        });
    }
    let databases = elsewhere.len().min(MOST_LISTED - listed);
    for (database, count) in elsewhere.iter().take(databases) {
        let row = writer.reader().find_database(Named::Oid(*database))?;
        let name = row.map_or_else(|| database.to_string(), |row| row.name);
        let objects = plural(*count, "object", "objects");
        lines.push(format!("{count} {objects} in database {name}"));
    }
    let log = "(see server log for list)";
    if let rest @ 1.. = here.len() - listed {
        let objects = plural(rest, "object", "objects");
        lines.push(format!("and {rest} other {objects} {log}"));
    }
    if let rest @ 1.. = elsewhere.len() - databases {
        let databases = plural(rest, "database", "databases");
        lines.push(format!("and objects in {rest} other {databases} {log}"));
    }
    Ok(lines.join("\n"))
}

fn plural(count: usize, one: &'static str, many: &'static str) -> &'static str {
    if count == 1 { one } else { many }
}

/// The name of an object in a namespace, as messages have it.
fn qualified(writer: &mut Writer<'_>, namespace: Oid, name: &str) -> Result<String, CatalogError> {
    if writer.path.contains(&namespace) {
        return Ok(quoted(name).into_owned());
    }
    let found = writer.row(&schema::PG_NAMESPACE_OID_INDEX, namespace)?;
    Ok(format!("{}.{}", quoted(&name_of(&found, 1)), quoted(name)))
}
