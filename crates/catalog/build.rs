//! Writes the catalogs' layouts and fixed OIDs as Rust, from the files in `data/`.

use std::collections::HashMap;
use std::fmt::Write;
use std::path::Path;
use std::{env, fs};

#[path = "src/tsv.rs"]
mod tsv;

use tsv::{Cells, TsvFile};

/// Catalogs of which each row gets a constant with its OID: the column with the name, and what
/// stands behind the name.
const NAMED: [(&str, &str, &str); 5] = [
    ("pg_namespace", "nspname", ""),
    ("pg_database", "datname", "_DB"),
    ("pg_am", "amname", "_AM"),
    ("pg_collation", "collname", "_COLLATION"),
    ("pg_authid", "rolname", "_ROLE"),
];

fn main() {
    println!("cargo::rerun-if-changed=data");
    println!("cargo::rerun-if-changed=src/tsv.rs");
    let out = env::var_os("OUT_DIR").expect("cargo names the folder");
    let text = format!("{}{}{}", layouts(), indexes(), constants());
    fs::write(Path::new(&out).join("catalogs.rs"), text).expect("the file can be written");
}

/// A file of `data/`. What it holds stays until this program ends.
fn file(catalog: &str) -> TsvFile {
    let path = format!("data/{catalog}.tsv");
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    TsvFile::new(text.leak())
}

/// The value of a column that is never NULL.
fn get(file: &TsvFile, row: &Cells, column: &str) -> &'static str {
    row[file.column(column)].unwrap_or_else(|| panic!("{column} is NULL"))
}

/// A static for each catalog, and one with all of them.
fn layouts() -> String {
    let attributes = file("pg_attribute");
    let mut columns: HashMap<&str, String> = HashMap::new();
    for row in attributes.rows() {
        let get = |column| get(&attributes, &row, column);
        let line = format!(
            "    c({:?}, {}, {}, {}, b{:?}, {}, {}),\n",
            get("attname"),
            get("atttypid"),
            get("attnotnull") == "t",
            get("attlen"),
            get("attalign").chars().next().expect("a letter"),
            get("attbyval") == "t",
            get("attstorage") == "p",
        );
        columns.entry(get("attrelid")).or_default().push_str(&line);
    }
    let classes = file("pg_class");
    let (mut text, mut all) = (String::new(), Vec::new());
    for row in classes.rows() {
        let get = |column| get(&classes, &row, column);
        if get("relkind") != "r" {
            continue;
        }
        let (oid, name) = (get("oid"), get("relname"));
        let rows = match Path::new(&format!("data/{name}.tsv")).exists() {
            true => {
                format!("include_str!(concat!(env!(\"CARGO_MANIFEST_DIR\"), \"/data/{name}.tsv\"))")
            }
            false => "\"\"".to_owned(),
        };
        write!(
            text,
            "/// {name}\npub static {}: CatalogTable = CatalogTable {{\n    oid: {oid},\n    name: \
             {name:?},\n    row_type: {},\n    shared: {},\n    mapped: {},\n    columns: \
             &[\n{}],\n    rows: {rows},\n}};\n",
            name.to_uppercase(),
            get("reltype"),
            get("relisshared") == "t",
            get("relfilenode") == "0",
            columns[oid],
        )
        .expect("a string grows");
        all.push(format!("&{}", name.to_uppercase()));
    }
    let (count, all) = (all.len(), all.join(", "));
    let doc = "/// Every catalog, by ascending OID.";
    format!("{text}{doc}\npub static CATALOGS: [&CatalogTable; {count}] = [{all}];\n")
}

/// Constants with OIDs of rows that have names.
fn constants() -> String {
    let mut text = String::new();
    let mut add = |catalog: &str, name: &str, suffix: &str, oid: &str| {
        let constant = name.to_uppercase();
        writeln!(text, "/// {catalog}: {name}\npub const {constant}{suffix}: Oid = {oid};")
            .expect("a string grows");
    };
    for (catalog, name, suffix) in NAMED {
        let file = file(catalog);
        for row in file.rows() {
            add(catalog, get(&file, &row, name), suffix, get(&file, &row, "oid"));
        }
    }
    text
}

/// A static for each index of a catalog, and one with all of them.
fn indexes() -> String {
    let (indexes, classes) = (file("pg_index"), file("pg_class"));
    let class = |oid| {
        let row = classes.rows().find(|row| get(&classes, row, "oid") == oid);
        row.unwrap_or_else(|| panic!("pg_class does not have {oid}"))
    };
    let (mut text, mut all) = (String::new(), Vec::new());
    for row in indexes.rows() {
        let get_index = |column| get(&indexes, &row, column);
        let (index, table) = (class(get_index("indexrelid")), class(get_index("indrelid")));
        if get(&classes, &table, "relkind") != "r" {
            continue;
        }
        let name = get(&classes, &index, "relname");
        let columns: Vec<String> = get_index("indkey")
            .split(' ')
            .map(|number| (number.parse::<usize>().expect("a column") - 1).to_string())
            .collect();
        writeln!(
            text,
            "/// {name}\npub static {}: CatalogIndex = CatalogIndex {{ oid: {}, name: {name:?}, \
             of: &{}, unique: {}, columns: &[{}] }};",
            name.to_uppercase(),
            get_index("indexrelid"),
            get(&classes, &table, "relname").to_uppercase(),
            get_index("indisunique") == "t",
            columns.join(", "),
        )
        .expect("a string grows");
        all.push(format!("&{}", name.to_uppercase()));
    }
    let (count, all) = (all.len(), all.join(", "));
    let doc = "/// Every index of a catalog.";
    format!("{text}{doc}\npub static CATALOG_INDEXES: [&CatalogIndex; {count}] = [{all}];\n")
}
