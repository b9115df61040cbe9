//! `Printer`: the text that is being made of a tree.

use super::super::names::Names;

/// How deep a line is indented before its indentation grows more slowly.
const INDENT_LIMIT: i32 = 40;

/// By how much the indentation grows more slowly then.
const INDENT_SCALE: i32 = 4;

/// How a tree is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Parentheses only where they are needed, and names of relations without their schema if the
    /// search path leads to them: "pretty" of PostgreSQL's functions.
    pub pretty: bool,
    /// CASE goes over several lines.
    pub lines: bool,
}

impl Style {
    /// What PostgreSQL's functions print.
    pub const NORMAL: Style = Style { pretty: false, lines: true };
    /// What they print with `pretty`.
    pub const PRETTY: Style = Style { pretty: true, lines: true };
    /// On one line, as EXPLAIN prints.
    pub const FLAT: Style = Style { pretty: false, lines: false };
}

/// The text so far, and what printing needs.
pub(super) struct Printer<'a> {
    pub(super) style: Style,
    pub(super) names: &'a mut dyn Names,
    pub(super) text: String,
    indent: i32,
}

impl<'a> Printer<'a> {
    pub(super) fn new(style: Style, names: &'a mut dyn Names) -> Printer<'a> {
        Printer { style, names, text: String::new(), indent: 0 }
    }

    pub(super) fn push(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// A parenthesis that stands around all operators, unless only those that are needed do.
    pub(super) fn parenthesis(&mut self, parenthesis: char) {
        if !self.style.pretty {
            self.text.push(parenthesis);
        }
    }

    /// A keyword that begins a line. The lines after it are indented by `after` more.
    pub(super) fn keyword(&mut self, keyword: &str, before: i32, after: i32) {
        if !self.style.lines {
            self.push(keyword);
            return;
        }
        self.indent += before;
        let end = self.text.trim_end_matches(' ').len();
        self.text.truncate(end);
        self.text.push('\n');
        let spaces = if self.indent < INDENT_LIMIT {
            self.indent.max(0)
        } else {
            (INDENT_LIMIT + (self.indent - INDENT_LIMIT) / INDENT_SCALE) % INDENT_LIMIT
        };
        self.text.extend(std::iter::repeat_n(' ', spaces.unsigned_abs() as usize));
        self.push(keyword);
        self.indent = (self.indent + after).max(0);
    }

    /// A text in quotes.
    pub(super) fn literal(&mut self, text: &str) {
        self.text.push('\'');
        self.push(&text.replace('\'', "''"));
        self.text.push('\'');
    }
}
