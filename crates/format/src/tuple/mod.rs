//! Heap tuples: the header, and values into bytes and back.
//!
//! ```text
//!   0      4      8      12           18          20         22     23         hoff
//!   +------+------+------+------------+-----------+----------+------+----------+-----------+
//!   | xmin | xmax | cid  | ctid       | infomask2 | infomask | hoff | null     | values    |
//!   |      |      |      | block, off |           |          |      | bitmap   |           |
//!   +------+------+------+------------+-----------+----------+------+----------+-----------+
//! ```
//!
//! - xmin, xmax: the transactions that inserted, and that deleted or locked it
//! - cid: number of the command that inserted or deleted it, for that transaction
//! - ctid: its own position, or that of its newer version
//! - infomask2: number of values in the low 11 bits, flags above; infomask: flags
//! - hoff: offset of the values, a multiple of 8
//! - null bitmap, if a value is NULL: one bit a value, set if it is not NULL
//! - values: each aligned to its type; NULLs take no bytes
//!
//! Modules: `header` reads and changes the header, `locks` says what it means for lockers and newer
//! versions, `values` forms and deforms tuples.

mod header;
mod locks;
mod values;

pub use header::*;
pub use locks::*;
pub(crate) use values::HeaderShape;
pub use values::{Align, AttrLayout, Deform, TupleBuilder, deform, form_tuple, form_tuple_into};
