//! How fields of nodes are read, written and compared.

use super::error::Result;
use super::kinds::{
    BoolExprType, BoolTestType, CoercionForm, CompareType, MinMaxOp, NullTestType, ParamKind,
    SqlValueFunctionOp, VarReturningType,
};
use super::tokens::{Tokens, write_word};
use super::value::{Bitmap, Location, StringNode};

/// What can be the value of a field.
pub(super) trait Field: Sized {
    /// Takes the value from the text.
    fn read(tokens: &mut Tokens<'_>) -> Result<Self>;
    /// Appends the value's text.
    fn write(&self, out: &mut String);
    /// Whether both mean the same.
    fn same(&self, other: &Self) -> bool;
}

impl Tokens<'_> {
    /// Takes a field of the node that is read.
    pub(super) fn field<F: Field>(&mut self, name: &str) -> Result<F> {
        match self.peek().strip_prefix(':') {
            Some(found) if found == name => {
                self.next()?;
                F::read(self)
            }
            Some(found) => Err(self.unknown_field(found)),
            None => Err(self.damaged(&format!(":{name}"))),
        }
    }
}

/// What can be an element of a list.
pub(super) trait Element: Field {}

/// A node: a label and fields.
pub(super) trait Node: Sized {
    /// What the text calls it.
    const LABEL: &'static str;

    /// Takes the fields from the text.
    fn read_fields(tokens: &mut Tokens<'_>) -> Result<Self>;

    /// Appends the fields' texts.
    fn write_fields(&self, out: &mut String);

    /// Whether all fields mean the same.
    fn same_fields(&self, other: &Self) -> bool;

    /// Appends the node's text.
    fn write_node(&self, out: &mut String) {
        out.push('{');
        out.push_str(Self::LABEL);
        self.write_fields(out);
        out.push('}');
    }
}

/// Numbers.
macro_rules! numbers {
    ($($ty:ty),+) => {
        $(impl Field for $ty {
            fn read(tokens: &mut Tokens<'_>) -> Result<$ty> {
                tokens.number()
            }

            fn write(&self, out: &mut String) {
                out.push_str(&self.to_string());
            }

            fn same(&self, other: &$ty) -> bool {
                self == other
            }
        })+
    };
}

numbers!(i32, u32);

/// Enumerations that are numbers in the text. `$same`: how two are compared.
macro_rules! enumerations {
    ($same:expr; $($ty:ty),+) => {
        $(impl Field for $ty {
            fn read(tokens: &mut Tokens<'_>) -> Result<$ty> {
                let unknown = tokens.damaged(concat!("a known ", stringify!($ty)));
                <$ty>::of_number(tokens.number()?).ok_or(unknown)
            }

            fn write(&self, out: &mut String) {
                self.number().write(out);
            }

            fn same(&self, other: &$ty) -> bool {
                $same(self, other)
            }
        })+
    };
}

enumerations!(PartialEq::eq; BoolTestType, CompareType, MinMaxOp, NullTestType, ParamKind);
enumerations!(PartialEq::eq; SqlValueFunctionOp, VarReturningType);
// How a call was written means nothing.
enumerations!(|_, _| true; CoercionForm);

impl Field for bool {
    fn read(tokens: &mut Tokens<'_>) -> Result<bool> {
        let value = match tokens.peek() {
            "true" => true,
            "false" => false,
            _ => return Err(tokens.damaged("true or false")),
        };
        tokens.next()?;
        Ok(value)
    }

    fn write(&self, out: &mut String) {
        out.push_str(if *self { "true" } else { "false" });
    }

    fn same(&self, other: &bool) -> bool {
        self == other
    }
}

/// The words of AND, OR and NOT.
const BOOL_WORDS: [(BoolExprType, &str); 3] =
    [(BoolExprType::And, "and"), (BoolExprType::Or, "or"), (BoolExprType::Not, "not")];

impl Field for BoolExprType {
    fn read(tokens: &mut Tokens<'_>) -> Result<BoolExprType> {
        let word = tokens.peek();
        let known = BOOL_WORDS.iter().find(|(_, known)| *known == word);
        let (op, _) = known.ok_or_else(|| tokens.damaged("and, or, not"))?;
        tokens.next()?;
        Ok(*op)
    }

    fn write(&self, out: &mut String) {
        let word = BOOL_WORDS.iter().find(|(op, _)| op == self);
        out.push_str(word.map_or("", |(_, word)| word));
    }

    fn same(&self, other: &BoolExprType) -> bool {
        self == other
    }
}

impl Field for Location {
    fn read(tokens: &mut Tokens<'_>) -> Result<Location> {
        tokens.number().map(Location)
    }

    fn write(&self, out: &mut String) {
        out.push_str("-1");
    }

    fn same(&self, _: &Location) -> bool {
        true
    }
}

impl Field for String {
    fn read(tokens: &mut Tokens<'_>) -> Result<String> {
        match tokens.peek() {
            "<>" => Err(tokens.damaged("a name")),
            "\"\"" => tokens.next().map(|_| String::new()),
            _ => tokens.word().map(Into::into),
        }
    }

    fn write(&self, out: &mut String) {
        write_word(self, out);
    }

    fn same(&self, other: &String) -> bool {
        self == other
    }
}

impl Field for StringNode {
    fn read(tokens: &mut Tokens<'_>) -> Result<StringNode> {
        let not_quoted = tokens.damaged("a quoted text");
        let word = tokens.word()?;
        let inner = word.strip_prefix('"').and_then(|word| word.strip_suffix('"'));
        inner.map(|text| StringNode(text.to_owned())).ok_or(not_quoted)
    }

    fn write(&self, out: &mut String) {
        out.push('"');
        if !self.0.is_empty() {
            write_word(&self.0, out);
        }
        out.push('"');
    }

    fn same(&self, other: &StringNode) -> bool {
        self == other
    }
}

impl Element for StringNode {}

/// The numbers of a list, after its opening bracket and letter.
fn read_numbers(tokens: &mut Tokens<'_>) -> Result<Vec<u32>> {
    let mut numbers = Vec::new();
    while !tokens.skip(")") {
        numbers.push(tokens.number()?);
    }
    Ok(numbers)
}

fn write_numbers(letter: char, numbers: &[u32], out: &mut String) {
    out.push('(');
    out.push(letter);
    for number in numbers {
        out.push(' ');
        number.write(out);
    }
    out.push(')');
}

impl Field for Bitmap {
    fn read(tokens: &mut Tokens<'_>) -> Result<Bitmap> {
        tokens.expect("(")?;
        tokens.expect("b")?;
        read_numbers(tokens).map(Bitmap)
    }

    fn write(&self, out: &mut String) {
        write_numbers('b', &self.0, out);
    }

    fn same(&self, other: &Bitmap) -> bool {
        self == other
    }
}

/// A list of OIDs.
impl Field for Vec<u32> {
    fn read(tokens: &mut Tokens<'_>) -> Result<Vec<u32>> {
        if tokens.skip("<>") {
            return Ok(Vec::new());
        }
        tokens.expect("(")?;
        tokens.expect("o")?;
        read_numbers(tokens)
    }

    fn write(&self, out: &mut String) {
        if self.is_empty() {
            out.push_str("<>");
        } else {
            write_numbers('o', self, out);
        }
    }

    fn same(&self, other: &Vec<u32>) -> bool {
        self == other
    }
}

impl<T: Field> Field for Box<T> {
    fn read(tokens: &mut Tokens<'_>) -> Result<Box<T>> {
        T::read(tokens).map(Box::new)
    }

    fn write(&self, out: &mut String) {
        (**self).write(out);
    }

    fn same(&self, other: &Box<T>) -> bool {
        (**self).same(other)
    }
}

impl<T: Field> Field for Option<T> {
    fn read(tokens: &mut Tokens<'_>) -> Result<Option<T>> {
        if tokens.skip("<>") { Ok(None) } else { T::read(tokens).map(Some) }
    }

    fn write(&self, out: &mut String) {
        match self {
            Some(value) => value.write(out),
            None => out.push_str("<>"),
        }
    }

    fn same(&self, other: &Option<T>) -> bool {
        match (self, other) {
            (Some(a), Some(b)) => a.same(b),
            (a, b) => a.is_none() && b.is_none(),
        }
    }
}

impl<T: Element> Field for Vec<T> {
    fn read(tokens: &mut Tokens<'_>) -> Result<Vec<T>> {
        let mut elements = Vec::new();
        if tokens.skip("<>") {
            return Ok(elements);
        }
        tokens.expect("(")?;
        while !tokens.skip(")") {
            elements.push(T::read(tokens)?);
        }
        Ok(elements)
    }

    fn write(&self, out: &mut String) {
        if self.is_empty() {
            out.push_str("<>");
            return;
        }
        for (n, element) in self.iter().enumerate() {
            out.push(if n == 0 { '(' } else { ' ' });
            element.write(out);
        }
        out.push(')');
    }

    fn same(&self, other: &Vec<T>) -> bool {
        self.len() == other.len() && self.iter().zip(other).all(|(a, b)| a.same(b))
    }
}
