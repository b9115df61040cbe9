//! COPY FROM: bytes pushed in chunks of any size, rows out.

use super::fields::{Field, Fields};
use super::lines::{Found, LineFinder};
use super::options::{CopyFormat, CopyOptions, Header};
use super::values::{Place, read_text};
use crate::error::{Result, SqlError, state};
use crate::value::{SqlType, checked_utf8};
use forebay_engine::Datum as Stored;

/// A column that data arrives for.
#[derive(Clone, Debug)]
pub struct CopyColumn {
    /// Its name.
    pub name: String,
    /// Its type.
    pub ty: SqlType,
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
    /// Values in a row handed out; those no column fills are NULL.
    pub width: usize,
}

/// What takes the rows.
pub type TakeRow<'t> = &'t mut dyn FnMut(&[Stored<'_>]) -> Result<()>;

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
    /// Bytes that end a run of plain ones in text format.
    special: Box<[bool; 256]>,
}

impl LineParser {
    /// At the start of the data.
    pub fn new(options: CopyOptions, shape: CopyShape) -> LineParser {
        let finder = LineFinder::new(&options);
        let mut special = Box::new([false; 256]);
        for b in [options.delimiter, b'\n', b'\r', b'\\', 0] {
            if let Some(slot) = special.get_mut(usize::from(b)) {
                *slot = true;
            }
        }
        LineParser {
            special,
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
        if self.buffer.is_empty() {
            // No rest of a line: rows are read where the chunk is.
            let used = self.lines(data, false, take)?;
            self.buffer.extend_from_slice(data.get(used..).unwrap_or_default());
            return Ok(());
        }
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.extend_from_slice(data);
        let used = self.lines(&buffer, false, take)?;
        buffer.drain(..used);
        self.buffer = buffer;
        Ok(())
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
            self.one(line, take)?;
        }
        self.ended = true;
        Ok(())
    }

    /// Reads all complete lines; the bytes used.
    fn lines(&mut self, data: &[u8], last: bool, take: TakeRow<'_>) -> Result<usize> {
        let mut used = 0;
        let plain = self.plain_part(data);
        loop {
            while let Some(length) = self.plain_line(plain.get(used..).unwrap_or_default(), take)? {
                used += length;
            }
            let rest = data.get(used..).unwrap_or_default();
            if rest.is_empty() {
                return Ok(used);
            }
            let found = self.finder.find(rest, last);
            let found =
                found.map_err(|e| e.context(Place::new(&self.shape.table, self.line + 1).line_only()))?;
            match found {
                Found::Line { len, next } => {
                    self.line += 1;
                    self.one(rest.get(..len).unwrap_or_default(), take)?;
                    used += next;
                }
                Found::EndMarker => {
                    self.ended = true;
                    return Ok(data.len());
                }
                Found::More => return Ok(used),
            }
        }
    }

    /// The part of a chunk in which lines may be plain: text format, whole lines, valid.
    fn plain_part<'d>(&self, data: &'d [u8]) -> &'d str {
        if self.options.format != CopyFormat::Text {
            return "";
        }
        let end = data.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
        std::str::from_utf8(data.get(..end).unwrap_or_default()).unwrap_or_default()
    }

    /// Reads a line without escapes in one pass; its length with its end. None if it is not that plain, or if
    /// anything is wrong with it: then the thorough way reads it, and says so.
    fn plain_line(&mut self, text: &str, take: TakeRow<'_>) -> Result<Option<usize>> {
        let header = self.line == 0 && self.options.header != Header::No;
        if text.is_empty() || header || self.shape.columns.is_empty() || !self.finder.allows_lf() {
            return Ok(None);
        }
        let mut values: smallvec::SmallVec<[Stored<'_>; 16]> =
            smallvec::smallvec![Stored::Null; self.shape.width];
        let mut columns = self.shape.columns.iter();
        let (mut start, mut end) = (0, 0);
        while let Some(&b) = text.as_bytes().get(end) {
            if !self.special.get(usize::from(b)).copied().unwrap_or(true) {
                end += 1;
                continue;
            }
            let last = b == b'\n';
            if !last && b != self.options.delimiter {
                // The usual NULL is the one escape taken here.
                if b == b'\\' && end == start && self.options.null == "\\N" && self.null_at(text, end) {
                    end += 2;
                    continue;
                }
                return Ok(None);
            }
            let (Some(column), Some(field)) = (columns.next(), text.get(start..end)) else { return Ok(None) };
            if field != self.options.null {
                match (read_text(field, column.ty), values.get_mut(column.slot)) {
                    (Ok(value), Some(slot)) => *slot = value,
                    _ => return Ok(None),
                }
            }
            end += 1;
            start = end;
            if last {
                if columns.next().is_some() {
                    return Ok(None);
                }
                self.finder.take_lf();
                self.line += 1;
                take(&values).map_err(|e| {
                    let line = text.get(..end - 1).unwrap_or_default();
                    e.context(Place::new(&self.shape.table, self.line).raw(line.as_bytes()))
                })?;
                return Ok(Some(end));
            }
        }
        Ok(None)
    }

    /// Is there `\N`, and nothing else, up to a delimiter or line end?
    fn null_at(&self, text: &str, at: usize) -> bool {
        match text.as_bytes().get(at..at + 3) {
            Some([b'\\', b'N', after]) => *after == b'\n' || *after == self.options.delimiter,
            _ => false,
        }
    }

    /// A line.
    fn one(&mut self, line: &[u8], take: TakeRow<'_>) -> Result<()> {
        self.line += std::mem::take(&mut self.finder.quoted_newlines);
        let text = checked_utf8(line)
            .map_err(|e| e.context(Place::new(&self.shape.table, self.line).line_only()))?;
        if self.line == 1 && self.options.header != Header::No {
            return self.header(line);
        }
        if self.shape.columns.is_empty() && line.is_empty() {
            return take(&vec![Stored::Null; self.shape.width]);
        }
        let split = match self.options.format {
            CopyFormat::Csv => self.fields.split_csv(line, &self.options),
            _ => {
                self.fields.split_text(line, &self.options);
                Ok(())
            }
        };
        let (fields, shape, number) = (&self.fields, &self.shape, self.line);
        split.and_then(|()| row(fields, shape, text, number, take)).map_err(|e| {
            if e.context.is_some() { e } else { e.context(Place::new(&shape.table, number).raw(line)) }
        })
    }

    fn header(&mut self, line: &[u8]) -> Result<()> {
        if self.options.header != Header::Match {
            return Ok(());
        }
        let context = Place::new(&self.shape.table, self.line).raw(line);
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
        let (got, want) = (self.fields.list.len(), self.shape.columns.len());
        if got != want {
            return bad(format!("wrong number of fields in header line: got {got}, expected {want}"));
        }
        for (i, (field, column)) in self.fields.list.iter().zip(&self.shape.columns).enumerate() {
            let number = i + 1;
            match self.fields.bytes(line, *field) {
                None => {
                    let null = &self.options.null;
                    return bad(format!(
                        "column name mismatch in header line field {number}: got null value (\"{null}\"), expected \"{}\"",
                        column.name
                    ));
                }
                Some(name) if name != column.name.as_bytes() => {
                    let name = String::from_utf8_lossy(name);
                    return bad(format!(
                        "column name mismatch in header line field {number}: got \"{name}\", expected \"{}\"",
                        column.name
                    ));
                }
                Some(_) => {}
            }
        }
        Ok(())
    }
}

/// Makes a row of a line's fields.
fn row(fields: &Fields, shape: &CopyShape, line: &str, number: u64, take: TakeRow<'_>) -> Result<()> {
    let bad = |message: String| SqlError::new(state::BAD_COPY_FILE_FORMAT, message);
    if fields.list.len() > shape.columns.len() {
        return Err(bad("extra data after last expected column".to_owned()));
    }
    let mut values: smallvec::SmallVec<[Stored<'_>; 16]> = smallvec::smallvec![Stored::Null; shape.width];
    for (i, column) in shape.columns.iter().enumerate() {
        let Some(field) = fields.list.get(i) else {
            return Err(bad(format!("missing data for column \"{}\"", column.name)));
        };
        // Only escapes can have made a text invalid: the line was checked.
        let text = match *field {
            Field::Null => continue,
            Field::Line(from, to) => Ok(line.get(from..to).unwrap_or_default()),
            field @ Field::Scratch(..) => {
                checked_utf8(fields.bytes(line.as_bytes(), field).unwrap_or_default())
            }
        }?;
        let value = read_text(text, column.ty)
            .map_err(|e| e.context(Place::new(&shape.table, number).column(&column.name, text)))?;
        if let Some(slot) = values.get_mut(column.slot) {
            *slot = value;
        }
    }
    take(&values)
}
