//! ON CONFLICT of INSERT.

use super::assign::live_columns;
use super::ident::ident_name;
use super::planner::Planner;
use super::returning::version_width;
use super::scope::{EXCLUDED, Scope};
use super::tree::{ConflictUpdate, OnConflict};
use super::update::Target;
use crate::error::{Result, SqlError, state};
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
    /// The indexes whose keys are these columns, by their places in the table. None: one of them
    /// is a system column.
    On(Option<BTreeSet<usize>>),
}

impl Planner<'_> {
    /// Analyzes the clause; it and its target begin at these positions. `scope`: the names of the
    /// table.
    pub(super) fn on_conflict(
        &mut self,
        clause: &ast::OnConflict,
        table: &Arc<Table>,
        mut scope: Scope,
        (position, target_position): (u32, u32),
    ) -> Result<Analyzed> {
        let ast::OnConflict { conflict_target, action } = clause;
        let update = match action {
            ast::OnConflictAction::DoNothing => None,
            ast::OnConflictAction::DoUpdate(_) if conflict_target.is_none() => {
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
        let arbiters = self.arbiters(conflict_target.as_ref(), table, &scope, target_position)?;
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
                Ok(Wanted::On(columns))
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

impl Analyzed {
    /// Whether it is DO UPDATE.
    pub(super) fn has_update(&self) -> bool {
        self.update.is_some()
    }

    /// Finds the indexes. 42P10 if there are none.
    pub(super) fn infer(self, table: &Table) -> Result<OnConflict> {
        let Analyzed { alias, arbiters: wanted, update } = self;
        let chosen = !matches!(wanted, Wanted::All);
        let keys = |index: &TableIndex| index.key_columns().collect::<BTreeSet<usize>>();
        let of_constraint = match &wanted {
            Wanted::Of(oid) => table.indexes.iter().find(|index| index.oid == *oid),
            _ => None,
        };
        let meant = |index: &TableIndex| match &wanted {
            Wanted::All => true,
            Wanted::Of(_) => of_constraint
                .is_some_and(|of| of.oid == index.oid || !index.valid && keys(of) == keys(index)),
            Wanted::On(columns) => columns.as_ref() == Some(&keys(index)),
        };
        // Those that are built concurrently count too: one of REINDEX CONCURRENTLY may take the
        // place of a valid index before the statement is over.
        let usable = table.indexes.iter().filter(|index| index.unique && index.ready);
        let arbiters: Vec<Arc<TableIndex>> = usable.filter(|i| meant(i)).cloned().collect();
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
