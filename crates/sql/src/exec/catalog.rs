//! The catalogs as the planner sees them: through the host.

use super::eval::eval;
use super::functions::{self, reg_input::oid_of};
use super::host::{Host, NamedRow};
use super::names::LooksUp;
use crate::analyze::{Names, SearchPath};
use crate::error::{Result, SqlError};
use crate::plan::{Builtin, Catalog, Expr, is_reg};
use crate::settings::PlanSettings;
use forebay_collation::Collation;
use forebay_engine::syscache::{Lookup, TypeRow};
use forebay_engine::{LockMode, Session, Table, TableIndex};
use forebay_types::{Datum, Encoding, Oid, SqlType, text_in_as};
use std::sync::Arc;

/// Steps between two tests for a cancel.
const STEPS: u32 = 256;

impl Host {
    /// A step of planning, or a row that needs no call of the engine; every 256th tests for a
    /// cancel.
    pub fn step(&self) -> Result<()> {
        let steps = self.steps.get() + 1;
        self.steps.set(steps % STEPS);
        if steps < STEPS { Ok(()) } else { self.check_cancel() }
    }

    /// Notes from now on what literals mean that name rows.
    pub fn note_named_rows(&mut self) {
        self.noted = Some(Vec::new());
    }

    /// What they meant since then.
    pub fn take_named_rows(&mut self) -> Vec<NamedRow> {
        self.noted.take().unwrap_or_default()
    }

    /// Whether such literals still mean the same rows.
    pub fn mean_the_same(&mut self, noted: &[NamedRow]) -> bool {
        noted.iter().all(|(ty, text, oid)| oid_of(text, *ty, self).is_ok_and(|now| now == *oid))
    }

    /// Looks up rows of a catalog.
    pub fn look_up<K: Lookup>(&mut self, key: K) -> Result<K::Row> {
        self.call(|session| session.look_up(key))
    }
}

impl LooksUp for Host {
    fn row_of<K: Lookup>(&mut self, key: K) -> Result<K::Row> {
        self.look_up(key)
    }

    fn planning_step(&self) -> Result<()> {
        Host::step(self)
    }

    fn encoding_of_texts(&self) -> Encoding {
        self.encoding()
    }

    fn path_of_names(&mut self) -> Result<SearchPath> {
        let path = self.call(Session::search_path)?;
        // Types, functions and operators are not looked for among temporary tables.
        Ok(path.iter().filter_map(|entry| entry.namespace).collect())
    }

    fn value_of(&mut self, text: &str, ty: &TypeRow, typmod: i32) -> Result<Datum<'static>> {
        match ty.oid {
            reg if is_reg(reg) => {
                let oid = oid_of(text, reg, self)?;
                if let Some(noted) = &mut self.noted {
                    noted.push((reg, text.into(), oid));
                }
                Ok(Datum::Oid(oid))
            }
            oid => match SqlType::from_oid(oid) {
                Some(known) => {
                    let value = text_in_as(text, known, typmod, &self.style)?.into_owned();
                    // Other types have a cast to their modifier.
                    let typmod = if known == SqlType::Interval { typmod } else { -1 };
                    Ok(forebay_types::coerce(value, known, typmod, true)?)
                }
                None => Err(SqlError::unsupported(format!("a value of type {}", ty.name))),
            },
        }
    }
}

impl Catalog for Host {
    fn names(&mut self) -> &mut dyn Names {
        self
    }

    fn builtin(&self, function: Oid) -> Option<Builtin> {
        functions::find(function)
    }

    fn collation(&mut self, oid: Oid) -> Result<Arc<Collation>> {
        self.call(|session| session.collation(oid))
    }

    fn table(&mut self, schema: Option<&str>, name: &str) -> Result<Option<Arc<Table>>> {
        Ok(self.call_if_any(|session| session.table(schema, name))?.flatten())
    }

    fn open_table(
        &mut self,
        schema: Option<&str>,
        name: &str,
        mode: LockMode,
    ) -> Result<Option<Arc<Table>>> {
        let open = |session: &mut Session| session.open_table_if_exists(schema, name, mode);
        Ok(self.call_if_any(open)?.flatten())
    }

    fn owned_sequence(&mut self, table: Oid, column: i16) -> Result<Option<Oid>> {
        let owned = self.call(|session| session.owned_sequences(table))?;
        Ok(owned.into_iter().find(|(_, of)| *of == column).map(|(sequence, _)| sequence))
    }

    fn constant(&mut self, e: &Expr) -> Result<Datum<'static>> {
        Ok(eval(e, &[], &[], self)?.into_owned())
    }

    fn constraint_index(&mut self, table: &Table, name: &str) -> Result<Option<u32>> {
        self.call(|session| session.constraint_index(table, name))
    }

    fn can_use_index(&mut self, index: &TableIndex) -> Result<bool> {
        Ok(self.call_if_any(|session| session.can_use_index(index))?.unwrap_or(false))
    }

    fn find_statistics(&mut self, table: &Table) -> Result<()> {
        // A table whose rows were never counted has none.
        if table.figures.rows >= 0.0 {
            self.call(|session| session.statistics(table))?;
        }
        Ok(())
    }

    fn table_blocks(&mut self, table: &Table) -> Result<u32> {
        self.call(|session| session.table_blocks(table))
    }

    fn index_blocks(&mut self, table: &Table, index: &TableIndex) -> Result<u32> {
        self.call(|session| session.index_blocks(table, index))
    }

    fn planning(&self) -> PlanSettings {
        self.settings.planning()
    }
}
