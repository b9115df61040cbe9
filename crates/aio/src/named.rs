//! Enums whose values have names, which PostgreSQL's views show and its settings take.

/// Defines an enum whose values have names: `ALL`, `name()` and `by_name()`.
#[macro_export]
macro_rules! named_enum {
    ($(#[$attr:meta])* $type:ident { $($(#[$vattr:meta])* $variant:ident = $name:literal,)* }) => {
        $(#[$attr])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $type { $($(#[$vattr])* $variant,)* }
        impl $type {
            /// All values, in order.
            pub const ALL: &[$type] = &[$($type::$variant),*];
            /// Its name.
            pub fn name(self) -> &'static str {
                match self { $($type::$variant => $name,)* }
            }
            /// The value of that name.
            pub fn by_name(name: &str) -> Option<$type> {
                $type::ALL.iter().copied().find(|value| value.name() == name)
            }
        }
    };
}
