//! Rows of the computed views.

use super::host::Host;
use crate::error::Result;
use crate::plan::View;
use crate::value::{Datum, Numeric};

type RowOf = Vec<Datum<'static>>;

/// Computes a view.
pub fn rows(view: View, host: &mut Host) -> Result<Vec<RowOf>> {
    match view {
        View::Aios => Ok(host.session()?.engine().aios().into_iter().map(aio_row).collect()),
        View::StatIo => Ok(host.session()?.engine().io_stats().into_iter().map(stat_row).collect()),
        View::Settings => Ok(host.settings.all().into_iter().map(setting_row).collect()),
    }
}

fn text(v: &str) -> Datum<'static> {
    Datum::string(v.to_owned())
}

fn opt<T>(v: Option<T>, make: impl Fn(T) -> Datum<'static>) -> Datum<'static> {
    v.map_or(Datum::Null, make)
}

fn aio_row(r: forebay_engine::views::AioRow) -> RowOf {
    vec![
        Datum::Int4(r.pid),
        Datum::Int4(r.io_id),
        Datum::Int8(r.io_generation),
        text(r.state),
        text(r.operation),
        opt(r.off, Datum::Int8),
        opt(r.length, Datum::Int8),
        opt(r.target, Datum::string),
        Datum::Int2(r.handle_data_len),
        opt(r.raw_result, Datum::Int4),
        text(r.result),
        opt(r.target_desc, Datum::string),
        Datum::Bool(r.f_sync),
        Datum::Bool(r.f_localmem),
        Datum::Bool(r.f_buffered),
    ]
}

fn stat_row(r: forebay_engine::views::IoStatRow) -> RowOf {
    let count = |v: Option<u64>| opt(v, |v| Datum::Int8(v as i64));
    let bytes = |v: Option<u64>| opt(v, |v| Datum::numeric(Numeric::from_int(v)));
    let time = |v: Option<f64>| opt(v, Datum::Float8);
    vec![
        text(r.backend_type),
        text(r.object),
        text(r.context),
        count(r.reads),
        bytes(r.read_bytes),
        time(r.read_time),
        count(r.writes),
        bytes(r.write_bytes),
        time(r.write_time),
        count(r.writebacks),
        time(r.writeback_time),
        count(r.extends),
        bytes(r.extend_bytes),
        time(r.extend_time),
        count(r.hits),
        count(r.evictions),
        count(r.reuses),
        count(r.fsyncs),
        time(r.fsync_time),
        Datum::Null,
    ]
}

fn setting_row(r: crate::settings::SettingRow) -> RowOf {
    vec![
        Datum::string(r.name),
        Datum::string(r.setting),
        opt(r.unit, Datum::string),
        Datum::string(r.category),
        Datum::string(r.short_desc),
        Datum::Null,
        Datum::string(r.context),
        Datum::string(r.vartype),
        Datum::string(r.source),
        opt(r.min_val, Datum::string),
        opt(r.max_val, Datum::string),
        opt(r.enumvals, |values| Datum::string(array_text(&values))),
        opt(r.boot_val, Datum::string),
        opt(r.reset_val, Datum::string),
        Datum::Null,
        Datum::Null,
        Datum::Bool(false),
    ]
}

/// An array's text form.
fn array_text(values: &[String]) -> String {
    let plain = |v: &String| {
        !v.is_empty()
            && !v.eq_ignore_ascii_case("null")
            && !v.contains(|c: char| matches!(c, '{' | '}' | ',' | '"' | '\\') || c.is_whitespace())
    };
    let quoted = |v: &String| {
        if plain(v) { v.clone() } else { format!("\"{}\"", v.replace('\\', "\\\\").replace('"', "\\\"")) }
    };
    format!("{{{}}}", values.iter().map(quoted).collect::<Vec<_>>().join(","))
}
