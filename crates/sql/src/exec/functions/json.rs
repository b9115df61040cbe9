//! json and jsonb.

use super::Area;
use super::arguments::{int, text, wrong_argument};
use crate::error::Result;
use crate::exec::host::Host;
use forebay_types::functions::json as f;
use forebay_types::json::Json;
use forebay_types::{Datum, SqlType};

pub(super) const TABLE: Area = &[
    (3176, |function, args, host| {
        let value = args.first().unwrap_or(&Datum::Null);
        Ok(Datum::string(f::to_json(value, of(&function.args), &host.style)?))
    }),
    (3787, |function, args, host| {
        let value = args.first().unwrap_or(&Datum::Null);
        stored(f::to_jsonb(value, of(&function.args), &host.style)?)
    }),
    (3210, |_, args, _| Ok(Datum::text(value(args, 0)?.type_name()))), // jsonb_typeof
    (3207, |_, args, _| Ok(Datum::Int4(value(args, 0)?.array_length()?))),
    (3306, |_, args, _| Ok(Datum::string(value(args, 0)?.to_pretty()))),
    (4046, |_, args, _| Ok(Datum::Bool(value(args, 0)?.contains(&value(args, 1)?)))),
    (4050, |_, args, _| Ok(Datum::Bool(value(args, 1)?.contains(&value(args, 0)?)))),
    (4047, |_, args, _| Ok(Datum::Bool(value(args, 0)?.has_key(text(args, 1)?)))),
    (3478, |_, args, _| part(value(args, 0)?.field(text(args, 1)?))),
    (3215, |_, args, _| part(value(args, 0)?.item(int(args, 1)?))),
    (3214, |_, args, _| Ok(shown(value(args, 0)?.field(text(args, 1)?)))),
    (3216, |_, args, _| Ok(shown(value(args, 0)?.item(int(args, 1)?)))),
    (3217, |_, args, _| match path(args)? {
        Some(path) => part(value(args, 0)?.path(&path.each())),
        None => Ok(Datum::Null),
    }),
    (3940, |_, args, _| match path(args)? {
        Some(path) => Ok(shown(value(args, 0)?.path(&path.each()))),
        None => Ok(Datum::Null),
    }),
    (3301, |_, args, _| stored(value(args, 0)?.concat(value(args, 1)?)?)),
    (3302, |_, args, _| stored(value(args, 0)?.without_key(text(args, 1)?)?)),
    (3303, |_, args, _| stored(value(args, 0)?.without_item(int(args, 1)?)?)),
    (3262, |_, args, _| {
        let in_arrays = matches!(args.get(1), Some(Datum::Bool(true)));
        stored(value(args, 0)?.strip_nulls(in_arrays))
    }),
    // json
    (3947, |_, args, host| of_text(text(args, 0)?, &[text(args, 1)?], false, host)),
    (3948, |_, args, host| of_text(text(args, 0)?, &[text(args, 1)?], true, host)),
    (3949, |_, args, host| of_text(text(args, 0)?, &[&int(args, 1)?.to_string()], false, host)),
    (3950, |_, args, host| of_text(text(args, 0)?, &[&int(args, 1)?.to_string()], true, host)),
    (3951, |_, args, host| match path(args)? {
        Some(path) => of_text(text(args, 0)?, &path.each(), false, host),
        None => Ok(Datum::Null),
    }),
    (3953, |_, args, host| match path(args)? {
        Some(path) => of_text(text(args, 0)?, &path.each(), true, host),
        None => Ok(Datum::Null),
    }),
    (3968, |_, args, host| match f::json_path(text(args, 0)?, &[], host.encoding())? {
        Some(node) => Ok(Datum::text(f::node_type(&node))),
        None => Ok(Datum::Null),
    }),
];

/// The type of the argument.
fn of(types: &[u32]) -> SqlType {
    SqlType::of(types.first().copied().unwrap_or_default())
}

fn value(args: &[Datum<'_>], i: usize) -> Result<Json> {
    match args.get(i) {
        Some(Datum::Jsonb(bytes)) => Ok(Json::read_stored(bytes)?),
        _ => Err(wrong_argument(args, i)),
    }
}

fn stored<'a>(value: Json) -> Result<Datum<'a>> {
    Ok(Datum::Jsonb(value.to_stored()?.into()))
}

/// A part of a value, NULL if there is none.
fn part<'a>(found: Option<&Json>) -> Result<Datum<'a>> {
    found.map_or(Ok(Datum::Null), |value| stored(value.clone()))
}

fn shown<'a>(found: Option<&Json>) -> Datum<'a> {
    let text = found.and_then(Json::as_text);
    text.map_or(Datum::Null, |text| Datum::string(text.into_owned()))
}

/// A path: an array of texts.
struct Path(Vec<String>);

impl Path {
    fn each(&self) -> Vec<&str> {
        self.0.iter().map(String::as_str).collect()
    }
}

/// The path of a call. None: one of its steps is NULL, so nothing is found.
fn path(args: &[Datum<'_>]) -> Result<Option<Path>> {
    let Some(Datum::Array(steps)) = args.get(1) else { return Err(wrong_argument(args, 1)) };
    let steps = steps.items()?;
    Ok(steps.iter().map(|step| step.as_str().map(str::to_owned)).collect::<Option<_>>().map(Path))
}

/// A part of a json text, as a json text or as its own text.
fn of_text<'a>(whole: &str, path: &[&str], as_text: bool, host: &Host) -> Result<Datum<'a>> {
    let Some(node) = f::json_path(whole, path, host.encoding())? else { return Ok(Datum::Null) };
    if as_text {
        let text = f::node_text(&node);
        return Ok(text.map_or(Datum::Null, |text| Datum::string(text.into_owned())));
    }
    Ok(Datum::string(node.text.to_owned()))
}
