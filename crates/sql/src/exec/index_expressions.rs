//! Expressions and predicates of indexes, evaluated for the engine.
//!
//! They are immutable: they need no session, so any thread evaluates them.

use super::eval::{eval, is_true};
use super::functions;
use super::host::{Host, Identity};
use super::names::LooksUp;
use super::tree_names::{TreeNames, TreeSource};
use crate::analyze::{Names, SearchPath};
use crate::error::{Result, SqlError, state};
use crate::plan::{Builtin, Catalog, ComputedIndex, Expr};
use crate::settings::{
    PlanSettings, SessionSettings, SetScope, SettingRow, Settings, Shown, TransactionModes,
};
use forebay_aio::sync::Mutex;
use forebay_collation::Collation;
use forebay_engine::nodes::{Style, deparse, looks_like_function, type_of};
use forebay_engine::syscache::{Lookup, TypeRow};
use forebay_engine::{
    AccessError, CatalogError, Column, EngineError, ExpressionError, IndexCompiler,
    IndexExpressions, IndexTrees, LockMode, RowSource, StoredValues, Table, TableIndex,
};
use forebay_types::{Datum, Encoding, Oid, Repr, SqlType, TextStyle, type_info};
use std::any::Any;
use std::sync::Arc;

/// Makes expressions of indexes evaluable.
#[derive(Debug)]
pub struct Compiler;

impl IndexCompiler for Compiler {
    fn compile(
        &self,
        rows: &mut dyn RowSource,
        (table, columns): (&str, &[Column]),
        trees: &IndexTrees,
    ) -> Result<Arc<dyn IndexExpressions>, CatalogError> {
        let mut catalog = Rows { host: host(rows.encoding()), source: rows };
        let made = Evaluator::new(trees, (table, columns), &mut catalog);
        Ok(Arc::new(made.map_err(refused)?))
    }
}

/// The error of an index that is not supported, or of its catalogs.
fn refused(error: SqlError) -> CatalogError {
    CatalogError::refused(error.sqlstate, error.message.clone())
}

/// The expressions and the predicate of an index, with what evaluates them.
struct Evaluator {
    computed: ComputedIndex,
    /// The representation of the columns that they read; None: the column is not read.
    columns: Vec<Option<Repr>>,
    /// The representation of each expression's values, and the length of its type.
    results: Vec<(Repr, i16)>,
    /// The expressions as messages show them.
    texts: Vec<String>,
    /// That of the database.
    encoding: Encoding,
    /// Hosts that no thread uses now.
    hosts: Mutex<Vec<Host>>,
}

impl std::fmt::Debug for Evaluator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Evaluator").field("computed", &self.computed).finish_non_exhaustive()
    }
}

impl Evaluator {
    fn new(
        trees: &IndexTrees,
        (table, columns): (&str, &[Column]),
        catalog: &mut Rows<'_>,
    ) -> Result<Evaluator> {
        let computed = ComputedIndex::new(trees, columns, catalog)?;
        let mut read = Vec::new();
        computed.expressions.iter().for_each(|e| e.mark_columns(&mut read));
        computed.predicate.iter().for_each(|e| e.mark_columns(&mut read));
        let is_read = |n: usize| read.get(n) == Some(&true);
        let reprs = columns.iter().enumerate().map(|(n, c)| is_read(n).then_some(c.repr));
        let (mut results, mut texts) = (Vec::new(), Vec::new());
        for tree in &trees.expressions {
            let ty = type_of(tree);
            let info = type_info(ty).ok_or_else(|| {
                SqlError::unsupported(format!("an index on values of the type with OID {ty}"))
            })?;
            results.push((Repr::of(ty), info.len));
            let mut names = TreeNames::new(catalog, table, columns);
            let text = deparse(tree, Style::PRETTY, &mut names);
            let text = text.map_err(|error| names.error(error))?;
            texts.push(if looks_like_function(tree) { text } else { format!("({text})") });
        }
        let (columns, hosts) = (reprs.collect(), Mutex::default());
        let encoding = catalog.source.encoding();
        Ok(Evaluator { computed, columns, results, texts, encoding, hosts })
    }

    fn evaluated<'v>(
        &self,
        row: &dyn Fn(usize) -> Option<&'v [u8]>,
        host: &mut Host,
    ) -> Result<Option<StoredValues>> {
        let mut values: Vec<Datum<'_>> = Vec::with_capacity(self.columns.len());
        for (n, repr) in self.columns.iter().enumerate() {
            values.push(match (repr, row(n)) {
                (Some(repr), Some(bytes)) => repr.decode(bytes, self.encoding)?,
                _ => Datum::Null,
            });
        }
        for condition in &self.computed.predicate {
            if !is_true(condition, &values, &[], host)? {
                return Ok(None);
            }
        }
        let mut stored = Vec::with_capacity(self.results.len());
        for (expr, (repr, len)) in self.computed.expressions.iter().zip(&self.results) {
            let value = eval(expr, &values, &[], host)?;
            if value.is_null() {
                stored.push(None);
                continue;
            }
            if !repr.accepts(&value) {
                let message = format!("an index's expression gave a {value:?}");
                return Err(SqlError::new(state::INTERNAL_ERROR, message));
            }
            stored.push(Some(value.to_stored(*len, self.encoding)?.into_owned()));
        }
        Ok(Some(stored))
    }
}

impl IndexExpressions for Evaluator {
    fn evaluate<'v>(
        &self,
        row: &dyn Fn(usize) -> Option<&'v [u8]>,
    ) -> Result<Option<StoredValues>, AccessError> {
        let idle = self.hosts.lock().pop();
        let mut host = idle.unwrap_or_else(|| host(self.encoding));
        let found = self.evaluated(row, &mut host);
        self.hosts.lock().push(host);
        found.map_err(|error| {
            AccessError::Expression(Box::new(ExpressionError {
                sqlstate: error.sqlstate,
                message: error.message.clone(),
                detail: error.detail.clone(),
                hint: error.hint.clone(),
            }))
        })
    }

    fn text(&self, expression: usize) -> &str {
        self.texts.get(expression).map_or("", String::as_str)
    }

    fn as_any(&self) -> &dyn Any {
        &self.computed
    }
}

/// A host without a session, for expressions that need none.
fn host(encoding: Encoding) -> Host {
    let (user, database, version) = (String::new(), String::new(), String::new());
    let identity = Identity { user, database, pid: 0, version };
    let mut host = Host::new(None, Box::new(NoSettings), identity);
    host.style = Arc::new(TextStyle { encoding, ..TextStyle::default() });
    host
}

/// The catalogs as lowering a stored tree asks of them.
struct Rows<'r> {
    source: &'r mut dyn RowSource,
    host: Host,
}

/// What asks for names of tables is not lowered here.
fn no_tables<T>() -> Result<T> {
    Err(SqlError::new(state::INTERNAL_ERROR, "an index's expression names a relation"))
}

impl LooksUp for Rows<'_> {
    fn row_of<K: Lookup>(&mut self, key: K) -> Result<K::Row> {
        Ok(key.read(self.source).map_err(EngineError::from)?)
    }

    fn planning_step(&self) -> Result<()> {
        Ok(())
    }

    fn encoding_of_texts(&self) -> Encoding {
        self.source.encoding()
    }

    fn path_of_names(&mut self) -> Result<SearchPath> {
        /// pg_catalog
        const SYSTEM: Oid = 11;
        Ok(SearchPath::from_slice(&[SYSTEM]))
    }

    fn value_of(&mut self, text: &str, ty: &TypeRow, typmod: i32) -> Result<Datum<'static>> {
        match SqlType::from_oid(ty.oid) {
            Some(_) => self.host.value_of(text, ty, typmod),
            None => Err(SqlError::unsupported(format!("a value of type {}", ty.name))),
        }
    }
}

impl TreeSource for Rows<'_> {
    fn analysis(&mut self) -> &mut dyn Names {
        self
    }

    fn relation_name(&mut self, _: Oid) -> Result<Option<(String, String, bool)>> {
        no_tables()
    }
}

impl Catalog for Rows<'_> {
    fn names(&mut self) -> &mut dyn Names {
        self
    }

    fn builtin(&self, function: Oid) -> Option<Builtin> {
        // What needs a session is not immutable, or refers to the catalogs.
        functions::find(function).filter(|found| !found.session)
    }

    fn collation(&mut self, oid: Oid) -> Result<Arc<Collation>> {
        Ok(self.source.collation(oid).map_err(EngineError::from)?)
    }

    fn table(&mut self, _: Option<&str>, _: &str) -> Result<Option<Arc<Table>>> {
        no_tables()
    }

    fn open_table(&mut self, _: Option<&str>, _: &str, _: LockMode) -> Result<Option<Arc<Table>>> {
        no_tables()
    }

    fn owned_sequence(&mut self, _: Oid, _: i16) -> Result<Option<Oid>> {
        no_tables()
    }

    fn constant(&mut self, e: &Expr) -> Result<Datum<'static>> {
        Ok(eval(e, &[], &[], &mut self.host)?.into_owned())
    }

    fn constraint_index(&mut self, _: &Table, _: &str) -> Result<Option<u32>> {
        no_tables()
    }

    fn can_use_index(&mut self, _: &TableIndex) -> Result<bool> {
        no_tables()
    }

    fn find_statistics(&mut self, _: &Table) -> Result<()> {
        no_tables()
    }

    fn table_blocks(&mut self, _: &Table) -> Result<u32> {
        no_tables()
    }

    fn index_blocks(&mut self, _: &Table, _: &TableIndex) -> Result<u32> {
        no_tables()
    }

    fn planning(&self) -> PlanSettings {
        PlanSettings::default()
    }
}

/// The settings of no session.
struct NoSettings;

fn no_settings<T>() -> Result<T> {
    Err(SqlError::new(state::INTERNAL_ERROR, "an index's expression asks for a setting"))
}

impl Settings for NoSettings {
    fn show(&self, _: &str) -> Result<Shown> {
        no_settings()
    }

    fn set(&mut self, _: &str, _: Option<&str>, _: SetScope) -> Result<()> {
        no_settings()
    }

    fn check(&self, _: &str, _: &str) -> Result<()> {
        no_settings()
    }

    fn reset_all(&mut self) -> Result<()> {
        no_settings()
    }

    fn all(&self) -> Vec<SettingRow> {
        Vec::new()
    }

    fn change_count(&self) -> u64 {
        0
    }

    fn transaction_defaults(&self) -> TransactionModes {
        TransactionModes::default()
    }

    fn engine(&self) -> SessionSettings {
        SessionSettings::default()
    }

    fn planning(&self) -> PlanSettings {
        PlanSettings::default()
    }

    fn share(&self) -> Box<dyn Settings> {
        Box::new(NoSettings)
    }

    fn reload_server(&mut self) -> bool {
        false
    }

    fn begin_subtransaction(&mut self) {}

    fn end_subtransaction(&mut self, _: bool) {}

    fn end_transaction(&mut self, _: bool) {}
}
