//! tmp
use forebay_format::{PageBytes, Xid};
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransactionStatus {
    InProgress,
    Committed,
    Aborted,
    SubCommitted,
}
pub const PER_PAGE: u32 = 32768;
pub fn page_of(xid: Xid) -> u32 {
    xid / PER_PAGE
}
pub fn index_of(xid: Xid) -> u32 {
    xid % PER_PAGE
}
pub fn is_first_on_page(xid: Xid) -> bool {
    xid % PER_PAGE == 0 || xid == 3
}
pub fn segment_of(page: u32) -> u32 {
    page / 32
}
pub fn offset_of(page: u32) -> u64 {
    u64::from(page % 32) * 8192
}
pub fn file_name(segment: u32) -> String {
    format!("{segment:04X}")
}
pub fn get_status(p: &PageBytes, xid: Xid) -> TransactionStatus {
    let i = index_of(xid);
    match (p[(i / 4) as usize] >> (i % 4 * 2)) & 3 {
        0 => TransactionStatus::InProgress,
        1 => TransactionStatus::Committed,
        2 => TransactionStatus::Aborted,
        _ => TransactionStatus::SubCommitted,
    }
}
pub fn set_status(p: &mut PageBytes, xid: Xid, s: TransactionStatus) {
    let i = index_of(xid);
    let sh = i % 4 * 2;
    let b = &mut p[(i / 4) as usize];
    *b = *b & !(3 << sh) | (s as u8) << sh;
}
