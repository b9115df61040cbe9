//! Finding the ends of lines in text and CSV, across chunk borders.

use super::options::{CopyFormat, CopyOptions};
use crate::error::{Result, SqlError, state};

/// How lines end: settled by the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Newline {
    Unknown,
    Lf,
    Cr,
    CrLf,
}

/// The result of a search. Offsets are from the start of the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// A line of `len` bytes; the next begins at `next`.
    Line { len: usize, next: usize },
    /// `\.` alone on its line: the data ends.
    EndMarker,
    /// The line's end has not arrived.
    More,
}

/// A search for the end of a line, with its state within the line.
#[derive(Debug)]
pub struct LineFinder {
    csv: bool,
    quote: u8,
    escape: u8,
    newline: Newline,
    /// Bytes of the line looked at.
    at: usize,
    in_quote: bool,
    last_was_escape: bool,
    /// Line ends within quotes of this line.
    pub quoted_newlines: u64,
}

fn bad(message: &str, hint: Option<&str>) -> SqlError {
    let error = SqlError::new(state::BAD_COPY_FILE_FORMAT, message);
    match hint {
        Some(hint) => error.hint(hint),
        None => error,
    }
}

impl LineFinder {
    /// At the start of the data.
    pub fn new(options: &CopyOptions) -> LineFinder {
        LineFinder {
            csv: options.format == CopyFormat::Csv,
            quote: options.quote,
            escape: if options.escape == options.quote { 0 } else { options.escape },
            newline: Newline::Unknown,
            at: 0,
            in_quote: false,
            last_was_escape: false,
            quoted_newlines: 0,
        }
    }

    /// At the start of a line, may it end with a bare LF?
    pub fn allows_lf(&self) -> bool {
        self.at == 0 && !self.in_quote && matches!(self.newline, Newline::Unknown | Newline::Lf)
    }

    /// Notes that a line has ended with a bare LF; then all others must.
    pub fn take_lf(&mut self) {
        self.newline = Newline::Lf;
    }

    /// Looks for the end of the line that starts `data`, going on where the last search stopped.
    /// `last`: there is no more data than this.
    pub fn find(&mut self, data: &[u8], last: bool) -> Result<Found> {
        let found = if self.csv { self.find_csv(data, last) } else { self.find_text(data, last) }?;
        if found != Found::More {
            self.at = 0;
            self.in_quote = false;
            self.last_was_escape = false;
        }
        Ok(found)
    }

    fn find_text(&mut self, data: &[u8], last: bool) -> Result<Found> {
        loop {
            let rest = data.get(self.at..).unwrap_or_default();
            let Some(skip) = rest.iter().position(|b| matches!(b, b'\n' | b'\r' | b'\\')) else {
                self.at = data.len();
                return Ok(Found::More);
            };
            self.at += skip;
            match data.get(self.at) {
                Some(b'\\') => match data.get(self.at + 1) {
                    None if last => {
                        self.at = data.len();
                        return Ok(Found::More);
                    }
                    None => return Ok(Found::More),
                    Some(b'.') => match self.end_marker(data, last)? {
                        Some(found) => return Ok(found),
                        None => self.at += 2,
                    },
                    Some(_) => self.at += 2,
                },
                Some(b) => {
                    if let Some(found) = self.line_end(*b, data, last)? {
                        return Ok(found);
                    }
                }
                None => return Ok(Found::More),
            }
        }
    }

    /// At `\.`: the end of the data if a line end follows. None: more must arrive first is told by
    /// More.
    fn end_marker(&mut self, data: &[u8], last: bool) -> Result<Option<Found>> {
        let not_alone = || bad("end-of-copy marker is not alone on its line", None);
        let mismatch = || bad("end-of-copy marker does not match previous newline style", None);
        let after = data.get(self.at + 2..).unwrap_or_default();
        let ended = match (after, self.newline) {
            ([], _) if last => true,
            ([], _) => return Ok(Some(Found::More)),
            ([b'\r'], Newline::CrLf | Newline::Unknown) if !last => return Ok(Some(Found::More)),
            ([b'\r', b'\n', ..], Newline::CrLf | Newline::Unknown) => true,
            ([b'\r' | b'\n', ..], Newline::CrLf) => return Err(mismatch()),
            ([b'\r', ..], Newline::Cr | Newline::Unknown) => true,
            ([b'\n', ..], Newline::Lf | Newline::Unknown) => true,
            ([b'\r' | b'\n', ..], _) => return Err(mismatch()),
            _ => return Err(not_alone()),
        };
        if ended && self.at == 0 {
            return Ok(Some(Found::EndMarker));
        }
        Err(not_alone())
    }

    fn find_csv(&mut self, data: &[u8], last: bool) -> Result<Found> {
        loop {
            let Some(&b) = data.get(self.at) else { return Ok(Found::More) };
            if self.in_quote && b == self.escape && self.escape != 0 {
                self.last_was_escape = !self.last_was_escape;
                self.at += 1;
                continue;
            }
            if b == self.quote && !self.last_was_escape {
                self.in_quote = !self.in_quote;
            }
            self.last_was_escape = false;
            if self.in_quote {
                // Before the first line has ended, PostgreSQL takes CR for the end of lines here.
                if b == if self.newline == Newline::Lf { b'\n' } else { b'\r' } {
                    self.quoted_newlines += 1;
                }
                self.at += 1;
                continue;
            }
            match b {
                b'\r' | b'\n' => {
                    if let Some(found) = self.line_end(b, data, last)? {
                        return Ok(found);
                    }
                }
                _ => self.at += 1,
            }
        }
    }

    /// At a CR or LF outside quotes: the end of the line, or an error if others ended differently.
    fn line_end(&mut self, b: u8, data: &[u8], last: bool) -> Result<Option<Found>> {
        let line = |next| Ok(Some(Found::Line { len: self.at, next }));
        if b == b'\n' {
            return match self.newline {
                Newline::Cr | Newline::CrLf => Err(self.stray("newline", "\\n")),
                _ => {
                    self.newline = Newline::Lf;
                    line(self.at + 1)
                }
            };
        }
        match self.newline {
            Newline::Lf => Err(self.stray("carriage return", "\\r")),
            Newline::Cr => line(self.at + 1),
            Newline::CrLf | Newline::Unknown => match data.get(self.at + 1) {
                Some(b'\n') => {
                    self.newline = Newline::CrLf;
                    line(self.at + 2)
                }
                None if !last => Ok(Some(Found::More)),
                _ if self.newline == Newline::CrLf => Err(self.stray("carriage return", "\\r")),
                _ => {
                    self.newline = Newline::Cr;
                    line(self.at + 1)
                }
            },
        }
    }

    fn stray(&self, what: &str, escape: &str) -> SqlError {
        if self.csv {
            let hint = format!("Use quoted CSV field to represent {what}.");
            bad(&format!("unquoted {what} found in data"), Some(&hint))
        } else {
            let hint = format!("Use \"{escape}\" to represent {what}.");
            bad(&format!("literal {what} found in data"), Some(&hint))
        }
    }
}
