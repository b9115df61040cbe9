//! What a setting's value is.

/// A setting's value. Enumerations are kept as text, in their canonical spelling.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Of a boolean setting.
    Bool(bool),
    /// Of an integer setting, in its base unit.
    Int(i64),
    /// Of a real setting, in its base unit.
    Real(f64),
    /// Of a string or enumeration.
    Text(String),
}

impl Value {
    /// The value in its base unit (pg_settings.setting).
    pub fn raw(&self) -> String {
        match self {
            Value::Bool(b) => if *b { "on" } else { "off" }.to_owned(),
            Value::Int(n) => n.to_string(),
            Value::Real(x) => x.to_string(),
            Value::Text(s) => s.clone(),
        }
    }
}
