//! COPY, parsed by hand: both option syntaxes come out as one list.

use super::cursor::{Cursor, QualifiedName};
use super::queries::with_parser;
use super::source::Source;
use crate::error::Result;
use sqlparser::ast;
use sqlparser::tokenizer::Token;

/// What is copied.
#[derive(Debug)]
pub enum CopySource {
    /// A table, or some of its columns.
    Table {
        /// The table.
        name: QualifiedName,
        /// Columns with their positions.
        columns: Option<Vec<(String, u32)>>,
    },
    /// A query's result.
    Query(Box<ast::Query>),
}

/// Where to, or where from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopyTarget {
    /// The client.
    Client,
    /// A file of the server.
    File,
    /// A program on the server.
    Program,
}

/// The value of an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OptionValue {
    /// None given.
    None,
    /// A string, word or number.
    Text(String),
    /// `*`
    Star,
    /// Column names.
    Names(Vec<String>),
}

/// An option, by its name in the parenthesised syntax.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyOption {
    /// Lower case.
    pub name: String,
    /// Its value.
    pub value: OptionValue,
    /// Where its name stands.
    pub position: u32,
}

/// COPY.
#[derive(Debug)]
pub struct CopyStatement {
    /// What is copied.
    pub source: CopySource,
    /// TO, not FROM.
    pub to: bool,
    /// The other side.
    pub target: CopyTarget,
    /// Options in the order written.
    pub options: Vec<CopyOption>,
    /// A WHERE clause was given.
    pub has_where: bool,
}

pub(super) fn parse(c: &mut Cursor<'_>, source: &Source) -> Result<CopyStatement> {
    c.advance();
    let mut options = Vec::new();
    let position = c.position();
    if c.accept("binary") {
        options.push(CopyOption {
            name: "format".into(),
            value: OptionValue::Text("binary".into()),
            position,
        });
    }
    let what = if c.accept_token(&Token::LParen) {
        let (inner, end) = c.until_closing()?;
        let (query, _) = with_parser(inner, end, source, |p| p.parse_query())?;
        CopySource::Query(query)
    } else {
        let name = c.qualified_name()?;
        CopySource::Table { name, columns: c.optional_names()? }
    };
    let to = match c.peek_word().as_deref() {
        Some("to") => true,
        Some("from") if !matches!(what, CopySource::Query(_)) => false,
        _ => return Err(c.error()),
    };
    c.advance();
    let target = target(c)?;
    c.accept("with");
    if c.accept_token(&Token::LParen) {
        loop {
            options.push(option(c)?);
            if c.accept_token(&Token::RParen) {
                break;
            }
            c.expect_token(&Token::Comma)?;
        }
    } else {
        while let Some(option) = legacy_option(c)? {
            options.push(option);
        }
    }
    let has_where = !to && c.accept("where");
    if !has_where {
        c.expect_end()?;
    }
    Ok(CopyStatement { source: what, to, target, options, has_where })
}

fn target(c: &mut Cursor<'_>) -> Result<CopyTarget> {
    if c.accept("stdin") || c.accept("stdout") {
        Ok(CopyTarget::Client)
    } else if c.accept("program") {
        c.string()?;
        Ok(CopyTarget::Program)
    } else {
        c.string()?;
        Ok(CopyTarget::File)
    }
}

fn any_word(c: &mut Cursor<'_>) -> Result<String> {
    match c.peek_word() {
        Some(word) => {
            c.advance();
            Ok(word)
        }
        None => c.name(),
    }
}

fn option(c: &mut Cursor<'_>) -> Result<CopyOption> {
    let position = c.position();
    let name = any_word(c)?;
    let value = match c.peek() {
        Some(Token::Comma | Token::RParen) => OptionValue::None,
        Some(Token::Mul) => {
            c.advance();
            OptionValue::Star
        }
        Some(Token::LParen) => OptionValue::Names(
            c.optional_names()?.unwrap_or_default().into_iter().map(|(n, _)| n).collect(),
        ),
        _ => match c.accept_string().or_else(|| c.accept_number()) {
            Some(text) => OptionValue::Text(text),
            None => OptionValue::Text(any_word(c)?),
        },
    };
    Ok(CopyOption { name, value, position })
}

fn legacy_option(c: &mut Cursor<'_>) -> Result<Option<CopyOption>> {
    let position = c.position();
    let Some(word) = c.peek_word() else { return Ok(None) };
    let text = |t: &str| OptionValue::Text(t.to_owned());
    let (name, value) = match word.as_str() {
        "binary" => ("format", text("binary")),
        "csv" => ("format", text("csv")),
        "header" => ("header", OptionValue::None),
        "freeze" => ("freeze", OptionValue::None),
        "delimiter" | "null" | "quote" | "escape" | "encoding" => {
            c.advance();
            c.accept("as");
            let value = OptionValue::Text(c.string()?);
            return Ok(Some(CopyOption { name: word, value, position }));
        }
        "force" => return force(c, position).map(Some),
        _ => return Ok(None),
    };
    c.advance();
    Ok(Some(CopyOption { name: name.into(), value, position }))
}

/// `FORCE QUOTE *`, `FORCE NOT NULL a, b` and so on.
fn force(c: &mut Cursor<'_>, position: u32) -> Result<CopyOption> {
    c.advance();
    let name = if c.accept("quote") {
        "force_quote"
    } else if c.accept_all(&["not", "null"]) {
        "force_not_null"
    } else {
        c.expect("null")?;
        "force_null"
    };
    let value = if c.accept_token(&Token::Mul) {
        OptionValue::Star
    } else {
        let mut names = vec![c.name()?];
        while c.accept_token(&Token::Comma) {
            names.push(c.name()?);
        }
        OptionValue::Names(names)
    };
    Ok(CopyOption { name: name.into(), value, position })
}
