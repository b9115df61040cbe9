//! COPY's options: checked as PostgreSQL checks them, in its order.

use crate::error::{Result, SqlError, state};
use crate::parse::{CopyOption, OptionValue};

/// The format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyFormat {
    /// Tab-separated with escapes.
    Text,
    /// Comma-separated with quotes.
    Csv,
    /// PostgreSQL's own.
    Binary,
}

/// The header line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Header {
    /// None.
    No,
    /// One, skipped on input.
    Yes,
    /// One that must name the columns.
    Match,
}

/// All options, settled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyOptions {
    /// FORMAT
    pub format: CopyFormat,
    /// DELIMITER
    pub delimiter: u8,
    /// NULL
    pub null: String,
    /// HEADER
    pub header: Header,
    /// QUOTE
    pub quote: u8,
    /// ESCAPE
    pub escape: u8,
    /// FORCE_QUOTE *
    pub force_quote: bool,
    /// FREEZE
    pub freeze: bool,
}

fn invalid(message: impl Into<String>) -> SqlError {
    SqlError::new(state::INVALID_PARAMETER_VALUE, message)
}

fn refused(message: impl Into<String>) -> SqlError {
    SqlError::new(state::FEATURE_NOT_SUPPORTED, message)
}

fn syntax(message: impl Into<String>) -> SqlError {
    SqlError::new(state::SYNTAX_ERROR, message)
}

/// Options as they were written.
#[derive(Default)]
struct Given {
    format: Option<CopyFormat>,
    delimiter: Option<String>,
    null: Option<String>,
    header: Option<Header>,
    quote: Option<String>,
    escape: Option<String>,
    force_quote: bool,
    freeze: bool,
    seen: Vec<String>,
}

impl CopyOptions {
    /// Settles the options of a COPY.
    pub fn new(list: &[CopyOption], from: bool) -> Result<CopyOptions> {
        let mut given = Given::default();
        for option in list {
            given.take(option, from)?;
        }
        given.settle()
    }
}

fn boolean(option: &CopyOption) -> Result<bool> {
    let word = match &option.value {
        OptionValue::None => return Ok(true),
        OptionValue::Text(text) => text.to_lowercase(),
        _ => String::new(),
    };
    match word.as_str() {
        "true" | "on" | "1" => Ok(true),
        "false" | "off" | "0" => Ok(false),
        _ => Err(syntax(format!("{} requires a Boolean value", option.name))),
    }
}

fn text_of(option: &CopyOption) -> Result<String> {
    match &option.value {
        OptionValue::Text(text) => Ok(text.clone()),
        _ => Err(syntax(format!("{} requires a parameter", option.name))),
    }
}

impl Given {
    fn take(&mut self, option: &CopyOption, from: bool) -> Result<()> {
        let name = option.name.as_str();
        if self.seen.iter().any(|s| s == name) {
            return Err(syntax("conflicting or redundant options").at(option.position));
        }
        self.seen.push(name.to_owned());
        match name {
            "format" => {
                let text = text_of(option)?;
                self.format = Some(match text.as_str() {
                    "text" => CopyFormat::Text,
                    "csv" => CopyFormat::Csv,
                    "binary" => CopyFormat::Binary,
                    _ => {
                        let message = format!("COPY format \"{text}\" not recognized");
                        return Err(invalid(message).at(option.position));
                    }
                });
            }
            "delimiter" => self.delimiter = Some(text_of(option)?),
            "null" => self.null = Some(text_of(option)?),
            "quote" => self.quote = Some(text_of(option)?),
            "escape" => self.escape = Some(text_of(option)?),
            "header" => self.header = Some(header(option, from)?),
            "force_quote" => match &option.value {
                OptionValue::Star => self.force_quote = true,
                OptionValue::Names(_) => {
                    return Err(SqlError::unsupported("COPY FORCE_QUOTE of some columns"));
                }
                _ => {
                    let message =
                        "argument to option \"force_quote\" must be a list of column names";
                    return Err(invalid(message).at(option.position));
                }
            },
            "encoding" => {
                let text = text_of(option)?;
                let folded: String = text.chars().filter(char::is_ascii_alphanumeric).collect();
                if !folded.eq_ignore_ascii_case("utf8") && !folded.eq_ignore_ascii_case("unicode") {
                    return Err(SqlError::unsupported(format!("COPY ENCODING \"{text}\""))
                        .at(option.position));
                }
            }
            "freeze" => {
                self.freeze = boolean(option)?;
                if self.freeze && !from {
                    return Err(invalid("COPY FREEZE cannot be used with COPY TO"));
                }
            }
            "default" | "force_not_null" | "force_null" | "on_error" | "reject_limit"
            | "log_verbosity" => {
                let name = name.to_uppercase();
                return Err(SqlError::unsupported(format!("COPY {name}")).at(option.position));
            }
            _ => {
                let message = format!("option \"{name}\" not recognized");
                return Err(syntax(message).at(option.position));
            }
        }
        Ok(())
    }

    fn settle(self) -> Result<CopyOptions> {
        let format = self.format.unwrap_or(CopyFormat::Text);
        let (binary, csv) = (format == CopyFormat::Binary, format == CopyFormat::Csv);
        if binary && self.delimiter.is_some() {
            return Err(syntax("cannot specify DELIMITER in BINARY mode"));
        }
        if binary && self.null.is_some() {
            return Err(syntax("cannot specify NULL in BINARY mode"));
        }
        let default_delimiter = if csv { "," } else { "\t" };
        let delimiter = self.delimiter.unwrap_or_else(|| default_delimiter.to_owned());
        let &[delimiter_byte] = delimiter.as_bytes() else {
            return Err(refused("COPY delimiter must be a single one-byte character"));
        };
        if matches!(delimiter_byte, b'\n' | b'\r') {
            return Err(invalid("COPY delimiter cannot be newline or carriage return"));
        }
        let default_null = if csv { "" } else { "\\N" };
        let null = self.null.unwrap_or_else(|| default_null.to_owned());
        if null.contains(['\n', '\r']) {
            return Err(invalid("COPY null representation cannot use newline or carriage return"));
        }
        let reserved = |b: u8| matches!(b, b'\\' | b'.' | b'a'..=b'z' | b'0'..=b'9');
        if !csv && reserved(delimiter_byte) {
            return Err(invalid(format!("COPY delimiter cannot be \"{delimiter}\"")));
        }
        let header = self.header.unwrap_or(Header::No);
        if binary && header != Header::No {
            return Err(refused("cannot specify HEADER in BINARY mode"));
        }
        let requires_csv = |what: &str| refused(format!("COPY {what} requires CSV mode"));
        if !csv && self.quote.is_some() {
            return Err(requires_csv("QUOTE"));
        }
        let quote = one_byte(self.quote.as_deref().unwrap_or("\""), "quote", csv)?;
        if csv && delimiter_byte == quote {
            return Err(invalid("COPY delimiter and quote must be different"));
        }
        if !csv && self.escape.is_some() {
            return Err(requires_csv("ESCAPE"));
        }
        let escape = match &self.escape {
            Some(text) => one_byte(text, "escape", csv)?,
            None => quote,
        };
        if self.force_quote && !csv {
            return Err(requires_csv("FORCE_QUOTE"));
        }
        if null.as_bytes().contains(&delimiter_byte) {
            return Err(invalid(
                "COPY delimiter character must not appear in the NULL specification",
            ));
        }
        if csv && null.as_bytes().contains(&quote) {
            return Err(invalid("CSV quote character must not appear in the NULL specification"));
        }
        let force_quote = self.force_quote;
        Ok(CopyOptions {
            freeze: self.freeze,
            format,
            delimiter: delimiter_byte,
            null,
            header,
            quote,
            escape,
            force_quote,
        })
    }
}

fn one_byte(text: &str, what: &str, csv: bool) -> Result<u8> {
    match text.as_bytes() {
        [one] => Ok(*one),
        _ if csv => Err(refused(format!("COPY {what} must be a single one-byte character"))),
        _ => Ok(b'"'),
    }
}

fn header(option: &CopyOption, from: bool) -> Result<Header> {
    let text = match &option.value {
        OptionValue::None => return Ok(Header::Yes),
        OptionValue::Text(text) => text.to_ascii_lowercase(),
        _ => String::new(),
    };
    match text.as_str() {
        "true" | "on" | "1" => Ok(Header::Yes),
        "false" | "off" | "0" => Ok(Header::No),
        "match" if from => Ok(Header::Match),
        "match" => Err(refused("cannot use \"match\" with HEADER in COPY TO")),
        _ => Err(syntax("header requires a Boolean value or \"match\"")),
    }
}
