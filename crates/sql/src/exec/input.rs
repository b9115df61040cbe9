//! Where a query's rows come from, one at a time, with rests in between.

use super::cursor::Cursor;
use super::eval::{Row, eval};
use super::host::Host;
use crate::error::{Result, SqlError, state};
use crate::plan::{Expr, RowSource};
use forebay_engine::HeapScan;
use forebay_types::Datum;

/// Whether to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// Another row, please.
    Continue,
    /// Enough for now.
    Rest,
}

/// What takes rows in.
pub type Visit<'v> = &'v mut dyn FnMut(Row<'_>, &mut Host) -> Result<Flow>;

/// Rows between two tests for a cancel where no engine does it.
const CANCEL_INTERVAL: u64 = 4096;

/// An open source of rows.
pub enum Input {
    /// Rows made beforehand; the number given out.
    Rows(Vec<Vec<Datum<'static>>>, usize),
    /// generate_series: the next value, until it is past the end.
    Series { next: Option<i64>, stop: i64, step: i64, wide: bool },
    /// A table: the scan, the rows on its page, the next of them.
    Scan { scan: Box<HeapScan>, on_page: usize, next: usize, decode: usize },
    /// VALUES: the next row.
    Values(usize),
    /// A subquery.
    Subquery(Box<Cursor>),
}

impl Input {
    /// Opens a source.
    pub fn open(source: &RowSource, params: &[Datum<'static>], host: &mut Host) -> Result<Input> {
        let none: Row<'_> = &[];
        Ok(match source {
            RowSource::One => Input::Rows(vec![Vec::new()], 0),
            RowSource::View(view) => Input::Rows(super::views::rows(*view, host)?, 0),
            RowSource::Function(e) => {
                Input::Rows(vec![vec![eval(e, none, params, host)?.into_owned()]], 0)
            }
            RowSource::Rows { function, args } => {
                let values = eval_all(args, none, params, host)?;
                Input::Rows(super::rowsets::rows_or_null(*function, &values, host)?, 0)
            }
            RowSource::Values(_) => Input::Values(0),
            RowSource::Table { table, decode, .. } => {
                let scan = Box::new(host.session()?.scan(table)?);
                Input::Scan { scan, on_page: 0, next: 0, decode: *decode }
            }
            RowSource::Series { args, wide } => {
                let mut values = [None; 3];
                for (slot, arg) in values.iter_mut().zip(args.iter()) {
                    *slot = match eval(arg, none, params, host)? {
                        Datum::Int4(v) => Some(i64::from(v)),
                        Datum::Int8(v) => Some(v),
                        _ => None,
                    };
                }
                let [Some(start), Some(stop), Some(step)] = values else {
                    return Ok(Input::Rows(Vec::new(), 0));
                };
                if step == 0 {
                    return Err(SqlError::new(
                        state::INVALID_PARAMETER_VALUE,
                        "step size cannot equal zero",
                    ));
                }
                Input::Series { next: Some(start), stop, step, wide: *wide }
            }
            RowSource::Subquery(plan) => {
                Input::Subquery(Box::new(Cursor::new(plan.clone(), params.into())))
            }
        })
    }

    /// Gives out rows until `visit` wants a rest or none are left (then `Flow::Continue`).
    pub fn run(
        &mut self,
        source: &RowSource,
        params: &[Datum<'static>],
        host: &mut Host,
        visit: Visit<'_>,
    ) -> Result<Flow> {
        match self {
            Input::Rows(rows, at) => {
                while let Some(row) = rows.get(*at) {
                    *at += 1;
                    if visit(row, host)? == Flow::Rest {
                        return Ok(Flow::Rest);
                    }
                }
                Ok(Flow::Continue)
            }
            Input::Values(at) => {
                let RowSource::Values(rows) = source else { return Ok(Flow::Continue) };
                while let Some(row) = rows.get(*at) {
                    *at += 1;
                    let values = eval_all(row, &[], params, host)?;
                    if visit(&values, host)? == Flow::Rest {
                        return Ok(Flow::Rest);
                    }
                }
                Ok(Flow::Continue)
            }
            Input::Series { next, stop, step, wide } => {
                series(next, *stop, *step, *wide, host, visit)
            }
            Input::Scan { scan, on_page, next, decode } => {
                scan_rows(scan, on_page, next, *decode, host, visit)
            }
            Input::Subquery(cursor) => cursor.run(host, &mut |values, host| visit(values, host)),
        }
    }
}

/// A row's values, without allocation if they are few.
pub type Values<'a> = smallvec::SmallVec<[Datum<'a>; 12]>;

/// Evaluates a list of expressions.
pub fn eval_all<'a>(
    list: &'a [Expr],
    row: Row<'a>,
    params: &'a [Datum<'static>],
    host: &mut Host,
) -> Result<Values<'a>> {
    let mut values = Values::new();
    for e in list {
        values.push(eval(e, row, params, host)?);
    }
    Ok(values)
}

fn series(
    next: &mut Option<i64>,
    stop: i64,
    step: i64,
    wide: bool,
    host: &mut Host,
    visit: Visit<'_>,
) -> Result<Flow> {
    let mut count = 0u64;
    while let Some(v) = *next {
        if (step > 0 && v > stop) || (step < 0 && v < stop) {
            break;
        }
        // Past the type's end the series is over.
        *next = v.checked_add(step).filter(|n| wide || i32::try_from(*n).is_ok());
        let value = if wide { Datum::Int8(v) } else { Datum::Int4(v as i32) };
        if visit(&[value], host)? == Flow::Rest {
            return Ok(Flow::Rest);
        }
        count += 1;
        if count.is_multiple_of(CANCEL_INTERVAL) {
            host.check_cancel()?;
        }
    }
    *next = None;
    Ok(Flow::Continue)
}

fn scan_rows(
    scan: &mut HeapScan,
    on_page: &mut usize,
    next: &mut usize,
    decode: usize,
    host: &mut Host,
    visit: Visit<'_>,
) -> Result<Flow> {
    loop {
        if *next >= *on_page {
            match scan.next_page(host.session()?)? {
                Some(rows) => (*on_page, *next) = (rows, 0),
                None => {
                    (*on_page, *next) = (0, 0);
                    return Ok(Flow::Continue);
                }
            }
            host.check_cancel()?;
        }
        let mut row: Vec<Datum<'_>> = Vec::with_capacity(decode);
        while *next < *on_page {
            if decode > 0 {
                scan.row(*next).decode_into(decode, &mut row)?;
            }
            *next += 1;
            if visit(&row, host)? == Flow::Rest {
                return Ok(Flow::Rest);
            }
        }
    }
}
