//! The text form of arrays: braces, words and quotation marks, as PostgreSQL reads and writes them.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::array::value::{Dim, Dims, MAX_DIMENSIONS, check_bounds, too_large};
use crate::digits::is_space;
use crate::error::{Problem, Result, ValueError};

/// The parts of an array's text form.
#[derive(Debug, PartialEq)]
pub(crate) struct ArrayText {
    pub(crate) dims: Dims,
    /// The texts of the elements, in storage order.
    pub(crate) items: Vec<Option<String>>,
}

const UNEXPECTED_END: &str = "Unexpected end of input.";
const QUOTED: &str = "Incorrectly quoted array element.";

/// Appends the text form of an array. `item` appends the text of the next element, and says
/// whether it is a value.
pub(crate) fn write_array(
    dims: &[Dim],
    count: usize,
    out: &mut Vec<u8>,
    mut item: impl FnMut(&mut Vec<u8>) -> Result<bool>,
) -> Result<()> {
    if count == 0 {
        out.extend_from_slice(b"{}");
        return Ok(());
    }
    if dims.iter().any(|dim| dim.lower != 1) {
        for dim in dims {
            let upper = i64::from(dim.lower) + i64::from(dim.len) - 1;
            out.extend_from_slice(format!("[{}:{upper}]", dim.lower).as_bytes());
        }
        out.push(b'=');
    }
    let mut word = Vec::new();
    for n in 0..count {
        // How many dimensions begin with this element, and how many ended with the last one.
        let turned = turns(dims, n);
        if n > 0 {
            out.extend(std::iter::repeat_n(b'}', turned));
            out.push(b',');
        }
        out.extend(std::iter::repeat_n(b'{', if n == 0 { dims.len() } else { turned }));
        word.clear();
        if item(&mut word)? {
            write_word(&word, out);
        } else {
            out.extend_from_slice(b"NULL");
        }
    }
    out.extend(std::iter::repeat_n(b'}', dims.len()));
    Ok(())
}

/// How many of the last dimensions begin anew with the element of this number.
fn turns(dims: &[Dim], n: usize) -> usize {
    let mut size = 1;
    dims.iter()
        .rev()
        .take_while(|dim| {
            size *= dim.len.unsigned_abs() as usize;
            size > 0 && n.is_multiple_of(size)
        })
        .count()
        .min(dims.len().saturating_sub(1))
}

/// Appends an element's text, in quotation marks if it would not be read back without.
fn write_word(word: &[u8], out: &mut Vec<u8>) {
    let special = |b: &u8| is_space(*b) || b"{},\"\\".contains(b);
    if !word.is_empty() && !word.eq_ignore_ascii_case(b"null") && !word.iter().any(special) {
        return out.extend_from_slice(word);
    }
    out.push(b'"');
    for byte in word {
        if matches!(byte, b'"' | b'\\') {
            out.push(b'\\');
        }
        out.push(*byte);
    }
    out.push(b'"');
}

/// Reads the text form of an array.
pub(crate) fn parse(text: &str) -> Result<ArrayText> {
    let mut reader = Reader { text, at: 0 };
    let given = reader.dimensions()?;
    let mut parts = reader.contents(given.as_deref())?;
    reader.skip_space();
    if reader.peek().is_some() {
        return Err(reader.malformed("Junk after closing right brace."));
    }
    if parts.items.is_empty() {
        parts.dims.clear();
    } else if let Some(given) = given {
        parts.dims = given;
    }
    Ok(parts)
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
}

/// The dimensions that the braces read so far tell.
struct Shape {
    /// How many elements or sub-arrays each dimension has; None: not known yet.
    lens: Vec<Option<i32>>,
    /// Whether the number of dimensions is known.
    frozen: bool,
    /// How many were read of each dimension whose brace is open.
    open: Vec<i32>,
}

impl Shape {
    fn new(given: Option<&[Dim]>) -> Self {
        let lens = given.unwrap_or_default().iter().map(|dim| Some(dim.len)).collect();
        Self { lens, frozen: given.is_some(), open: Vec::new() }
    }

    /// Takes an opening brace. False, here and below: it contradicts what came before.
    fn open(&mut self) -> Result<bool> {
        self.open.push(0);
        if self.open.len() > MAX_DIMENSIONS {
            return Err(too_many_dimensions());
        }
        if self.open.len() > self.lens.len() && self.frozen {
            return Ok(false);
        }
        self.lens.resize(self.lens.len().max(self.open.len()), None);
        Ok(true)
    }

    /// Whether something was read behind the innermost open brace.
    fn has_begun(&self) -> bool {
        self.open.last().is_some_and(|count| *count > 0)
    }

    /// Takes a closing brace.
    fn close(&mut self) -> bool {
        let found = self.open.pop().unwrap_or_default();
        if let Some(outer) = self.open.last_mut() {
            *outer += 1;
        }
        match self.lens.get_mut(self.open.len()) {
            Some(len @ None) => {
                *len = Some(found);
                true
            }
            Some(Some(len)) => *len == found,
            None => false,
        }
    }

    /// Takes an element.
    fn element(&mut self) -> Result<bool> {
        self.frozen = true;
        if let Some(count) = self.open.last_mut() {
            *count = count.checked_add(1).ok_or_else(too_large)?;
        }
        Ok(self.open.len() == self.lens.len())
    }

    fn dims(&self) -> Result<Dims> {
        let dims: Dims =
            self.lens.iter().map(|len| Dim { len: len.unwrap_or_default(), lower: 1 }).collect();
        dims.iter().try_for_each(|dim| check_bounds(*dim))?;
        Ok(dims)
    }
}

/// A piece of the text between white space.
enum Token {
    Open,
    Close,
    Comma,
    Word(Option<String>),
}

impl Reader<'_> {
    fn malformed(&self, detail: impl Into<std::borrow::Cow<'static, str>>) -> ValueError {
        Problem::MalformedArray { text: self.text.to_owned(), detail: detail.into() }.into()
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while self.peek().is_some_and(is_space) {
            self.at += 1;
        }
    }

    /// The dimensions before the elements, `[1:2][0:3]=`, if there are any.
    fn dimensions(&mut self) -> Result<Option<Dims>> {
        let mut dims = Dims::new();
        loop {
            self.skip_space();
            if self.peek() != Some(b'[') {
                break;
            }
            if dims.len() >= MAX_DIMENSIONS {
                return Err(too_many_dimensions());
            }
            self.at += 1;
            dims.push(self.dimension()?);
        }
        if dims.is_empty() {
            return match self.peek() {
                Some(b'{') => Ok(None),
                _ => {
                    let detail = "Array value must start with \"{\" or dimension information.";
                    Err(self.malformed(detail))
                }
            };
        }
        if self.peek() != Some(b'=') {
            return Err(self.malformed("Missing \"=\" after array dimensions."));
        }
        self.at += 1;
        self.skip_space();
        if self.peek() != Some(b'{') {
            return Err(self.malformed("Array contents must start with \"{\"."));
        }
        Ok(Some(dims))
    }

    fn dimension(&mut self) -> Result<Dim> {
        let first = self.bound()?.ok_or_else(|| {
            self.malformed("\"[\" must introduce explicitly-specified array dimensions.")
        })?;
        let (lower, upper) = if self.peek() == Some(b':') {
            self.at += 1;
            let upper = self.bound()?;
            (first, upper.ok_or_else(|| self.malformed("Missing array dimension value."))?)
        } else {
            (1, first)
        };
        if self.peek() != Some(b']') {
            return Err(self.malformed("Missing \"]\" after array dimensions."));
        }
        self.at += 1;
        if upper == i32::MAX {
            return Err(ValueError::new(
                "54000",
                format!("array upper bound is too large: {upper}"),
            ));
        }
        if upper < lower {
            return Err(ValueError::new("2202E", "upper bound cannot be less than lower bound"));
        }
        let len = upper.checked_sub(lower).and_then(|n| n.checked_add(1)).ok_or_else(too_large)?;
        Ok(Dim { len, lower })
    }

    /// A number; None if there is none.
    fn bound(&mut self) -> Result<Option<i32>> {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let signed = rest.strip_prefix(['-', '+']).unwrap_or(rest);
        let digits = signed.bytes().take_while(u8::is_ascii_digit).count();
        if digits == 0 {
            return Ok(None);
        }
        let len = rest.len() - signed.len() + digits;
        self.at += len;
        let number = rest.get(..len).unwrap_or_default().parse();
        let out_of_range = |_| ValueError::new("54000", "array bound is out of integer range");
        Ok(Some(number.map_err(out_of_range)?))
    }

    /// The elements, and the dimensions that follow from them.
    fn contents(&mut self, given: Option<&[Dim]>) -> Result<ArrayText> {
        let mut shape = Shape::new(given);
        let mut items = Vec::new();
        let mut expect_comma = false;
        loop {
            let fits = match self.token()? {
                Token::Open if expect_comma => {
                    return Err(self.malformed("Unexpected \"{\" character."));
                }
                Token::Open => shape.open()?,
                Token::Close if shape.has_begun() && !expect_comma => {
                    return Err(self.malformed("Unexpected \"}\" character."));
                }
                Token::Close => {
                    expect_comma = true;
                    shape.close()
                }
                Token::Comma if !expect_comma => {
                    return Err(self.malformed("Unexpected \",\" character."));
                }
                Token::Comma => {
                    expect_comma = false;
                    continue;
                }
                Token::Word(_) if expect_comma => {
                    return Err(self.malformed("Unexpected array element."));
                }
                Token::Word(word) => {
                    items.push(word);
                    expect_comma = true;
                    shape.element()?
                }
            };
            if !fits {
                return Err(self.malformed(if given.is_some() {
                    "Specified array dimensions do not match array contents."
                } else {
                    "Multidimensional arrays must have sub-arrays with matching dimensions."
                }));
            }
            if shape.open.is_empty() {
                return Ok(ArrayText { dims: shape.dims()?, items });
            }
        }
    }

    fn token(&mut self) -> Result<Token> {
        self.skip_space();
        let simple = match self.peek() {
            None => return Err(self.malformed(UNEXPECTED_END)),
            Some(b'{') => Token::Open,
            Some(b'}') => Token::Close,
            Some(b',') => Token::Comma,
            Some(b'"') => return self.quoted(),
            Some(_) => return self.plain(),
        };
        self.at += 1;
        Ok(simple)
    }

    fn next_char(&mut self) -> Result<char> {
        let next = self.text.get(self.at..).and_then(|rest| rest.chars().next());
        let next = next.ok_or_else(|| self.malformed(UNEXPECTED_END))?;
        self.at += next.len_utf8();
        Ok(next)
    }

    /// An element in quotation marks, up to the comma or brace behind it.
    fn quoted(&mut self) -> Result<Token> {
        self.at += 1;
        let mut word = String::new();
        loop {
            match self.next_char()? {
                '"' => break,
                '\\' => word.push(self.next_char()?),
                c => word.push(c),
            }
        }
        self.skip_space();
        match self.peek() {
            Some(b',' | b'}' | b'{') => Ok(Token::Word(Some(word))),
            None => Err(self.malformed(UNEXPECTED_END)),
            Some(_) => Err(self.malformed(QUOTED)),
        }
    }

    /// An element without quotation marks, up to the comma or brace behind it.
    fn plain(&mut self) -> Result<Token> {
        let (mut word, mut escaped, mut kept) = (String::new(), false, 0);
        loop {
            match self.peek() {
                None => return Err(self.malformed(UNEXPECTED_END)),
                Some(b'{') => return Err(self.malformed("Unexpected \"{\" character.")),
                Some(b'"') => return Err(self.malformed(QUOTED)),
                Some(b',' | b'}') => break,
                Some(b'\\') => {
                    self.at += 1;
                    word.push(self.next_char()?);
                    (escaped, kept) = (true, word.len());
                }
                Some(byte) => {
                    word.push(self.next_char()?);
                    // Blanks inside of a word belong to it, those behind it do not.
                    if !is_space(byte) {
                        kept = word.len();
                    }
                }
            }
        }
        word.truncate(kept);
        let null = !escaped && word.eq_ignore_ascii_case("null");
        Ok(Token::Word((!null).then_some(word)))
    }
}

/// The error of more dimensions than an array may have.
pub(crate) fn too_many_dimensions() -> ValueError {
    let message =
        format!("number of array dimensions exceeds the maximum allowed ({MAX_DIMENSIONS})");
    ValueError::new("54000", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn back(text: &str) -> String {
        let ArrayText { dims, items } = parse(text).expect("an array");
        let (mut out, mut items) = (Vec::new(), items.into_iter());
        let count = items.len();
        write_array(&dims, count, &mut out, |word| {
            let item = items.next().expect("as many as there are");
            word.extend_from_slice(item.as_deref().unwrap_or_default().as_bytes());
            Ok(item.is_some())
        })
        .expect("its text");
        String::from_utf8(out).expect("UTF-8")
    }

    #[test]
    fn arrays_are_read_as_postgresql_reads_them() {
        for (text, want) in [
            (
                r#" { "a,b" , NULL, "null",a b , \\x, "", n\ull } "#,
                r#"{"a,b",NULL,"null","a b","\\x","","null"}"#,
            ),
            ("{}", "{}"),
            (" { } ", "{}"),
            ("{{},{}}", "{}"),
            ("{{1,2},{3,4}}", "{{1,2},{3,4}}"),
            ("{{{1},{2}},{{3},{4}},{{5},{6}}}", "{{{1},{2}},{{3},{4}},{{5},{6}}}"),
            ("[2:3]={1,2}", "[2:3]={1,2}"),
            ("[1:2] = { 1, 2 }", "{1,2}"),
            ("[2]={1,2}", "{1,2}"),
            ("[-1:0][5:6]={{1,2},{3,4}}", "[-1:0][5:6]={{1,2},{3,4}}"),
        ] {
            assert_eq!(back(text), want, "{text}");
        }
        for (text, detail) in [
            ("{1,2", UNEXPECTED_END),
            ("{1,,2}", "Unexpected \",\" character."),
            ("{1,}", "Unexpected \"}\" character."),
            ("x", "Array value must start with \"{\" or dimension information."),
            ("{1}x", "Junk after closing right brace."),
            ("{a\"b}", QUOTED),
            ("{\"a\"b}", QUOTED),
            ("{\"1", UNEXPECTED_END),
            ("{a\\", UNEXPECTED_END),
            ("{a{b}", "Unexpected \"{\" character."),
            (
                "{{1},{2,3}}",
                "Multidimensional arrays must have sub-arrays with matching dimensions.",
            ),
            ("[1:3]={1,2}", "Specified array dimensions do not match array contents."),
            ("[]={1}", "\"[\" must introduce explicitly-specified array dimensions."),
            ("[1:2]{1,2}", "Missing \"=\" after array dimensions."),
        ] {
            let error = parse(text).expect_err(text);
            assert_eq!(
                (error.sqlstate(), error.detail()),
                ("22P02", Some(detail.into())),
                "{text}"
            );
        }
        assert_eq!(parse("{{{{{{{1}}}}}}}").expect_err("seven dimensions").sqlstate(), "54000");
        assert_eq!(parse("[3:2]={}").expect_err("bounds").sqlstate(), "2202E");
    }
}
