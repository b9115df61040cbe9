//! The parameters of the hash, which all variants share.

use crate::ids::{BLOCK_SIZE, BlockNumber};

pub(super) const LANES: usize = 32;
pub(super) const PRIME: u32 = 16_777_619;
pub(super) const ROW_BYTES: usize = LANES * 4;
pub(super) const ROWS: usize = BLOCK_SIZE / ROW_BYTES;
/// The word that holds the checksum (its low half) and the flags (its high half).
pub(super) const CHECKSUM_WORD: usize = 2;

const _: () = assert!(ROWS == 64 && CHECKSUM_WORD * 4 == 8);

/// Start values of the columns.
pub(super) const START: [u32; LANES] = [
    0x5b1f_36e9,
    0xb852_5960,
    0x02ab_50aa,
    0x1de6_6d2a,
    0x79ff_467a,
    0x9bb9_f8a3,
    0x217e_7cd2,
    0x83e1_3d2c,
    0xf8d4_474f,
    0xe39e_b970,
    0x42c6_ae16,
    0x9932_16fa,
    0x7b09_3b5d,
    0x98da_ff3c,
    0xf718_902a,
    0x0b1c_9cdb,
    0xe58f_764b,
    0x1876_36bc,
    0x5d7b_3bb1,
    0xe73d_e7de,
    0x92be_c979,
    0xcca6_c0b2,
    0x304a_0979,
    0x85aa_43d4,
    0x7831_25bb,
    0x6ca8_eaa2,
    0xe407_eac6,
    0x4b5c_fc3e,
    0x9fbf_8c76,
    0x15ca_20be,
    0xf2ca_9fd3,
    0x959b_d756,
];

/// The checksum of a page at `block` whose columns have this sum: 1 to 65535.
pub(super) fn folded(sum: u32, block: BlockNumber) -> u16 {
    ((sum ^ block) % 65_535 + 1) as u16
}
