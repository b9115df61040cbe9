//! The attributes of a tuple: where each begins and ends, and the headers of those with variable
//! length.

use forebay_format::tuple::{HEADER_SIZE, HEAP_HASEXTERNAL, HEAP_HASVARWIDTH};
use forebay_format::varlena::{self, ToastPointer, Varlena};
use forebay_format::{AttrLayout, HeapTuple, Oid};

use super::finding::Report;

/// Largest size of a value, with its header.
const LARGEST_VALUE: u32 = 0x3fff_ffff;
/// First byte of an external value; its tag follows.
const EXTERNAL: u8 = 1;
const TAG_ON_DISK: u8 = 18;
/// Number of the compression methods: pglz, LZ4.
const METHODS: u8 = 2;

/// Checks all attributes of a tuple whose header is sound.
pub(super) fn check_values(
    tuple: HeapTuple<'_>,
    columns: &[AttrLayout],
    toast: Option<Oid>,
    report: &mut Report<'_>,
) {
    let count = tuple.attribute_count();
    if count > columns.len() {
        report.say(format!(
            "number of attributes {count} exceeds maximum expected for table {}",
            columns.len()
        ));
        return;
    }
    let mut walk = Walk { tuple, toast, end: tuple.hoff(), has_width: false };
    for (attribute, column) in (0..count as u16).zip(columns) {
        // Set before a value is complained about: formatting needs it, the common case does not.
        report.at_attribute(Some(attribute));
        if walk.step(usize::from(attribute), *column, report).is_none() {
            report.at_attribute(None);
            return;
        }
    }
    report.at_attribute(None);
    let len = tuple.bytes().len();
    if walk.end != len {
        report.say(format!("attributes end at offset {} of total tuple length {len}", walk.end));
    }
    if walk.has_width && tuple.infomask() & HEAP_HASVARWIDTH == 0 {
        report.say("tuple has an attribute of variable length but HEAP_HASVARWIDTH not set");
    }
}

struct Walk<'a> {
    tuple: HeapTuple<'a>,
    toast: Option<Oid>,
    /// Where the next attribute begins, before alignment.
    end: usize,
    has_width: bool,
}

impl<'a> Walk<'a> {
    /// Goes behind an attribute; `None` if it can't be known where the next one begins.
    #[inline]
    fn step(&mut self, n: usize, column: AttrLayout, report: &mut Report<'_>) -> Option<()> {
        let bytes = self.tuple.bytes();
        if self.end > bytes.len() {
            self.beyond("starts", column, self.end, report);
            return None;
        }
        if self.is_null(n) {
            return Some(());
        }
        if let Ok(len) = usize::try_from(column.len) {
            return self.go(column, column.align.up(self.end) + len, report);
        }
        self.has_width = true;
        if column.len == -1 { self.varlena(column, report) } else { self.cstring(column, report) }
    }

    fn cstring(&mut self, column: AttrLayout, report: &mut Report<'_>) -> Option<()> {
        let start = column.align.up(self.end);
        let rest = self.tuple.bytes().get(start..).unwrap_or_default();
        let len = rest.iter().position(|&byte| byte == 0).unwrap_or(rest.len());
        self.go(column, start + len + 1, report)
    }

    fn varlena(&mut self, column: AttrLayout, report: &mut Report<'_>) -> Option<()> {
        let bytes = self.tuple.bytes();
        let first = bytes.get(self.end).copied().unwrap_or(0);
        // Padding is zero, and so is no header.
        let start = if first != 0 { self.end } else { column.align.up(self.end) };
        let rest = bytes.get(start..).unwrap_or_default();
        if let [EXTERNAL, tag, ..] = *rest
            && tag != TAG_ON_DISK
        {
            report.say(format!("toasted attribute has unexpected TOAST tag {tag}"));
            return None;
        }
        let Some(len) = stored_len(rest) else {
            return self.go(column, bytes.len() + 1, report);
        };
        if len < varlena::HEADER_SIZE && rest.first().is_some_and(|first| first & 1 == 0) {
            report.say(format!("attribute has a varlena header with length {len}"));
            return None;
        }
        self.go(column, start + len, report)?;
        match varlena::decode(rest) {
            Some((Varlena::Plain(_), _)) => {}
            Some((Varlena::Compressed { raw_size, method, data }, _)) => {
                if method >= METHODS {
                    report.say(format!(
                        "compressed attribute has invalid compression method id {method}"
                    ));
                }
                // What compression does not make shorter is stored as it is.
                if data.len() >= raw_size as usize {
                    report.say(format!(
                        "compressed attribute has {} bytes, and stands for {raw_size}",
                        data.len()
                    ));
                }
            }
            Some((Varlena::External(pointer), _)) => self.external(pointer, report),
            None => report.say("compressed attribute is shorter than its header"),
        }
        Some(())
    }

    fn external(&self, pointer: ToastPointer, report: &mut Report<'_>) {
        let ToastPointer { raw_size, ext_info, value_id: value, toast_rel } = pointer;
        let (size, method) = (ext_info & LARGEST_VALUE, (ext_info >> 30) as u8);
        let data = raw_size.wrapping_sub(varlena::HEADER_SIZE as u32);
        if raw_size > LARGEST_VALUE {
            report.say(format!(
                "toast value {value} rawsize {} exceeds limit {LARGEST_VALUE}",
                raw_size as i32
            ));
        } else if size > data || raw_size < varlena::HEADER_SIZE as u32 {
            report
                .say(format!("toast value {value} stored size {size} exceeds rawsize {raw_size}"));
        } else if size < data && method >= METHODS {
            report.say(format!("toast value {value} has invalid compression method id {method}"));
        }
        if self.tuple.infomask() & HEAP_HASEXTERNAL == 0 {
            report.say(format!(
                "toast value {value} is external but tuple header flag HEAP_HASEXTERNAL not set"
            ));
            return;
        }
        match self.toast {
            None => report
                .say(format!("toast value {value} is external but relation has no toast relation")),
            Some(own) if own != toast_rel => report.say(format!(
                "toast value {value} is in toast relation {toast_rel} instead of {own}"
            )),
            Some(_) => {}
        }
    }

    /// The attribute ends at `end`.
    #[inline]
    fn go(&mut self, column: AttrLayout, end: usize, report: &mut Report<'_>) -> Option<()> {
        if end > self.tuple.bytes().len() {
            self.beyond("ends", column, end, report);
            return None;
        }
        self.end = end;
        Some(())
    }

    #[cold]
    fn beyond(&self, does: &str, column: AttrLayout, at: usize, report: &mut Report<'_>) {
        report.say(format!(
            "attribute with length {} {does} at offset {at} beyond total tuple length {}",
            i32::from(column.len) as u32,
            self.tuple.bytes().len()
        ));
    }

    fn is_null(&self, n: usize) -> bool {
        let byte = || self.tuple.bytes().get(HEADER_SIZE + n / 8).copied().unwrap_or(0);
        self.tuple.has_nulls() && byte() >> (n % 8) & 1 == 0
    }
}

/// The length that a value's header states, header included; `None` if the header is cut off.
fn stored_len(rest: &[u8]) -> Option<usize> {
    match *rest.first()? {
        EXTERNAL => Some(2 + 16),
        short if short & 1 == 1 => Some(usize::from(short >> 1)),
        _ => Some((u32::from_le_bytes(*rest.first_chunk()?) >> 2) as usize),
    }
}
