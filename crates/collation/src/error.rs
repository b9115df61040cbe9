//! Why a collation can't be used.

/// Why a collation can't be opened.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum CollationError {
    /// The C library has no such locale.
    #[error("could not create locale \"{locale}\": {reason}")]
    NoLocale {
        /// Its name.
        locale: String,
        /// The system's error.
        reason: String,
    },
    /// The locale's text is damaged.
    #[error("could not open collator for locale \"{locale}\": {reason}")]
    BadLocale {
        /// Its name.
        locale: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The builtin provider has no such locale.
    #[error("invalid locale name \"{locale}\" for builtin provider")]
    NotBuiltin {
        /// Its name.
        locale: String,
    },
    /// Something of the collation is not supported.
    #[error("{what} of collation \"{name}\" is not supported")]
    Unsupported {
        /// What.
        what: String,
        /// The collation.
        name: String,
    },
}

impl CollationError {
    /// PostgreSQL's code for it.
    pub fn sqlstate(&self) -> &'static str {
        match self {
            CollationError::NoLocale { .. } | CollationError::BadLocale { .. } => "22023",
            CollationError::NotBuiltin { .. } => "42809",
            CollationError::Unsupported { .. } => "0A000",
        }
    }
}
