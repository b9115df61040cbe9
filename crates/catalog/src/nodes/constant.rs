//! `Const`: a constant, with its value decoded.
//!
//! The text has the bytes of the value as PostgreSQL holds it in memory: eight for a value passed
//! by value, those with a length word for a value of variable length.
#![deny(clippy::unwrap_used, clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use std::borrow::Cow;

use forebay_access::form_row;
use forebay_format::tuple::{HeapTuple, deform};
use forebay_format::{Align, AttrLayout};
use forebay_types::{Datum, Encoding, Oid, Repr, TypeInfo, ValueError, type_info};

use super::error::Result;
use super::field::{Field, Node};
use super::tokens::Tokens;
use super::value::Location;

/// Bytes that stand for a value passed by value, whatever its length.
const BY_VALUE: usize = 8;

/// Bytes of the length word before a value of variable length.
const LENGTH_WORD: usize = 4;

/// A constant. Its value is decoded if `types` knows the type, and [`Datum::Carried`] else.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the names are PostgreSQL's")]
pub struct Const {
    pub consttype: Oid,
    pub consttypmod: i32,
    pub constcollid: Oid,
    /// typlen
    pub constlen: i16,
    /// typbyval
    pub constbyval: bool,
    /// [`Datum::Null`] is `constisnull`.
    pub constvalue: Datum<'static>,
    pub location: Location,
}

impl Const {
    /// A constant of a type of this length, without a modifier. NULL is [`Datum::Null`].
    pub fn new(ty: Oid, collation: Oid, (len, by_val): (i16, bool), value: Datum<'_>) -> Const {
        Const {
            consttype: ty,
            consttypmod: -1,
            constcollid: collation,
            constlen: len,
            constbyval: by_val,
            constvalue: value.into_owned(),
            location: Location::UNKNOWN,
        }
    }

    /// Makes texts the bytes that are stored of them.
    pub(super) fn encode(&mut self, encoding: Encoding) -> Result<(), ValueError> {
        if matches!(self.constvalue, Datum::Text(_) | Datum::Array(_) | Datum::Jsonb(_)) {
            let bytes = self.constvalue.to_stored(self.constlen, encoding)?;
            self.constvalue = Datum::Bytes(Cow::Owned(bytes.into_owned()));
        }
        Ok(())
    }

    /// The bytes that a row has of the value: without length word, without a terminating zero.
    ///
    /// # Panics
    /// If the value is none of its type.
    fn stored(&self) -> Vec<u8> {
        let (len, by_val) = (self.constlen, self.constbyval);
        let layouts = [AttrLayout { len, align: Align::Char, by_val, plain: true }];
        let mut tuple = Vec::new();
        let mut bytes = [None];
        let value = std::slice::from_ref(&self.constvalue);
        let formed = form_row(&layouts, value, Encoding::Utf8, &mut tuple);
        let formed = formed.and_then(|_| deform(HeapTuple::new(&tuple)?, &layouts, &mut bytes));
        formed.expect("a constant is a value of its type");
        let [bytes] = bytes;
        bytes.unwrap_or_default().to_vec()
    }

    /// The bytes that the text has of the value, and the length before them.
    fn written(&self) -> (usize, Vec<u8>) {
        let mut bytes = self.stored();
        let len = bytes.len();
        match self.constlen {
            _ if self.constbyval => {
                let unsigned = matches!(self.constvalue, Datum::Oid(_) | Datum::Xid(_));
                let negative = bytes.last().is_some_and(|last| *last >= 0x80);
                bytes.resize(BY_VALUE, if negative && !unsigned { 0xff } else { 0 });
                return (len, bytes);
            }
            -1 => {
                let total = u32::try_from(len.saturating_add(LENGTH_WORD)).unwrap_or(u32::MAX);
                bytes.splice(..0, total.wrapping_shl(2).to_le_bytes());
            }
            -2 => bytes.push(0),
            _ => {}
        }
        (bytes.len(), bytes)
    }
}

/// The stored bytes among those of the text. None if they are no value of this length.
fn stored_part(bytes: &[u8], written: usize, len: i16, by_val: bool) -> Option<&[u8]> {
    if by_val {
        let len = usize::try_from(len).ok()?;
        let (value, filled) = bytes.split_at_checked(len)?;
        let plain = |fill: u8| filled.iter().all(|byte| *byte == fill);
        let whole = bytes.len() == BY_VALUE && written == len;
        return (whole && (plain(0) || plain(0xff))).then_some(value);
    }
    if bytes.len() != written {
        return None;
    }
    match len {
        -1 => {
            let (word, value) = bytes.split_first_chunk::<LENGTH_WORD>()?;
            let word = u32::from_le_bytes(*word);
            let inline = word & 3 == 0 && usize::try_from(word >> 2) == Ok(bytes.len());
            inline.then_some(value)
        }
        -2 => bytes.strip_suffix(&[0]),
        _ => (usize::try_from(len) == Ok(bytes.len())).then_some(bytes),
    }
}

/// The bytes of a value: their number and, in square brackets, each as a signed number.
fn read_bytes(tokens: &mut Tokens<'_>) -> Result<(usize, Vec<u8>)> {
    let written = tokens.number()?;
    tokens.expect("[")?;
    let mut bytes = Vec::new();
    while !tokens.skip("]") {
        let no_byte = tokens.damaged("a byte");
        let [byte, above] = tokens.number::<i16>()?.to_le_bytes();
        // PostgreSQL prints bytes above 127 as negative numbers where char is signed.
        bytes.push(if matches!(above, 0 | 0xff) { byte } else { return Err(no_byte) });
    }
    Ok((written, bytes))
}

/// A field by its name.
fn field<F: Field>(tokens: &mut Tokens<'_>, name: &str) -> Result<F> {
    tokens.field_name::<Const>(name)?;
    F::read(tokens)
}

impl Node for Const {
    const LABEL: &'static str = "CONST";

    fn read_fields(tokens: &mut Tokens<'_>) -> Result<Const> {
        let consttype = field(tokens, "consttype")?;
        let consttypmod = field(tokens, "consttypmod")?;
        let constcollid = field(tokens, "constcollid")?;
        let constlen = field::<i32>(tokens, "constlen")?;
        let constlen = i16::try_from(constlen).map_err(|_| tokens.damaged("a type's length"))?;
        let constbyval = field(tokens, "constbyval")?;
        let agrees = |info: &TypeInfo| (info.len, info.by_val) == (constlen, constbyval);
        if !type_info(consttype).is_none_or(agrees) || constlen == 0 {
            return Err(tokens.damaged("a constant as long as its type says"));
        }
        let null = field(tokens, "constisnull")?;
        let location = field(tokens, "location")?;
        tokens.field_name::<Const>("constvalue")?;
        let constvalue = if null {
            tokens.expect("<>")?;
            Datum::Null
        } else {
            let no_value = tokens.damaged("the bytes of a value");
            let (written, bytes) = read_bytes(tokens)?;
            let stored = stored_part(&bytes, written, constlen, constbyval).ok_or(no_value)?;
            // A C string is a text, as literals of type unknown are.
            let repr = if constlen == -2 { Repr::Text } else { Repr::of(consttype) };
            repr.decode(stored, tokens.encoding)?.into_owned()
        };
        Ok(Const {
            consttype,
            consttypmod,
            constcollid,
            constlen,
            constbyval,
            constvalue,
            location,
        })
    }

    fn write_fields(&self, out: &mut String) {
        let null = self.constvalue.is_null();
        out.push_str(" :consttype ");
        self.consttype.write(out);
        out.push_str(" :consttypmod ");
        self.consttypmod.write(out);
        out.push_str(" :constcollid ");
        self.constcollid.write(out);
        out.push_str(" :constlen ");
        i32::from(self.constlen).write(out);
        out.push_str(" :constbyval ");
        self.constbyval.write(out);
        out.push_str(" :constisnull ");
        null.write(out);
        out.push_str(" :location ");
        self.location.write(out);
        out.push_str(" :constvalue ");
        if null {
            out.push_str("<>");
            return;
        }
        let (len, bytes) = self.written();
        out.push_str(&format!("{len} [ "));
        for byte in bytes {
            out.push_str(&format!("{} ", byte.cast_signed()));
        }
        out.push(']');
    }

    fn same_fields(&self, other: &Const) -> bool {
        (self.consttype, self.consttypmod, self.constcollid, self.constlen, self.constbyval)
            == (
                other.consttype,
                other.consttypmod,
                other.constcollid,
                other.constlen,
                other.constbyval,
            )
            && match (self.constvalue.is_null(), other.constvalue.is_null()) {
                (false, false) => self.stored() == other.stored(),
                (a, b) => a == b,
            }
    }
}
