//! Stored trees, indexes and constraints as SQL: pg_get_expr and its kind.

use super::Area;
use super::arguments::{int, oid, wrong_argument};
use super::named::leads_to;
use crate::analyze::Names;
use crate::error::{Result, SqlError, state};
use crate::exec::host::Host;
use crate::exec::tree_names::{TreeNames, TreeSource};
use crate::plan::stored_expr;
use forebay_engine::nodes::{
    CheckText, Expr, IndexKeyText, IndexText, KeySource, Style, deparse, deparse_list, read_list,
};
use forebay_engine::{
    Column, ConstraintDefinition, IndexDefinition, KeyAction, Table, quoted, tree_in_memory,
};
use forebay_types::{Datum, Oid};
use std::borrow::Cow;
use std::sync::Arc;

/// pg_am.oid of B-trees.
const BTREE: Oid = 403;

pub(super) const TABLE: Area = &[
    (1716, |_, args, host| expression(args, Style::NORMAL, host)),
    (2509, |_, args, host| expression(args, style(args, 2), host)),
    (1643, |_, args, host| index(args, (0, Style::NORMAL), host)),
    (2507, |_, args, host| index(args, (int(args, 1)?, style(args, 2)), host)),
    (1387, |_, args, host| constraint(args, Style::NORMAL, host)),
    (2508, |_, args, host| constraint(args, style(args, 1), host)),
    (1640, |_, _, _| Err(SqlError::unsupported("pg_get_viewdef"))),
    (1641, |_, _, _| Err(SqlError::unsupported("pg_get_viewdef"))),
    (2505, |_, _, _| Err(SqlError::unsupported("pg_get_viewdef"))),
    (2506, |_, _, _| Err(SqlError::unsupported("pg_get_viewdef"))),
    (3159, |_, _, _| Err(SqlError::unsupported("pg_get_viewdef"))),
];

/// How a definition is printed, as a Boolean argument says.
fn style(args: &[Datum<'_>], i: usize) -> Style {
    match args.get(i) {
        Some(Datum::Bool(true)) => Style::PRETTY,
        _ => Style::NORMAL,
    }
}

impl TreeSource for Host {
    fn analysis(&mut self) -> &mut dyn Names {
        self
    }

    fn relation_name(&mut self, oid: Oid) -> Result<Option<(String, String, bool)>> {
        let Some(table) = self.table_by_oid(oid)? else { return Ok(None) };
        let visible = leads_to(&table.name, table.oid, self)?;
        Ok(Some((table.schema.clone(), table.name.clone(), visible)))
    }
}

/// pg_get_expr(tree, relation, pretty)
fn expression<'a>(args: &[Datum<'_>], style: Style, host: &mut Host) -> Result<Datum<'a>> {
    let tree = match args.first() {
        Some(Datum::Carried(_, bytes)) => host.encoding().decode(bytes).map_err(|_| {
            SqlError::new(state::DATA_CORRUPTED, "a node tree is no text".to_owned())
        })?,
        Some(Datum::Text(text)) => Cow::Borrowed(&**text),
        _ => return Err(wrong_argument(args, 0)),
    };
    let tree = &*tree_in_memory(&tree, host.encoding());
    let (table, columns) = match oid(args, 1)? {
        0 => (String::new(), Vec::new()),
        relation => match host.table_by_oid(relation)? {
            Some(table) => (table.name.clone(), table.columns.clone()),
            None => return Ok(Datum::Null),
        },
    };
    let list = tree.trim_start().starts_with('(');
    let shown = match list {
        true => {
            let trees = read_list(tree)?;
            printed(&table, &columns, host, |names| deparse_list(&trees, style, names))?
        }
        false => {
            let tree = stored_expr(Some(&Arc::from(tree)), "an expression")?;
            printed(&table, &columns, host, |names| deparse(&tree, style, names))?
        }
    };
    Ok(Datum::string(shown))
}

/// Prints a tree over the rows of a table.
fn printed(
    table: &str,
    columns: &[Column],
    host: &mut Host,
    print: impl FnOnce(&mut TreeNames<'_>) -> Result<String, forebay_engine::nodes::NodeError>,
) -> Result<String> {
    let mut names = TreeNames::new(host, table, columns);
    let shown = print(&mut names);
    shown.map_err(|error| names.error(error))
}

/// The table of an index or a constraint.
fn table_of(oid: Oid, host: &mut Host) -> Result<Arc<Table>> {
    host.table_by_oid(oid)?.ok_or_else(|| {
        SqlError::unsupported(format!("the definition of something on relation {oid}"))
    })
}

/// A relation's name: with its schema, unless the style is pretty and the name leads to it.
fn table_name(table: &Table, style: Style, host: &mut Host) -> Result<String> {
    let bare = style.pretty && leads_to(&table.name, table.oid, host)?;
    let name = quoted(&table.name);
    Ok(if bare { name.into_owned() } else { format!("{}.{name}", quoted(&table.schema)) })
}

/// The trees of an index: its expressions and its predicate.
fn trees(found: &IndexDefinition) -> Result<(Vec<Expr>, Option<Expr>)> {
    let lost = || SqlError::unsupported("an index's tree that is stored out of line");
    let expressions = match &found.expressions {
        None => Vec::new(),
        Some(text) => read_list(text.as_ref().ok_or_else(lost)?)?,
    };
    let predicate = found.predicate.as_ref();
    let predicate = predicate.map(|tree| stored_expr(tree.as_ref(), "a predicate")).transpose()?;
    Ok((expressions, predicate))
}

/// pg_get_indexdef(index, column, pretty): of column 0 the whole definition.
fn index<'a>(
    args: &[Datum<'_>],
    (column, style): (i32, Style),
    host: &mut Host,
) -> Result<Datum<'a>> {
    let oid = oid(args, 0)?;
    let Some(found) = host.call(|session| session.index_definition(oid))? else {
        return Ok(Datum::Null);
    };
    let table = table_of(found.table, host)?;
    let (expressions, predicate) = trees(&found)?;
    if column != 0 {
        let number = usize::try_from(column).ok().and_then(|column| column.checked_sub(1));
        let shown = number.and_then(|n| found.columns.get(n).map(|number| (n, *number)));
        let Some((n, number)) = shown else { return Ok(Datum::text("")) };
        let before = found.columns.iter().take(n).filter(|number| **number == 0).count();
        let text = match (number, expressions.get(before)) {
            (0, Some(expr)) => {
                let text = printed(&table.name, &table.columns, host, |names| {
                    deparse(expr, style, names)
                })?;
                let bare = forebay_engine::nodes::looks_like_function(expr);
                if bare { text } else { format!("({text})") }
            }
            _ => column_name(&table, number)?,
        };
        return Ok(Datum::string(text));
    }
    let table_text = table_name(&table, style, host)?;
    let text = whole_index((&found, &expressions, predicate.as_ref()), &table, &table_text)?;
    let shown = printed(&table.name, &table.columns, host, |names| text.definition(style, names))?;
    Ok(Datum::string(shown))
}

fn whole_index<'d>(
    (found, expressions, predicate): (&'d IndexDefinition, &'d [Expr], Option<&'d Expr>),
    table: &Table,
    table_text: &'d str,
) -> Result<IndexText<'d>> {
    if found.method != BTREE {
        let what = format!("the definition of an index of access method {}", found.method);
        return Err(SqlError::unsupported(what));
    }
    let mut expressions = expressions.iter();
    let mut keys = Vec::with_capacity(found.classes.len());
    let parts = found.classes.iter().zip(&found.collations).zip(&found.orders);
    for (number, ((class, collation), (descending, nulls_first))) in found.columns.iter().zip(parts)
    {
        let lost = || SqlError::new(state::DATA_CORRUPTED, "a key of an index is missing");
        let source = match number {
            0 => KeySource::Expr(expressions.next().ok_or_else(lost)?),
            number => {
                let column = table.columns.iter().find(|column| column.attnum == *number);
                let Column { type_oid: ty, collation, .. } = *column.ok_or_else(lost)?;
                KeySource::Column { attno: *number, ty, collation }
            }
        };
        keys.push(IndexKeyText {
            source,
            collation: *collation,
            class: *class,
            class_options: Vec::new(),
            descending: *descending,
            nulls_first: *nulls_first,
        });
    }
    Ok(IndexText {
        name: &found.name,
        table: table_text,
        method: "btree",
        ordered: true,
        unique: found.unique,
        included: found.columns.iter().skip(keys.len()).copied().collect(),
        keys,
        nulls_not_distinct: found.nulls_not_distinct,
        options: found.options.clone(),
        predicate,
    })
}

/// A column's name as SQL writes it.
fn column_name(table: &Table, number: i16) -> Result<String> {
    let found = table.columns.iter().find(|column| column.attnum == number);
    let lost = || SqlError::new(state::DATA_CORRUPTED, format!("there is no column {number}"));
    Ok(quoted(&found.ok_or_else(lost)?.name).into_owned())
}

fn column_names(table: &Table, numbers: &[i16]) -> Result<String> {
    let names: Result<Vec<String>> = numbers.iter().map(|n| column_name(table, *n)).collect();
    Ok(names?.join(", "))
}

/// pg_get_constraintdef(constraint, pretty)
fn constraint<'a>(args: &[Datum<'_>], style: Style, host: &mut Host) -> Result<Datum<'a>> {
    let oid = oid(args, 0)?;
    let Some(found) = host.call(|session| session.constraint_definition(oid))? else {
        return Ok(Datum::Null);
    };
    let table = table_of(found.table, host)?;
    let ConstraintDefinition { kind, validated, no_inherit, enforced, .. } = found;
    let mut text = match kind {
        b'c' => {
            let tree = found.tree.clone().flatten();
            let condition = stored_expr(tree.as_ref(), "a check")?;
            let text = CheckText { condition: &condition, no_inherit, enforced, validated };
            let print = |names: &mut TreeNames<'_>| text.definition(style, names);
            return Ok(Datum::string(printed(&table.name, &table.columns, host, print)?));
        }
        b'n' => format!("NOT NULL {}", column_names(&table, &found.columns)?),
        b'p' | b'u' => key_definition(&found, &table, host)?,
        b'f' => foreign_key(oid, &table, host)?,
        _ => return Err(SqlError::unsupported("the definition of this kind of constraint")),
    };
    if kind == b'n' && no_inherit {
        text.push_str(" NO INHERIT");
    }
    if found.deferrable {
        text.push_str(" DEFERRABLE");
    }
    if found.deferred {
        text.push_str(" INITIALLY DEFERRED");
    }
    if !enforced {
        text.push_str(" NOT ENFORCED");
    } else if !validated {
        text.push_str(" NOT VALID");
    }
    Ok(Datum::string(text))
}

/// A foreign key.
fn foreign_key(oid: Oid, child: &Table, host: &mut Host) -> Result<String> {
    let key = host.call(|session| session.foreign_key(oid))?;
    let key = key.ok_or_else(|| SqlError::unsupported("the definition of this foreign key"))?;
    let parent = table_of(key.parent, host)?;
    let mut text = format!(
        "FOREIGN KEY ({}) REFERENCES {}({})",
        column_names(child, &key.columns)?,
        table_name(&parent, Style::PRETTY, host)?,
        column_names(&parent, &key.parent_columns)?
    );
    if key.full {
        text.push_str(" MATCH FULL");
    }
    for (event, action) in [("UPDATE", key.on_update), ("DELETE", key.on_delete)] {
        let action = match action {
            KeyAction::NoAction => continue,
            KeyAction::Restrict => "RESTRICT",
            KeyAction::Cascade => "CASCADE",
            KeyAction::SetNull => "SET NULL",
            KeyAction::SetDefault => "SET DEFAULT",
        };
        text.push_str(&format!(" ON {event} {action}"));
    }
    if !key.set_columns.is_empty() {
        text.push_str(&format!(" ({})", column_names(child, &key.set_columns)?));
    }
    Ok(text)
}

/// A primary key or a unique one.
fn key_definition(found: &ConstraintDefinition, table: &Table, host: &mut Host) -> Result<String> {
    let index = host.call(|session| session.index_definition(found.index))?;
    let index = index.ok_or_else(|| SqlError::new(state::DATA_CORRUPTED, "a key has no index"))?;
    let kind = if found.kind == b'p' { "PRIMARY KEY" } else { "UNIQUE" };
    let nulls = if index.nulls_not_distinct { " NULLS NOT DISTINCT" } else { "" };
    let mut text = format!("{kind}{nulls} ({})", column_names(table, &found.columns)?);
    let included = index.columns.get(index.classes.len()..).unwrap_or_default();
    if !included.is_empty() {
        text.push_str(&format!(" INCLUDE ({})", column_names(table, included)?));
    }
    if !index.options.is_empty() {
        let option = |option: &String| {
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            let plain = quoted(value) == value;
            let value = if plain { value.to_owned() } else { format!("'{value}'") };
            format!("{}={value}", quoted(name))
        };
        let options: Vec<String> = index.options.iter().map(option).collect();
        text.push_str(&format!(" WITH ({})", options.join(", ")));
    }
    Ok(text)
}
