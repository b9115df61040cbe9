//! COPY.

use super::copy_in::{Added, CopyIn};
use super::outcome::Executed;
use super::sink::{CommandTag, Format, RowSink};
use super::state::Connection;
use crate::column::ColumnDesc;
use crate::copy::{CopyColumn, CopyFormat, CopyOptions, CopyParser, CopyShape, CopyWriter};
use crate::error::{Result, SqlError, state};
use crate::exec::{Cursor, Flow, Loader};
use crate::parse::{CopySource, CopyStatement, CopyTarget, QualifiedName, Source};
use crate::plan::{
    Expr, Node, ParamTypes, Planner, Relation, SelectPlan, TableRead, Verb, live_columns,
    stored_type, target_columns, writable,
};
use forebay_engine::{LockMode, Table};
use forebay_types::{Encoding, MAX_ALLOC, SqlType};
use std::sync::Arc;

impl Connection {
    /// Starts or runs a COPY.
    pub(super) fn run_copy(
        &mut self,
        copy: &CopyStatement,
        source: &Source,
        last: bool,
        sink: &mut dyn RowSink,
    ) -> Result<Executed> {
        match copy.target {
            CopyTarget::Client => {}
            CopyTarget::File => {
                return Err(SqlError::unsupported("COPY with a file on the server"));
            }
            CopyTarget::Program => {
                return Err(SqlError::unsupported("COPY with a program on the server"));
            }
        }
        if copy.has_where {
            return Err(SqlError::unsupported("COPY FROM with WHERE"));
        }
        let options = CopyOptions::new(&copy.options, !copy.to)?;
        self.check_encoded(copy, &options)?;
        match &copy.source {
            CopySource::Query(query) => {
                let plan = self.plan_query(query, source)?;
                self.copy_out(plan, options, sink)
            }
            CopySource::Table { name, columns } if copy.to => {
                let plan = self.copy_plan(name, columns.as_deref(), source)?;
                self.copy_out(Arc::new(plan), options, sink)
            }
            CopySource::Table { name, columns } => {
                let copy = self.copy_in(name, columns.as_deref(), options, source, last)?;
                Ok(Executed::CopyIn(Box::new(copy)))
            }
        }
    }

    /// Refuses options that are not supported in the database's encoding.
    fn check_encoded(&self, copy: &CopyStatement, options: &CopyOptions) -> Result<()> {
        if self.host.encoding() == Encoding::Utf8 {
            return Ok(());
        }
        if copy.options.iter().any(|option| option.name == "encoding") {
            return Err(SqlError::unsupported("COPY ENCODING in a database with SQL_ASCII"));
        }
        if !options.null.is_ascii() {
            let what = "COPY NULL beyond ASCII in a database with encoding SQL_ASCII";
            return Err(SqlError::unsupported(what));
        }
        Ok(())
    }

    fn relation(
        &mut self,
        name: &QualifiedName,
        mode: LockMode,
        source: &Source,
    ) -> Result<Relation> {
        // COPY's errors point at no place in the query.
        let name = QualifiedName { position: 0, ..name.clone() };
        let mut params = ParamTypes::default();
        Planner { source, catalog: &mut self.host, params: &mut params }.relation(&name, mode)
    }

    /// A table's columns of a COPY, as places among its live columns. Generated ones are not part
    /// of it.
    fn copy_columns(&self, table: &Table, names: Option<&[(String, u32)]>) -> Result<Vec<usize>> {
        let Some(names) = names else {
            let given = live_columns(table).enumerate().filter(|(_, c)| c.generated == 0);
            return Ok(given.map(|(place, _)| place).collect());
        };
        let names: Vec<(String, u32)> = names.iter().map(|(name, _)| (name.clone(), 0)).collect();
        let targets = target_columns(table, &names)?;
        for target in &targets {
            let column = live_columns(table).nth(*target).filter(|c| c.generated != 0);
            if let Some(column) = column {
                let message = format!("column \"{}\" is a generated column", column.name);
                let detail = "Generated columns cannot be used in COPY.";
                return Err(SqlError::new("42P10", message).detail(detail));
            }
        }
        Ok(targets)
    }

    /// What the rows of a COPY FROM get beside what comes. None: nothing.
    fn added_to_copy(
        &mut self,
        table: &Arc<Table>,
        targets: &[usize],
        source: &Source,
    ) -> Result<Option<Added>> {
        let mut params = ParamTypes::default();
        let mut planner = Planner { source, catalog: &mut self.host, params: &mut params };
        let mut defaults = Vec::new();
        for (place, column) in live_columns(table).enumerate() {
            if column.has_default && column.generated == 0 && !targets.contains(&place) {
                defaults.push((place, planner.default_of(table, column)?));
            }
        }
        let rules = planner.row_rules(table)?;
        let none = defaults.is_empty() && rules.is_none();
        Ok((!none).then(|| Added { defaults, rules, table: Arc::clone(table) }))
    }

    /// COPY table TO as a query.
    fn copy_plan(
        &mut self,
        name: &QualifiedName,
        columns: Option<&[(String, u32)]>,
        source: &Source,
    ) -> Result<SelectPlan> {
        let table = match self.relation(name, LockMode::AccessShare, source)? {
            Relation::View(_) => {
                let message = format!("cannot copy from view \"{}\"", name.name);
                let hint = "Try the COPY (SELECT ...) TO variant.";
                return Err(SqlError::new(state::WRONG_OBJECT_TYPE, message).hint(hint));
            }
            Relation::Table(table) if table.kind == b'S' => {
                let message = format!("cannot copy from sequence \"{}\"", table.name);
                return Err(SqlError::new(state::WRONG_OBJECT_TYPE, message));
            }
            Relation::Table(table) => table,
        };
        let targets = self.copy_columns(&table, columns)?;
        let live: Vec<_> = table.columns.iter().enumerate().filter(|(_, c)| !c.dropped).collect();
        let mut output = Vec::new();
        let mut descs = Vec::new();
        for target in targets {
            let Some((index, column)) = live.get(target) else { continue };
            output.push(Expr::Column(*index));
            descs.push(ColumnDesc {
                name: column.name.clone(),
                table_oid: table.oid,
                attnum: column.attnum,
                ty: SqlType::of(column.type_oid),
                typmod: column.typmod,
                collation: column.collation,
            });
        }
        let mut decode = Vec::new();
        output.iter().for_each(|column| column.mark_columns(&mut decode));
        let (schema, mode) = (name.schema.clone(), LockMode::AccessShare);
        let handed_on = Vec::new();
        let scan = Node::Scan(TableRead { table, schema, alias: None, mode, decode, handed_on });
        let root = Arc::new(Node::Project { input: Box::new(scan), output });
        let mut params = ParamTypes::default();
        Planner { source, catalog: &mut self.host, params: &mut params }
            .shown(SelectPlan { root, columns: descs })
    }

    fn copy_out(
        &mut self,
        plan: Arc<SelectPlan>,
        options: CopyOptions,
        sink: &mut dyn RowSink,
    ) -> Result<Executed> {
        self.check_changes(&plan.root)?;
        let format =
            if options.format == CopyFormat::Binary { Format::Binary } else { Format::Text };
        let columns = plan.columns.clone();
        sink.copy_out_start(format, columns.len())?;
        let mut writer = CopyWriter::new(options, Arc::clone(&self.host.style));
        let mut message = Vec::new();
        writer.header(&columns, &mut message);
        if !message.is_empty() {
            sink.copy_data(&message)?;
        }
        let mut rows = 0u64;
        self.show_cursors(&plan.root, None);
        let root = plan.with_oids(|_| format == Format::Binary);
        let mut cursor = Cursor::new(&root, Arc::from([]));
        cursor.use_workers();
        cursor.run(&mut self.host, &mut |row, _| {
            message.clear();
            let mut long = Vec::new();
            writer.row(row.values, &columns, &mut message, &mut long)?;
            rows += 1;
            match long.is_empty() {
                true => sink.copy_data(&message)?,
                false => sink.copy_pieces(&message, &long)?,
            }
            Ok(Flow::Continue)
        })?;
        message.clear();
        writer.finish(&mut message);
        if !message.is_empty() {
            sink.copy_data(&message)?;
        }
        sink.copy_out_end()?;
        Ok(Executed::Completed(CommandTag(format!("COPY {rows}"))))
    }

    fn copy_in(
        &mut self,
        name: &QualifiedName,
        columns: Option<&[(String, u32)]>,
        options: CopyOptions,
        source: &Source,
        last: bool,
    ) -> Result<CopyIn> {
        let table = match self.relation(name, LockMode::RowExclusive, source)? {
            Relation::View(_) => {
                let message = format!("cannot copy to view \"{}\"", name.name);
                let hint = "To enable copying to a view, provide an INSTEAD OF INSERT trigger.";
                return Err(SqlError::new(state::WRONG_OBJECT_TYPE, message).hint(hint));
            }
            relation => writable(relation, name, Verb::Copy)?,
        };
        if !table.is_temporary() {
            self.check_writable("COPY FROM")?;
        }
        if options.freeze && self.portals.has_queries() {
            let message = "cannot perform COPY FREEZE because of prior transaction activity";
            return Err(SqlError::new("25000", message));
        }
        let targets = self.copy_columns(&table, columns)?;
        let added = self.added_to_copy(&table, &targets, source)?;
        let mut list = Vec::with_capacity(targets.len());
        for slot in targets {
            let Some(column) = live_columns(&table).nth(slot) else { continue };
            let (name, ty) = (column.name.clone(), stored_type(column)?);
            list.push(CopyColumn { name, ty, typmod: column.typmod, slot });
        }
        let format =
            if options.format == CopyFormat::Binary { Format::Binary } else { Format::Text };
        let count = list.len();
        let shape = CopyShape {
            table: table.name.clone(),
            columns: list,
            width: live_columns(&table).count(),
            longest: MAX_ALLOC,
            style: Arc::clone(&self.host.style),
        };
        let mut loader = Loader::new(&table);
        if options.freeze {
            self.host.call(|session| session.check_freezable(&table))?;
            loader.freeze();
        }
        Ok(CopyIn {
            parser: CopyParser::new(options, shape),
            loader,
            added,
            format,
            columns: count,
            table: table.name.clone(),
            rows: 0,
            lines: (!table.indexes.is_empty()).then(Vec::new),
            last,
        })
    }
}
