//! What the rates of all seconds say.

/// After each time that memory was given back: seconds until the rate was reached again. Where that
/// did not happen, the seconds until memory was taken again.
pub fn seconds(rates: &[f64], taken: &[bool], wanted: f64) -> Vec<f64> {
    let mut found = Vec::new();
    let length = rates.len().min(taken.len());
    for given in 1..length {
        if taken[given] || !taken[given - 1] {
            continue;
        }
        let free = taken[given..length].iter().take_while(|taken| !**taken).count();
        let again = rates[given..given + free].iter().position(|rate| *rate >= wanted);
        found.push(again.unwrap_or(free) as f64);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::seconds;

    #[test]
    fn recoveries_are_timed() {
        let taken = [false, true, true, false, false, false, true, false, false];
        let rates = [9.0, 5.0, 1.0, 2.0, 8.0, 9.0, 3.0, 9.0, 9.0];
        assert_eq!(seconds(&rates, &taken, 8.0), [1.0, 0.0]);
        // Never again: as long as the memory was free.
        assert_eq!(seconds(&rates, &taken, 10.0), [3.0, 2.0]);
        assert!(seconds(&rates[..3], &taken, 1.0).is_empty() && seconds(&[], &[], 1.0).is_empty());
    }
}
