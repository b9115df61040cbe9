//! Which long values of a row are compressed, and which are stored in the TOAST table.
//!
//! ```text
//!   round  values                          what is done              while the row exceeds
//!   1      extended, external              compress (extended);      the target
//!                                          out, if longer than that
//!   2      extended, external              out                       the target
//!   3      main                            compress                  the target
//!   4      main                            out                       a page
//! ```
//!
//! Each step takes the longest value that is left for its round. Without a TOAST table nothing goes
//! out.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use forebay_format::tuple::{Deform, HEADER_SIZE, HEAP_HASEXTERNAL, TupleBuilder, TupleError};
use forebay_format::varlena::{self as v, Method, ToastPointer, Varlena};
use forebay_format::{AttrLayout, HeapTuple, Oid};

/// Rows longer than this are toasted: a quarter of a page (TOAST_TUPLE_THRESHOLD).
pub const THRESHOLD: usize = 2032;
/// Values of storage main go out of line only if the row is longer than this, a page
/// (TOAST_TUPLE_TARGET_MAIN).
const MAIN_TARGET: usize = 8160;
/// Values up to this length stay in the row: the aligned length of a pointer.
const SHORTEST: usize = ToastPointer::SIZE.next_multiple_of(8);

/// How values of a column may be stored: pg_attribute.attstorage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Storage {
    /// As they are.
    Plain,
    /// Out of line, not compressed.
    External,
    /// Compressed, then out of line.
    Extended,
    /// Compressed; out of line only if the row fits on no page otherwise.
    Main,
}

impl Storage {
    /// The letter in the catalogs.
    pub const fn code(self) -> u8 {
        match self {
            Storage::Plain => b'p',
            Storage::External => b'e',
            Storage::Extended => b'x',
            Storage::Main => b'm',
        }
    }

    /// That of a letter in the catalogs.
    pub const fn from_code(code: u8) -> Option<Storage> {
        Some(match code {
            b'p' => Storage::Plain,
            b'e' => Storage::External,
            b'x' => Storage::Extended,
            b'm' => Storage::Main,
            _ => return None,
        })
    }
}

/// A column, as far as its long values are concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToastColumn {
    /// How its values may be stored.
    pub storage: Storage,
    /// How they are compressed. None: as the session's default says.
    pub method: Option<Method>,
}

impl ToastColumn {
    /// How indexes compress its values. None: they do not.
    pub fn in_indexes(self) -> Option<Method> {
        let compresses = matches!(self.storage, Storage::Extended | Storage::Main);
        compresses.then(|| self.method.unwrap_or(Method::Pglz))
    }
}

/// What the catalogs say of a table's long values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Toasting {
    /// Its columns, in the order of their numbers.
    pub columns: Vec<ToastColumn>,
    /// The length to which rows are brought (toast_tuple_target).
    pub target: usize,
    /// Its TOAST table.
    pub relation: Option<Oid>,
}

impl Default for Toasting {
    fn default() -> Toasting {
        Toasting { columns: Vec::new(), target: THRESHOLD, relation: None }
    }
}

/// A value as it is to be stored.
#[derive(Debug)]
enum Form<'a> {
    Given(Varlena<'a>),
    Compressed { raw_size: u32, method: Method, data: Vec<u8> },
}

impl Form<'_> {
    fn view(&self) -> Varlena<'_> {
        match self {
            Form::Given(value) => *value,
            Form::Compressed { raw_size, method, data } => {
                Varlena::Compressed { raw_size: *raw_size, method: *method as u8, data }
            }
        }
    }

    /// Its length with its header: a short one, if it may have that.
    fn size(&self) -> usize {
        match self.view() {
            Varlena::Plain(value) if value.len() <= v::MAX_SHORT_PAYLOAD => {
                value.len() + v::SHORT_HEADER_SIZE
            }
            Varlena::Plain(value) => value.len() + v::HEADER_SIZE,
            Varlena::Compressed { data, .. } => data.len() + v::COMPRESSED_HEADER_SIZE,
            Varlena::External(_) => ToastPointer::SIZE,
        }
    }
}

/// What may still be done with a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Everything that its column's storage allows.
    Open,
    /// It was compressed, or that would not save enough.
    NotCompressible,
    /// Nothing.
    Settled,
    /// Nothing: it goes out of line.
    Out,
}

#[derive(Debug)]
struct Value<'a> {
    layout: AttrLayout,
    column: ToastColumn,
    form: Form<'a>,
    state: State,
}

impl Value<'_> {
    /// The offset of its end in a row, if it is put at one.
    fn end(&self, offset: usize) -> usize {
        let start = self.layout.align.up(offset);
        if self.state == State::Out {
            return offset + ToastPointer::SIZE;
        }
        match (self.layout.len, self.form.view()) {
            (-2, Varlena::Plain(value)) => start + value.len() + 1,
            (-1, Varlena::Plain(value)) => {
                if !self.layout.plain && value.len() <= v::MAX_SHORT_PAYLOAD {
                    offset + v::SHORT_HEADER_SIZE + value.len()
                } else {
                    start + v::HEADER_SIZE + value.len()
                }
            }
            (_, Varlena::Plain(value)) => start + value.len(),
            (_, Varlena::Compressed { data, .. }) => start + v::COMPRESSED_HEADER_SIZE + data.len(),
            (_, Varlena::External(_)) => offset + ToastPointer::SIZE,
        }
    }

    fn compress(&mut self, default: Method) {
        self.state = State::NotCompressible;
        let Form::Given(Varlena::Plain(value)) = self.form else { return };
        let method = self.column.method.unwrap_or(default);
        if let Some(data) = v::compress(value, method) {
            self.form = Form::Compressed { raw_size: value.len() as u32, method, data };
        }
    }
}

/// How a row is to be stored.
#[derive(Debug)]
pub struct Plan<'a> {
    values: Vec<Option<Value<'a>>>,
    has_null: bool,
}

/// Which values a round takes.
#[derive(Debug, Clone, Copy)]
struct Round {
    to_compress: bool,
    of_main: bool,
}

impl<'a> Plan<'a> {
    /// Plans how a formed row is stored. Its pointers stay: they lead to the TOAST table already.
    /// `default` is default_toast_compression.
    pub fn new(
        tuple: HeapTuple<'a>,
        layouts: &[AttrLayout],
        toasting: &Toasting,
        default: Method,
    ) -> Result<Plan<'a>, TupleError> {
        let mut walk = Deform::new(tuple)?;
        let values: Result<Vec<_>, _> = layouts.iter().map(|layout| walk.next(*layout)).collect();
        Plan::of_values(values?, layouts, toasting, default)
    }

    /// The same for the values of a row.
    pub fn of_values(
        values: Vec<Option<Varlena<'a>>>,
        layouts: &[AttrLayout],
        toasting: &Toasting,
        default: Method,
    ) -> Result<Plan<'a>, TupleError> {
        if layouts.len() != toasting.columns.len() || layouts.len() != values.len() {
            let (values, layouts) = (toasting.columns.len(), layouts.len());
            return Err(TupleError::WrongCount { values, layouts });
        }
        let mut plan = Plan { values: Vec::with_capacity(layouts.len()), has_null: false };
        for ((&layout, &column), value) in layouts.iter().zip(&toasting.columns).zip(values) {
            let form = value.map(Form::Given);
            plan.has_null |= form.is_none();
            let movable = layout.len == -1 && column.storage != Storage::Plain;
            let open = |form: &Form<'_>| movable && !matches!(form.view(), Varlena::External(_));
            plan.values.push(form.map(|form| {
                let state = if open(&form) { State::Open } else { State::Settled };
                Value { layout, column, form, state }
            }));
        }
        plan.shorten(toasting, default);
        Ok(plan)
    }

    fn shorten(&mut self, toasting: &Toasting, default: Method) {
        let bitmap = if self.has_null { self.values.len().div_ceil(8) } else { 0 };
        let header = (HEADER_SIZE + bitmap).next_multiple_of(8);
        let target = toasting.target.saturating_sub(header);
        let has_table = toasting.relation.is_some();
        while self.data_size() > target {
            let Some(value) = self.longest(Round { to_compress: true, of_main: false }) else {
                break;
            };
            if value.column.storage == Storage::Extended {
                value.compress(default);
            } else {
                value.state = State::NotCompressible;
            }
            if has_table && value.form.size() > target {
                value.state = State::Out;
            }
        }
        while has_table && self.data_size() > target {
            let round = Round { to_compress: false, of_main: false };
            let Some(value) = self.longest(round) else { break };
            value.state = State::Out;
        }
        while self.data_size() > target {
            let Some(value) = self.longest(Round { to_compress: true, of_main: true }) else {
                break;
            };
            value.compress(default);
        }
        while has_table && self.data_size() > MAIN_TARGET - header {
            let round = Round { to_compress: false, of_main: true };
            let Some(value) = self.longest(round) else { break };
            value.state = State::Out;
        }
    }

    /// Bytes of the values in the row.
    fn data_size(&self) -> usize {
        self.values.iter().flatten().fold(0, |offset, value| value.end(offset))
    }

    /// The longest value for a round; of several the first.
    fn longest(&mut self, round: Round) -> Option<&mut Value<'a>> {
        let mut longest: Option<(usize, &mut Value<'a>)> = None;
        for value in self.values.iter_mut().flatten() {
            let fits = match value.state {
                State::Settled | State::Out => false,
                State::NotCompressible => !round.to_compress,
                State::Open => !round.to_compress || matches!(value.form.view(), Varlena::Plain(_)),
            };
            let is_main = value.column.storage == Storage::Main;
            let size = value.form.size();
            let least = longest.as_ref().map_or(SHORTEST, |(size, _)| *size);
            if fits && is_main == round.of_main && size > least {
                longest = Some((size, value));
            }
        }
        longest.map(|(_, value)| value)
    }

    /// Whether values are to be stored in the TOAST table.
    pub fn stores(&self) -> bool {
        self.values.iter().flatten().any(|value| value.state == State::Out)
    }

    /// Appends the row as planned to `out`. `store` stores the value of a column, from 0, in the
    /// TOAST table, and returns where it is. After an error `out` is as it was.
    pub fn form<E: From<TupleError>>(
        &self,
        mut store: impl FnMut(usize, Varlena<'_>) -> Result<ToastPointer, E>,
        out: &mut Vec<u8>,
    ) -> Result<(), E> {
        let start = out.len();
        let formed = self.append_to(&mut store, out);
        if formed.is_err() {
            out.truncate(start);
        }
        formed
    }

    fn append_to<E: From<TupleError>>(
        &self,
        store: &mut impl FnMut(usize, Varlena<'_>) -> Result<ToastPointer, E>,
        out: &mut Vec<u8>,
    ) -> Result<(), E> {
        let mut tuple = TupleBuilder::new(self.values.len(), self.has_null, out)?;
        for (column, value) in self.values.iter().enumerate() {
            let Some(value) = value else {
                tuple.null();
                continue;
            };
            let form = match value.state {
                State::Out => Varlena::External(store(column, value.form.view())?),
                _ => value.form.view(),
            };
            tuple.varlena(value.layout, form)?;
        }
        tuple.finish()?;
        Ok(())
    }
}

/// Whether a formed row may have to be stored in another way.
pub fn is_wide(tuple: &[u8]) -> bool {
    tuple.len() > THRESHOLD || has_pointers(tuple)
}

/// Whether a formed row has pointers into a TOAST table.
pub fn has_pointers(tuple: &[u8]) -> bool {
    HeapTuple::new(tuple).is_ok_and(|tuple| tuple.infomask() & HEAP_HASEXTERNAL != 0)
}

/// The pointers into a TOAST table that a row has, with their columns by number from 0.
pub fn pointers(
    tuple: HeapTuple<'_>,
    layouts: &[AttrLayout],
) -> Result<Vec<(usize, ToastPointer)>, TupleError> {
    let mut found = Vec::new();
    if tuple.infomask() & HEAP_HASEXTERNAL == 0 {
        return Ok(found);
    }
    let mut walk = Deform::new(tuple)?;
    for (column, layout) in layouts.iter().enumerate() {
        if let Some(Varlena::External(pointer)) = walk.next(*layout)? {
            found.push((column, pointer));
        }
    }
    Ok(found)
}
