//! The enumerations of node trees, with PostgreSQL's numbers.

/// An enumeration that trees hold as a number.
macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident {
        $($(#[$of:meta])* $variant:ident = $number:literal,)+
    })+) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
            #[allow(missing_docs, reason = "the names are PostgreSQL's")]
            pub enum $name { $($(#[$of])* $variant = $number,)+ }

            impl $name {
                /// Its number in a tree's text.
                pub fn number(self) -> i32 {
                    self as i32
                }

                /// The one with this number.
                pub fn of_number(number: i32) -> Option<$name> {
                    match number {
                        $($number => Some($name::$variant),)+
                        _ => None,
                    }
                }
            }
        )+
    };
}

kinds! {
    /// How a function call or a conversion was written, and so how it is printed.
    CoercionForm {
        /// f(x)
        ExplicitCall = 0,
        /// x::type
        ExplicitCast = 1,
        /// Not written at all.
        ImplicitCast = 2,
        /// A form of its own, such as EXTRACT(year FROM x).
        SqlSyntax = 3,
    }
    /// Where the value of a parameter comes from.
    ParamKind {
        /// $1
        Extern = 0,
        Exec = 1,
        Sublink = 2,
        MultiExpr = 3,
    }
    /// Which row of RETURNING a column belongs to.
    VarReturningType { Default = 0, Old = 1, New = 2, }
    /// How rows are compared.
    CompareType { Lt = 1, Le = 2, Eq = 3, Ge = 4, Gt = 5, Ne = 6, }
    /// GREATEST or LEAST.
    MinMaxOp { Greatest = 0, Least = 1, }
    /// The values that SQL names without parentheses. Those that end in N have a precision.
    SqlValueFunctionOp {
        CurrentDate = 0,
        CurrentTime = 1,
        CurrentTimeN = 2,
        CurrentTimestamp = 3,
        CurrentTimestampN = 4,
        Localtime = 5,
        LocaltimeN = 6,
        Localtimestamp = 7,
        LocaltimestampN = 8,
        CurrentRole = 9,
        CurrentUser = 10,
        User = 11,
        SessionUser = 12,
        CurrentCatalog = 13,
        CurrentSchema = 14,
    }
    /// IS NULL or IS NOT NULL.
    NullTestType { IsNull = 0, IsNotNull = 1, }
    /// IS TRUE and its like.
    BoolTestType {
        IsTrue = 0,
        IsNotTrue = 1,
        IsFalse = 2,
        IsNotFalse = 3,
        IsUnknown = 4,
        IsNotUnknown = 5,
    }
    /// AND, OR, NOT. A tree's text has a word in place of the number.
    BoolExprType { And = 0, Or = 1, Not = 2, }
}
