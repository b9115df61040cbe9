//! How many findings of a crate and a check are allowed: `tidy-ratchet.txt`, one entry a line,
//! "CRATE CHECK COUNT". A count that is too high is wrong as well, so that it can only shrink.

use std::collections::BTreeMap;

/// The file's name, in the root.
pub const FILE: &str = "tidy-ratchet.txt";

/// The entries of the file.
pub struct Ratchet(BTreeMap<(String, String), usize>);

impl Ratchet {
    /// Reads the file's text; empty lines and lines from `#` on do not count.
    ///
    /// # Errors
    /// A line that is no entry, or an entry that is there twice.
    pub fn parse(text: &str) -> Result<Ratchet, String> {
        let mut entries = BTreeMap::new();
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let entry = match line.split_whitespace().collect::<Vec<_>>()[..] {
                [package, check, count] => count
                    .parse()
                    .ok()
                    .filter(|&count| count > 0)
                    .map(|count| ((package.to_owned(), check.to_owned()), count)),
                _ => None,
            };
            let (key, count) = entry.ok_or_else(|| format!("{FILE}: not an entry: {line}"))?;
            if entries.insert(key, count).is_some() {
                return Err(format!("{FILE}: there twice: {line}"));
            }
        }
        Ok(Ratchet(entries))
    }

    /// How many findings are allowed.
    pub fn allowed(&self, package: &str, check: &str) -> usize {
        self.0.get(&(package.to_owned(), check.to_owned())).copied().unwrap_or(0)
    }

    /// Crate, check and count of each entry.
    pub fn entries(&self) -> impl Iterator<Item = (&str, &str, usize)> {
        self.0.iter().map(|((package, check), count)| (package.as_str(), check.as_str(), *count))
    }

    /// The sum of all counts.
    pub fn total(&self) -> usize {
        self.0.values().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::Ratchet;

    #[test]
    fn entries_are_read() {
        let ratchet = Ratchet::parse("# comment\n\nwal circles 3\nroot lines 4\n").expect("read");
        assert_eq!(ratchet.allowed("wal", "circles"), 3);
        assert_eq!(ratchet.allowed("wal", "lines"), 0);
        assert_eq!(ratchet.total(), 7);
    }

    #[test]
    fn what_is_no_entry_is_refused() {
        for bad in ["wal circles", "wal circles x", "wal circles 0", "a b 1 2", "a b 1\na b 1"] {
            assert!(Ratchet::parse(bad).is_err(), "{bad}");
        }
    }
}
