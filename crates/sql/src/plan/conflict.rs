//! ON CONFLICT of INSERT.

use super::assign::live_columns;
use super::computed::ComputedIndex;
use super::expr::{Expr, conjuncts};
use super::fold::fold;
use super::implied::implied;
use super::planner::Planner;
use super::returning::version_width;
use super::tree::{ConflictUpdate, OnConflict};
use super::update::Target;
use crate::analyze::{EXCLUDED, Scope, Typed, ident_name};
use crate::error::{Result, SqlError, state};
use crate::parse::{ConflictTarget, Extras};
use forebay_engine::{Table, TableIndex};
use sqlparser::ast::{self, Spanned};
use sqlparser::tokenizer::Span;
use std::collections::BTreeSet;
use std::sync::Arc;

/// ON CONFLICT, before its indexes are looked for: RETURNING is bound between the two.
pub(super) struct Analyzed {
    alias: String,
    arbiters: Wanted,
    update: Option<ConflictUpdate>,
}

/// Which unique indexes are meant.
enum Wanted {
    All,
    /// The index of a constraint, by its OID.
    Of(u32),
    /// Those that have these keys.
    On(Keys),
}

/// The keys by which indexes are meant.
#[derive(Default)]
struct Keys {
    /// The columns, by their places in the table. None: one of them is a system column.
    columns: Option<BTreeSet<usize>>,
    /// The other expressions.
    expressions: Vec<Expr>,
    /// What holds for the rows: it must imply the index's predicate.
    predicate: Vec<Expr>,
}

impl Keys {
    fn are_of(&self, index: &TableIndex) -> bool {
        let (has, predicate) = match ComputedIndex::of(index) {
            Some(computed) => (&computed.expressions[..], &computed.predicate[..]),
            None => (&[][..], &[][..]),
        };
        let known: Vec<&Expr> = self.predicate.iter().collect();
        index.unknown.is_none()
            && self.columns.as_ref() == Some(&index.key_columns().collect())
            && self.expressions.iter().all(|e| has.contains(e))
            && has.iter().all(|e| self.expressions.contains(e))
            && predicate.iter().all(|part| implied(&known, part))
    }
}

impl Planner<'_> {
    /// Analyzes the clause; it and its target begin at these positions. `scope`: the names of the
    /// table.
    pub(super) fn on_conflict(
        &mut self,
        (clause, extras): (&ast::OnConflict, &Extras),
        table: &Arc<Table>,
        mut scope: Scope,
    ) -> Result<Analyzed> {
        let (position, target_position) = extras.on_conflict;
        let ast::OnConflict { conflict_target, action } = clause;
        let update = match action {
            ast::OnConflictAction::DoNothing => None,
            ast::OnConflictAction::DoUpdate(_)
                if conflict_target.is_none() && extras.target.is_none() =>
            {
                let message =
                    "ON CONFLICT DO UPDATE requires inference specification or constraint name";
                let hint = "For example, ON CONFLICT (column_name).";
                return Err(SqlError::new(state::SYNTAX_ERROR, message).hint(hint).at(position));
            }
            ast::OnConflictAction::DoUpdate(update) => Some(update),
        };
        let alias = scope.alias.clone().unwrap_or_default();
        if update.is_some() {
            scope.versions = vec![(EXCLUDED.to_owned(), version_width(table))];
            scope.excluded = true;
        }
        let arbiters = match &extras.target {
            Some(target) => Wanted::On(self.conflict_keys(target, table, target_position)?),
            None => self.arbiters(conflict_target.as_ref(), table, &scope, target_position)?,
        };
        let update = match update {
            None => None,
            Some(ast::DoUpdate { assignments, selection }) => {
                let target = Target { table: Arc::clone(table), schema: None, scope };
                let values = self.assignments(assignments, &target)?;
                let filter = self.filter(selection.as_ref(), &target.scope)?;
                let key = assignments.iter().any(|each| assigns_key(&each.target, table));
                Some(ConflictUpdate { values, filter, key })
            }
        };
        Ok(Analyzed { alias, arbiters, update })
    }

    /// The keys of a target that has more than names of columns.
    fn conflict_keys(
        &mut self,
        target: &ConflictTarget,
        table: &Table,
        position: u32,
    ) -> Result<Keys> {
        let scope = Scope::of_table(table);
        let mut keys = Keys::default();
        let mut columns = Some(BTreeSet::new());
        for key in &target.keys {
            let expr = match &key.expr {
                None => scope.column(&key.name, position)?,
                Some(e) => {
                    let mut binder = self.binder(&scope, "index expressions");
                    let bound = binder.bind(e)?;
                    binder.settle(bound)?
                }
            };
            let mut expr = self.lower(&expr, &scope)?;
            fold(&mut expr, self.catalog)?;
            match (expr, &mut columns) {
                (Expr::Column(n), _) if n >= table.columns.len() => columns = None,
                (Expr::Column(n), Some(columns)) => drop(columns.insert(n)),
                (Expr::Column(_), None) => {}
                (other, _) => keys.expressions.push(other),
            }
        }
        if let Some(e) = &target.predicate {
            let mut binder = self.binder(&scope, "index predicates");
            let condition = Typed::new(binder.condition(e, "WHERE")?, position);
            let mut condition = self.lower(&condition, &scope)?;
            fold(&mut condition, self.catalog)?;
            keys.predicate = conjuncts(Some(&condition)).into_iter().cloned().collect();
        }
        Ok(Keys { columns, ..keys })
    }

    fn arbiters(
        &mut self,
        target: Option<&ast::ConflictTarget>,
        table: &Table,
        scope: &Scope,
        position: u32,
    ) -> Result<Wanted> {
        match target {
            None => Ok(Wanted::All),
            Some(ast::ConflictTarget::Columns(names)) => {
                let mut columns = Some(BTreeSet::new());
                for ident in names {
                    let name = ident_name(ident);
                    let found = scope.find(&name);
                    let found = found.ok_or_else(|| scope.unknown_column(&name, position))?;
                    if found.attnum < 0 {
                        columns = None;
                    }
                    if let Some(columns) = &mut columns {
                        columns.insert(found.index);
                    }
                }
                Ok(Wanted::On(Keys { columns, ..Keys::default() }))
            }
            Some(ast::ConflictTarget::OnConstraint(name)) => {
                let [ast::ObjectNamePart::Identifier(ident)] = name.0.as_slice() else {
                    let schema = name.0.first().map(Spanned::span).unwrap_or_else(Span::empty);
                    let error = SqlError::new(state::SYNTAX_ERROR, "syntax error at or near \".\"");
                    return Err(error.at(self.source.position(schema.end)));
                };
                let name = ident_name(ident);
                match self.catalog.constraint_index(table, &name)? {
                    Some(index) => Ok(Wanted::Of(index)),
                    None => {
                        let message = format!(
                            "constraint \"{name}\" for table \"{}\" does not exist",
                            table.name
                        );
                        Err(SqlError::new(state::UNDEFINED_OBJECT, message))
                    }
                }
            }
        }
    }
}

impl Wanted {
    /// Those of a table's indexes that are meant. Those that are built concurrently count too: a
    /// twin that REINDEX CONCURRENTLY makes may take the place of a valid index before the
    /// statement is over, and may have done so by the time that its constraint was looked up.
    fn among(&self, indexes: &[Arc<TableIndex>]) -> Vec<Arc<TableIndex>> {
        let usable = || indexes.iter().filter(|index| index.unique && index.ready);
        let named = |index: &TableIndex| match self {
            Wanted::All => true,
            Wanted::Of(oid) => index.oid == *oid,
            Wanted::On(keys) => index.valid && keys.are_of(index),
        };
        let is_twin = |index: &TableIndex| {
            usable().any(|of| named(of) && of.valid != index.valid && of.has_form_of(index))
        };
        usable().filter(|index| named(index) || is_twin(index)).cloned().collect()
    }
}

impl Analyzed {
    /// Whether it is DO UPDATE.
    pub(super) fn has_update(&self) -> bool {
        self.update.is_some()
    }

    /// Finds the indexes. 42P10 if there are none.
    pub(super) fn infer(self, table: &Table) -> Result<OnConflict> {
        let Analyzed { alias, arbiters: wanted, update } = self;
        let chosen = !matches!(wanted, Wanted::All);
        let arbiters = wanted.among(&table.indexes);
        if chosen && !arbiters.iter().any(|index| index.valid) {
            return Err(match wanted {
                Wanted::Of(0) => SqlError::new(
                    state::WRONG_OBJECT_TYPE,
                    "constraint in ON CONFLICT clause has no associated index",
                ),
                _ => SqlError::new(
                    "42P10",
                    "there is no unique or exclusion constraint matching the ON CONFLICT \
                     specification",
                ),
            });
        }
        Ok(OnConflict { alias, arbiters, chosen, update })
    }
}

/// Whether a column that is assigned to belongs to a unique index.
fn assigns_key(target: &ast::AssignmentTarget, table: &Table) -> bool {
    let names = match target {
        ast::AssignmentTarget::ColumnName(name) => std::slice::from_ref(name),
        ast::AssignmentTarget::Tuple(names) => names.as_slice(),
    };
    let mut assigned = names.iter().filter_map(|name| name.0.first()?.as_ident()).map(ident_name);
    let keys: BTreeSet<&str> = live_columns(table)
        .filter(|c| table.key_columns.contains(&(usize::from(c.attnum.unsigned_abs()) - 1)))
        .map(|c| c.name.as_str())
        .collect();
    assigned.any(|name| keys.contains(name.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_engine::types::oids;
    use forebay_engine::{
        ColumnDef, Engine, EngineConfig, IndexDef, IndexKey, InitOptions, IoMethod, LockMode,
        Session,
    };

    /// A unique index on the columns a and b of a table.
    fn made() -> Arc<TableIndex> {
        let dir = tempfile::tempdir().expect("directory");
        Engine::init(dir.path(), &InitOptions { templates: false, ..InitOptions::default() })
            .expect("init");
        let config = EngineConfig { io_method: IoMethod::Sync, ..EngineConfig::default() };
        let engine = Engine::open(dir.path(), config).expect("open");
        let mut session = engine.session().expect("session");
        session.begin().expect("begin");
        let columns = ["a", "b"].map(|name| ColumnDef::new(name, oids::INT4));
        session.create_table(None, "t", &columns).expect("table");
        let keys = vec![IndexKey::new(1), IndexKey::new(2)];
        let def = IndexDef { keys, unique: true, ..IndexDef::default() };
        let table = opened(&mut session);
        session.create_index(&table, &def).expect("index");
        Arc::clone(&opened(&mut session).indexes[0])
    }

    fn opened(session: &mut Session) -> Arc<Table> {
        session.start_command().expect("command");
        session.open_table(None, "t", LockMode::AccessExclusive).expect("table")
    }

    #[test]
    fn only_a_twin_of_an_index_is_meant_with_it() {
        let made = made();
        let index = |oid: u32, valid: bool, change: fn(&mut TableIndex)| {
            let mut index = made.at(made.locator, Arc::clone(&made.known));
            (index.oid, index.valid) = (oid, valid);
            change(&mut index);
            Arc::new(index)
        };
        let indexes = [
            index(1, true, |_| {}),
            index(2, false, |_| {}),
            index(3, false, |index| Arc::make_mut(&mut index.shape).nulls_are_equal = true),
            index(4, false, |index| Arc::make_mut(&mut index.shape).keys[0].descending = true),
            index(5, false, |index| index.columns.reverse()),
            index(6, false, |index| index.columns.push(1)),
            index(7, false, |index| index.ready = false),
            index(8, false, |index| index.unique = false),
            index(9, true, |index| Arc::make_mut(&mut index.shape).keys.truncate(1)),
        ];
        let on = |columns: Option<BTreeSet<usize>>| Wanted::On(Keys { columns, ..Keys::default() });
        for (wanted, expected) in [
            (Wanted::Of(1), &[1, 2][..]),
            // The constraint has its new index already, but the table was read before.
            (Wanted::Of(2), &[1, 2]),
            (Wanted::Of(9), &[9]),
            (Wanted::Of(10), &[]),
            (on(Some(BTreeSet::from([0, 1]))), &[1, 2]),
            (on(Some(BTreeSet::from([0]))), &[9]),
            (on(None), &[]),
            (Wanted::All, &[1, 2, 3, 4, 5, 6, 9]),
        ] {
            let found: Vec<u32> = wanted.among(&indexes).iter().map(|index| index.oid).collect();
            assert_eq!(found, expected);
        }
    }
}
