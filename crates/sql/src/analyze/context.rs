//! What asks for a cast.

use forebay_engine::nodes::CoercionForm;

/// What asks for a cast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Context {
    /// An expression's operand.
    Implicit,
    /// A value on its way into a column.
    Assignment,
    /// CAST or ::.
    Explicit,
}

impl Context {
    /// How such a cast is shown.
    pub(super) fn form(self) -> CoercionForm {
        match self {
            Context::Explicit => CoercionForm::ExplicitCast,
            _ => CoercionForm::ImplicitCast,
        }
    }
}
