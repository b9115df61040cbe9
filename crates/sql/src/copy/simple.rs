//! Lines and their fields in one pass.
//!
//! Nearly all data is parsed here. The rest is left to `lines.rs` and `fields.rs`: lines
//! that end in CR, `\\.`, line ends within quotes, an escape other than the quote.

use super::fields::{Field, Fields, unescape, unquote};
use super::options::{CopyFormat, CopyOptions};
use super::scan::Scanner;

/// What a step came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A line was split; its newline is here.
    Line(usize),
    /// The line that begins here needs the slower parsers.
    Unusual,
    /// The line's end has not arrived.
    More,
}

/// The walk over a chunk.
pub struct SimpleLines<'d> {
    data: &'d [u8],
    scanner: Scanner<'d>,
    csv: bool,
}

impl<'d> SimpleLines<'d> {
    /// At the start of a chunk.
    pub fn new(data: &'d [u8], options: &CopyOptions) -> SimpleLines<'d> {
        let csv = options.format == CopyFormat::Csv;
        let special = if csv { options.quote } else { b'\\' };
        SimpleLines {
            data,
            scanner: Scanner::new(data, [options.delimiter, special, b'\n', b'\r']),
            csv,
        }
    }

    /// Goes to the start of a line.
    pub fn seek(&mut self, at: usize) {
        self.scanner.seek(at);
    }

    /// Splits the line that begins at `start`. Ranges of its fields are relative to it.
    pub fn split(&mut self, start: usize, options: &CopyOptions, fields: &mut Fields) -> Step {
        fields.list.clear();
        fields.scratch.clear();
        if self.csv {
            self.split_csv(start, options, fields)
        } else {
            self.split_text(start, options, fields)
        }
    }

    fn split_text(&mut self, start: usize, options: &CopyOptions, fields: &mut Fields) -> Step {
        let null = options.null.as_bytes();
        let mut from = start;
        let mut escaped = false;
        // A byte after a backslash is data.
        let mut taken = usize::MAX;
        while let Some(at) = self.scanner.next() {
            if at == taken {
                continue;
            }
            let Some(&b) = self.data.get(at) else { break };
            if b == b'\\' {
                if self.data.get(at + 1) == Some(&b'.') {
                    return Step::Unusual;
                }
                escaped = true;
                taken = at + 1;
                continue;
            }
            if b == b'\r' {
                return Step::Unusual;
            }
            let raw = self.data.get(from..at).unwrap_or_default();
            fields.list.push(if raw == null {
                Field::Null
            } else if escaped {
                let begin = fields.scratch.len();
                unescape(raw, &mut fields.scratch);
                Field::Scratch(begin, fields.scratch.len())
            } else {
                Field::Line(from - start, at - start)
            });
            if b == b'\n' {
                return Step::Line(at);
            }
            from = at + 1;
            escaped = false;
        }
        Step::More
    }

    fn split_csv(&mut self, start: usize, options: &CopyOptions, fields: &mut Fields) -> Step {
        let null = options.null.as_bytes();
        let mut from = start;
        let mut quotes = 0usize;
        let mut first_quote = start;
        while let Some(at) = self.scanner.next() {
            let Some(&b) = self.data.get(at) else { break };
            if b == options.quote {
                if options.escape != options.quote || matches!(b, b'\n' | b'\r') {
                    return Step::Unusual;
                }
                if quotes == 0 {
                    first_quote = at;
                }
                quotes += 1;
                continue;
            }
            if b == b'\r' || b == b'\n' && quotes % 2 == 1 {
                return Step::Unusual;
            }
            if quotes % 2 == 1 {
                continue;
            }
            let raw = self.data.get(from..at).unwrap_or_default();
            fields.list.push(if quotes == 0 {
                if raw == null { Field::Null } else { Field::Line(from - start, at - start) }
            } else if quotes == 2 && first_quote == from && raw.last() == Some(&options.quote) {
                Field::Line(from + 1 - start, at - 1 - start)
            } else {
                let begin = fields.scratch.len();
                let plain = first_quote - from;
                fields.scratch.extend_from_slice(raw.get(..plain).unwrap_or_default());
                if unquote(raw, plain, options, &mut fields.scratch).is_err() {
                    return Step::Unusual;
                }
                Field::Scratch(begin, fields.scratch.len())
            });
            if b == b'\n' {
                return Step::Line(at);
            }
            from = at + 1;
            quotes = 0;
        }
        Step::More
    }
}
