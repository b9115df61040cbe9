//! What the values of a column in a sample say of the whole table, by PostgreSQL's rules: the same
//! sample gives the same statistics.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::collections::HashSet;

use forebay_catalog::ColumnStatistics;

use super::values::ColumnValues;

/// Different values that are more than this part of the rows grow with the table.
const GROWING: f64 = 0.1;

/// The statistics of a column of a table with so many rows. At most `target` common values and
/// parts of the histogram are kept. None without a row in the sample.
pub(super) fn statistics(
    values: &ColumnValues,
    target: usize,
    total: f64,
) -> Option<ColumnStatistics> {
    if values.rows == 0 {
        return None;
    }
    let null_fraction = (values.nulls as f64 / values.rows as f64) as f32;
    let mut found =
        ColumnStatistics { null_fraction, width: values.width, ..ColumnStatistics::default() };
    let Some(sorted) = &values.sorted else { return Some(found) };
    if sorted.is_empty() {
        // Values that are too wide are taken to be all different.
        found.distinct =
            if values.wide > 0 { (f64::from(null_fraction) - 1.0) as f32 } else { 0.0 };
        return Some(found);
    }
    found.distinct = distinct(values, null_fraction, total);
    let common = common_groups(values, &found, target, total);
    let value_at = |at: usize| sorted.get(at).map(|(_, value)| value.clone());
    let frequency = |count: usize| (count as f64 / values.rows as f64) as f32;
    found.common = common
        .iter()
        .filter_map(|(first, count)| Some((value_at(*first)?, frequency(*count))))
        .collect();
    found.histogram = bounds(values, &common, target).into_iter().filter_map(value_at).collect();
    if sorted.len() > 1 {
        found.correlation = Some(correlation(sorted.iter().map(|(number, _)| *number)));
    }
    Some(found)
}

/// The number of different values in the table (below 0: their part of its rows), estimated from
/// how many there are in the sample once only: Haas and Stokes, IBM Research Report RJ 10025.
fn distinct(values: &ColumnValues, null_fraction: f32, total: f64) -> f32 {
    let present = 1.0 - f64::from(null_fraction);
    let different = values.groups.len();
    let multiple = values.groups.iter().filter(|(_, count)| *count > 1).count();
    if multiple == 0 {
        // It may be a key.
        return -present as f32;
    }
    let estimate = if values.wide == 0 && multiple == different {
        // All values were there several times, so there are no others.
        different as f64
    } else {
        let once = (different - multiple + values.wide) as f64;
        let seen = once + multiple as f64;
        let sampled = (values.rows - values.nulls) as f64;
        let rows = total * present;
        let estimate = match rows > 0.0 {
            true => sampled * seen / (sampled - once + once * sampled / rows),
            false => 0.0,
        };
        let estimate = estimate.max(seen);
        (if estimate > rows { rows } else { estimate } + 0.5).floor()
    };
    let estimate = f64::from(estimate as f32);
    if estimate > GROWING * total { -(estimate / total) as f32 } else { estimate as f32 }
}

/// The groups of equal values that are worth keeping, the most frequent first.
fn common_groups(
    values: &ColumnValues,
    found: &ColumnStatistics,
    target: usize,
    total: f64,
) -> Vec<(usize, usize)> {
    let mut groups: Vec<_> =
        values.groups.iter().copied().filter(|(_, count)| *count > 1).collect();
    groups.sort_by(|(_, a), (_, b)| b.cmp(a));
    groups.truncate(target);
    let all = groups.len() == values.groups.len() && values.wide == 0 && found.distinct > 0.0;
    if !all {
        let kept = kept_groups(&groups, values.rows as f64, found, total);
        groups.truncate(kept);
    }
    groups
}

/// How many of the most frequent groups are surely more frequent than the values beyond them: the
/// last one must be so by two standard deviations of its count, which is distributed
/// hypergeometrically.
fn kept_groups(
    groups: &[(usize, usize)],
    sampled: f64,
    found: &ColumnStatistics,
    total: f64,
) -> usize {
    if sampled == total || total <= 1.0 {
        return groups.len();
    }
    let distinct = f64::from(found.distinct);
    let distinct = if distinct < 0.0 { -distinct * total } else { distinct };
    let counts = groups.iter().map(|(_, count)| *count as f64);
    let mut before: f64 = counts.clone().sum();
    for (index, count) in counts.enumerate().collect::<Vec<_>>().into_iter().rev() {
        before -= count;
        let left = 1.0 - before / sampled - f64::from(found.null_fraction);
        let left = left.clamp(0.0, 1.0);
        let others = distinct - index as f64;
        let part = if others > 1.0 { left / others } else { left };
        let in_table = total * count / sampled;
        let variance = sampled * in_table * (total - in_table) * (total - sampled)
            / (total * total * (total - 1.0));
        if count > part * sampled + 2.0 * variance.sqrt() + 0.5 {
            return index + 1;
        }
    }
    0
}

/// The bounds of a histogram of the values that are not among the common ones, by their places.
fn bounds(values: &ColumnValues, common: &[(usize, usize)], target: usize) -> Vec<usize> {
    let count = (values.groups.len() - common.len()).min(target + 1);
    if count < 2 {
        return Vec::new();
    }
    let common: HashSet<usize> = common.iter().map(|(first, _)| *first).collect();
    let rest = values.groups.iter().filter(|(first, _)| !common.contains(first));
    let rest: Vec<usize> = rest.flat_map(|(first, count)| *first..first + count).collect();
    let at = |n: usize| rest.get(n * (rest.len() - 1) / (count - 1)).copied();
    (0..count).filter_map(at).collect()
}

/// The correlation between the places of values in their order and in that of their rows.
fn correlation(rows: impl ExactSizeIterator<Item = usize>) -> f32 {
    let n = rows.len() as f64;
    let products: f64 = rows.enumerate().map(|(place, row)| place as f64 * row as f64).sum();
    let sum = (n - 1.0) * n / 2.0;
    let squares = (n - 1.0) * n * (2.0 * n - 1.0) / 6.0;
    ((n * products - sum * sum) / (n * squares - sum * sum)) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The statistics of numbers in a sample of so many rows; those that are missing are NULL.
    fn of(numbers: &[u8], rows: usize, target: usize, total: f64) -> ColumnStatistics {
        let mut sorted: Vec<_> = numbers.iter().map(|n| vec![*n]).enumerate().collect();
        sorted.sort_by(|(m, a), (n, b)| (a, m).cmp(&(b, n)));
        let mut groups: Vec<(usize, usize)> = Vec::new();
        for (at, chunk) in sorted.chunk_by(|(_, a), (_, b)| a == b).map(<[_]>::len).enumerate() {
            let first = groups.iter().take(at).map(|(_, count)| count).sum();
            groups.push((first, chunk));
        }
        let nulls = rows - numbers.len();
        let values = ColumnValues { rows, nulls, wide: 0, width: 1, sorted: Some(sorted), groups };
        statistics(&values, target, total).expect("there are rows")
    }

    #[test]
    fn a_key_is_told_by_its_values_being_different() {
        let numbers: Vec<u8> = (0..100).collect();
        let key = of(&numbers, 100, 10, 5_000.0);
        assert_eq!((key.distinct, key.correlation, key.common.len()), (-1.0, Some(1.0), 0));
        let bounds: Vec<u8> = key.histogram.iter().flatten().copied().collect();
        assert_eq!(bounds, [0, 9, 19, 29, 39, 49, 59, 69, 79, 89, 99]);
        let half = of(&numbers, 200, 10, 5_000.0);
        assert_eq!((half.null_fraction, half.distinct), (0.5, -0.5));
        let numbers: Vec<u8> = (0..100).rev().collect();
        assert_eq!(of(&numbers, 100, 10, 100.0).correlation, Some(-1.0));
    }

    #[test]
    fn few_values_are_all_kept() {
        let numbers: Vec<u8> = (0..90).map(|n| if n % 3 == 0 { 7 } else { n % 3 }).collect();
        let few = of(&numbers, 100, 10, 100_000.0);
        assert_eq!((few.null_fraction, few.distinct), (0.1, 3.0));
        assert_eq!(few.common, [(vec![1], 0.3), (vec![2], 0.3), (vec![7], 0.3)]);
        assert!(few.histogram.is_empty());
    }

    #[test]
    fn values_that_are_hardly_more_common_are_not_kept() {
        // 0 is there 50 times, 20 values twice: they may be as frequent as the ten others.
        let numbers = (0..100).map(|n| match n {
            0..50 => 0,
            50..90 => (n - 50) / 2 + 1,
            _ => n,
        });
        let numbers: Vec<u8> = numbers.collect();
        let part = of(&numbers, 100, 100, 1_000_000.0);
        assert_eq!(part.common, [(vec![0], 0.5)]);
        assert_eq!((part.distinct, part.histogram.len()), (34.0, 30));
        // In a table that was read whole they are known.
        assert_eq!(of(&numbers, 100, 100, 100.0).common.len(), 21);
    }

    #[test]
    fn values_that_were_not_seen_are_estimated() {
        let numbers: Vec<u8> = (0..100).map(|n| if n < 20 { n / 2 } else { n }).collect();
        // 80 once, 10 twice: n·d / (n - f1 + f1·n/N)
        let found = of(&numbers, 100, 10, 1_000.0);
        assert_eq!(found.distinct, -0.321);
        assert_eq!(of(&numbers, 100, 10, 100_000.0).distinct, 448.0);
    }
}
