//! Functions of the session, the settings and the server.

use super::Area;
use super::arguments::{oid, text};
use super::values::current_schema;
use crate::error::{Result, SqlError, state};
use crate::exec::host::Host;
use crate::settings::SetScope;
use forebay_aio::sync::Duration;
use forebay_types::{Datum, format_type};

pub(super) const TABLE: Area = &[
    (1081, |_, args, _| match args {
        [Datum::Null, _] => Ok(Datum::Null),
        [_, Datum::Int4(typmod)] => Ok(Datum::string(shown_type(oid(args, 0)?, Some(*typmod)))),
        _ => Ok(Datum::string(shown_type(oid(args, 0)?, None))),
    }),
    (1598, |_, _, host| Ok(Datum::Float8(host.random()))),
    (89, |_, _, host| Ok(Datum::string(host.identity.version.clone()))),
    (861, |_, _, host| Ok(Datum::string(host.identity.database.clone()))),
    (745, |_, _, host| Ok(Datum::string(host.current_user().to_owned()))),
    (746, |_, _, host| Ok(Datum::string(host.session_user().to_owned()))),
    (1402, |_, _, host| current_schema(host)),
    (2026, |_, _, host| Ok(Datum::Int4(host.identity.pid))),
    (3810, |_, _, _| Ok(Datum::Bool(false))),
    (2077, |_, args, host| current_setting(args, host)),
    (3294, |_, args, host| current_setting(args, host)),
    (2078, |_, args, host| set_config(args, host)),
    (2288, |_, args, _| Ok(size_pretty(args))),
    (2626, |_, args, host| sleep(args, host)),
    (2621, |_, _, host| Ok(Datum::Bool(host.settings.reload_server()))),
    (3448, |_, args, host| {
        let oid = oid(args, 0)?;
        let version = host.call(|session| session.collation_version(oid))?;
        Ok(version.map_or(Datum::Null, Datum::string))
    }),
    (6249, |_, args, host| {
        let oid = oid(args, 0)?;
        let version = host.call(|session| session.database_collation_version(oid))?;
        Ok(version.map_or(Datum::Null, Datum::string))
    }),
    (3445, |_, args, host| {
        let namespace = oid(args, 0)?;
        Ok(Datum::Int4(host.call(|session| session.import_system_collations(namespace))?))
    }),
    (3775, |_, args, host| crate::exec::views::reset(args, host)),
];

/// The name of a type by its OID, with its modifier.
fn shown_type(oid: u32, typmod: Option<i32>) -> String {
    match forebay_types::type_info(oid) {
        Some(_) => format_type(oid, typmod).into_owned(),
        None if oid == 0 => "-".to_owned(),
        None => "???".to_owned(),
    }
}

fn current_setting<'a>(args: &[Datum<'_>], host: &Host) -> Result<Datum<'a>> {
    let missing_ok = matches!(args.get(1), Some(Datum::Bool(true)));
    match host.show(text(args, 0)?) {
        Ok(shown) => Ok(Datum::string(shown.value)),
        Err(e) if missing_ok && e.sqlstate == state::UNDEFINED_OBJECT => Ok(Datum::Null),
        Err(e) => Err(e),
    }
}

fn set_config<'a>(args: &[Datum<'_>], host: &mut Host) -> Result<Datum<'a>> {
    let local = matches!(args.get(2), Some(Datum::Bool(true)));
    let scope = if local { SetScope::Local } else { SetScope::Session };
    host.set(text(args, 0)?, Some(text(args, 1)?), scope)?;
    Ok(Datum::string(host.show(text(args, 0)?)?.value))
}

fn size_pretty<'a>(args: &[Datum<'_>]) -> Datum<'a> {
    let Some(Datum::Int8(bytes)) = args.first() else { return Datum::Null };
    let mut size = *bytes;
    let mut half_rounded = false;
    // PostgreSQL keeps halves until the last division, and moves on at 10 kB, 20 MB (in halves) and
    // so on.
    for (i, unit) in ["bytes", "kB", "MB", "GB", "TB", "PB"].iter().enumerate() {
        let limit = if i == 0 { 10 * 1024 } else { 20 * 1024 - 1 };
        if size.unsigned_abs() < limit || *unit == "PB" {
            if half_rounded {
                size = (size + size.signum()) / 2;
            }
            return Datum::string(format!("{size} {unit}"));
        }
        // The first step leaves halves of kB; later ones keep them.
        size /= if i == 0 { 512 } else { 1024 };
        half_rounded = true;
    }
    Datum::Null
}

fn sleep<'a>(args: &[Datum<'_>], host: &Host) -> Result<Datum<'a>> {
    let seconds = match args.first() {
        Some(Datum::Float8(v)) if *v > 0.0 => v.min(1e9),
        _ => 0.0,
    };
    host.sleep(Duration::from_secs_f64(seconds))?;
    Ok(Datum::text(""))
}

pub(super) fn invalid(message: &str) -> SqlError {
    SqlError::new(state::INVALID_PARAMETER_VALUE, message)
}
