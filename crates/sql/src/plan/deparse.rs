//! Expressions as text, in the form in which PostgreSQL shows them.

use super::aggregate::{AggregateCall, AggregateKind};
use super::expr::{Arithmetic, Comparison, Expr, type_of};
use super::index_read::{column_of, key_of};
use super::returning::version_width;
use super::tree::{Change, IndexCondition, IndexRead, Modify, Node, TableRead};
use crate::analyze::{EXCLUDED, SystemColumn};
use forebay_engine::Table;
use forebay_engine::nodes::SqlValueFunctionOp;
use forebay_types::{Datum, SqlType, array_text, to_text};

/// An expression over the rows of a plan.
pub(super) fn expression(e: &Expr, rows: &Node) -> String {
    let text = |e: &Expr| expression(e, rows);
    let pair = |operator: &str, a: &Expr, b: &Expr| format!("({} {operator} {})", text(a), text(b));
    let list =
        |list: &[Expr], between: &str| list.iter().map(text).collect::<Vec<String>>().join(between);
    match e {
        Expr::Const(value) => constant(value),
        Expr::Column(column) => column_name(*column, rows),
        Expr::Param(n) => format!("${}", n + 1),
        Expr::And(parts) => format!("({})", list(parts, " AND ")),
        Expr::Or(parts) => format!("({})", list(parts, " OR ")),
        Expr::Not(e) => format!("(NOT {})", text(e)),
        Expr::IsNull(e) => format!("({} IS NULL)", text(e)),
        Expr::IsNotNull(e) => format!("({} IS NOT NULL)", text(e)),
        Expr::IsBool { expr, value, negated } => {
            let (not, value) =
                (if *negated { "NOT " } else { "" }, if *value { "TRUE" } else { "FALSE" });
            format!("({} IS {not}{value})", text(expr))
        }
        Expr::IsDistinct { operands, negated } => {
            let distinct = pair("IS DISTINCT FROM", &operands.0, &operands.1);
            if *negated { format!("(NOT {distinct})") } else { distinct }
        }
        Expr::Compare(comparison, operands) | Expr::Collated(comparison, _, operands) => {
            let (a, b) = compared(&operands.0, &operands.1, rows);
            format!("({a} {} {b})", sign(*comparison))
        }
        Expr::Arith(operator, operands) => {
            let (a, b) = compared(&operands.0, &operands.1, rows);
            format!("({a} {} {b})", arithmetic(*operator))
        }
        Expr::Negate(e) => format!("(- {})", text(e)),
        Expr::Concat(operands) => pair("||", &operands.0, &operands.1),
        Expr::Like { operands, negated, folded_by, .. } => {
            pair(like_sign(*negated, folded_by.is_some()), &operands.0, &operands.1)
        }
        Expr::InList { expr, list, element, negated } => {
            array_test(expr, *negated, &array(list, *element, rows), rows)
        }
        Expr::InArray { expr, array, negated, .. } => {
            array_test(expr, *negated, &text(array), rows)
        }
        Expr::CompareRows(comparison, pairs, _) => rows_compared(*comparison, pairs, rows),
        Expr::Case { whens, otherwise } => {
            let mut case = "CASE".to_owned();
            for (when, then) in whens {
                case.push_str(&format!(" WHEN {} THEN {}", text(when), text(then)));
            }
            let otherwise = otherwise.as_ref().map_or_else(|| "NULL".to_owned(), |e| text(e));
            format!("{case} ELSE {otherwise} END")
        }
        Expr::Coalesce(parts) => format!("COALESCE({})", list(parts, ", ")),
        Expr::NullIf(operands) => format!("NULLIF({}, {})", text(&operands.0), text(&operands.1)),
        Expr::Extreme { list: parts, greatest, .. } => {
            format!("{}({})", if *greatest { "GREATEST" } else { "LEAST" }, list(parts, ", "))
        }
        Expr::Cast { expr, to, .. } => format!("({})::{}", text(expr), to.sql_name()),
        Expr::Call(function, args) => format!("{}({})", function.row.name, list(args, ", ")),
        Expr::Value(op, _) => value_name(*op).to_owned(),
        Expr::AnyOf { .. }
        | Expr::Array { .. }
        | Expr::MapArray { .. }
        | Expr::Subscript { .. } => of_arrays(e, rows),
        Expr::Aggregate(n) => format!("aggregate {n}"),
    }
}

/// The operator of LIKE and ILIKE.
fn like_sign(negated: bool, ignore_case: bool) -> &'static str {
    match (negated, ignore_case) {
        (false, false) => "~~",
        (false, true) => "~~*",
        (true, false) => "!~~",
        (true, true) => "!~~*",
    }
}

/// One of the expressions of arrays.
fn of_arrays(e: &Expr, rows: &Node) -> String {
    let text = |e: &Expr| expression(e, rows);
    match e {
        Expr::AnyOf { value, array, any, .. } => {
            let quantifier = if *any { "ANY" } else { "ALL" };
            format!("({} operator {quantifier} ({}))", text(value), text(array))
        }
        Expr::Array { elements, .. } => {
            format!("ARRAY[{}]", elements.iter().map(text).collect::<Vec<String>>().join(", "))
        }
        Expr::MapArray { array, to, .. } => format!("({})::{}[]", text(array), to.sql_name()),
        Expr::Subscript { array, upper, .. } => {
            let places: Vec<String> = upper.iter().flatten().map(text).collect();
            format!("({})[{}]", text(array), places.join("]["))
        }
        _ => String::new(),
    }
}

/// Conditions that must all hold, each with the plan over whose rows it is.
pub(super) fn condition(parts: &[(&Expr, &Node)]) -> String {
    all(&parts.iter().map(|(e, rows)| expression(e, rows)).collect::<Vec<String>>())
}

fn all(parts: &[String]) -> String {
    match parts {
        [one] => one.clone(),
        several => format!("({})", several.join(" AND ")),
    }
}

/// The conditions of an index scan, each with the key on its left.
pub(super) fn index_conditions(scan: &IndexRead, rows: &Node) -> String {
    let is_key = |e: &Expr| key_of(e, &scan.index).is_some();
    let of = |(condition, test): (&IndexCondition, &Expr)| match (condition, test) {
        (IndexCondition::Compare { .. }, e) if is_key(e) => {
            format!("({} = true)", expression(e, rows))
        }
        (
            IndexCondition::Compare { comparison, .. },
            Expr::Compare(own, operands) | Expr::Collated(own, _, operands),
        ) => {
            let (a, b) = compared(&operands.0, &operands.1, rows);
            // It was turned round if the column is on the right.
            let turned = key_of(&operands.0, &scan.index).is_none();
            let (a, b) = if turned { (b, a) } else { (a, b) };
            let sign = sign(if turned { *comparison } else { *own });
            format!("({a} {sign} {b})")
        }
        (IndexCondition::Compare { .. }, Expr::Not(e)) => {
            format!("({} = false)", expression(e, rows))
        }
        (IndexCondition::Compare { .. }, e) => format!("({} = true)", expression(e, rows)),
        (_, e) => expression(e, rows),
    };
    all(&scan.conditions.iter().zip(&scan.tests).map(of).collect::<Vec<String>>())
}

pub(super) fn sign(comparison: Comparison) -> &'static str {
    match comparison {
        Comparison::Eq => "=",
        Comparison::Ne => "<>",
        Comparison::Lt => "<",
        Comparison::Le => "<=",
        Comparison::Gt => ">",
        Comparison::Ge => ">=",
    }
}

/// The name of a value that SQL names without parentheses.
fn value_name(op: SqlValueFunctionOp) -> &'static str {
    use SqlValueFunctionOp as O;
    match op {
        O::CurrentDate => "CURRENT_DATE",
        O::CurrentTime | O::CurrentTimeN => "CURRENT_TIME",
        O::CurrentTimestamp | O::CurrentTimestampN => "CURRENT_TIMESTAMP",
        O::Localtime | O::LocaltimeN => "LOCALTIME",
        O::Localtimestamp | O::LocaltimestampN => "LOCALTIMESTAMP",
        O::CurrentRole => "CURRENT_ROLE",
        O::CurrentUser => "CURRENT_USER",
        O::User => "USER",
        O::SessionUser => "SESSION_USER",
        O::CurrentCatalog => "CURRENT_CATALOG",
        O::CurrentSchema => "CURRENT_SCHEMA",
    }
}

fn arithmetic(operator: Arithmetic) -> &'static str {
    match operator {
        Arithmetic::Add => "+",
        Arithmetic::Sub => "-",
        Arithmetic::Mul => "*",
        Arithmetic::Div => "/",
        Arithmetic::Rem => "%",
    }
}

/// The column in an integer that was widened to be compared: PostgreSQL has operators for the two
/// types.
fn widened(e: &Expr) -> Option<&Expr> {
    match e {
        Expr::Cast { expr, .. } if column_of(e).is_some() => Some(expr),
        _ => None,
    }
}

/// The operands of an operator. A constant of the wider type names it, beside a column of the
/// narrower one.
fn compared(a: &Expr, b: &Expr, rows: &Node) -> (String, String) {
    let one = |e: &Expr, other: &Expr| match (widened(e), e) {
        (Some(column), _) => expression(column, rows),
        (None, Expr::Const(Datum::Int8(n))) if widened(other).is_some() => {
            format!("'{n}'::bigint")
        }
        _ => expression(e, rows),
    };
    (one(a, b), one(b, a))
}

fn quoted(text: &str, ty: &str) -> String {
    format!("'{}'::{ty}", text.replace('\'', "''"))
}

fn constant(value: &Datum<'_>) -> String {
    let ty = type_of(value);
    // A value that has no text is shown by its variant.
    let text = to_text(value, ty).unwrap_or_else(|_| format!("{value:?}"));
    match value {
        Datum::Null => "NULL".to_owned(),
        Datum::Bool(value) => value.to_string(),
        // int8 constants come from int4 ones, mostly.
        Datum::Int4(_) | Datum::Int8(_) | Datum::Numeric(_) if !text.starts_with('-') => text,
        Datum::Int8(n) if i32::try_from(*n).is_ok() => quoted(&text, "integer"),
        _ => quoted(&text, ty.sql_name()),
    }
}

/// `= ANY` or `<> ALL` of an array.
fn array_test(operand: &Expr, negated: bool, array: &str, rows: &Node) -> String {
    let operator = if negated { "<> ALL" } else { "= ANY" };
    let operand = widened(operand).unwrap_or(operand);
    format!("({} {operator} ({array}))", expression(operand, rows))
}

/// A comparison of rows.
fn rows_compared(comparison: Comparison, pairs: &[(Expr, Expr)], rows: &Node) -> String {
    let each = pairs.iter().map(|(a, b)| compared(a, b, rows));
    let (a, b): (Vec<String>, Vec<String>) = each.unzip();
    format!("(ROW({}) {} ROW({}))", a.join(", "), sign(comparison), b.join(", "))
}

/// A list of values as an array of elements of a type.
fn array(list: &[Expr], element: SqlType, rows: &Node) -> String {
    let constants: Option<Vec<Datum<'_>>> = list
        .iter()
        .map(|e| match e {
            // As it was given.
            Expr::Const(Datum::Float8(value)) if element == SqlType::Float4 => {
                Some(Datum::Float4(*value as f32))
            }
            // So are integers that were widened.
            Expr::Const(Datum::Int8(value)) if element == SqlType::Int4 => {
                i32::try_from(*value).ok().map(Datum::Int4)
            }
            Expr::Const(value) => Some(value.reborrow()),
            _ => None,
        })
        .collect();
    let Some(constants) = constants else {
        let items: Vec<String> = list.iter().map(|e| expression(e, rows)).collect();
        return format!("ARRAY[{}]", items.join(", "));
    };
    let text = array_text(&constants, element).unwrap_or_else(|_| format!("{constants:?}"));
    quoted(&text, &format!("{}[]", element.sql_name()))
}

/// The name of a column of a plan's rows, or the expression that it is.
fn column_name(column: usize, rows: &Node) -> String {
    match rows {
        Node::Scan(read) | Node::TidScan(read, _) | Node::CurrentRow(read, _) => {
            table_column(read, column)
        }
        Node::IndexScan(scan) => table_column(&scan.read, column),
        Node::BitmapScan(scan) => table_column(&scan.read, column),
        Node::Project { input, output } => match output.get(column) {
            // Expressions in expressions of several levels could double with each.
            Some(e) if matches!(e, Expr::Column(_)) || !has_projection(input) => {
                expression(e, input)
            }
            _ => format!("column{}", column + 1),
        },
        Node::Aggregate { input, grouping } => {
            let keys = grouping.keys.len();
            match (grouping.keys.get(column), column.checked_sub(keys)) {
                (Some(key), _) => expression(key, input),
                (None, Some(n)) => grouping
                    .calls
                    .get(n)
                    .map_or_else(|| format!("column{}", column + 1), |call| aggregate(call, input)),
                (None, None) => format!("column{}", column + 1),
            }
        }
        Node::Series { .. } => "generate_series".to_owned(),
        Node::Modify(modify) => changed_column(modify, column),
        other => match other.input() {
            Some(input) => column_name(column, input),
            None => format!("column{}", column + 1),
        },
    }
}

/// A column of the rows that ON CONFLICT DO UPDATE sees.
fn changed_column(modify: &Modify, column: usize) -> String {
    let table = &modify.table;
    let (name, place) = match (&modify.change, column.checked_sub(version_width(table))) {
        (Change::Insert(Some(_)), Some(place)) => (EXCLUDED, place),
        (Change::Insert(Some(conflict)), None) => (conflict.alias.as_str(), column),
        _ => return format!("column{}", column + 1),
    };
    format!("{}.{}", identifier(name), stored_column(table, place))
}

fn has_projection(node: &Node) -> bool {
    let mut nodes = std::iter::successors(Some(node), |node| node.input());
    nodes.any(|node| matches!(node, Node::Project { .. }))
}

fn table_column(read: &TableRead, column: usize) -> String {
    stored_column(&read.table, column)
}

fn stored_column(table: &Table, column: usize) -> String {
    let columns = &table.columns;
    match columns.get(column) {
        Some(column) => identifier(&column.name),
        None => {
            let system = SystemColumn::ALL.get(column.wrapping_sub(columns.len()));
            system.map_or_else(|| format!("column{}", column + 1), |c| c.name().to_owned())
        }
    }
}

/// A name, quoted where it must be.
pub(super) fn identifier(name: &str) -> String {
    let plain = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        && !crate::parse::cursor::is_reserved(name);
    if plain { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

/// An aggregate over the rows of a plan.
fn aggregate(call: &AggregateCall, rows: &Node) -> String {
    let name = match call.kind {
        AggregateKind::CountStar => "count(*)",
        AggregateKind::Count => "count",
        AggregateKind::SumInt
        | AggregateKind::SumBigint
        | AggregateKind::SumNumeric
        | AggregateKind::SumFloat4
        | AggregateKind::SumFloat8 => "sum",
        AggregateKind::AvgInt | AggregateKind::AvgNumeric | AggregateKind::AvgFloat => "avg",
        AggregateKind::Min => "min",
        AggregateKind::Max => "max",
        AggregateKind::BoolAnd => "bool_and",
        AggregateKind::BoolOr => "bool_or",
    };
    let mut text = match &call.arg {
        Some(arg) => format!("{name}({})", expression(arg, rows)),
        None => name.to_owned(),
    };
    if let Some(filter) = &call.filter {
        text.push_str(&format!(" FILTER (WHERE {})", expression(filter, rows)));
    }
    text
}
