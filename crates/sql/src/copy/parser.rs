//! COPY FROM: bytes pushed in chunks of any size, rows out.

use super::fields::{Field, Fields};
use super::lines::{Found, LineFinder};
use super::options::{CopyFormat, CopyOptions, Header};
use super::simple::{SimpleLines, Step};
use super::values::{LineContext, RowValues, read_text};
use crate::error::{Result, SqlError, state};
use forebay_types::{Datum, Encoding, SqlType, TextStyle, enlarge};
use std::borrow::Cow;
use std::sync::Arc;

/// A column that data arrives for.
#[derive(Clone, Debug)]
pub struct CopyColumn {
    /// Its name.
    pub name: String,
    /// Its type.
    pub ty: SqlType,
    /// Its type modifier, or -1.
    pub typmod: i32,
    /// Its place in the row handed out.
    pub slot: usize,
}

/// What a COPY reads into.
#[derive(Clone, Debug)]
pub struct CopyShape {
    /// The table's name, for messages.
    pub table: String,
    /// Columns in the order of the data.
    pub columns: Vec<CopyColumn>,
    /// Values of each row; those that no column fills are NULL.
    pub width: usize,
    /// Most bytes of a line or a binary row: PostgreSQL's limit, except in tests.
    pub longest: usize,
    /// What text forms depend on.
    pub style: Arc<TextStyle<'static>>,
}

/// What takes the rows, each with its line's number.
pub type TakeRow<'t> = &'t mut dyn FnMut(&[Datum<'_>], u64) -> Result<()>;

/// Parser of text or CSV.
pub struct LineParser {
    options: CopyOptions,
    shape: CopyShape,
    finder: LineFinder,
    fields: Fields,
    /// Bytes not yet made rows.
    buffer: Vec<u8>,
    line: u64,
    ended: bool,
}

impl LineParser {
    /// At the start of the data.
    pub fn new(options: CopyOptions, shape: CopyShape) -> LineParser {
        let finder = LineFinder::new(&options);
        LineParser {
            options,
            shape,
            finder,
            fields: Fields::default(),
            buffer: Vec::new(),
            line: 0,
            ended: false,
        }
    }

    /// Takes in a chunk.
    pub fn push(&mut self, data: &[u8], take: TakeRow<'_>) -> Result<()> {
        if self.ended {
            return Ok(());
        }
        let mut data = data;
        let mut buffer = std::mem::take(&mut self.buffer);
        // A line that began in an earlier chunk is completed in the buffer. All others are parsed
        // within the chunk.
        while !buffer.is_empty() && !data.is_empty() && !self.ended {
            let end = data.iter().position(|b| *b == b'\n').map_or(data.len(), |at| at + 1);
            let (head, tail) = data.split_at(end);
            self.keep(&mut buffer, head)?;
            data = tail;
            let used = self.lines(&buffer, false, take)?;
            buffer.drain(..used);
        }
        if !data.is_empty() && !self.ended {
            let used = match self.shape.style.encoding {
                Encoding::Utf8 => self.chunk(data, take)?,
                // Fields are made texts one by one.
                _ => self.lines(data, false, take)?,
            };
            self.keep(&mut buffer, data.get(used..).unwrap_or_default())?;
        }
        self.buffer = buffer;
        Ok(())
    }

    /// The CONTEXT of an error in the line after the present one.
    fn next_line(&self) -> String {
        LineContext::new(&self.shape.table, self.line + 1).line_only()
    }

    /// Keeps more of a line whose end has not arrived.
    fn keep(&self, buffer: &mut Vec<u8>, data: &[u8]) -> Result<()> {
        enlarge(buffer, 0, data.len(), self.shape.longest)
            .map_err(|e| SqlError::from(e).context(self.next_line()))?;
        buffer.extend_from_slice(data);
        Ok(())
    }

    /// Parses all complete lines of a chunk that begins with a line. Returns the bytes used.
    fn chunk(&mut self, data: &[u8], take: TakeRow<'_>) -> Result<usize> {
        let valid = valid_start(data);
        let mut simple = SimpleLines::new(valid.as_bytes(), &self.options);
        let mut used = 0;
        loop {
            let step = if self.finder.allows_lf()
                && (self.line > 0 || self.options.header == Header::No)
            {
                simple.split(used, &self.options, &mut self.fields)
            } else {
                Step::Unusual
            };
            if let Step::Line(end) = step {
                self.finder.take_lf();
                self.line += 1;
                self.row(Line::Text(valid.get(used..end).unwrap_or_default()), take)?;
                used = end + 1;
                continue;
            }
            let rest = data.get(used..).unwrap_or_default();
            if step == Step::More && valid.len() == data.len() || rest.is_empty() {
                return Ok(used);
            }
            let next = self.line(rest, false, take)?;
            if next == 0 || self.ended {
                return Ok(if self.ended { data.len() } else { used });
            }
            used += next;
            simple.seek(used);
        }
    }

    /// The data has ended; a last line may lack its end.
    pub fn finish(&mut self, take: TakeRow<'_>) -> Result<()> {
        if self.ended {
            return Ok(());
        }
        let buffer = std::mem::take(&mut self.buffer);
        let used = self.lines(&buffer, true, take)?;
        if !self.ended && used < buffer.len() {
            let line = buffer.get(used..).unwrap_or_default();
            self.line += 1;
            self.unsplit_line(line, take)?;
        }
        self.ended = true;
        Ok(())
    }

    /// Parses all complete lines with the slower parsers. Returns the bytes used.
    fn lines(&mut self, data: &[u8], last: bool, take: TakeRow<'_>) -> Result<usize> {
        let mut used = 0;
        while !self.ended && used < data.len() {
            match self.line(data.get(used..).unwrap_or_default(), last, take)? {
                0 => break,
                next => used += next,
            }
        }
        Ok(if self.ended { data.len() } else { used })
    }

    /// Parses a line with the slower parsers. Returns its bytes with its end, or 0 if the end has
    /// not arrived.
    fn line(&mut self, data: &[u8], last: bool, take: TakeRow<'_>) -> Result<usize> {
        let found = self.finder.find(data, last);
        match found.map_err(|e| e.context(self.next_line()))? {
            Found::Line { len, next } => {
                self.line += 1;
                self.unsplit_line(data.get(..len).unwrap_or_default(), take)?;
                Ok(next)
            }
            Found::EndMarker => {
                self.ended = true;
                Ok(0)
            }
            Found::More => Ok(0),
        }
    }

    /// Takes a line that is not split into fields yet.
    fn unsplit_line(&mut self, line: &[u8], take: TakeRow<'_>) -> Result<()> {
        self.line += std::mem::take(&mut self.finder.quoted_newlines);
        let place = LineContext::new(&self.shape.table, self.line);
        let TextStyle { encoding, client, .. } = *self.shape.style;
        let text = encoding.received(client, line);
        let text = text.map_err(|e| SqlError::from(e).context(place.line_only()))?;
        if self.line == 1 && self.options.header != Header::No {
            return self.header(line);
        }
        match self.options.format {
            CopyFormat::Csv => {
                if let Err(e) = self.fields.split_csv(line, &self.options) {
                    let context =
                        LineContext::new(&self.shape.table, self.line).raw(line, encoding);
                    return Err(e.context(context));
                }
            }
            _ => self.fields.split_text(line, &self.options),
        }
        match text {
            Cow::Borrowed(text) => self.row(Line::Text(text), take),
            Cow::Owned(_) => self.row(Line::Bytes(line), take),
        }
    }

    /// Takes a line whose fields are in `self.fields`.
    fn row(&mut self, line: Line<'_>, take: TakeRow<'_>) -> Result<()> {
        let (fields, shape, number) = (&self.fields, &self.shape, self.line);
        if shape.columns.is_empty() && line.bytes().is_empty() {
            return take(&vec![Datum::Null; shape.width], number);
        }
        row(fields, shape, line, number, take).map_err(|e| {
            if e.context.is_some() {
                e
            } else {
                let context = LineContext::new(&shape.table, number);
                e.context(context.raw(line.bytes(), shape.style.encoding))
            }
        })
    }

    fn header(&mut self, line: &[u8]) -> Result<()> {
        if self.options.header != Header::Match {
            return Ok(());
        }
        let encoding = self.shape.style.encoding;
        let context = LineContext::new(&self.shape.table, self.line).raw(line, encoding);
        let split = match self.options.format {
            CopyFormat::Csv => self.fields.split_csv(line, &self.options),
            _ => {
                self.fields.split_text(line, &self.options);
                Ok(())
            }
        };
        split.and_then(|()| self.check_header(line)).map_err(|e| e.context(context))
    }

    fn check_header(&self, line: &[u8]) -> Result<()> {
        let bad = |message: String| Err(SqlError::new(state::BAD_COPY_FILE_FORMAT, message));
        let encoding = self.shape.style.encoding;
        let (got, want) = (self.fields.list.len(), self.shape.columns.len());
        if got != want {
            return bad(format!(
                "wrong number of fields in header line: got {got}, expected {want}"
            ));
        }
        for (i, (field, column)) in self.fields.list.iter().zip(&self.shape.columns).enumerate() {
            let number = i + 1;
            match self.fields.bytes(line, *field) {
                None => {
                    let null = &self.options.null;
                    return bad(format!(
                        "column name mismatch in header line field {number}: got null value \
                         (\"{null}\"), expected \"{}\"",
                        column.name
                    ));
                }
                Some(name) if name != &*encoding.sent(&column.name) => {
                    let name = encoding.decode(name).unwrap_or(String::from_utf8_lossy(name));
                    return bad(format!(
                        "column name mismatch in header line field {number}: got \"{name}\", \
                         expected \"{}\"",
                        column.name
                    ));
                }
                Some(_) => {}
            }
        }
        Ok(())
    }
}

/// The valid UTF-8 at the start of the data. The bytes behind it may be a character that the end of
/// the chunk cuts.
fn valid_start(data: &[u8]) -> &str {
    let clean =
        if data.contains(&0) { data.split(|b| *b == 0).next().unwrap_or_default() } else { data };
    std::str::from_utf8(clean).unwrap_or_else(|e| {
        clean
            .get(..e.valid_up_to())
            .and_then(|good| std::str::from_utf8(good).ok())
            .unwrap_or_default()
    })
}

/// A line: as text, or its bytes where their characters are others in memory.
#[derive(Clone, Copy)]
enum Line<'l> {
    Text(&'l str),
    Bytes(&'l [u8]),
}

impl<'l> Line<'l> {
    fn bytes(self) -> &'l [u8] {
        match self {
            Line::Text(text) => text.as_bytes(),
            Line::Bytes(bytes) => bytes,
        }
    }
}

/// The value of a field.
#[inline]
fn value_of<'f>(
    text: &'f str,
    column: &CopyColumn,
    (shape, number): (&CopyShape, u64),
) -> Result<Datum<'f>> {
    read_text(text, (column.ty, column.typmod), &shape.style)
        .map_err(|e| e.context(LineContext::new(&shape.table, number).column(&column.name, text)))
}

/// Makes a row of a line's fields.
fn row(
    fields: &Fields,
    shape: &CopyShape,
    line: Line<'_>,
    number: u64,
    take: TakeRow<'_>,
) -> Result<()> {
    let bad = |message: String| SqlError::new(state::BAD_COPY_FILE_FORMAT, message);
    if fields.list.len() > shape.columns.len() {
        return Err(bad("extra data after last expected column".to_owned()));
    }
    let mut values = RowValues::default();
    for (i, column) in shape.columns.iter().enumerate() {
        let Some(field) = fields.list.get(i) else {
            return Err(bad(format!("missing data for column \"{}\"", column.name)));
        };
        // The line is valid, but escapes may have added bytes.
        let text = match (*field, line) {
            (Field::Null, _) => continue,
            (Field::Line(from, to), Line::Text(line)) => {
                Cow::Borrowed(line.get(from..to).unwrap_or_default())
            }
            (field, _) => {
                let bytes = fields.bytes(line.bytes(), field).unwrap_or_default();
                shape.style.encoding.checked(bytes)?
            }
        };
        let value = match text {
            Cow::Borrowed(text) => value_of(text, column, (shape, number))?,
            Cow::Owned(text) => value_of(&text, column, (shape, number))?.into_owned(),
        };
        values.set(column.slot, value);
    }
    take(values.row(shape.width), number)
}
