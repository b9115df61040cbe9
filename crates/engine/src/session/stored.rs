//! A row as it is stored: a view of its bytes, or the bytes themselves.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::borrow::Cow;
use std::fmt::Display;
use std::sync::Arc;

use forebay_catalog::Table;
use forebay_format::tuple::Deform;
use forebay_format::varlena::{Varlena, decompress};
use forebay_format::{CommandId, HeapTuple, ItemPointer, TupleError, Xid};
use forebay_types::{Array, Datum, Encoding, Repr};

use crate::error::EngineError;

/// A version of a row, in the memory of a scan or of a [`StoredRow`].
#[derive(Clone, Copy, Debug)]
pub struct RowView<'a> {
    table: &'a Arc<Table>,
    tuple: HeapTuple<'a>,
    place: ItemPointer,
}

/// A version of a row that is kept: its bytes and its place.
#[derive(Clone, Debug)]
pub struct StoredRow {
    table: Arc<Table>,
    /// At least a whole header.
    tuple: Box<[u8]>,
    place: ItemPointer,
}

impl StoredRow {
    pub(super) fn new(
        table: &Arc<Table>,
        tuple: Vec<u8>,
        place: ItemPointer,
    ) -> Result<StoredRow, EngineError> {
        HeapTuple::new(&tuple).map_err(|error| unreadable(table, place, &error))?;
        Ok(StoredRow { table: Arc::clone(table), tuple: tuple.into(), place })
    }

    /// The row.
    pub fn view(&self) -> RowView<'_> {
        let StoredRow { table, tuple, place } = self;
        let tuple = HeapTuple::new(tuple).expect("checked when it was stored");
        RowView { table, tuple, place: *place }
    }

    /// Its place.
    pub fn place(&self) -> ItemPointer {
        self.place
    }
}

impl<'a> RowView<'a> {
    /// The view of a tuple that a scan has found.
    pub(super) fn new(table: &'a Arc<Table>, tuple: &'a [u8], place: ItemPointer) -> RowView<'a> {
        let tuple = HeapTuple::new(tuple).expect("a scan reads the headers of its tuples");
        RowView { table, tuple, place }
    }

    /// Decodes the first `upto` columns into `out`, which is cleared first. Dropped columns are
    /// NULL, so that indexes are those of the table's columns. A value that is stored out of line
    /// is
    /// [`Datum::Toasted`]: [`Session::fetch_value`](super::Session::fetch_value) reads it.
    pub fn decode_into(&self, upto: usize, out: &mut Vec<Datum<'a>>) -> Result<(), EngineError> {
        self.decode_some(upto, (|_| true, &[]), out)
    }

    /// Like [`RowView::decode_into`], for the wanted columns: the other ones are NULL. Values of
    /// the `kept` ones that are compressed stay so: they are [`Datum::Toasted`], too.
    pub fn decode_wanted(
        &self,
        wanted: &[bool],
        kept: &[bool],
        out: &mut Vec<Datum<'a>>,
    ) -> Result<(), EngineError> {
        self.decode_some(wanted.len(), (|column| wanted.get(column) == Some(&true), kept), out)
    }

    fn decode_some(
        &self,
        upto: usize,
        (wanted, kept): (impl Fn(usize) -> bool, &[bool]),
        out: &mut Vec<Datum<'a>>,
    ) -> Result<(), EngineError> {
        out.clear();
        let encoding = self.table.encoding;
        let upto = upto.min(self.table.columns.len());
        let layouts = self.table.layouts.get(..upto).unwrap_or_default();
        let damaged = |error: TupleError| unreadable(self.table, self.place, &error);
        let mut fields = Deform::new(self.tuple).map_err(damaged)?;
        let stored = self.tuple.attribute_count();
        for (index, (layout, column)) in layouts.iter().zip(&self.table.columns).enumerate() {
            let field = match fields.next(*layout).map_err(damaged)? {
                None => None,
                Some(Varlena::Plain(bytes)) => Some(bytes),
                Some(_) if !wanted(index) || column.dropped => None,
                Some(Varlena::Compressed { raw_size, method, data })
                    if kept.get(index) != Some(&true) =>
                {
                    let bytes = decompress(raw_size, method, data)
                        .map_err(|error| unreadable(self.table, self.place, &error))?;
                    out.push(decoded(bytes, column.repr, encoding)?);
                    continue;
                }
                Some(stored) => {
                    out.push(Datum::Toasted(Cow::Owned(stored.encode())));
                    continue;
                }
            };
            out.push(match (field, &column.missing) {
                _ if !wanted(index) => Datum::Null,
                (Some(bytes), _) if !column.dropped => column.repr.decode(bytes, encoding)?,
                // The row is older than the column.
                (None, Some(bytes)) if index >= stored => column.repr.decode(bytes, encoding)?,
                _ => Datum::Null,
            });
        }
        Ok(())
    }

    /// All columns.
    pub fn decode(&self) -> Result<Vec<Datum<'a>>, EngineError> {
        let mut out = Vec::with_capacity(self.table.columns.len());
        self.decode_into(self.table.columns.len(), &mut out)?;
        Ok(out)
    }

    /// Its place: ctid.
    pub fn place(&self) -> ItemPointer {
        self.place
    }

    /// The transaction that inserted it, as stored.
    pub fn xmin(&self) -> Xid {
        self.tuple.xmin()
    }

    /// The transaction or MultiXact that updated, deleted or locked it, as stored; 0: none. It may
    /// be over, or have aborted.
    pub fn xmax(&self) -> Xid {
        self.tuple.xmax()
    }

    /// The command that inserted it, as PostgreSQL shows it: the stored number, which may be that
    /// of the command that deleted it, or of both.
    pub fn cmin(&self) -> CommandId {
        self.tuple.cid()
    }

    /// The command that deleted it: the same stored number.
    pub fn cmax(&self) -> CommandId {
        self.tuple.cid()
    }

    /// The row, to be kept.
    pub fn to_stored(&self) -> StoredRow {
        let RowView { table, tuple, place } = *self;
        StoredRow { table: Arc::clone(table), tuple: tuple.bytes().into(), place }
    }
}

/// An error with the row's place.
fn unreadable(table: &Table, place: ItemPointer, error: &dyn Display) -> EngineError {
    EngineError::corrupt(format!("row {place} of relation \"{}\": {error}", table.name))
}

/// A value from its bytes, which a text or bytea takes over.
pub(super) fn decoded(
    bytes: Vec<u8>,
    repr: Repr,
    encoding: Encoding,
) -> Result<Datum<'static>, EngineError> {
    Ok(match repr {
        Repr::Bytes => Datum::Bytes(Cow::Owned(bytes)),
        Repr::Carried(ty) => Datum::Carried(ty, Cow::Owned(bytes)),
        Repr::Jsonb if encoding == Encoding::Utf8 => Datum::Jsonb(Cow::Owned(bytes)),
        Repr::Array(_) if encoding == Encoding::Utf8 => Datum::Array(Array::stored(bytes)),
        Repr::Text => Datum::string(encoding.decode_owned(bytes)?),
        _ => repr.decode(&bytes, encoding)?.into_owned(),
    })
}
