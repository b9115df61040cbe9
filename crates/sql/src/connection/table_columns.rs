//! The columns and checks of a new table, as the catalogs take them.

use super::indexes::check_keys;
use super::state::Connection;
use crate::analyze::{
    NamedType, Names, Scope, ScopeColumn, collation_for, type_name, type_of_name,
};
use crate::error::{Result, SqlError, state};
use crate::parse::{
    CheckClause, ColumnValues, CreateTable, NewColumn, NewTableColumn, QualifiedName, Source,
    TypeName,
};
use crate::plan::{
    Catalog, ParamTypes, Planner, StoredColumn, live_columns, may_vary, nextval_default,
    stored_expr,
};
use forebay_engine::{
    CheckDef, ColumnDef, EngineError, Oid, SequenceOptions, SequencePersistence, StoredExpr, Table,
    compression_code, storage_code,
};
use forebay_types::SqlType;

/// A sequence that was made for a column.
pub(super) struct ColumnSequence {
    pub(super) sequence: Oid,
    /// The column's number.
    pub(super) column: i16,
    /// Whether the column is an identity column.
    pub(super) identity: bool,
}

/// What is made of the columns of CREATE TABLE.
pub(super) struct TableParts {
    pub(super) columns: Vec<ColumnDef>,
    pub(super) checks: Vec<CheckDef>,
    pub(super) sequences: Vec<ColumnSequence>,
}

/// The columns of a new table without their defaults. Those of its primary key refuse NULL.
fn definitions(create: &CreateTable, names: &mut dyn Names) -> Result<Vec<ColumnDef>> {
    let columns: Vec<String> = create.columns.iter().map(|c| c.name.clone()).collect();
    check_keys(&create.keys, &create.name.name, &columns)?;
    let keys = create.keys.iter().filter(|key| key.primary).flat_map(|key| &key.index.keys);
    let primary: Vec<&str> = keys.map(|key| key.name.as_str()).collect();
    let mut definition = |c: &NewColumn| definition(c, primary.contains(&c.name.as_str()), names);
    create.columns.iter().map(&mut definition).collect()
}

/// The type of a new column: one whose values can be stored.
fn column_type(column: &NewColumn, names: &mut dyn Names) -> Result<NamedType> {
    stored_type_of(&column.name, &column.ty, names)
}

/// The type that a column of that name is to have.
pub(super) fn stored_type_of(
    column: &str,
    ty: &TypeName,
    names: &mut dyn Names,
) -> Result<NamedType> {
    let found = type_of_name(names, ty)?;
    let at = ty.position;
    let row = names.ty(found.oid)?;
    if row.kind == b'p' {
        let name = type_name(names, found.oid)?;
        let message = format!("column \"{column}\" has pseudo-type {name}");
        return Err(SqlError::new(state::INVALID_TABLE_DEFINITION, message).at(at));
    }
    if SqlType::from_oid(found.oid).is_none() {
        let name = type_name(names, found.oid)?;
        return Err(SqlError::unsupported(format!("a column of type {name}")).at(at));
    }
    Ok(found)
}

/// A new column without its default.
fn definition(c: &NewColumn, primary: bool, names: &mut dyn Names) -> Result<ColumnDef> {
    let NamedType { oid: ty, typmod } = column_type(c, names)?;
    let collation = match &c.collation {
        None => None,
        Some(QualifiedName { schema, name, position }) => {
            Some(collation_for(names, (schema.as_deref(), name), ty, *position)?)
        }
    };
    let made = || {
        let (storage, compression) = (c.storage.as_deref(), &c.compression);
        let implied = c.serial || c.values.identity.is_some();
        let generated = c.values.generated.as_ref();
        Ok(ColumnDef {
            typmod,
            collation,
            not_null: c.not_null || implied || primary,
            not_null_name: c.not_null_name.clone(),
            storage: storage.map(|name| storage_code(ty, name)).transpose()?,
            compression: compression.as_deref().map_or(Ok(0), |name| compression_code(ty, name))?,
            generated: generated.map_or(0, |(_, stored)| if *stored { b's' } else { b'v' }),
            identity: match c.values.identity {
                None => 0,
                Some((true, _)) => b'a',
                Some((false, _)) => b'd',
            },
            ..ColumnDef::new(&c.name, ty)
        })
    };
    made().map_err(|error: EngineError| error.into())
}

/// The columns of a new table as names.
fn scope_of(table: &str, columns: &[ColumnDef]) -> Scope {
    let mut scope = Scope { alias: Some(table.to_owned()), ..Scope::default() };
    for (index, column) in columns.iter().enumerate() {
        let ty = SqlType::of(column.type_oid);
        scope.columns.push(ScopeColumn {
            name: column.name.clone(),
            ty,
            typmod: column.typmod,
            collation: column.collation.unwrap_or(ty.info().collation),
            attnum: i16::try_from(index + 1).unwrap_or(i16::MAX),
            index,
        });
    }
    scope
}

/// What is made of a column that is added to a table.
pub(super) struct NewParts {
    pub(super) def: ColumnDef,
    pub(super) sequence: Option<ColumnSequence>,
    /// Whether its default may have another value for each row.
    pub(super) changes: bool,
}

impl Connection {
    /// What is made of a column that is added to a table. Its sequence is made at once.
    pub(super) fn new_column_parts(
        &mut self,
        table: &Table,
        new: &NewTableColumn,
        source: &Source,
    ) -> Result<NewParts> {
        let primary = new.keys.iter().any(|key| key.primary);
        let mut def = definition(&new.column, primary, self.host.names())?;
        let mut scope = Scope { system: Vec::new(), ..Scope::of_table(table) };
        let number = i16::try_from(table.columns.len() + 1).unwrap_or(i16::MAX);
        let ty = SqlType::of(def.type_oid);
        scope.columns.push(ScopeColumn {
            name: def.name.clone(),
            ty,
            typmod: def.typmod,
            collation: def.collation.unwrap_or(ty.info().collation),
            attnum: number,
            index: table.columns.len(),
        });
        let mut generated: Vec<i16> =
            live_columns(table).filter(|c| c.generated != 0).map(|c| c.attnum).collect();
        generated.push(number);
        let persistence = SequencePersistence::of_table(table.place());
        let place = (Some(table.schema.as_str()), persistence);
        let names = (&scope, generated.as_slice());
        let sequence = self.column_values(
            (&mut def, number),
            &new.column,
            (&table.name, place),
            names,
            source,
        )?;
        let changes = match &def.default {
            Some(default) if def.generated == 0 => {
                let expr = stored_expr(Some(&default.tree), "a default")?;
                may_vary(self.host.names(), &expr)?
            }
            _ => false,
        };
        Ok(NewParts { def, sequence, changes })
    }

    /// Makes the default of a column, and its sequence.
    fn column_values(
        &mut self,
        (def, number): (&mut ColumnDef, i16),
        column: &NewColumn,
        (table, (schema, persistence)): (&str, (Option<&str>, SequencePersistence)),
        (scope, generated): (&Scope, &[i16]),
        source: &Source,
    ) -> Result<Option<ColumnSequence>> {
        let name = def.name.clone();
        let of = StoredColumn { name: &name, type_oid: def.type_oid, typmod: def.typmod };
        let ColumnValues { default, generated: from, identity } = &column.values;
        if column.serial && (default.is_some() || identity.is_some()) {
            let what = match default {
                Some(_) => "multiple default values",
                None => "both default and identity",
            };
            let message = format!("{what} specified for column \"{name}\" of table \"{table}\"");
            return Err(SqlError::new(state::SYNTAX_ERROR, message));
        }
        if column.serial || identity.is_some() {
            let clauses = identity.as_ref().map(|(_, clauses)| clauses.options.clone());
            let options = clauses.unwrap_or_default();
            let type_oid = Some(options.type_oid.unwrap_or(def.type_oid));
            let options = SequenceOptions { type_oid, ..options };
            let is_identity = identity.is_some();
            let sequence = self.host.call(|session| {
                let of = (table, name.as_str());
                session.create_column_sequence(schema, of, &options, (is_identity, persistence))
            })?;
            if column.serial {
                def.default = Some(nextval_default(self.host.names(), sequence, of)?);
            }
            return Ok(Some(ColumnSequence { sequence, column: number, identity: is_identity }));
        }
        let mut params = ParamTypes::default();
        let mut planner = Planner { source, catalog: &mut self.host, params: &mut params };
        def.default = match (default, from) {
            (Some(e), _) => planner.stored_default(e, of, scope)?,
            (None, Some((e, _))) => Some(planner.stored_generation(e, of, (scope, generated))?),
            (None, None) => None,
        };
        Ok(None)
    }

    /// What CREATE TABLE makes. The sequences of its columns are made at once.
    pub(super) fn table_parts(
        &mut self,
        create: &CreateTable,
        (schema, persistence): (Option<&str>, SequencePersistence),
        source: &Source,
    ) -> Result<TableParts> {
        let mut columns = definitions(create, self.host.names())?;
        let scope = scope_of(&create.name.name, &columns);
        let is_generated = |column: &NewColumn| column.values.generated.is_some();
        let generated: Vec<i16> =
            (1..).zip(&create.columns).filter(|(_, c)| is_generated(c)).map(|(n, _)| n).collect();
        let mut sequences = Vec::new();
        for ((number, def), column) in (1..).zip(&mut columns).zip(&create.columns) {
            let names = (&scope, generated.as_slice());
            let place = (create.name.name.as_str(), (schema, persistence));
            sequences.extend(self.column_values((def, number), column, place, names, source)?);
        }
        let checks = self.check_defs(&create.checks, &scope, source)?;
        Ok(TableParts { columns, checks, sequences })
    }

    fn check_defs(
        &mut self,
        checks: &[CheckClause],
        scope: &Scope,
        source: &Source,
    ) -> Result<Vec<CheckDef>> {
        let mut defs: Vec<CheckDef> = Vec::with_capacity(checks.len());
        for check in checks {
            let def = self.check_def(check, scope, source, true)?;
            if let Some(name) = &def.name
                && defs.iter().any(|other| other.name.as_ref() == Some(name))
            {
                let message = format!("check constraint \"{name}\" already exists");
                return Err(SqlError::new("42710", message));
            }
            defs.push(def);
        }
        Ok(defs)
    }

    /// A check as it is stored. `valid`: no row can break it yet.
    pub(super) fn check_def(
        &mut self,
        check: &CheckClause,
        scope: &Scope,
        source: &Source,
        valid: bool,
    ) -> Result<CheckDef> {
        let mut params = ParamTypes::default();
        let mut planner = Planner { source, catalog: &mut self.host, params: &mut params };
        let condition: StoredExpr = planner.stored_check(&check.condition, scope)?;
        Ok(CheckDef {
            name: check.name.clone(),
            condition,
            no_inherit: check.no_inherit,
            enforced: check.enforced,
            validated: check.enforced && (valid || check.valid),
        })
    }
}
