//! Lines of pg_hba.conf as fields, each a list of tokens.

/// A word, without its quotes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) text: String,
    /// It began with a quote, so it is not a keyword.
    pub(super) quoted: bool,
}

/// A line with tokens, and the lines that continue it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// Number of its first line, from one.
    pub(super) number: usize,
    pub(super) fields: Vec<Vec<Token>>,
}

/// The lines of a text, without empty ones and comments. A backslash at the end of a line continues
/// it. As in PostgreSQL, an empty line continues nothing, even after two backslashes.
pub(super) fn lines(text: &str) -> Vec<Line> {
    let mut found = Vec::new();
    let mut rest = text.split('\n').map(|line| line.trim_end_matches('\r')).zip(1..);
    while let Some((line, number)) = rest.next() {
        let mut whole = String::new();
        let mut part = Some(line);
        while let Some(line) = part {
            whole.push_str(line);
            part = None;
            if line.ends_with('\\') {
                whole.pop();
                part = rest.next().map(|(more, _)| more);
            }
        }
        let fields = fields(&whole);
        if !fields.is_empty() {
            found.push(Line { number, fields });
        }
    }
    found
}

/// Splits a line into fields at blanks. After a comma the next token belongs to the same field.
fn fields(line: &str) -> Vec<Vec<Token>> {
    let mut fields: Vec<Vec<Token>> = Vec::new();
    let mut chars = line.chars().peekable();
    let mut goes_on = false;
    loop {
        while chars.next_if(|c| is_blank(*c) || *c == ',').is_some() {}
        if chars.peek().is_none_or(|c| *c == '#') {
            return fields;
        }
        let token = token(&mut chars);
        match fields.last_mut() {
            Some(field) if goes_on => field.push(token),
            _ => fields.push(vec![token]),
        }
        goes_on = chars.next_if_eq(&',').is_some();
    }
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r')
}

/// Reads a token up to an unquoted blank, comma or comment. Two quotes within quotes are one.
fn token(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Token {
    let mut token = Token { text: String::new(), quoted: chars.peek() == Some(&'"') };
    let mut in_quotes = false;
    while let Some(c) = chars.next_if(|c| in_quotes || !(is_blank(*c) || matches!(c, ',' | '#'))) {
        match c {
            '"' if in_quotes && chars.next_if_eq(&'"').is_some() => token.text.push('"'),
            '"' => in_quotes = !in_quotes,
            c => token.text.push(c),
        }
    }
    token
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_lists_quotes_comments_and_continued_lines() {
        let shown = |text: &str| -> Vec<String> {
            let field = |tokens: &Vec<Token>| -> String {
                let shown =
                    tokens.iter().map(|t| format!("{}{}", if t.quoted { "'" } else { "" }, t.text));
                shown.collect::<Vec<_>>().join("|")
            };
            let line = |l: Line| {
                format!(
                    "{}: {}",
                    l.number,
                    l.fields.iter().map(field).collect::<Vec<_>>().join(" ; ")
                )
            };
            lines(text).into_iter().map(line).collect()
        };
        assert_eq!(shown("# a\n\n  \t\n"), Vec::<String>::new());
        assert_eq!(shown("local all  all\ttrust#x"), ["1: local ; all ; all ; trust"]);
        assert_eq!(shown("x\r\na,b, c d"), ["1: x", "2: a|b|c ; d"]);
        assert_eq!(shown("a,\"b # c\",\"d\"\"e\" f\"g h\""), ["1: a|'b # c|'d\"e ; fg h"]);
        assert_eq!(shown("\na \\\nb\\\nc\nd"), ["2: a ; bc", "5: d"]);
        assert_eq!(shown("a \\"), ["1: a"]);
        assert_eq!(shown("# a \\\\\n\nb\nc"), ["3: b", "4: c"]);
        assert_eq!(shown("a \\\r\r\nb\r\r\nc"), ["1: a ; b", "3: c"]);
    }
}
