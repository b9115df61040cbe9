//! Rows of the computed views.

use super::host::Host;
use super::statistics::{self, timestamp};
use crate::error::Result;
use crate::plan::View;
use forebay_engine::views::{AioRow, Counts, IoOp, IoStatRow};
use forebay_types::{Datum, Numeric};

type RowOf = Vec<Datum<'static>>;

/// Computes a view.
pub fn rows(view: View, host: &mut Host) -> Result<Vec<RowOf>> {
    match view {
        View::Aios => Ok(host.session()?.engine().aios().into_iter().map(aio_row).collect()),
        View::StatIo => {
            let engine = host.session()?.engine();
            let since = timestamp(engine.io_stats_reset_at());
            Ok(engine.io_stats().iter().map(|r| stat_row(r, &since)).collect())
        }
        View::StatAioBackends => {
            Ok(host.session()?.engine().aio_backends().into_iter().map(backend_row).collect())
        }
        View::StatArchiver => statistics::archiver(host),
        View::StatBgwriter => statistics::bgwriter(host),
        View::StatCheckpointer => statistics::checkpointer(host),
        View::StatDatabase => statistics::databases(host),
        View::StatWal => statistics::wal(host),
        View::BufferCache => Ok(host.session()?.engine().buffers().map(buffer_row).collect()),
        View::Settings => Ok(host.settings.all().into_iter().map(setting_row).collect()),
    }
}

fn text(v: &str) -> Datum<'static> {
    Datum::string(v.to_owned())
}

fn opt<T>(v: Option<T>, make: impl Fn(T) -> Datum<'static>) -> Datum<'static> {
    v.map_or(Datum::Null, make)
}

fn aio_row(r: AioRow) -> RowOf {
    let int4 = |v: i64| Datum::Int4(i32::try_from(v).unwrap_or(i32::MAX));
    let int8 = |v: u64| Datum::Int8(i64::try_from(v).unwrap_or(i64::MAX));
    vec![
        Datum::Int4(r.backend_id),
        int4(i64::from(r.io_id)),
        int8(r.generation),
        text(r.state.name()),
        text(r.operation.name()),
        opt(r.offset, int8),
        opt(r.length, int8),
        opt(r.target, text),
        Datum::Int2(i16::try_from(r.handle_data_len).unwrap_or(i16::MAX)),
        opt(r.raw_result, int4),
        text(r.result),
        opt(r.target_desc, Datum::string),
        Datum::Bool(r.f_sync),
        Datum::Bool(r.f_localmem),
        Datum::Bool(r.f_buffered),
    ]
}

fn backend_row(r: forebay_engine::views::AioBackendRow) -> RowOf {
    let count = |v: u64| Datum::Int8(i64::try_from(v).unwrap_or(i64::MAX));
    let bytes = |v: u64| Datum::numeric(Numeric::from_int(v));
    let millis = |nanos: u64| Datum::Float8(nanos as f64 / 1e6);
    vec![
        Datum::Int4(r.pid),
        text(r.backend_type.name()),
        text(r.io_method),
        count(r.acquired),
        count(r.acquire_waits),
        count(r.staged),
        count(r.immediate),
        count(r.submissions),
        count(r.issued),
        count(r.merged),
        count(r.completed_self),
        count(r.completed_other),
        count(r.in_flight),
        count(r.in_flight_max),
        count(r.reads),
        bytes(r.read_bytes),
        count(r.writes),
        bytes(r.write_bytes),
        count(r.syncs),
        count(r.others),
        count(r.waits),
        millis(r.wait_time),
        count(r.latency_count),
        millis(r.latency_sum),
        millis(r.latency_max),
        Datum::string(array_text(&r.latency_histogram.map(|n| n.to_string()))),
        count(r.errors),
        count(r.retries),
        timestamp(r.stats_reset),
    ]
}

fn stat_row(r: &IoStatRow, since: &Datum<'static>) -> RowOf {
    let count = |op| opt(r.shown(op), |c: Counts| Datum::Int8(c.count as i64));
    let bytes = |op| opt(r.shown(op), |c: Counts| Datum::numeric(Numeric::from_int(c.bytes)));
    let time = |op| opt(r.shown(op), |c: Counts| Datum::Float8(c.time_ns as f64 / 1e6));
    vec![
        text(r.backend_type.name()),
        text(r.object.name()),
        text(r.context.name()),
        count(IoOp::Read),
        bytes(IoOp::Read),
        time(IoOp::Read),
        count(IoOp::Write),
        bytes(IoOp::Write),
        time(IoOp::Write),
        count(IoOp::Writeback),
        time(IoOp::Writeback),
        count(IoOp::Extend),
        bytes(IoOp::Extend),
        time(IoOp::Extend),
        count(IoOp::Hit),
        count(IoOp::Evict),
        count(IoOp::Reuse),
        count(IoOp::Fsync),
        time(IoOp::Fsync),
        since.clone(),
    ]
}

/// A row of pg_buffercache: all NULL except the number if the buffer is empty. Buffers count from
/// 1.
fn buffer_row(r: forebay_engine::views::BufferInfo) -> RowOf {
    let mut row = vec![Datum::Int4(i32::try_from(r.buffer + 1).unwrap_or(i32::MAX))];
    let Some(page) = r.page.filter(|page| page.valid) else {
        row.resize(View::BufferCache.columns().len(), Datum::Null);
        return row;
    };
    row.extend([
        Datum::Oid(page.tag.rel.rel),
        Datum::Oid(page.tag.rel.spc),
        Datum::Oid(page.tag.rel.db),
        Datum::Int2(i16::from(page.tag.fork.number())),
        Datum::Int8(i64::from(page.tag.block)),
        Datum::Bool(page.dirty),
        Datum::Int2(i16::from(page.usage)),
        Datum::Int4(i32::try_from(page.pins).unwrap_or(i32::MAX)),
    ]);
    row
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
        if plain(v) {
            v.clone()
        } else {
            format!("\"{}\"", v.replace('\\', "\\\\").replace('"', "\\\""))
        }
    };
    format!("{{{}}}", values.iter().map(quoted).collect::<Vec<_>>().join(","))
}
