//! Each policy on short sequences whose outcome is known, and all of them against the optimum.

use forebay_storage::AccessKind;

use super::{POLICIES, Reference, Setup};
use crate::measure::Noise;

fn plain(pages: &[u32]) -> Vec<Reference> {
    pages.iter().copied().map(Reference::plain).collect()
}

/// The hits of a policy, one by one: `-` for a miss, `+` for a hit.
fn hits(policy: &str, buffers: usize, trace: &[Reference]) -> String {
    let pages = trace.iter().map(|r| r.page as usize + 1).max().unwrap_or(0);
    let (_, make) = POLICIES.iter().find(|(name, _)| *name == policy).expect(policy);
    let mut made = make(&Setup { buffers, pages, trace });
    trace.iter().map(|&r| if made.refer(r) { '+' } else { '-' }).collect()
}

fn rate(hits: &str) -> f64 {
    hits.matches('+').count() as f64 / hits.len() as f64
}

/// The hit rate of the last of several rounds over `pages` pages.
fn last_round(policy: &str, buffers: usize, pages: u32) -> f64 {
    let rounds: Vec<u32> = (0..6).flat_map(|_| 0..pages).collect();
    let hits = hits(policy, buffers, &plain(&rounds));
    rate(&hits[hits.len() - pages as usize..])
}

#[test]
fn lru_evicts_what_was_used_longest_ago() {
    assert_eq!(hits("LRU", 3, &plain(&[1, 2, 3, 1, 4, 1, 2, 3, 4])), "---+-+---");
}

#[test]
fn the_clock_spares_what_was_used_more_often() {
    // 1 has count 3, so it survives three more rounds of the hand than 2.
    assert_eq!(hits("clock", 2, &plain(&[1, 1, 1, 2, 3, 1, 2, 1])), "-++--+-+");
}

#[test]
fn a_ring_leaves_the_other_buffers_alone() {
    let bulk = |page| Reference { page, backend: 1, access: AccessKind::BulkRead };
    let mut trace = plain(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    trace.extend((16..80).map(bulk));
    trace.extend(plain(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]));
    let kept = |policy| rate(&hits(policy, 16, &trace)[74..]);
    assert_eq!((kept("clock, rings"), kept("clock")), (1.0, 0.0));
}

#[test]
fn sieve_keeps_pages_in_their_places() {
    // 1 is spared where it is. The hand goes on to 2; then to 3, and not back to 1.
    assert_eq!(hits("SIEVE", 3, &plain(&[1, 2, 3, 1, 4, 5, 1, 4, 2])), "---+--++-");
}

#[test]
fn s3_fifo_keeps_used_pages_from_a_scan() {
    let mut pages = vec![1, 1, 1, 2, 2, 2];
    pages.extend(10..40);
    pages.extend([1, 2, 39, 10]);
    let kept = hits("S3-FIFO", 10, &plain(&pages));
    assert_eq!(&kept[36..], "+++-");
}

#[test]
fn s3_fifo_takes_a_ghost_into_the_main_queue() {
    // 1 leaves the small queue of one page, comes back as a ghost, and survives the scan.
    let mut pages: Vec<u32> = (0..11).collect();
    pages.extend([0, 20, 21, 22, 0]);
    assert_eq!(&hits("S3-FIFO", 10, &plain(&pages))[11..], "----+");
}

#[test]
fn two_queue_ignores_hits_of_new_pages() {
    // 0 is used often while it is new, and leaves all the same. It comes back into the main list.
    let mut pages = vec![0, 0, 0];
    pages.extend(1..9);
    pages.push(0);
    pages.extend(20..28);
    pages.push(0);
    let seen = hits("2Q", 8, &plain(&pages));
    assert_eq!((&seen[..3], &seen[11..12], &seen[20..]), ("-++", "-", "+"));
}

#[test]
fn the_kernel_keeps_active_pages_from_a_scan() {
    let mut pages = vec![1, 2, 3, 1, 2, 3];
    pages.extend(10..50);
    pages.extend([1, 2, 3]);
    assert_eq!(&hits("kernel", 8, &plain(&pages))[46..], "+++");
    assert_eq!(&hits("LRU", 8, &plain(&pages))[46..], "---");
}

#[test]
fn a_loop_larger_than_the_pool_needs_a_policy_for_it() {
    for policy in ["LRU", "clock", "SIEVE", "2Q", "kernel", "S3-FIFO"] {
        assert!(last_round(policy, 256, 512) < 0.05, "{policy}");
    }
    for policy in ["LIRS", "reuse", "optimum"] {
        let rate = last_round(policy, 256, 512);
        assert!((0.44..=0.51).contains(&rate), "{policy}: {rate}");
    }
}

#[test]
fn a_loop_that_fits_is_in_memory_after_one_round() {
    for (policy, _) in POLICIES.iter().filter(|(name, _)| *name != "clock, rings") {
        let rounds: Vec<u32> = (0..2).flat_map(|_| 0..192).collect();
        let seen = hits(policy, 256, &plain(&rounds));
        assert_eq!(rate(&seen[192..]), 1.0, "{policy}");
    }
}

#[test]
fn reuse_keeps_a_used_half_from_a_scan() {
    let mut noise = Noise::new(3);
    let mut trace: Vec<u32> = (0..4096).map(|_| (noise.next() % 128) as u32).collect();
    let begin = trace.len();
    for n in 0..2048 {
        trace.extend([(noise.next() % 128) as u32, 128 + n]);
    }
    let lost = |policy| {
        let seen = hits(policy, 256, &plain(&trace));
        seen[begin..].chars().step_by(2).filter(|&hit| hit == '-').count()
    };
    assert!(lost("reuse") < 10, "{}", lost("reuse"));
    assert!(lost("LRU") > 100, "{}", lost("LRU"));
}

/// The optimum of a published example, and of all policies none is better.
#[test]
fn the_optimum_evicts_what_is_needed_last() {
    let pages = [7, 0, 1, 2, 0, 3, 0, 4, 2, 3, 0, 3, 2, 1, 2, 0, 1, 7, 0, 1];
    let seen = hits("optimum", 3, &plain(&pages));
    assert_eq!(seen.matches('-').count(), 9);
}

#[test]
fn no_policy_beats_the_optimum_and_none_invents_hits() {
    for seed in 1..40_u64 {
        let mut noise = Noise::new(seed);
        let (pages, buffers) = (20 + seed * 5, 3 + seed as usize * 2);
        let mut trace = Vec::new();
        for n in 0..3000_u64 {
            let skewed = noise.next() % (1 + noise.next() % pages);
            let page = if noise.next().is_multiple_of(3) { n % pages } else { skewed };
            let access = match noise.next() % 4 {
                0 => AccessKind::BulkRead,
                1 => AccessKind::Vacuum,
                _ => AccessKind::Normal,
            };
            trace.push(Reference { page: page as u32, backend: (n % 2) as u16, access });
        }
        let optimum = rate(&hits("optimum", buffers, &trace));
        for (policy, _) in &POLICIES {
            let seen = hits(policy, buffers, &trace);
            assert!(rate(&seen) <= optimum, "{policy}, seed {seed}");
            let mut known = std::collections::HashSet::new();
            for (reference, hit) in trace.iter().zip(seen.chars()) {
                assert!(known.contains(&reference.page) || hit == '-', "{policy}: no page yet");
                known.insert(reference.page);
            }
        }
    }
}

/// Of pages that are all as likely, a policy hits the part that it has in memory.
#[test]
fn no_policy_has_more_pages_than_buffers() {
    let mut noise = Noise::new(5);
    let pages: Vec<u32> = (0..40_000).map(|_| (noise.next() % 100) as u32).collect();
    let trace = plain(&pages);
    for (policy, _) in POLICIES.iter().filter(|(name, _)| *name != "optimum") {
        let rate = rate(&hits(policy, 20, &trace));
        assert!((0.17..0.21).contains(&rate), "{policy}: {rate}");
    }
}

#[test]
fn steps_are_counted() {
    let rounds: Vec<u32> = (0..3).flat_map(|_| 0..64).collect();
    for (policy, make) in POLICIES.iter().filter(|(name, _)| *name != "optimum") {
        let trace = plain(&rounds);
        let mut made = make(&Setup { buffers: 32, pages: 64, trace: &trace });
        let hits = trace.iter().filter(|&&reference| made.refer(reference)).count();
        assert!(hits < 128 && made.steps() > 0 && !made.hit_writes().is_empty(), "{policy}");
    }
}
