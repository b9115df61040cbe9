//! Prepared statements and portals by name, within a limit of memory.

use crate::error::{Result, SqlError, state};
use hashbrown::HashMap;

/// Most bytes of a session's statements, and of its portals.
pub(super) const MOST: usize = 2 << 30;
/// Bytes that each entry takes beside its content.
const ENTRY: usize = 1024;

/// Entries by name, with their estimated memory.
pub(super) struct Held<T> {
    entries: HashMap<String, (T, usize)>,
    weight: usize,
    most: usize,
}

impl<T> Held<T> {
    /// Empty, with room for `most` bytes.
    pub fn new(most: usize) -> Held<T> {
        Held { entries: HashMap::new(), weight: 0, most }
    }

    /// Adds an entry of so many bytes, or replaces the one with its name.
    pub fn insert(&mut self, name: &str, thing: T, bytes: usize) -> Result<()> {
        let bytes = bytes.saturating_add(name.len()).saturating_add(ENTRY);
        let replaced = self.entries.insert(name.to_owned(), (thing, bytes));
        self.weight -= replaced.map_or(0, |(_, bytes)| bytes);
        let weight = self.weight.saturating_add(bytes);
        if weight > self.most {
            self.entries.remove(name);
            let detail = format!(
                "The session keeps {} bytes of statements or portals, and cannot keep {bytes} \
                 more.",
                self.weight
            );
            return Err(SqlError::new(state::OUT_OF_MEMORY, "out of memory").detail(detail));
        }
        self.weight = weight;
        Ok(())
    }

    /// Removes an entry, and returns it with its bytes.
    pub fn remove(&mut self, name: &str) -> Option<(T, usize)> {
        let (thing, bytes) = self.entries.remove(name)?;
        self.weight -= bytes;
        Some((thing, bytes - name.len() - ENTRY))
    }

    /// Forgets those that `keep` does not want.
    pub fn retain(&mut self, mut keep: impl FnMut(&mut T) -> bool) {
        let gone = self.entries.extract_if(|_, (thing, _)| !keep(thing));
        self.weight -= gone.map(|(_, (_, bytes))| bytes).sum::<usize>();
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.weight = 0;
    }

    /// The thing of that name.
    pub fn get(&self, name: &str) -> Option<&T> {
        self.entries.get(name).map(|(thing, _)| thing)
    }

    /// The thing of that name, to be changed.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut T> {
        self.entries.get_mut(name).map(|(thing, _)| thing)
    }

    /// Is there one of that name?
    pub fn contains_key(&self, name: &str) -> bool {
        self.entries.contains_key(name)
    }

    /// All of them.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.entries.values().map(|(thing, _)| thing)
    }

    /// All of them, to be changed.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.entries.values_mut().map(|(thing, _)| thing)
    }

    /// All of them with their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &T)> {
        self.entries.iter().map(|(name, (thing, _))| (name.as_str(), thing))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_bounded_and_given_back() {
        let mut held = Held::new(10 * ENTRY);
        held.insert("a", 1, 4 * ENTRY).expect("fits");
        let e = held.insert("b", 2, 5 * ENTRY).expect_err("too much");
        assert_eq!((e.sqlstate, &*e.message), ("53200", "out of memory"));
        assert!(held.get("b").is_none() && held.get("a") == Some(&1));
        // The new one of a name takes the place of the old.
        held.insert("a", 3, 5 * ENTRY).expect("fits");
        assert_eq!(held.remove("a"), Some((3, 5 * ENTRY)));
        assert_eq!((held.remove("a"), held.weight), (None, 0));
        for i in 0..9 {
            held.insert(&i.to_string(), i, 0).expect("fits");
        }
        held.insert("9", 9, 0).expect_err("the names weigh, too");
        held.retain(|i| {
            *i += 1;
            *i != 5
        });
        assert_eq!((held.get("3"), held.get("4"), held.weight), (Some(&4), None, 8 * (ENTRY + 1)));
        held.clear();
        held.insert("b", 2, 8 * ENTRY).expect("fits");
        assert!(held.insert("c", 2, usize::MAX).is_err());
    }
}
