//! Records of indexes that only PostgreSQL writes, redone on pages that they may fit or not, whole
//! and damaged: nothing panics. What redo makes of good ones, the batteries compare with what
//! PostgreSQL makes.

use forebay_format::gist::{self, FOLLOW_RIGHT, LEAF, Opaque};
use forebay_format::wal::{Image, RecordBuilder, decode_record, gist as gist_records};
use forebay_format::{BLOCK_SIZE, brin, gin, hash, index_page, spgist};
use forebay_testkit::Dice;

use super::made::main_page;
use super::*;

const RECORDS: &[u8] = include_bytes!("../../../../format/tests/data/indexes.records");

fn records() -> Vec<Vec<u8>> {
    let (mut rest, mut found) = (RECORDS, Vec::new());
    while let Some(len) = rest.first_chunk::<4>() {
        let (record, behind) = rest.split_at(u32::from_le_bytes(*len) as usize);
        found.push(record.to_vec());
        rest = behind;
    }
    found
}

/// An index tuple that is an SP-GiST tuple, too.
fn tuple(fill: u8) -> Vec<u8> {
    let mut tuple = vec![fill; 24];
    tuple[..4].copy_from_slice(&((24_u32 << 2) | (u32::from(fill) % 4)).to_le_bytes());
    tuple[6..8].copy_from_slice(&24_u16.to_le_bytes());
    tuple
}

/// Good pages of a manager's indexes.
fn good_pages(rmgr: Rmgr) -> Vec<PageBytes> {
    let made = |make: &dyn Fn(&mut PageMut<'_>)| {
        let mut bytes = [0; BLOCK_SIZE];
        make(&mut PageMut(&mut bytes));
        bytes
    };
    let fill = |page: &mut PageMut<'_>| {
        (0..30).for_each(|n| index_page::push_item(page, &tuple(n)).unwrap());
    };
    let hash_page = |flags| {
        made(&|page| {
            hash::init_page(page, hash::Opaque::alone(flags));
            fill(page);
        })
    };
    let gin_page = |flags| {
        made(&|page| {
            gin::init_page(page, gin::Opaque::new(flags));
            fill(page);
        })
    };
    match rmgr {
        Rmgr::HASH => vec![
            made(&|page| hash::Meta::init(page, 9000.0, 400, 300).unwrap()),
            made(&|page| hash::init_bitmap(page, 4096).unwrap()),
            hash_page(hash::BUCKET_PAGE),
            hash_page(hash::OVERFLOW_PAGE),
        ],
        Rmgr::GIN => vec![
            made(&|page| gin::init_posting_tree(page, &[0, 0, 1, 0, 1, 0, 2, 0, 7, 9]).unwrap()),
            gin_page(gin::LEAF),
            gin_page(0),
            gin_page(gin::DATA),
            gin_page(gin::LIST),
        ],
        Rmgr::GIST => [LEAF, 0]
            .map(|flags| {
                made(&|page| {
                    gist::init_page(page, Opaque::new(flags));
                    fill(page);
                })
            })
            .to_vec(),
        Rmgr::SPGIST => [spgist::LEAF, 0]
            .map(|flags| {
                made(&|page| {
                    spgist::init_page(page, flags);
                    fill(page);
                    let opaque = spgist::Opaque { flags, redirects: 7, placeholders: 7 };
                    opaque.store(page);
                })
            })
            .to_vec(),
        _ => vec![
            made(&|page| brin::init_meta(page, 1, 1)),
            made(&|page| brin::init_page(page, brin::Kind::Map)),
            made(&|page| {
                brin::init_page(page, brin::Kind::Regular);
                fill(page);
            }),
        ],
    }
}

fn put_page(feeder: &mut Feeder, tag: PageTag, bytes: &PageBytes) {
    let Recovered { pool, backend, .. } = &mut feeder.recovered;
    pool.smgr().create(tag.rel, tag.fork, true).unwrap();
    let pin = pool.zero_page(backend, tag).unwrap();
    let mut guard = pin.lock_exclusive();
    guard.copy_from_slice(bytes);
    guard.mark_dirty();
}

/// Changes bytes of a record, mostly those behind its header.
fn damage(record: &mut [u8], dice: &mut Dice) {
    for _ in 0..=dice.index(3) {
        let at = 24 + dice.index(record.len() - 24);
        record[at] = dice.any() as u8;
    }
}

#[test]
fn records_that_do_not_fit_and_damaged_ones_do_not_panic() {
    let (mut dice, mut feeder) = (Dice::new(11), Feeder::new());
    let (mut errors, mut applied) = (0, 0);
    for whole in records() {
        for round in 0..24 {
            let mut bytes = whole.clone();
            if round >= 8 {
                damage(&mut bytes, &mut dice);
            }
            let Ok(mut decoded) = decode_record(&bytes) else { continue };
            let pages = good_pages(decoded.header.rmgr);
            for (block, number) in decoded.blocks.iter_mut().zip(0..) {
                // Else a file would get as long as the record says.
                let first = block.tag.block.min(1);
                block.tag = PageTag::new(TABLE, Fork::Main, first * (1 + number));
                put_page(&mut feeder, block.tag, &pages[dice.index(pages.len())]);
            }
            match feeder.redo(&[decoded]).0 {
                Ok(()) => applied += 1,
                Err(_) => errors += 1,
            }
        }
    }
    assert!(errors > 500 && applied > 300, "{errors} errors, {applied} applied");
}

/// The image of a child shows it before its split was complete.
#[test]
fn a_gist_child_is_changed_after_its_image_is_restored() {
    let mut child = [0; BLOCK_SIZE];
    let mut page = PageMut(&mut child);
    gist::init_page(&mut page, Opaque { flags: LEAF | FOLLOW_RIGHT, ..Opaque::new(0) });
    let mut parent = [0; BLOCK_SIZE];
    gist::init_page(&mut PageMut(&mut parent), Opaque::new(0));
    let mut feeder = Feeder::new();
    put_page(&mut feeder, main_page(0), &parent);
    let (main, tuples) = ([0, 0, 1, 0], tuple(1));
    let image = Image { page: &child, standard: true, apply: true };
    let record = RecordBuilder::new(Rmgr::GIST, gist_records::PAGE_UPDATE, 7)
        .main(&main)
        .block(0, main_page(0), false, None)
        .data(&tuples)
        .block(1, main_page(1), false, Some(image));
    let record = record.finish().unwrap().to_vec();
    feeder.redo(&[decode_record(&record).unwrap()]).0.unwrap();
    let pages = feeder.recovered.pages(TABLE);
    let child = Opaque::of(Page::new(&pages[1])).unwrap();
    let end = Lsn(0x200_0128);
    assert_eq!((child.flags, child.nsn, Page::new(&pages[1]).lsn()), (LEAF, end, end));
    assert_eq!(Page::new(&pages[0]).item(1), Some(&tuples[..]));
}
