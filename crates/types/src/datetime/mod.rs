//! Dates, times and intervals.
//!
//! - [`calendar`]: days and their fields, the limits of the types
//! - [`zone`]:     time zones and their abbreviations
//! - [`words`]:    the words that dates and intervals may have
//! - [`fields`]:   a text cut into fields
//! - [`decode`]:   fields to a date and a time
//! - [`numbers`]:  the numbers of dates, times and zones
//! - [`interval`]: intervals in text
//! - [`show`]:     values to text
//! - [`input`]:    the input functions
//! - [`ops`]:      arithmetic, casts, `make_` functions, AT TIME ZONE
//! - [`extract`]:  `extract` and `date_trunc`
//! - [`typmod`]:   precisions and fields of intervals

pub(crate) mod calendar;
pub(crate) mod decode;
pub mod extract;
pub(crate) mod fields;
pub(crate) mod input;
pub(crate) mod interval;
pub(crate) mod numbers;
pub mod ops;
pub(crate) mod show;
pub mod typmod;
pub(crate) mod words;
pub mod zone;
