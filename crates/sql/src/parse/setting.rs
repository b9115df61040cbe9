//! A setting with its value, as behind SET.

use super::cursor::Cursor;
use crate::error::{Result, SqlError};
use forebay_engine::quoted;
use sqlparser::tokenizer::Token;

/// The name of a setting.
pub(super) fn setting_name(c: &mut Cursor<'_>) -> Result<String> {
    let mut name = c.name()?;
    while c.accept_token(&Token::Period) {
        name.push('.');
        name.push_str(&c.name()?);
    }
    Ok(name)
}

/// Settings that are lists of names: each is stored as a name.
const LISTS: &[&str] = &["search_path", "temp_tablespaces"];

/// A setting with its value, as behind SET; None: DEFAULT.
pub(super) fn setting(c: &mut Cursor<'_>) -> Result<(String, Option<String>)> {
    if c.accept_all(&["time", "zone"]) {
        let value =
            if c.accept("local") || c.accept("default") { None } else { Some(set_value(c)?) };
        return Ok(("timezone".into(), value));
    }
    if c.accept("schema") {
        return Ok(("search_path".into(), Some(quoted(&c.string()?).into_owned())));
    }
    if c.accept("names") {
        let value = if c.at_end() || c.accept("default") { None } else { Some(c.string()?) };
        return Ok(("client_encoding".into(), value));
    }
    let name = setting_name(c)?;
    if !c.accept_token(&Token::Eq) && !c.accept("to") {
        return Err(c.error());
    }
    if c.accept("default") {
        return Ok((name, None));
    }
    let is_list = LISTS.iter().any(|list| list.eq_ignore_ascii_case(&name));
    let one = |c: &mut Cursor<'_>| {
        let value = set_value(c)?;
        Ok::<_, SqlError>(if is_list { quoted(&value).into_owned() } else { value })
    };
    let mut value = one(c)?;
    while c.accept_token(&Token::Comma) {
        value.push_str(", ");
        value.push_str(&one(c)?);
    }
    Ok((name, Some(value)))
}

fn set_value(c: &mut Cursor<'_>) -> Result<String> {
    if let Some(text) = c.accept_string().or_else(|| c.accept_number()) {
        return Ok(text);
    }
    match c.peek_word() {
        Some(word) if matches!(word.as_str(), "on" | "true" | "false") => {
            c.advance();
            Ok(word)
        }
        _ => c.name(),
    }
}
