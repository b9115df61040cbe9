//! `cargo xtask catalogs`: the rows that PostgreSQL's catalogs begin with, as data files.
//!
//! A file holds a catalog's rows below a line with the names of its columns, separated by tabs.
//! Behind a name stands, as `name=value`, what an empty cell of that column means. `\N` is NULL,
//! `\e` the empty text. Cells at a line's end that are empty are left out.
//!
//! A row is in the files if every OID in it is one that PostgreSQL itself has assigned: those are
//! the same in all clusters. So what initdb's scripts create later is not there: system views, the
//! information schema, PL/pgSQL, stemmers for text search, collations of the operating system.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write;
use std::fs;
use std::path::Path;

use forebay_testkit::peer::{Peer, Postgres};

use crate::peers;

/// Where the files are.
const FOLDER: &str = "crates/catalog/data";

/// The first OID that a script of initdb may get: PostgreSQL's `FirstUnpinnedObjectId`.
const FIRST_OF_SCRIPTS: u32 = 12_000;

/// Catalogs whose rows stay out: texts for people, and statistics.
const WITHOUT_ROWS: &str =
    "'pg_description', 'pg_shdescription', 'pg_seclabel', 'pg_shseclabel', 'pg_statistic'";

/// Columns that stand for something else in the files: the column, and what is stored of it.
const INSTEAD: [(&str, &str); 11] = [
    // What a new cluster begins with; vacuum changes it.
    ("relpages", "0"),
    ("reltuples", "-1"),
    ("relallvisible", "0"),
    ("relallfrozen", "0"),
    ("relfrozenxid", "case relfrozenxid when '0' then 0 else 3 end"),
    ("relminmxid", "case relminmxid when '0' then 0 else 1 end"),
    ("datfrozenxid", "3"),
    ("datminmxid", "1"),
    // The version of a library on the machine.
    ("collversion", "case collprovider when 'i' then null else collversion end"),
    // Bodies of functions in SQL are no facts but a program. PostgreSQL's scripts bring them, but
    // for four that are written here: texts beside other types, and their quotes.
    (
        "prosrc",
        "case oid when 1285 then 'select pg_catalog.quote_literal($1::pg_catalog.text)' \
         when 1290 then 'select pg_catalog.quote_nullable($1::pg_catalog.text)' \
         when 2003 then 'select $1 operator(pg_catalog.||) $2::pg_catalog.text' \
         when 2004 then 'select $1::pg_catalog.text operator(pg_catalog.||) $2' \
         else case prolang when 14 then 'body not included' else prosrc end end",
    ),
    ("prosqlbody", "null"),
];

/// Writes the files anew.
///
/// # Errors
/// When PostgreSQL can't be had, or a file not be written.
pub fn run(root: &Path) -> Result<(), String> {
    let runner = match std::env::var_os("FOREBAY_PG18_RUN") {
        Some(runner) => runner.into(),
        None => peers::prepare(root)?.runner,
    };
    let peer = Peer::run_by(&runner, "catalogs");
    let files = extract(&peer)?;
    let folder = root.join(FOLDER);
    let text = |e: std::io::Error| format!("{}: {e}", folder.display());
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(text)?;
    }
    fs::create_dir_all(&folder).map_err(text)?;
    for (name, content) in &files {
        fs::write(folder.join(name), content).map_err(text)?;
    }
    let bytes: usize = files.values().map(String::len).sum();
    println!("{} files, {bytes} bytes in {FOLDER}", files.len());
    Ok(())
}

/// The files by name, from a new cluster.
fn extract(peer: &Peer) -> Result<BTreeMap<String, String>, String> {
    peer.init("data");
    let server = peer.start("data", "-c autovacuum=off");
    let catalogs = catalogs(&server);
    let mut script = String::new();
    for (name, columns) in &catalogs {
        write!(script, "select '>{name}'; {};", copy(name, columns)).expect("a string grows");
    }
    let output = server.query(&format!("{script} select '>end'"));
    let mut files = BTreeMap::new();
    let output = output.strip_prefix('>').and_then(|output| output.strip_suffix("\n>end"));
    let output = output.ok_or("the server printed something else")?;
    for part in output.split("\n>") {
        let (name, rows) = part.split_once('\n').unwrap_or((part, ""));
        let columns = catalogs.get(name).ok_or_else(|| format!("no catalog {name:?}"))?;
        if !rows.is_empty() {
            files.insert(format!("{name}.tsv"), file(columns, rows)?);
        }
    }
    Ok(files)
}

/// A catalog's column.
struct Column {
    name: String,
    type_name: String,
    /// Its place in the primary key, from 1.
    key: Option<u32>,
}

/// The catalogs with their columns.
fn catalogs(server: &Postgres<'_>) -> BTreeMap<String, Vec<Column>> {
    let rows = server.query(&format!(
        "select c.relname, a.attname, a.atttypid::regtype, array_position(i.indkey, a.attnum) + 1
         from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0
         left join pg_index i on i.indrelid = c.oid and i.indisprimary
         where c.relkind = 'r' and c.oid < {FIRST_OF_SCRIPTS} and c.relname not in ({WITHOUT_ROWS})
         order by c.oid, a.attnum"
    ));
    let mut catalogs: BTreeMap<String, Vec<Column>> = BTreeMap::new();
    for row in rows.lines() {
        let mut cells = row.split('|');
        let mut next = || cells.next().unwrap_or_default().to_owned();
        let (catalog, name, type_name) = (next(), next(), next());
        let column = Column { name, type_name, key: next().parse().ok() };
        catalogs.entry(catalog).or_default().push(column);
    }
    catalogs
}

/// The statement that prints a catalog's rows in the order of its primary key.
fn copy(catalog: &str, columns: &[Column]) -> String {
    let shown = columns.iter().map(|Column { name, type_name, .. }| {
        let instead = INSTEAD.iter().find(|(column, _)| column == name);
        match instead {
            Some((_, expression)) => (*expression).to_owned(),
            // Names of functions are ambiguous.
            None if type_name == "regproc" => format!("{name}::oid"),
            None => name.clone(),
        }
    });
    let shown: Vec<String> = shown.collect();
    let is_oid = |column: &&Column| ["oid", "regproc"].contains(&column.type_name.as_str());
    let pinned = columns.iter().filter(is_oid);
    let pinned = pinned.map(|column| format!("{}::oid < {FIRST_OF_SCRIPTS}", column.name));
    let mut conditions: Vec<String> = pinned.collect();
    if catalog == "pg_attribute" {
        // System columns are the same in all tables.
        conditions.push("attnum > 0".to_owned());
    }
    let keys: BTreeMap<u32, &str> =
        columns.iter().filter_map(|column| Some((column.key?, column.name.as_str()))).collect();
    let mut order: Vec<&str> = keys.into_values().collect();
    if order.is_empty() {
        order = columns.iter().map(|column| column.name.as_str()).collect();
    }
    format!(
        "copy (select {} from {catalog} where {} order by {}) to stdout",
        shown.join(", "),
        conditions.join(" and "),
        order.join(", ")
    )
}

/// The file of a catalog whose rows COPY has printed.
fn file(columns: &[Column], rows: &str) -> Result<String, String> {
    let mut table: Vec<Vec<&str>> = Vec::new();
    for row in rows.lines() {
        let cells: Vec<&str> = row.split('\t').collect();
        let plain = |cell: &&str| *cell == "\\N" || !cell.contains('\\');
        if cells.len() != columns.len() || !cells.iter().all(plain) {
            return Err(format!("a row has another form: {row:?}"));
        }
        table.push(cells);
    }
    let usual: Vec<Option<&str>> =
        (0..columns.len()).map(|n| usual(table.iter().map(|row| row[n]))).collect();
    let names = columns.iter().zip(&usual).map(|(column, usual)| match usual {
        Some(value) => format!("{}={}", column.name, cell(value)),
        None => column.name.clone(),
    });
    let mut text = names.collect::<Vec<_>>().join("\t");
    for row in &table {
        let cells = row.iter().zip(&usual);
        let cells =
            cells.map(|(value, usual)| if *usual == Some(value) { "" } else { cell(value) });
        text.push('\n');
        text.push_str(cells.collect::<Vec<_>>().join("\t").trim_end_matches('\t'));
    }
    text.push('\n');
    Ok(text)
}

fn cell(value: &str) -> &str {
    if value.is_empty() { "\\e" } else { value }
}

/// The value that more than half of the rows have, if there are several.
fn usual<'a>(values: impl ExactSizeIterator<Item = &'a str>) -> Option<&'a str> {
    let rows = values.len();
    let mut counts: HashMap<&str, usize> = HashMap::new();
    values.for_each(|value| *counts.entry(value).or_default() += 1);
    let most: BTreeSet<(usize, &str)> = counts.into_iter().map(|(value, n)| (n, value)).collect();
    most.last().filter(|(count, _)| rows > 2 && count * 2 > rows).map(|(_, value)| *value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_values_are_left_out() {
        let column =
            |name: &str| Column { name: name.to_owned(), type_name: "oid".to_owned(), key: None };
        let columns = ["oid", "a", "b", "c"].map(column);
        let rows = "1\tx\t\t\\N\n2\tx\ty\t\\N\n3\t\ty\t\\N";
        let want = "oid\ta=x\tb=y\tc=\\N\n1\t\t\\e\n2\n3\t\\e\n";
        assert_eq!(file(&columns, rows).expect("a file"), want);
        file(&columns, "1\t\\t\t\t").expect_err("an escaped tab");
        file(&columns, "1\t2\t3").expect_err("a column less");
    }

    #[test]
    fn the_files_are_what_postgresql_has() {
        let Some(peer) = Peer::find("the_files_are_what_postgresql_has") else { return };
        let files = extract(&peer).expect("the catalogs");
        let folder = crate::workspace_root().join(FOLDER);
        let entries = fs::read_dir(&folder).expect("the folder").map(|entry| entry.expect("entry"));
        let stored: BTreeMap<String, String> = entries
            .map(|entry| {
                let text = fs::read_to_string(entry.path()).expect("text");
                (entry.file_name().into_string().expect("UTF-8"), text)
            })
            .collect();
        assert!(stored.keys().eq(files.keys()), "{:?}", stored.keys());
        for (name, text) in &files {
            let differs = text.lines().zip(stored[name].lines()).find(|(a, b)| a != b);
            assert_eq!(differs, None, "{name}: run cargo xtask catalogs");
            assert_eq!(text.lines().count(), stored[name].lines().count(), "{name}");
        }
    }
}
