//! The relations of a cluster, from the catalogs of each of its databases.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use forebay_access::check::{BtreeShape, HeapTable, IndexedColumns, Transactions};
use forebay_aio::{AioError, AlignedBuf, DirEntry, FileKind, IfFound, IoBackend, OpenOptions};
use forebay_catalog::MAP_FILE;
use forebay_catalog::at_rest::{ColumnRow, DatabaseRow, IndexRow, KeyOrders, RelationRow};
use forebay_catalog::schema::{
    BTREE_AM, HEAP_AM, PG_AMPROC, PG_ATTRIBUTE, PG_CLASS, PG_DATABASE, PG_INDEX, PG_NAMESPACE,
    PG_OPCLASS,
};
use forebay_collation::Collation;
use forebay_format::ids::GLOBAL_TABLESPACE;
use forebay_format::nbtree::Meta;
use forebay_format::page::HEADER_SIZE;
use forebay_format::relmap::RelMap;
use forebay_format::{AttrLayout, BLOCK_SIZE, BlockNumber, Fork, HeapTuple, Page, RELSEG_BLOCKS};
use forebay_types::Oid;

use super::cluster::{Cluster, file_of};
use super::options::{CheckCounts, CheckedRelation, NotChecked, RelationKind};
use crate::error::EngineError;

/// Blocks in one read.
const READ: usize = 16;
/// Most bytes of a map of files that are read; it has about 500.
const MAX_MAP: u64 = 1024;

/// A B-tree, as the catalogs describe it.
#[derive(Debug)]
pub(super) struct Btree {
    /// pg_index.indrelid
    pub table: u32,
    pub shape: BtreeShape,
    /// How it follows from the rows of its table; `None`: that is not compared.
    pub indexed: Option<IndexedColumns>,
    /// About how many entries it has, if that was counted.
    pub entries: Option<u64>,
}

/// A relation with files.
#[derive(Debug)]
pub(super) struct Relation {
    pub told: CheckedRelation,
    /// Its first file.
    pub path: PathBuf,
    pub is_toast: bool,
    pub table: HeapTable,
    /// A B-tree whose pages can be checked.
    pub btree: Option<Btree>,
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
    /// In the order of their OIDs.
    relations: Vec<RelationRow>,
    columns: HashMap<Oid, Vec<ColumnRow>>,
    namespaces: HashMap<Oid, String>,
    indexes: HashMap<Oid, IndexRow>,
    orders: KeyOrders,
}

impl Rows {
    fn relation(&self, oid: Oid) -> Option<&RelationRow> {
        let at = self.relations.binary_search_by_key(&oid, |relation| relation.oid).ok()?;
        self.relations.get(at)
    }
}

/// What the databases read so far have.
#[derive(Default)]
struct Found {
    relations: Vec<Arc<Relation>>,
    /// Those that all databases share.
    shared: HashSet<Oid>,
    /// The first files of all relations, wanted or not.
    files: HashSet<PathBuf>,
    /// The relations that are wanted, whether they can be checked or not.
    wanted: Vec<CheckedRelation>,
}

impl Finder<'_, '_> {
    /// All relations with files, in the order of databases and OIDs.
    pub(super) fn find(&mut self) -> Result<Vec<Arc<Relation>>, EngineError> {
        let shared = self.read_map(&self.cluster.dir.join("global"))?;
        let file = shared.get(PG_DATABASE.oid).ok_or_else(|| {
            EngineError::corrupt("could not find relation mapping for relation \"pg_database\"")
        })?;
        let global = self.cluster.directory(GLOBAL_TABLESPACE, 0);
        let databases = self.read_databases(&global.join(file.to_string()))?;
        let (mut found, cluster) = (Found::default(), self.cluster);
        for database in &databases {
            if database.half_dropped {
                self.counts.skip(NotChecked::HalfDropped);
                continue;
            }
            match self.read_database(database) {
                Ok((map, rows)) => self.relations(database, (&shared, &map), rows, &mut found),
                Err(EngineError::Refused(refusal)) => {
                    let directory = cluster.directory(database.tablespace, database.oid);
                    (self.say)(&directory, &refusal.message);
                    self.counts.skip(NotChecked::Databases);
                }
                Err(error) => return Err(error),
            }
        }
        if self.names.is_empty() {
            self.count_strays(&found.files);
            self.count_stray_directories(&databases);
        }
        let is_named = |name: &String| {
            found.wanted.iter().any(|told| is_wanted(std::slice::from_ref(name), told))
        };
        let unknown: Vec<&str> =
            self.names.iter().filter(|name| !is_named(name)).map(String::as_str).collect();
        if !unknown.is_empty() {
            let message = format!("no relations match {}", unknown.join(", "));
            return Err(EngineError::statement("42P01", message));
        }
        Ok(found.relations)
    }

    fn read_map(&mut self, directory: &Path) -> Result<RelMap, EngineError> {
        let path = directory.join(MAP_FILE);
        let damaged = |what: String| {
            EngineError::corrupt(format!("could not read file \"{}\": {what}", path.display()))
        };
        let stat = self.io.aio().namespace().stat(&path);
        if let Some(stat) = stat.map_err(|error| damaged(error.to_string()))?
            && stat.len > MAX_MAP
        {
            return Err(damaged(format!("it has {} bytes", stat.len)));
        }
        let bytes = self.io.read_file(&path).map_err(|error| damaged(error.to_string()))?;
        RelMap::decode_of_version(&bytes, self.cluster.major)
            .map_err(|error| damaged(error.to_string()))
    }

    /// The rows of pg_database.
    fn read_databases(&mut self, path: &Path) -> Result<Vec<DatabaseRow>, EngineError> {
        let (mut databases, cluster) = (Vec::new(), self.cluster);
        self.scan(path, &mut |tuple| add(&mut databases, cluster.rows.database(tuple)))?;
        if databases.is_empty() {
            return Err(EngineError::corrupt("pg_database has no rows")
                .with_detail(format!("The file is \"{}\".", path.display())));
        }
        databases.sort_by_key(|database| database.oid);
        Ok(databases)
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
        let classes = file(PG_CLASS.oid, "pg_class")?;
        self.scan(&classes, &mut |tuple| add(&mut rows.relations, cluster.rows.relation(tuple)))?;
        rows.relations.sort_by_key(|relation| relation.oid);
        if rows.relation(PG_CLASS.oid).is_none() {
            return Err(EngineError::corrupt("pg_class has no row of itself"));
        }
        self.scan(&file(PG_ATTRIBUTE.oid, "pg_attribute")?, &mut |tuple| {
            let Some(column) = cluster.rows.column(tuple) else { return false };
            if column.number > 0 {
                rows.columns.entry(column.relation).or_default().push(column);
            }
            true
        })?;
        self.say_lost(&classes, &rows);
        if let Some(schemas) = rows.relation(PG_NAMESPACE.oid) {
            let path = directory.join(schemas.filenode.to_string());
            let namespaces = &mut rows.namespaces;
            self.scan(&path, &mut |tuple| add(namespaces, cluster.rows.namespace(tuple)))?;
            self.say_homeless(&classes, &rows);
        }
        if cluster.shut_down {
            self.read_indexes(&directory, &mut rows)?;
        }
        Ok((map, rows))
    }

    /// Reads what the catalogs say of indexes.
    fn read_indexes(&mut self, directory: &Path, rows: &mut Rows) -> Result<(), EngineError> {
        let reader = &self.cluster.rows;
        let catalogs = [PG_INDEX.oid, PG_OPCLASS.oid, PG_AMPROC.oid];
        let [indexes, classes, functions] = catalogs
            .map(|oid| rows.relation(oid).map(|row| directory.join(row.filenode.to_string())));
        // What is missing of the catalogs was told.
        let (Some(indexes), Some(classes), Some(functions)) = (indexes, classes, functions) else {
            return Ok(());
        };
        let Rows { indexes: found, orders, .. } = rows;
        self.scan(&indexes, &mut |tuple| {
            add(found, reader.index(tuple).map(|row| (row.index, row)))
        })?;
        self.scan(&classes, &mut |tuple| reader.operator_class(orders, tuple))?;
        self.scan(&functions, &mut |tuple| reader.support_function(orders, tuple))
    }

    /// Tells that rows of pg_class are lost, by the columns in pg_attribute. A page that was zeroed
    /// shows in no other way: it looks like a new one.
    fn say_lost(&mut self, path: &Path, rows: &Rows) {
        let oids = rows.columns.keys().copied();
        let mut lost: Vec<Oid> = oids.filter(|oid| rows.relation(*oid).is_none()).collect();
        lost.sort_unstable();
        // After a crash pg_class may be older than pg_attribute.
        if let Some(first) = lost.first()
            && self.cluster.shut_down
        {
            let what = "pg_class has no rows of relations that have columns";
            (self.say)(path, &format!("{what}: {}, the first with OID {first}", lost.len()));
        }
    }

    /// Tells of relations whose schemas do not exist.
    fn say_homeless(&mut self, path: &Path, rows: &Rows) {
        // After a crash pg_namespace may be older than pg_class.
        if !self.cluster.shut_down {
            return;
        }
        for RelationRow { oid, name, namespace, .. } in &rows.relations {
            if !rows.namespaces.contains_key(namespace) {
                let what = format!("relation \"{name}\" ({oid}) is in schema {namespace}");
                (self.say)(path, &format!("{what}, which pg_namespace does not have"));
            }
        }
    }

    /// Shows all rows of a catalog that exist. `row` returns whether it could decode one.
    fn scan(
        &mut self,
        path: &Path,
        row: &mut dyn FnMut(HeapTuple<'_>) -> bool,
    ) -> Result<(), EngineError> {
        let names = Arc::clone(self.io.aio().namespace());
        let mut buf = AlignedBuf::zeroed(READ * BLOCK_SIZE)?;
        for segment in 0..=u32::MAX / RELSEG_BLOCKS {
            let path = file_of(path, Fork::Main, segment);
            let unreadable = |error: AioError| {
                let path = path.display();
                EngineError::corrupt(format!("could not read file \"{path}\": {error}"))
            };
            let file = match names.open(&path, &OpenOptions::READ) {
                Err(error) if segment > 0 && error.is_not_found() => return Ok(()),
                opened => opened.map_err(unreadable)?,
            };
            let mut block = 0;
            while block < RELSEG_BLOCKS {
                let offset = u64::from(block) * BLOCK_SIZE as u64;
                let got = self.io.read_at(&file, offset, &mut buf).map_err(unreadable)?;
                let (pages, _) = buf.get(..got).unwrap_or_default().as_chunks::<BLOCK_SIZE>();
                if pages.is_empty() {
                    return Ok(());
                }
                for page in pages {
                    self.rows(&path, block, Page::new(page), row);
                    block += 1;
                }
            }
        }
        Ok(())
    }

    /// Shows the rows of a page. What can't be read is told: it may be a row of any relation.
    fn rows(
        &mut self,
        path: &Path,
        block: BlockNumber,
        page: Page<'_>,
        row: &mut dyn FnMut(HeapTuple<'_>) -> bool,
    ) {
        let is_sane = if page.is_new() {
            page.is_all_zeros()
        } else {
            page.header_is_sane() && page.lower() >= HEADER_SIZE
        };
        if !is_sane {
            return (self.say)(path, &format!("block {block} of a catalog has a damaged header"));
        }
        for number in 1..=page.item_count() {
            if !page.item_id(number).is_some_and(|id| id.is_normal()) {
                continue;
            }
            let tuple = page.item(number).and_then(|bytes| HeapTuple::new(bytes).ok());
            if !tuple.is_some_and(|tuple| !self.transactions.is_live(tuple) || row(tuple)) {
                let what = "row of a catalog can't be decoded";
                (self.say)(path, &format!("block {block}, offset {number}: {what}"));
            }
        }
    }

    /// Adds the wanted relations of a database, and the files of all.
    fn relations(
        &mut self,
        database: &DatabaseRow,
        (shared, local): (&RelMap, &RelMap),
        mut rows: Rows,
        found: &mut Found,
    ) {
        let mut with_tables = HashSet::new();
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
                with_tables.insert(row.toast);
            }
            if wanted {
                with_tables.insert(row.oid);
            }
        }
        let indexes = rows.indexes.values().filter(|index| with_tables.contains(&index.table));
        let with_tables: HashSet<Oid> =
            indexes.map(|index| index.index).chain(with_tables.iter().copied()).collect();
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
            found.files.extend(path.clone());
            let told = told(row, kind);
            let wanted = is_wanted(self.names, &told) || with_tables.contains(&row.oid);
            if wanted {
                found.wanted.push(told.clone());
            }
            if !wanted || (row.shared && !found.shared.insert(row.oid)) {
                continue;
            }
            let Some(path) = path else {
                (self.say)(&directory, &format!("relation \"{}\" has no file", row.name));
                continue;
            };
            if self.is_checked(row, kind) {
                let columns = rows.columns.remove(&row.oid);
                let table = self.table_of(row, kind, columns.unwrap_or_default());
                let btree = (kind == RelationKind::Index).then(|| {
                    self.btree(row, (&path, &table), &rows, database.collation.as_ref(), &relations)
                });
                let btree = btree.flatten();
                found.relations.push({
                    let is_toast = row.kind == b't';
                    Arc::new(Relation { told, path, is_toast, table, btree })
                });
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
            RelationKind::Index => {}
            RelationKind::Other => self.counts.skip(NotChecked::OtherAccessMethods),
            RelationKind::Heap | RelationKind::Sequence => {
                if !self.cluster.shut_down {
                    self.counts.skip(NotChecked::Transactions);
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

    /// What is checked of an index, if it is a B-tree whose layout is known.
    fn btree(
        &mut self,
        row: &RelationRow,
        (path, own): (&Path, &HeapTable),
        rows: &Rows,
        collation: Option<&Arc<Collation>>,
        relations: &[RelationRow],
    ) -> Option<Btree> {
        let index = rows.indexes.get(&row.oid).filter(|_| row.access_method == BTREE_AM);
        let (Some(index), Some(layouts)) = (index, &own.columns) else {
            self.counts.skip(NotChecked::Indexes);
            return None;
        };
        if index.columns.len() != layouts.len() {
            self.counts.skip(NotChecked::Indexes);
            return None;
        }
        if self.is_old(path) {
            self.counts.skip(NotChecked::OldIndexes);
            return None;
        }
        if !index.ready {
            self.counts.skip(NotChecked::UnfinishedIndexes);
            return None;
        }
        let shape = BtreeShape {
            layouts: layouts.clone(),
            keys: index.keys,
            ordered: rows.orders.columns(index, collation),
            unique: index.unique,
            nulls_are_equal: index.nulls_are_equal,
        };
        let columns: Vec<Option<usize>> = index
            .columns
            .iter()
            .map(|&number| usize::try_from(number).ok().and_then(|n| n.checked_sub(1)))
            .collect();
        for (what, is_so) in [
            (NotChecked::IndexOrder, !shape.is_ordered()),
            (NotChecked::InvalidIndexes, !index.valid),
            (NotChecked::IndexExpressions, columns.contains(&None)),
            (NotChecked::PartialIndexes, index.is_partial),
        ] {
            if is_so {
                self.counts.skip(what);
            }
        }
        let at = relations.binary_search_by_key(&index.table, |table| table.oid).ok();
        let indexed = at.filter(|_| index.valid).and_then(|at| relations.get(at));
        let indexed = indexed.map(|table| IndexedColumns {
            name: row.name.clone(),
            table: table.name.clone(),
            columns,
            has_all_rows: !index.is_partial,
        });
        // An empty index may have been filled since it was counted.
        let entries = row.rows.filter(|rows| *rows > 0).map(|rows| rows.saturating_add(rows / 4));
        Some(Btree { table: index.table, shape, indexed, entries })
    }

    /// Whether an index is of a version in which equal keys have no order.
    fn is_old(&mut self, path: &Path) -> bool {
        let names = Arc::clone(self.io.aio().namespace());
        let Ok(file) = names.open(path, &OpenOptions::READ) else { return false };
        let Ok(mut buf) = AlignedBuf::zeroed(BLOCK_SIZE) else { return false };
        if self.io.read_exact_at(&file, 0, &mut buf).is_err() {
            return false;
        }
        let meta = buf.first_chunk().map(|page| Meta::of(Page::new(page)));
        matches!(meta, Some(Ok(meta)) if !meta.is_heap_key_space())
    }

    /// Counts files in the directories of relations that belong to none.
    fn count_strays(&mut self, files: &HashSet<PathBuf>) {
        let directories: HashSet<&Path> = files.iter().filter_map(|file| file.parent()).collect();
        let mut strays = HashSet::new();
        for directory in directories {
            for entry in self.entries(directory) {
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
    }

    /// Counts the directories of `base` that belong to no database.
    fn count_stray_directories(&mut self, databases: &[DatabaseRow]) {
        for entry in self.entries(&self.cluster.dir.join("base")) {
            let oid = entry.name.to_str().and_then(|name| name.parse::<Oid>().ok());
            let is_stray =
                oid.is_some_and(|oid| !databases.iter().any(|database| database.oid == oid));
            if is_stray && entry.kind == FileKind::Directory {
                self.counts.skip(NotChecked::StrayDirectories);
            }
        }
    }

    /// The entries of a directory, if it is there.
    fn entries(&mut self, directory: &Path) -> Vec<DirEntry> {
        let listed = self.io.aio().namespace().list(directory).if_found();
        let entries = listed.unwrap_or_else(|error| {
            (self.say)(directory, &error.to_string());
            None
        });
        entries.unwrap_or_default()
    }
}

/// Adds a decoded row to others. Returns whether there is one.
fn add<T>(rows: &mut impl Extend<T>, row: Option<T>) -> bool {
    let is_there = row.is_some();
    rows.extend(row);
    is_there
}

/// What a relation is; `None` if it has no files.
fn kind_of(row: &RelationRow) -> Option<RelationKind> {
    Some(match row.kind {
        b'r' | b't' | b'm' if row.access_method == HEAP_AM => RelationKind::Heap,
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
