//! A specification without its keys: PRIMARY KEY, UNIQUE and CREATE INDEX are struck from its first
//! setup blocks, before the first session. Nothing else changes.

/// The specification without keys and indexes; `None` if it has none.
pub fn strike(spec: &str) -> Option<String> {
    let sessions = spec.lines().scan(0, |at, line| {
        let begin = *at;
        *at += line.len() + 1;
        Some((begin, line))
    });
    let (begin, _) = sessions.into_iter().find(|(_, line)| line.starts_with("session"))?;
    let (setup, sessions) = spec.split_at(begin);
    let struck = without(&without(setup, index), key);
    (struck != setup).then(|| struck + sessions)
}

/// Words, runs of white space, and other characters one by one.
fn tokens(text: &str) -> Vec<&str> {
    let kind = |c: char| match c {
        c if c.is_alphanumeric() || c == '_' => 1,
        c if c.is_whitespace() => 2,
        _ => 3,
    };
    let (mut tokens, mut rest) = (Vec::new(), text);
    while let Some(first) = rest.chars().next() {
        let end = match kind(first) {
            3 => first.len_utf8(),
            same => rest.find(|c| kind(c) != same).unwrap_or(rest.len()),
        };
        let (token, tail) = rest.split_at(end);
        tokens.push(token);
        rest = tail;
    }
    tokens
}

/// What is struck: where it ends, and whether a comma before it goes too.
type Found = Option<(usize, bool)>;

/// The text without what `find` finds at a token.
fn without(text: &str, find: impl Fn(&[&str], usize) -> Found) -> String {
    let tokens = tokens(text);
    let (mut kept, mut at) = (Vec::new(), 0);
    while at < tokens.len() {
        let Some((end, with_comma)) = find(&tokens, at) else {
            kept.push(tokens[at]);
            at += 1;
            continue;
        };
        let comma = kept.iter().rposition(|token| !token.trim().is_empty());
        if let Some(comma) = comma.filter(|&comma| with_comma && kept[comma] == ",") {
            kept.truncate(comma);
        }
        at = end;
    }
    kept.concat()
}

/// The next token that is not white space, with its position.
fn next<'text>(tokens: &[&'text str], at: usize) -> Option<(usize, &'text str)> {
    let found = tokens.iter().enumerate().skip(at).find(|(_, token)| !token.trim().is_empty())?;
    Some((found.0, found.1))
}

/// The position behind these words.
fn words(tokens: &[&str], mut at: usize, words: &[&str]) -> Option<usize> {
    for word in words {
        let (found, token) = next(tokens, at)?;
        if !token.eq_ignore_ascii_case(word) {
            return None;
        }
        at = found + 1;
    }
    Some(at)
}

/// CREATE [UNIQUE] INDEX ...;
fn index(tokens: &[&str], at: usize) -> Found {
    let create = tokens[at].eq_ignore_ascii_case("create").then_some(at + 1)?;
    words(tokens, create, &["unique", "index"]).or_else(|| words(tokens, create, &["index"]))?;
    let end = tokens[at..].iter().position(|token| *token == ";")?;
    Some((at + end + 1, false))
}

/// [CONSTRAINT name] PRIMARY KEY | UNIQUE [(columns) [INCLUDE (columns)]]
fn key(tokens: &[&str], at: usize) -> Found {
    if tokens[at].trim().is_empty() {
        return None;
    }
    let named = words(tokens, at, &["constraint"]).and_then(|at| next(tokens, at));
    let begin = named.map_or(at, |(name, _)| name + 1);
    let end =
        words(tokens, begin, &["primary", "key"]).or_else(|| words(tokens, begin, &["unique"]))?;
    let Some(end) = parentheses(tokens, end) else { return Some((end, false)) };
    let include = words(tokens, end, &["include"]).and_then(|at| parentheses(tokens, at));
    Some((include.unwrap_or(end), true))
}

/// The position behind the parentheses that come next.
fn parentheses(tokens: &[&str], at: usize) -> Option<usize> {
    let (open, _) = next(tokens, at).filter(|(_, token)| *token == "(")?;
    let close = tokens[open..].iter().position(|token| *token == ")")?;
    Some(open + close + 1)
}

#[cfg(test)]
mod tests {
    use super::strike;

    fn struck(setup: &str) -> Option<String> {
        let rest = "session s1\nstep a { ALTER TABLE t ADD PRIMARY KEY (i); }\n";
        let struck = strike(&format!("{setup}\n{rest}"))?;
        Some(struck.strip_suffix(rest).expect("sessions stay").trim_end().to_owned())
    }

    #[test]
    fn keys_and_indexes_are_struck_from_the_setup_alone() {
        for (setup, without) in [
            ("CREATE TABLE t (i int PRIMARY KEY, j int);", "CREATE TABLE t (i int , j int);"),
            ("create table t (i int unique, j int);", "create table t (i int , j int);"),
            (
                "CREATE TABLE t (i int, j int, PRIMARY KEY (i, j));",
                "CREATE TABLE t (i int, j int);",
            ),
            ("CREATE TABLE t (i int, CONSTRAINT k UNIQUE (i));", "CREATE TABLE t (i int);"),
            ("CREATE TABLE t (i int, PRIMARY KEY (i) INCLUDE (j));", "CREATE TABLE t (i int);"),
            ("CREATE UNIQUE INDEX k ON t (i);", ""),
            ("CREATE TABLE t (i int); CREATE INDEX ON t (i);", "CREATE TABLE t (i int);"),
        ] {
            assert_eq!(struck(setup).as_deref(), Some(without), "{setup}");
        }
        assert_eq!(struck("CREATE TABLE t (i int);"), None);
    }
}
