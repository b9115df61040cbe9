//! Fires what foreign keys and deferrable keys have to check or do: at the end of a statement, at
//! SET CONSTRAINTS, and before a commit.
//!
//! As in PostgreSQL each check and each action is a statement of its own. It is planned once for a
//! key (`key_plans.rs`), and run with the values of the changed row:
//!
//! ```text
//! child inserted, updated ─ SELECT ... FROM parent ... FOR KEY SHARE    none: 23503
//! parent deleted, updated ─ NO ACTION: does another row have the key?
//!                         ─ SELECT ... FROM child ... FOR KEY SHARE     any: 23503, 23001
//!                         ─ or DELETE, UPDATE of the children, whose events are fired in turn
//! ```

use super::key_plans::{KeyPlan, KeyQuery};
use super::run::run_to_end;
use super::sink::{CommandTag, RowSink};
use super::state::Connection;
use super::statement::Plan;
use crate::error::{Result, SqlError, state};
use crate::exec::{Cursor, Flow, Host};
use crate::parse::{QualifiedName, parse_script};
use forebay_engine::{
    Due, ForeignKey, KeyAction, KeyEvent, KeyWork, ObjectName, Oid, Part, StoredRow, Table,
};
use forebay_types::{Datum, SqlType, to_text};
use std::sync::Arc;

type Values = Vec<Datum<'static>>;

impl Connection {
    /// Fires what the statement that has just run has brought.
    pub(super) fn fire_statement_events(&mut self) -> Result<()> {
        match self.host.session_if_any().is_some_and(|session| session.has_statement_events()) {
            true => self.fire_key_events(Due::Statement),
            false => Ok(()),
        }
    }

    /// Fires what waits for the end of the transaction.
    pub(super) fn fire_deferred_events(&mut self) -> Result<()> {
        if !self.host.session_if_any().is_some_and(|session| session.has_key_events()) {
            return Ok(());
        }
        self.host.call(|session| session.begin_deferred_round())?;
        self.fire_key_events(Due::All)
    }

    fn fire_key_events(&mut self, due: Due) -> Result<()> {
        while let Some(event) = self.host.call(|session| session.next_key_event(due))? {
            self.host.call(|session| session.start_command())?;
            self.fire(&event)?;
        }
        Ok(())
    }

    /// SET CONSTRAINTS.
    pub(super) fn set_constraints(
        &mut self,
        names: Option<&[QualifiedName]>,
        deferred: bool,
        sink: &mut dyn RowSink,
    ) -> Result<CommandTag> {
        self.warn_outside_block("SET CONSTRAINTS", sink)?;
        let mut constraints = Vec::new();
        for QualifiedName { schema, name, .. } in names.unwrap_or_default() {
            let found =
                self.host.call(|session| session.constraints_named(schema.as_deref(), name))?;
            if found.is_empty() {
                let message = format!("constraint \"{name}\" does not exist");
                return Err(SqlError::new(state::UNDEFINED_OBJECT, message));
            }
            for (oid, deferrable) in found {
                match deferrable {
                    true => constraints.push(oid),
                    false if deferred => {
                        let message = format!("constraint \"{name}\" is not deferrable");
                        return Err(SqlError::new(state::WRONG_OBJECT_TYPE, message));
                    }
                    false => {}
                }
            }
        }
        let constraints = names.map(|_| constraints.as_slice());
        self.host.call(|session| session.set_constraints(constraints, deferred))?;
        if !deferred {
            self.host.call(|session| session.begin_deferred_round())?;
            self.fire_key_events(Due::Immediate)?;
        }
        Ok(CommandTag("SET CONSTRAINTS".to_owned()))
    }

    fn fire(&mut self, event: &KeyEvent) -> Result<()> {
        let Some(key) = &event.trigger.key else {
            return self.host.call(|session| session.recheck_key(event));
        };
        match event.trigger.work {
            KeyWork::CheckInserted | KeyWork::CheckUpdated => self.check_child(event, key),
            KeyWork::Deleted(action) => self.parent_changed(event, key, (action, true)),
            KeyWork::Updated(action) => self.parent_changed(event, key, (action, false)),
            KeyWork::Recheck => {
                Err(SqlError::new(state::INTERNAL_ERROR, "a recheck has no foreign key"))
            }
        }
    }

    /// A child that is still there must have a parent.
    fn check_child(&mut self, event: &KeyEvent, key: &ForeignKey) -> Result<()> {
        let Some(new) = &event.new else { return Ok(()) };
        let table = &event.table;
        let seen = self.host.call(|session| session.fetch_row(table, new.place()))?;
        let Some(row) = seen else { return Ok(()) };
        let values = key_values(&mut self.host, table, &row, &key.columns)?;
        if values.iter().any(Datum::is_null) {
            return match key.full && !values.iter().all(Datum::is_null) {
                true => Err(mixed_nulls(table, key)),
                false => Ok(()),
            };
        }
        let plan = self.key_plan(key, KeyQuery::Parent)?;
        match self.run_key_plan(&plan, &values, false)? {
            true => Ok(()),
            false => Err(without_parent(&plan.child, &plan.parent, key, &values)?),
        }
    }

    /// A parent was deleted, or its key updated.
    fn parent_changed(
        &mut self,
        event: &KeyEvent,
        key: &ForeignKey,
        (action, on_delete): (KeyAction, bool),
    ) -> Result<()> {
        let Some(old) = &event.old else { return Ok(()) };
        let table = &event.table;
        let before = key_values(&mut self.host, table, old, &key.parent_columns)?;
        let (query, values) = match action {
            KeyAction::NoAction | KeyAction::Restrict => {
                return self.restrict(key, &before, action == KeyAction::NoAction);
            }
            KeyAction::Cascade if on_delete => (KeyQuery::Delete, before.clone()),
            KeyAction::Cascade => {
                let Some(new) = &event.new else { return Ok(()) };
                let mut values = key_values(&mut self.host, table, new, &key.parent_columns)?;
                values.extend(before.iter().cloned());
                (KeyQuery::Update, values)
            }
            KeyAction::SetNull | KeyAction::SetDefault => {
                let default = action == KeyAction::SetDefault;
                (KeyQuery::Set { default, on_delete }, before.clone())
            }
        };
        let plan = self.key_plan(key, query)?;
        self.run_key_plan(&plan, &values, true)?;
        // The default may be the key that is gone.
        match action {
            KeyAction::SetDefault => {
                self.host.call(|session| session.start_command())?;
                self.restrict(key, &before, true)
            }
            _ => Ok(()),
        }
    }

    /// There must be no children of a key; with `twins` unless another parent has it.
    fn restrict(&mut self, key: &ForeignKey, before: &Values, twins: bool) -> Result<()> {
        if twins {
            let plan = self.key_plan(key, KeyQuery::Twin)?;
            if self.run_key_plan(&plan, before, true)? {
                return Ok(());
            }
            self.host.call(|session| session.start_command())?;
        }
        let plan = self.key_plan(key, KeyQuery::Children)?;
        match self.run_key_plan(&plan, before, true)? {
            false => Ok(()),
            true => Err(has_children(&plan.child, &plan.parent, key, (before, twins))?),
        }
    }

    /// Runs a statement of a key in the running command. Whether there is a row. With `newest` it
    /// sees what has committed by now, whatever the transaction sees.
    fn run_key_plan(&mut self, plan: &KeyPlan, values: &Values, newest: bool) -> Result<bool> {
        let ran = self.try_key_plan(plan, values, newest);
        ran.map_err(|error| error.context(format!("SQL statement \"{}\"", plan.shown)))
    }

    fn try_key_plan(&mut self, plan: &KeyPlan, values: &Values, newest: bool) -> Result<bool> {
        let params: Arc<[Datum<'static>]> = values.as_slice().into();
        let locked = self.lock_plan(&plan.prepared)?;
        if newest {
            self.host.call(|session| session.see_newest())?;
        }
        match &locked {
            Plan::Select(select) => {
                let mut cursor = Cursor::new(&select.root, params);
                Ok(finds_row(&mut cursor, &mut self.host)?)
            }
            Plan::Change(change) => {
                let mut cursor = Cursor::new(&change.root, params);
                Ok(run_to_end(&mut cursor, &mut self.host)? > 0)
            }
            Plan::Declare(_) | Plan::Utility => {
                Err(SqlError::new(state::INTERNAL_ERROR, "a foreign key runs queries only"))
            }
        }
    }

    /// The planned statement of a key.
    pub(super) fn key_plan(&mut self, key: &ForeignKey, query: KeyQuery) -> Result<Arc<KeyPlan>> {
        let version = self.host.session()?.catalog_version();
        let known = version.and_then(|version| self.key_plans.get(key.oid, query, version));
        let plan = match known {
            Some((plan, true)) => return Ok(plan),
            Some((plan, false)) if self.has_same_tables(&plan)? => plan,
            _ => Arc::new(self.new_key_plan(key, query)?),
        };
        // Planning locks tables, and so may see a change of the catalogs.
        if let Some(version) = version
            && self.host.session()?.catalog_version() == Some(version)
        {
            self.key_plans.put(key.oid, query, (version, &plan));
        }
        Ok(plan)
    }

    /// Whether a plan's tables are what they were when it was made.
    fn has_same_tables(&mut self, plan: &KeyPlan) -> Result<bool> {
        for table in [&plan.child, &plan.parent] {
            let now = self.host.call(|session| session.table_by_oid(table.oid))?;
            if now.is_none_or(|now| !Arc::ptr_eq(&now, table)) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn new_key_plan(&mut self, key: &ForeignKey, query: KeyQuery) -> Result<KeyPlan> {
        let mut table = |oid: Oid| {
            let found = self.host.call(|session| session.table_by_oid(oid))?;
            found.ok_or_else(|| {
                let what = format!(
                    "foreign key \"{}\" of a partitioned table, or one that is no table",
                    key.name
                );
                SqlError::unsupported(what)
            })
        };
        let (child, parent) = (table(key.child)?, table(key.parent)?);
        let sides = Sides { child: &child, parent: &parent, key };
        let (shown, types) = sides.text(query)?;
        // There are no child tables, and sqlparser does not know ONLY here.
        let text = match query {
            KeyQuery::Parent | KeyQuery::Twin | KeyQuery::Children | KeyQuery::Exists => {
                shown.replacen("FROM ONLY ", "FROM ", 1)
            }
            _ => shown.clone(),
        };
        let statement = parse_script(&text, self.host.encoding(), self.host.interrupt())?.pop();
        let no_statement = || SqlError::new(state::INTERNAL_ERROR, "a foreign key has no query");
        let prepared = self.prepare(statement.ok_or_else(no_statement)?, Some(&types))?;
        Ok(KeyPlan { prepared, shown, child, parent })
    }

    /// Whether each row of a table satisfies a foreign key. Nobody else writes it, or its parent.
    pub(super) fn check_all_children(&mut self, key: &ForeignKey) -> Result<()> {
        self.host.call(|session| session.see_own_changes())?;
        let plan = self.key_plan(key, KeyQuery::Exists)?;
        let locked = self.lock_plan(&plan.prepared)?;
        let Plan::Select(select) = &locked else {
            return Err(SqlError::new(
                state::INTERNAL_ERROR,
                "a foreign key is checked by a query",
            ));
        };
        let (child, parent) = (&plan.child, &plan.parent);
        let mut known = KnownKeys::default();
        let mut scan = self.host.call(|session| session.scan(child))?;
        loop {
            let row = self.host.call(|session| -> Result<_> {
                Ok(scan.next(session)?.map(|row| row.to_stored()))
            })?;
            let Some(row) = row else { return Ok(()) };
            let values = key_values(&mut self.host, child, &row, &key.columns)?;
            if values.iter().any(Datum::is_null) {
                if key.full && !values.iter().all(Datum::is_null) {
                    return Err(mixed_nulls(child, key));
                }
                continue;
            }
            let shown = shown_values(&values)?;
            if known.has(&shown) {
                continue;
            }
            let mut cursor = Cursor::new(&select.root, values.as_slice().into());
            if !finds_row(&mut cursor, &mut self.host)? {
                return Err(without_parent(child, parent, key, &values)?);
            }
            known.add(shown);
        }
    }
}

/// Keys whose parents were found, as texts. Only so many are kept.
#[derive(Default)]
struct KnownKeys(std::collections::HashSet<Vec<String>>);

impl KnownKeys {
    const MOST: usize = 1 << 16;

    fn has(&self, key: &[String]) -> bool {
        self.0.contains(key)
    }

    fn add(&mut self, key: Vec<String>) {
        if self.0.len() < KnownKeys::MOST {
            self.0.insert(key);
        }
    }
}

fn finds_row(cursor: &mut Cursor, host: &mut Host) -> Result<bool> {
    let mut found = false;
    cursor.run(host, &mut |_, _| {
        found = true;
        Ok(Flow::Rest)
    })?;
    Ok(found)
}

/// The tables of a foreign key.
struct Sides<'a> {
    child: &'a Table,
    parent: &'a Table,
    key: &'a ForeignKey,
}

impl Sides<'_> {
    /// A statement as PostgreSQL writes it, and the types of its parameters.
    fn text(&self, query: KeyQuery) -> Result<(String, Vec<u32>)> {
        let Sides { child, parent, key } = *self;
        let (of_child, of_parent) = (&key.columns[..], &key.parent_columns[..]);
        let of_parent_types = types(parent, of_parent)?;
        let relation = |table: &Table| format!("{}.{}", quote(&table.schema), quote(&table.name));
        let is_key = |table: &Table, columns: &[i16], first: usize| {
            let mut conditions = Vec::with_capacity(columns.len());
            for (n, number) in columns.iter().enumerate() {
                let name = quote(column_name(table, *number)?);
                let value = format!("${}", first + n);
                let parents = std::ptr::eq(columns, of_parent);
                let (left, right) = if parents { (name, value) } else { (value, name) };
                conditions.push(format!("{left} OPERATOR(pg_catalog.=) {right}"));
            }
            Ok::<String, SqlError>(conditions.join(" AND "))
        };
        let select = |table: &Table, condition: String, lock: &str| {
            format!("SELECT 1 FROM ONLY {} x WHERE {condition}{lock}", relation(table))
        };
        const LOCK: &str = " FOR KEY SHARE OF x";
        Ok(match query {
            KeyQuery::Parent | KeyQuery::Exists => {
                let lock = if query == KeyQuery::Parent { LOCK } else { "" };
                let text = select(parent, is_key(parent, of_parent, 1)?, lock);
                (text, types(child, of_child)?)
            }
            KeyQuery::Twin => {
                (select(parent, is_key(parent, of_parent, 1)?, LOCK), of_parent_types)
            }
            KeyQuery::Children => {
                (select(child, is_key(child, of_child, 1)?, LOCK), of_parent_types)
            }
            KeyQuery::Delete => {
                let condition = is_key(child, of_child, 1)?;
                let text = format!("DELETE FROM ONLY {} WHERE {condition}", relation(child));
                (text, of_parent_types)
            }
            KeyQuery::Update => {
                let mut set = Vec::with_capacity(of_child.len());
                for (n, number) in of_child.iter().enumerate() {
                    set.push(format!("{} = ${}", quote(column_name(child, *number)?), n + 1));
                }
                let condition = is_key(child, of_child, of_child.len() + 1)?;
                let (table, set) = (relation(child), set.join(", "));
                let text = format!("UPDATE ONLY {table} SET {set} WHERE {condition}");
                (text, [&of_parent_types[..], &of_parent_types].concat())
            }
            KeyQuery::Set { default, on_delete } => {
                let all = key.set_columns.is_empty() || !on_delete;
                let columns = if all { of_child } else { &key.set_columns };
                let value = if default { "DEFAULT" } else { "NULL" };
                let mut set = Vec::with_capacity(columns.len());
                for number in columns {
                    set.push(format!("{} = {value}", quote(column_name(child, *number)?)));
                }
                let (table, set) = (relation(child), set.join(", "));
                let condition = is_key(child, of_child, 1)?;
                (format!("UPDATE ONLY {table} SET {set} WHERE {condition}"), of_parent_types)
            }
        })
    }
}

fn quote(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn lost(table: &Table, number: i16) -> SqlError {
    let message = format!("relation \"{}\" has no column {number}", table.name);
    SqlError::new(state::INTERNAL_ERROR, message)
}

fn column_name(table: &Table, number: i16) -> Result<&str> {
    let found = table.columns.iter().find(|column| column.attnum == number);
    Ok(&found.ok_or_else(|| lost(table, number))?.name)
}

fn types(table: &Table, numbers: &[i16]) -> Result<Vec<u32>> {
    let of = |number: &i16| {
        let found = table.columns.iter().find(|column| column.attnum == *number);
        Ok(found.ok_or_else(|| lost(table, *number))?.type_oid)
    };
    numbers.iter().map(of).collect()
}

/// The values of some columns of a row.
fn key_values(host: &mut Host, table: &Table, row: &StoredRow, numbers: &[i16]) -> Result<Values> {
    let all = row.view().decode()?;
    let mut values = Vec::with_capacity(numbers.len());
    for number in numbers {
        let place = table.columns.iter().position(|column| column.attnum == *number);
        let found = place.and_then(|place| Some((all.get(place)?, table.columns.get(place)?)));
        let (value, column) = found.ok_or_else(|| lost(table, *number))?;
        values.push(match value {
            Datum::Toasted(_) => host.fetch_value(value, column.repr, Part::Whole)?,
            value => value.clone().into_owned(),
        });
    }
    Ok(values)
}

fn shown_values(values: &Values) -> Result<Vec<String>> {
    let shown = |value: &Datum<'static>| Ok(format!("{value:?}"));
    values.iter().map(shown).collect()
}

/// `Key (a, b)=(1, 2)`.
fn shown_key(table: &Table, numbers: &[i16], values: &Values) -> Result<String> {
    let (mut names, mut shown) = (Vec::new(), Vec::new());
    for (ty, (number, value)) in types(table, numbers)?.iter().zip(numbers.iter().zip(values)) {
        names.push(column_name(table, *number)?);
        shown.push(match value {
            Datum::Null => "null".to_owned(),
            value => to_text(value, SqlType::of(*ty))?,
        });
    }
    Ok(format!("Key ({})=({})", names.join(", "), shown.join(", ")))
}

fn about(child: &Table, key: &ForeignKey) -> ObjectName {
    ObjectName {
        schema: child.schema.clone(),
        table: child.name.clone(),
        constraint: key.name.clone(),
    }
}

fn violated(child: &Table, key: &ForeignKey) -> SqlError {
    let message = format!(
        "insert or update on table \"{}\" violates foreign key constraint \"{}\"",
        child.name, key.name
    );
    SqlError::new("23503", message).about(about(child, key))
}

fn mixed_nulls(child: &Table, key: &ForeignKey) -> SqlError {
    violated(child, key).detail("MATCH FULL does not allow mixing of null and nonnull key values.")
}

fn without_parent(
    child: &Table,
    parent: &Table,
    key: &ForeignKey,
    values: &Values,
) -> Result<SqlError> {
    let shown = shown_key(child, &key.columns, values)?;
    let detail = format!("{shown} is not present in table \"{}\".", parent.name);
    Ok(violated(child, key).detail(detail))
}

/// `twins`: it is a NO ACTION, not a RESTRICT.
fn has_children(
    child: &Table,
    parent: &Table,
    key: &ForeignKey,
    (before, twins): (&Values, bool),
) -> Result<SqlError> {
    let shown = shown_key(parent, &key.parent_columns, before)?;
    let (sqlstate, setting, still) = match twins {
        true => ("23503", "", "still "),
        false => ("23001", "RESTRICT setting of ", ""),
    };
    let message = format!(
        "update or delete on table \"{}\" violates {setting}foreign key constraint \"{}\" on \
         table \"{}\"",
        parent.name, key.name, child.name
    );
    let detail = format!("{shown} is {still}referenced from table \"{}\".", child.name);
    Ok(SqlError::new(sqlstate, message).detail(detail).about(about(child, key)))
}
