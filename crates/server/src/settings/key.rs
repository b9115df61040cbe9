//! Reading settings in the program, by names that are looked up when it is compiled.

use super::table::{Kind, Setting, TABLE};
use super::value::Value;
use std::marker::PhantomData;

/// The key of the setting with this name. A name that is not in the table does not compile, and
/// neither does a key for a setting of another type.
macro_rules! key {
    ($name:literal) => {
        const { $crate::settings::Key::of($name) }
    };
}

pub(crate) use key;

/// A setting of type `T`, by its index in the table.
#[derive(Clone, Copy, Debug)]
pub struct Key<T> {
    pub(super) index: usize,
    of: PhantomData<T>,
}

/// Types of keys, and a tag for each, which tells them apart when the program is compiled.
macro_rules! types_of_keys {
    ($($(#[$what:meta])* $name:ident),* $(,)?) => {
        $($(#[$what])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name;

        impl KeyType for $name {
            const TAG: Tag = Tag::$name;
        })*

        /// Tells the types of keys apart.
        #[derive(Clone, Copy, Debug)]
        pub enum Tag {
            $($(#[$what])* $name,)*
        }
    };
}

types_of_keys! {
    /// A boolean.
    Bool,
    /// An integer.
    Int,
    /// An integer that is never negative.
    Count,
    /// A real number.
    Real,
    /// A string or an enumeration.
    Text,
    /// Any of these.
    Any,
}

impl Tag {
    /// Whether every value of this kind can be read as the type.
    const fn fits(self, kind: &Kind) -> bool {
        match (self, kind) {
            (Tag::Any, _)
            | (Tag::Bool, Kind::Bool)
            | (Tag::Int, Kind::Int { .. })
            | (Tag::Real, Kind::Real { .. })
            | (Tag::Text, Kind::Text | Kind::Enum(_)) => true,
            (Tag::Count, Kind::Int { min, .. }) => *min >= 0,
            _ => false,
        }
    }
}

/// A type of keys.
pub trait KeyType {
    /// Its tag.
    const TAG: Tag;
}

impl<T: KeyType> Key<T> {
    /// Finds the setting. Use it through `key!`, which runs it when the program is compiled.
    pub const fn of(name: &str) -> Key<T> {
        let mut index = 0;
        while index < TABLE.len() {
            if same(TABLE[index].name, name) {
                assert!(T::TAG.fits(&TABLE[index].kind), "the setting has another type");
                return Key { index, of: PhantomData };
            }
            index += 1;
        }
        panic!("there is no setting of this name");
    }
}

impl<T> Key<T> {
    /// Its row in the table.
    pub fn setting(&self) -> &'static Setting {
        &TABLE[self.index]
    }
}

const fn same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut n = 0;
    while n < a.len() && n < b.len() && a[n] == b[n] {
        n += 1;
    }
    n == a.len() && n == b.len()
}

/// The values of all settings, read by key.
pub trait Lookup {
    /// The value of the setting at this index of the table, which is of the setting's type.
    fn at(&self, index: usize) -> &Value;

    /// A boolean.
    fn bool(&self, key: Key<Bool>) -> bool {
        match self.at(key.index) {
            Value::Bool(value) => *value,
            other => unreachable!("a boolean setting has the value {other:?}"),
        }
    }

    /// An integer, in its base unit.
    fn int(&self, key: Key<Int>) -> i64 {
        int(self.at(key.index))
    }

    /// An integer that is never negative, in its base unit. `N` must hold the setting's range.
    fn count<N: TryFrom<i64>>(&self, key: Key<Count>) -> N {
        let found = N::try_from(int(self.at(key.index)));
        found.unwrap_or_else(|_| panic!("\"{}\" is out of its range", key.setting().name))
    }

    /// An integer, in its base unit; `None` if it is -1: the program chooses.
    fn chosen(&self, key: Key<Int>) -> Option<usize> {
        usize::try_from(self.int(key)).ok()
    }

    /// A real number, in its base unit.
    fn real(&self, key: Key<Real>) -> f64 {
        match self.at(key.index) {
            Value::Real(value) => *value,
            other => unreachable!("a real setting has the value {other:?}"),
        }
    }

    /// A string or an enumeration's word.
    fn text(&self, key: Key<Text>) -> &str {
        match self.at(key.index) {
            Value::Text(value) => value,
            other => unreachable!("a string setting has the value {other:?}"),
        }
    }
}

fn int(value: &Value) -> i64 {
    match value {
        Value::Int(value) => *value,
        other => unreachable!("an integer setting has the value {other:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::Unit;
    use super::*;

    #[test]
    fn keys_find_their_settings() {
        let style: Key<Text> = key!("DateStyle");
        assert_eq!(style.setting().name, "DateStyle");
        let port: Key<Count> = key!("port");
        assert_eq!(port.setting().name, "port");
        let signed = Kind::Int { min: -1, max: 1, unit: Unit::None };
        assert!(Tag::Int.fits(&signed) && !Tag::Count.fits(&signed) && !Tag::Bool.fits(&signed));
        assert!(!same("port", "ports") && !same("port", "por") && same("", ""));
    }
}
