//! What the catalogs and tables show, and whether what rows of the catalogs refer to is there.

use std::collections::{BTreeMap, BTreeSet};

use crate::sql::Sql;

/// The columns that are compared. They leave out numbers that are handed out, and relhasindex: it
/// is set in place, before the transaction commits.
const SHOWN: [&str; 15] = [
    "select relname, relkind, relpersistence, relnatts, relchecks, relhastriggers, relreplident, \
     reloptions from pg_class where oid > 16383 and relpersistence <> 't'",
    "select attname, atttypid, attnum, attnotnull, atthasdef, attidentity, attisdropped, \
     attstorage from pg_attribute where attrelid > 16383 and attnum > 0",
    "select indnatts, indisunique, indisprimary, indisvalid, indisready, indkey from pg_index \
     where indrelid > 16383",
    "select conname, contype, condeferrable, convalidated, conkey from pg_constraint \
     where oid > 16383",
    "select adnum from pg_attrdef where oid > 16383",
    "select seqstart, seqincrement, seqcache from pg_sequence where seqrelid > 16383",
    "select nspname from pg_namespace where oid > 16383 and nspname not like 'pg_t%'",
    "select typname, typtype, typcategory from pg_type where oid > 16383",
    "select tgtype, tgdeferrable from pg_trigger where tgrelid > 16383",
    "select classid, refclassid, deptype from pg_depend where objid > 16383",
    "select dbid, classid, deptype from pg_shdepend where objid > 16383",
    "select description from pg_description where objoid > 16383",
    "select description from pg_shdescription where objoid > 16383",
    "select rolname, rolsuper, rolcanlogin from pg_authid where oid > 16383",
    "select spcname, spcowner from pg_tablespace where oid > 16383",
];

/// Columns of catalogs that have OIDs of rows of others.
const REFERENCES: [(&str, &str, &str); 31] = [
    ("pg_class", "relnamespace", "pg_namespace"),
    ("pg_class", "reltype", "pg_type"),
    ("pg_class", "relowner", "pg_authid"),
    ("pg_class", "relam", "pg_am"),
    ("pg_class", "reltablespace", "pg_tablespace"),
    ("pg_class", "reltoastrelid", "pg_class"),
    ("pg_type", "typnamespace", "pg_namespace"),
    ("pg_type", "typrelid", "pg_class"),
    ("pg_type", "typelem", "pg_type"),
    ("pg_type", "typarray", "pg_type"),
    ("pg_attribute", "attrelid", "pg_class"),
    ("pg_attribute", "atttypid", "pg_type"),
    ("pg_attrdef", "adrelid", "pg_class"),
    ("pg_index", "indexrelid", "pg_class"),
    ("pg_index", "indrelid", "pg_class"),
    ("pg_constraint", "connamespace", "pg_namespace"),
    ("pg_constraint", "conrelid", "pg_class"),
    ("pg_constraint", "conindid", "pg_class"),
    ("pg_constraint", "confrelid", "pg_class"),
    ("pg_sequence", "seqrelid", "pg_class"),
    ("pg_sequence", "seqtypid", "pg_type"),
    ("pg_trigger", "tgrelid", "pg_class"),
    ("pg_trigger", "tgconstraint", "pg_constraint"),
    ("pg_statistic", "starelid", "pg_class"),
    ("pg_auth_members", "roleid", "pg_authid"),
    ("pg_auth_members", "member", "pg_authid"),
    ("pg_auth_members", "grantor", "pg_authid"),
    ("pg_db_role_setting", "setdatabase", "pg_database"),
    ("pg_db_role_setting", "setrole", "pg_authid"),
    ("pg_tablespace", "spcowner", "pg_authid"),
    ("pg_namespace", "nspowner", "pg_authid"),
];

/// Columns that have OIDs of a catalog, and of a row of it.
const OBJECTS: [(&str, &str, &str); 6] = [
    ("pg_depend", "classid", "objid"),
    ("pg_depend", "refclassid", "refobjid"),
    ("pg_shdepend", "classid", "objid"),
    ("pg_shdepend", "refclassid", "refobjid"),
    ("pg_description", "classoid", "objoid"),
    ("pg_shdescription", "classoid", "objoid"),
];

/// What the catalogs and tables show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Picture(BTreeMap<String, Vec<String>>);

impl Picture {
    /// What differs from another one.
    pub(super) fn minus(&self, other: &Picture) -> String {
        let sets = |lines: &[String]| lines.iter().cloned().collect::<BTreeSet<_>>();
        let mut differences = Vec::new();
        for name in self.0.keys().chain(other.0.keys()).collect::<BTreeSet<_>>() {
            let lines = |picture: &Picture| sets(picture.0.get(name).map_or(&[][..], |l| l));
            let (own, others) = (lines(self), lines(other));
            differences.extend(own.difference(&others).map(|line| format!("+{name}: {line}")));
            differences.extend(others.difference(&own).map(|line| format!("-{name}: {line}")));
        }
        differences.truncate(8);
        differences.join(", ")
    }
}

/// A row without numbers that are handed out.
fn line(row: &[String]) -> String {
    let (mut out, mut digits) = (String::new(), String::new());
    for letter in row.join("|").chars().chain(['\n']) {
        if letter.is_ascii_digit() {
            digits.push(letter);
            continue;
        }
        out.push_str(if digits.len() < 5 { &digits } else { "#" });
        digits.clear();
        out.push(letter);
    }
    out.truncate(out.len() - 1);
    out
}

/// What is shown now.
pub(super) fn picture(sql: &mut Sql) -> Result<Picture, String> {
    let mut shown = BTreeMap::new();
    let mut add = |name: &str, rows: &[Vec<String>]| {
        let mut lines: Vec<String> = rows.iter().map(|row| line(row)).collect();
        lines.sort();
        shown.insert(name.to_owned(), lines);
    };
    for query in SHOWN {
        let from = query.split(" from ").nth(1).unwrap_or(query);
        add(from.split(' ').next().unwrap_or(from), &sql.run(query)?);
    }
    let namespaces = sql.run("select oid, nspname from pg_namespace")?;
    let name_of = |oid: &str| namespaces.iter().find(|row| row[0] == oid).map(|row| &row[1]);
    let tables = "select relnamespace, relname from pg_class \
                  where oid > 16383 and relkind = 'r' and relpersistence = 'p'";
    for row in sql.run(tables)? {
        let schema = name_of(&row[0]).ok_or_else(|| format!("{} has no schema", row[1]))?;
        let table = format!("{schema}.{}", row[1]);
        let rows = sql.run(&format!("select * from {table}"))?;
        add(&table, &rows);
    }
    Ok(Picture(shown))
}

/// Checks that tables which are not shown, for a crash empties them, can be read.
///
/// # Errors
/// As statements.
pub(super) fn check_unlogged(sql: &mut Sql) -> Result<(), String> {
    let tables = "select relnamespace, relname from pg_class \
                  where oid > 16383 and relkind = 'r' and relpersistence = 'u'";
    for row in sql.run(tables)? {
        let schema = format!("select nspname from pg_namespace where oid = {}", row[0]);
        let schema = sql.column(&schema)?.concat();
        sql.run(&format!("select * from {schema}.{}", row[1]))?;
    }
    Ok(())
}

/// Checks that tables with indexes are known to have some.
///
/// # Errors
/// The OIDs of those that are not.
pub(super) fn check_indexed(sql: &mut Sql) -> Result<(), String> {
    let known = sql.column("select oid from pg_class where relhasindex")?;
    let tables = sql.column("select indrelid from pg_index")?;
    let missing: Vec<_> = tables.iter().filter(|oid| !known.contains(oid)).collect();
    if missing.is_empty() { Ok(()) } else { Err(format!("relhasindex is false: {missing:?}")) }
}

/// Checks that what rows of the catalogs refer to is there.
///
/// # Errors
/// The references that lead to nothing.
pub(super) fn check_references(sql: &mut Sql) -> Result<(), String> {
    let mut catalogs = Catalogs::default();
    let mut wrong = Vec::new();
    for (catalog, column, of) in REFERENCES {
        for oid in sql.column(&format!("select {column} from {catalog} where {column} <> 0"))? {
            if !catalogs.has(sql, of, &oid)? {
                wrong.push(format!("{catalog}.{column} is {oid}"));
            }
        }
    }
    let names = sql.run("select oid, relname from pg_class where oid < 16384")?;
    let names: BTreeMap<String, String> = names
        .into_iter()
        .filter_map(|row| Some((row.first()?.clone(), row.get(1)?.clone())))
        .collect();
    for (catalog, class, object) in OBJECTS {
        let query = format!("select {class}, {object} from {catalog} where {object} > 16383");
        for row in sql.run(&query)? {
            let of = names.get(&row[0]).ok_or_else(|| format!("there is no catalog {}", row[0]))?;
            if !catalogs.has(sql, of, &row[1])? {
                wrong.push(format!("{catalog} has {} of {of}", row[1]));
            }
        }
    }
    wrong.truncate(8);
    if wrong.is_empty() { Ok(()) } else { Err(format!("references to nothing: {wrong:?}")) }
}

/// The OIDs of catalogs' rows.
#[derive(Default)]
struct Catalogs(BTreeMap<String, BTreeSet<String>>);

impl Catalogs {
    fn has(&mut self, sql: &mut Sql, catalog: &str, oid: &str) -> Result<bool, String> {
        if !self.0.contains_key(catalog) {
            let oids = sql.column(&format!("select oid from {catalog}"))?;
            self.0.insert(catalog.to_owned(), oids.into_iter().collect());
        }
        Ok(self.0.get(catalog).is_some_and(|oids| oids.contains(oid)))
    }
}
