//! The relations of a cluster, from the catalogs of each of its databases.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use forebay_access::check::{HeapTable, Transactions};
use forebay_aio::{AioError, AlignedBuf, FileKind, IoBackend, OpenOptions};
use forebay_catalog::MAP_FILE;
use forebay_catalog::at_rest::{ColumnRow, DatabaseRow, RelationRow};
use forebay_catalog::schema::{PG_ATTRIBUTE, PG_CLASS, PG_DATABASE, PG_NAMESPACE};
use forebay_format::ids::GLOBAL_TABLESPACE;
use forebay_format::relmap::RelMap;
use forebay_format::{AttrLayout, BLOCK_SIZE, HeapTuple, Page};
use forebay_types::Oid;

use super::cluster::Cluster;
use super::options::{CheckCounts, CheckedRelation, NotChecked, RelationKind};
use crate::error::EngineError;

/// OID of the access method of ordinary tables.
const HEAP: Oid = 2;
/// Blocks in one read.
const READ: usize = 16;

/// A relation with files.
#[derive(Debug)]
pub(super) struct Relation {
    pub told: CheckedRelation,
    /// Its first file.
    pub path: PathBuf,
    pub table: HeapTable,
}

/// Finds relations. What can't be read of a database is told.
pub(super) struct Finder<'a, 'p> {
    pub cluster: &'a Cluster,
    pub io: &'a mut IoBackend,
    pub transactions: &'a mut Transactions<'p>,
    /// Which relations are wanted; empty: all.
    pub names: &'a [String],
    pub counts: &'a mut CheckCounts,
    pub say: &'a mut dyn FnMut(&Path, &str),
}

/// What the catalogs of a database say.
#[derive(Default)]
struct Rows {
    relations: Vec<RelationRow>,
    columns: HashMap<Oid, Vec<ColumnRow>>,
    namespaces: HashMap<Oid, String>,
}

impl Finder<'_, '_> {
    /// All relations with files, in the order of databases and OIDs.
    pub(super) fn find(&mut self) -> Result<Vec<Arc<Relation>>, EngineError> {
        let shared = self.read_map(&self.cluster.dir.join("global"))?;
        let file = shared.get(PG_DATABASE.oid).ok_or_else(|| {
            EngineError::corrupt("could not find relation mapping for relation \"pg_database\"")
        })?;
        let global = self.cluster.directory(GLOBAL_TABLESPACE, 0);
        let (mut databases, cluster) = (Vec::new(), self.cluster);
        self.scan(&global.join(file.to_string()), &mut |tuple| {
            databases.extend(cluster.rows.database(tuple));
        })?;
        databases.sort_by_key(|database| database.oid);
        let (mut found, mut files, mut seen) = (Vec::new(), HashSet::new(), HashSet::new());
        for database in &databases {
            match self.read_database(database) {
                Ok((map, rows)) => {
                    let maps = (&shared, &map);
                    self.relations(database, maps, rows, &mut seen, &mut found, &mut files);
                }
                Err(EngineError::Refused(refusal)) => {
                    let directory = cluster.directory(database.tablespace, database.oid);
                    (self.say)(&directory, &refusal.message);
                    self.counts.skip(NotChecked::Databases);
                }
                Err(error) => return Err(error),
            }
        }
        if self.names.is_empty() {
            self.count_strays(&files)?;
        } else if found.is_empty() {
            let names = self.names.join(", ");
            return Err(EngineError::statement("42P01", format!("no relations match {names}")));
        }
        Ok(found)
    }

    fn read_map(&mut self, directory: &Path) -> Result<RelMap, EngineError> {
        let path = directory.join(MAP_FILE);
        let damaged = |what: String| {
            EngineError::corrupt(format!("could not read file \"{}\": {what}", path.display()))
        };
        let bytes = self.io.read_file(&path).map_err(|error| damaged(error.to_string()))?;
        RelMap::decode_of_version(&bytes, self.cluster.major)
            .map_err(|error| damaged(error.to_string()))
    }

    fn read_database(&mut self, database: &DatabaseRow) -> Result<(RelMap, Rows), EngineError> {
        let directory = self.cluster.directory(database.tablespace, database.oid);
        let map = self.read_map(&directory)?;
        let cluster = self.cluster;
        let mut rows = Rows::default();
        let file = |oid: Oid, name: &str| {
            map.get(oid).map(|file| directory.join(file.to_string())).ok_or_else(|| {
                let what = "could not find relation mapping for relation";
                EngineError::corrupt(format!("{what} \"{name}\""))
            })
        };
        self.scan(&file(PG_CLASS.oid, "pg_class")?, &mut |tuple| {
            rows.relations.extend(cluster.rows.relation(tuple));
        })?;
        rows.relations.sort_by_key(|relation| relation.oid);
        self.scan(&file(PG_ATTRIBUTE.oid, "pg_attribute")?, &mut |tuple| {
            if let Some(column) = cluster.rows.column(tuple).filter(|column| column.number > 0) {
                rows.columns.entry(column.relation).or_default().push(column);
            }
        })?;
        let schemas = rows.relations.iter().find(|relation| relation.oid == PG_NAMESPACE.oid);
        if let Some(schemas) = schemas {
            let path = directory.join(schemas.filenode.to_string());
            self.scan(&path, &mut |tuple| rows.namespaces.extend(cluster.rows.namespace(tuple)))?;
        }
        Ok((map, rows))
    }

    /// Shows all rows of a catalog that exist.
    fn scan(&mut self, path: &Path, row: &mut dyn FnMut(HeapTuple<'_>)) -> Result<(), EngineError> {
        let names = Arc::clone(self.io.aio().namespace());
        let unreadable = |error: AioError| {
            EngineError::corrupt(format!("could not read file \"{}\": {error}", path.display()))
        };
        let file = names.open(path, &OpenOptions::READ).map_err(unreadable)?;
        let mut buf = AlignedBuf::zeroed(READ * BLOCK_SIZE)?;
        let mut offset = 0;
        loop {
            let got = self.io.read_at(&file, offset, &mut buf).map_err(unreadable)?;
            let (pages, _) = buf.get(..got).unwrap_or_default().as_chunks::<BLOCK_SIZE>();
            if pages.is_empty() {
                return Ok(());
            }
            for page in pages.iter().map(Page::new).filter(Page::header_is_sane) {
                let tuples = page.items().filter_map(|(_, bytes)| HeapTuple::new(bytes).ok());
                for tuple in tuples {
                    if self.transactions.is_live(tuple) {
                        row(tuple);
                    }
                }
            }
            offset += (pages.len() * BLOCK_SIZE) as u64;
        }
    }

    /// Adds the wanted relations of a database to `found`, and the files of all to `files`.
    fn relations(
        &mut self,
        database: &DatabaseRow,
        (shared, local): (&RelMap, &RelMap),
        mut rows: Rows,
        seen: &mut HashSet<Oid>,
        found: &mut Vec<Arc<Relation>>,
        files: &mut HashSet<PathBuf>,
    ) {
        let mut toast_tables = HashSet::new();
        let relations = std::mem::take(&mut rows.relations);
        let told = |row: &RelationRow, kind| CheckedRelation {
            database: if row.shared { String::new() } else { database.name.clone() },
            schema: rows.namespaces.get(&row.namespace).cloned().unwrap_or_default(),
            name: row.name.clone(),
            oid: row.oid,
            kind,
        };
        for row in &relations {
            let wanted = kind_of(row).is_some_and(|kind| is_wanted(self.names, &told(row, kind)));
            if wanted && row.toast != 0 {
                toast_tables.insert(row.toast);
            }
        }
        for row in &relations {
            let Some(kind) = kind_of(row) else { continue };
            let map = if row.shared { shared } else { local };
            let file = if row.filenode == 0 { map.get(row.oid) } else { Some(row.filenode) };
            let tablespace = match (row.shared, row.tablespace) {
                (true, _) => GLOBAL_TABLESPACE,
                (false, 0) => database.tablespace,
                (false, tablespace) => tablespace,
            };
            let directory = self.cluster.directory(tablespace, database.oid);
            let path = file.map(|file| directory.join(file.to_string()));
            files.extend(path.clone());
            let told = told(row, kind);
            let wanted = is_wanted(self.names, &told) || toast_tables.contains(&row.oid);
            if !wanted || (row.shared && !seen.insert(row.oid)) {
                continue;
            }
            let Some(path) = path else {
                (self.say)(&directory, &format!("relation \"{}\" has no file", row.name));
                continue;
            };
            if self.is_checked(row, kind) {
                let columns = rows.columns.remove(&row.oid);
                let table = self.table_of(row, kind, columns.unwrap_or_default());
                found.push(Arc::new(Relation { told, path, table }));
            }
        }
    }

    /// Notes what of a relation is not checked. Returns whether anything is.
    fn is_checked(&mut self, row: &RelationRow, kind: RelationKind) -> bool {
        if row.persistence == b't' {
            self.counts.skip(NotChecked::Temporary);
            return false;
        }
        if row.persistence == b'u' && !self.cluster.shut_down {
            self.counts.skip(NotChecked::Unlogged);
            return false;
        }
        match kind {
            RelationKind::Index => self.counts.skip(NotChecked::Indexes),
            RelationKind::Other => self.counts.skip(NotChecked::OtherAccessMethods),
            RelationKind::Heap | RelationKind::Sequence => {
                if !self.cluster.shut_down {
                    self.counts.skip(NotChecked::Transactions);
                }
                if row.kind == b't' {
                    self.counts.skip(NotChecked::ToastValues);
                }
            }
        }
        true
    }

    fn table_of(
        &mut self,
        row: &RelationRow,
        kind: RelationKind,
        mut columns: Vec<ColumnRow>,
    ) -> HeapTable {
        columns.sort_by_key(|column| column.number);
        let complete = columns.iter().map(|column| column.number).eq(1..=row.columns);
        let is_table = matches!(kind, RelationKind::Heap | RelationKind::Sequence);
        if is_table && !complete {
            self.counts.skip(NotChecked::Attributes);
        }
        let layouts = || columns.iter().map(|column| column.layout).collect::<Vec<AttrLayout>>();
        HeapTable {
            columns: complete.then(layouts),
            toast: (row.toast != 0).then_some(row.toast),
            frozen_xid: row.frozen_xid,
            min_multi: row.min_multi,
            is_sequence: kind == RelationKind::Sequence,
        }
    }

    /// Counts files in the directories of relations that belong to none.
    fn count_strays(&mut self, files: &HashSet<PathBuf>) -> Result<(), EngineError> {
        let directories: HashSet<&Path> = files.iter().filter_map(|file| file.parent()).collect();
        let mut strays = HashSet::new();
        for directory in directories {
            if !self.io.aio().namespace().exists(directory)? {
                continue;
            }
            for entry in self.io.aio().namespace().list(directory)? {
                let name = entry.name.to_string_lossy();
                let number = name.split(['.', '_']).next().unwrap_or_default();
                let is_relation = number.bytes().all(|byte| byte.is_ascii_digit());
                let path = directory.join(number);
                if entry.kind == FileKind::File && is_relation && !files.contains(&path) {
                    strays.insert(path);
                }
            }
        }
        strays.iter().for_each(|_| self.counts.skip(NotChecked::StrayFiles));
        Ok(())
    }
}

/// What a relation is; `None` if it has no files.
fn kind_of(row: &RelationRow) -> Option<RelationKind> {
    Some(match row.kind {
        b'r' | b't' | b'm' if row.access_method == HEAP => RelationKind::Heap,
        b'r' | b't' | b'm' => RelationKind::Other,
        b'S' => RelationKind::Sequence,
        b'i' => RelationKind::Index,
        _ => return None,
    })
}

/// Whether one of the names is the relation's: `name`, `schema.name` or `database.schema.name`.
fn is_wanted(names: &[String], told: &CheckedRelation) -> bool {
    let CheckedRelation { database, schema, name, .. } = told;
    let full = [name.clone(), format!("{schema}.{name}"), format!("{database}.{schema}.{name}")];
    names.is_empty() || names.iter().any(|wanted| full.contains(wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_may_have_a_schema_and_a_database() {
        let told = CheckedRelation {
            database: "db".to_owned(),
            schema: "public".to_owned(),
            name: "t".to_owned(),
            oid: 16_384,
            kind: RelationKind::Heap,
        };
        for (names, expected) in [
            (&[][..], true),
            (&["t"], true),
            (&["x", "public.t"], true),
            (&["db.public.t"], true),
            (&["other.t"], false),
            (&["db.t"], false),
        ] {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            assert_eq!(is_wanted(&names, &told), expected, "{names:?}");
        }
    }
}
