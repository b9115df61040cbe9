//! Values with texts in them, in the encoding of a database: arrays and jsonb.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::borrow::Cow;

use crate::array::Array;
use crate::datum::Datum;
use crate::encoding::{Encoding, utf8};
use crate::error::Result;
use crate::facts::{Repr, type_info};
use crate::json::Json;
use crate::oid::oids;

impl Encoding {
    /// An array whose texts are stored bytes, with texts in memory. In SQL_ASCII one of names or
    /// jsonb beyond ASCII is only carried: a name has its place of 64 bytes in an array, and a
    /// jsonb its order of keys.
    pub(crate) fn decode_array(self, bytes: &[u8]) -> Result<Datum<'_>> {
        let array = Array::stored(bytes);
        if self == Encoding::Utf8 {
            return Ok(Datum::Array(array));
        }
        if beyond_ascii(&array)? {
            let ty = type_info(array.element()?).map_or(oids::ANYARRAY, |info| info.array);
            return Ok(Datum::Carried(ty, bytes.into()));
        }
        let decoded = recoded(&array, |bytes| match self.decode(bytes)? {
            Cow::Borrowed(text) => Ok(Cow::Borrowed(text.as_bytes())),
            Cow::Owned(text) => Ok(Cow::Owned(text.into_bytes())),
        })?;
        Ok(Datum::Array(decoded.unwrap_or(array)))
    }

    /// An array with texts in memory, as it is stored.
    ///
    /// # Errors
    /// If a text has a character that is none of the encoding's.
    pub fn encode_array<'a>(self, array: &'a Array<'_>) -> Result<Array<'a>> {
        if self == Encoding::Utf8 {
            return Ok(array.reborrow());
        }
        if beyond_ascii(array)? {
            return Err(self.beyond_ascii("an array of names or jsonb"));
        }
        let encoded = recoded(array, |bytes| self.encode(utf8(bytes)?))?;
        Ok(encoded.unwrap_or_else(|| array.reborrow()))
    }

    /// A stored jsonb. Its keys are ordered by their bytes, so that one with texts beyond ASCII is
    /// only carried in SQL_ASCII.
    pub(crate) fn decode_jsonb(self, bytes: &[u8]) -> Datum<'_> {
        match self == Encoding::Utf8 || Json::read_stored(bytes).is_ok_and(|json| json.is_ascii()) {
            true => Datum::Jsonb(bytes.into()),
            false => Datum::Carried(oids::JSONB, bytes.into()),
        }
    }

    /// Refuses (0A000) a jsonb that cannot be stored: see `decode_jsonb`.
    ///
    /// # Errors
    /// The refusal, or what is wrong with the bytes.
    pub fn check_jsonb(self, bytes: &[u8]) -> Result<()> {
        match self {
            Encoding::Utf8 => Ok(()),
            Encoding::SqlAscii => Json::read_stored(bytes)?.checked(self).map(drop),
        }
    }
}

/// An array with other bytes of its texts. None: they are the same.
fn recoded<'e>(
    array: &'e Array<'_>,
    recode: impl Fn(&'e [u8]) -> Result<Cow<'e, [u8]>>,
) -> Result<Option<Array<'static>>> {
    let shape = array.shape()?;
    if type_info(shape.element).is_none_or(|info| info.repr != Repr::Text) {
        return Ok(None);
    }
    let mut items = Vec::with_capacity(shape.count.min(1024));
    for bytes in shape.raw()? {
        items.push(bytes?.map(&recode).transpose()?);
    }
    if items.iter().flatten().all(|item| matches!(item, Cow::Borrowed(_))) {
        return Ok(None);
    }
    Array::build(shape.element, &shape.dims, items.into_iter()).map(Some)
}

/// Whether an array has names or jsonb with characters beyond ASCII.
fn beyond_ascii(array: &Array<'_>) -> Result<bool> {
    let shape = array.shape()?;
    let repr = type_info(shape.element).map(|info| info.repr);
    let is_ascii = |bytes: &[u8]| match repr {
        Some(Repr::Name) => bytes.is_ascii(),
        _ => Json::read_stored(bytes).is_ok_and(|json| json.is_ascii()),
    };
    if !matches!(repr, Some(Repr::Name | Repr::Jsonb)) {
        return Ok(false);
    }
    for bytes in shape.raw()? {
        if bytes?.is_some_and(|bytes| !is_ascii(bytes)) {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use Encoding::{SqlAscii, Utf8};

    #[test]
    fn arrays_are_stored_with_the_bytes_of_their_texts() {
        let items = [Datum::text("a"), Datum::Null, Datum::text("\u{e9}\u{ff}")];
        let array = Array::list(oids::TEXT, &items).unwrap();
        let stored = SqlAscii.encode_array(&array).unwrap();
        assert!(stored.bytes().ends_with(b"\xe9\xff\0\0"));
        let back = SqlAscii.decode_array(stored.bytes()).unwrap();
        let Datum::Array(back) = back else { panic!("{back:?} is no array") };
        assert_eq!(back.items().unwrap(), items);
        let numbers = Array::list(oids::INT4, &[Datum::Int4(-1)]).unwrap();
        assert_eq!(SqlAscii.encode_array(&numbers).unwrap(), numbers);
        let names = Array::list(oids::NAME, &[Datum::text("\u{e9}")]).unwrap();
        assert_eq!(SqlAscii.encode_array(&names).unwrap_err().sqlstate(), "0A000");
        let carried = SqlAscii.decode_array(names.bytes()).unwrap();
        assert!(matches!(carried, Datum::Carried(oids::NAME_ARRAY, _)));
        assert!(Repr::of(oids::NAME_ARRAY).accepts(&carried));
    }

    #[test]
    fn jsonb_beyond_ascii_is_only_carried() {
        let stored = |text| Json::parse(text, Utf8).unwrap().to_stored().unwrap();
        let plain = stored("{\"a\": [1, \"b\"]}");
        assert!(SqlAscii.check_jsonb(&plain).is_ok());
        let escaped = |code| Json::parse(code, SqlAscii).map_err(|error| error.sqlstate());
        assert_eq!(escaped(r#""\u00e9""#), Err("22P05"));
        assert_eq!(escaped(r#""\u0041""#), Ok(Json::String("A".to_owned())));
        assert!(matches!(SqlAscii.decode_jsonb(&plain), Datum::Jsonb(_)));
        for text in ["{\"é\": 1}", "[\"é\"]", "\"é\""] {
            let stored = stored(text);
            assert_eq!(SqlAscii.check_jsonb(&stored).unwrap_err().sqlstate(), "0A000");
            assert!(Json::parse(text, SqlAscii).is_err());
            assert!(matches!(SqlAscii.decode_jsonb(&stored), Datum::Carried(..)));
            assert!(matches!(Utf8.decode_jsonb(&stored), Datum::Jsonb(_)));
        }
    }
}
