//! What `forebay bench --json` prints.

use std::process::Command;

use serde_json::Value;

use crate::run::output;

/// Runs a program, and reads the JSON that it prints.
///
/// # Errors
/// When it can't be run, or prints something else.
pub fn json(bench: &mut Command) -> Result<Value, String> {
    let output = output(bench)?;
    serde_json::from_slice(&output.stdout).map_err(|_| {
        let (said, errors) = (text(&output.stdout), text(&output.stderr));
        format!("{bench:?}: {}\n{said}{errors}", output.status)
    })
}

/// The only row of a list in a report.
///
/// # Errors
/// When there is none, or several.
pub fn only<'v>(report: &'v Value, list: &str) -> Result<&'v Value, String> {
    match report[list].as_array().map(Vec::as_slice) {
        Some([row]) => Ok(row),
        _ => Err(format!("not one row of \"{list}\": {report}")),
    }
}

/// A number of a row, or the median of several.
///
/// # Errors
/// When it is not there.
pub fn figure(row: &Value, name: &str) -> Result<f64, String> {
    let value = if row[name].is_object() { &row[name]["median"] } else { &row[name] };
    value.as_f64().ok_or_else(|| format!("no \"{name}\": {row}"))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::{figure, json, only};

    #[test]
    fn figures_are_found() {
        let print = |text: &str| json(Command::new("printf").args(["%s", text]));
        let report = print(r#"{"rows":[{"a":{"median":1.5,"least":1},"b":7}],"none":[]}"#);
        let report = report.expect("JSON");
        let row = only(&report, "rows").expect("one row");
        assert_eq!((figure(row, "a"), figure(row, "b")), (Ok(1.5), Ok(7.0)));
        assert!(figure(row, "c").is_err() && only(&report, "none").is_err());
        assert!(print("error").expect_err("no JSON").contains("error"));
    }
}
