//! Enums whose values have names that PostgreSQL's views show.

/// Defines an enum with `ALL` and `name()`.
macro_rules! named_enum {
    ($(#[$attr:meta])* $type:ident { $($(#[$vattr:meta])* $variant:ident = $name:literal,)* }) => {
        $(#[$attr])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $type { $($(#[$vattr])* $variant,)* }
        impl $type {
            /// All values, in order.
            pub const ALL: &[$type] = &[$($type::$variant),*];
            /// The name that PostgreSQL's views show.
            pub fn name(self) -> &'static str {
                match self { $($type::$variant => $name,)* }
            }
        }
    };
}
